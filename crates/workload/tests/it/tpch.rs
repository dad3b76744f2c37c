//! TPC-H: dbgen's rows in the tables, wrong data found out, nothing of others' touched.

use crate::support::Database;
use postgres::NoTls;
use sha1::Digest as _;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use tenbin_workload::check::Verdict;
use tenbin_workload::load::{Aftermath, LoadError};
use tenbin_workload::tpch::{
    Existing, LoadOptions, Meta, QUERIES, Query, Scale, Table, age, check, draw, inspect, lines,
    load, order, output, refresh, test,
};

fn options(scale: &str) -> LoadOptions {
    LoadOptions::new(scale.parse().unwrap())
}

fn load_into(
    database: &Database,
    options: &LoadOptions,
) -> Result<tenbin_workload::load::Loaded<Meta>, LoadError> {
    let stop = AtomicBool::new(false);
    load(
        options,
        || database.config().connect(NoTls),
        &stop,
        &mut |_| (),
    )
}

/// Conditions by verdict: those that pass, and those that fail with what they say.
fn checked(database: &Database) -> (Vec<&'static str>, Vec<String>) {
    let stop = AtomicBool::new(false);
    let results = check("public", database.client(), &stop, &mut |_| ()).unwrap();
    let of = |verdict: Verdict| {
        results
            .iter()
            .filter(move |result| result.verdict == verdict)
    };
    let failed =
        of(Verdict::Fail).map(|result| format!("{} {:?}", result.condition, result.offending));
    (
        of(Verdict::Pass).map(|result| result.condition).collect(),
        failed.collect(),
    )
}

/// SHA-1 of a table as dbgen's file.
fn hash(scale: Scale, table: Table) -> String {
    let (mut hash, mut text) = (sha1::Sha1::new(), String::new());
    lines(scale, table, |line| {
        text.clear();
        writeln!(text, "{line}").unwrap();
        hash.update(&text);
        true
    });
    let hex: Vec<String> = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    hex.concat()
}

/// Known answers: tpchgen's TESTING.md (version 1.1.1), which has them from `dbgen -s 1` of the
/// TPC's tools, built from github.com/electrum/tpch-dbgen.
#[test]
fn rows_of_scale_1_are_dbgens_byte_for_byte() {
    for (table, expected) in [
        (Table::Region, "ac61de9604337e791f1bdbcef8f0cdcc21b01514"),
        (Table::Nation, "f361dffd3d927f5aa64e71cff91458fb5ea1315f"),
        (Table::Supplier, "baad047476a2720d99b707b6f7a7c9e50c170d5a"),
        (Table::Part, "06615f7433806c06162af49c7bc27166c64a31d6"),
        (Table::PartSupp, "db0fcb935904765a9085505b5feb5260752f8bf3"),
        (Table::Customer, "bee45e9c240e87d63786324696b1babad18a5e0b"),
        (Table::Orders, "00d790a08a116feec992cea14272a4f1e5c55925"),
        (Table::LineItem, "4802b21c9975d965aa11893214a879df0d8d9e01"),
    ] {
        assert_eq!(hash(Scale::ONE, table), expected, "{table}");
    }
}

fn lines_hash<T: std::fmt::Display>(rows: &[T]) -> String {
    let mut hash = sha1::Sha1::new();
    for row in rows {
        // This dbgen ends a line without the last delimiter.
        let line = row.to_string();
        hash.update(line.strip_suffix('|').unwrap());
        hash.update("\n");
    }
    let hex: Vec<String> = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    hex.concat()
}

/// Known answers: SHA-1 of the files of `dbgen -s 1 -U 2`, tools 2.17.3 (gregrahn/tpch-kit).
#[test]
fn refresh_sets_of_scale_1_are_dbgens_byte_for_byte() {
    let mut sets = refresh::Sets::from(Scale::ONE, 1);
    for (set, orders, lines, deleted) in [
        (
            1,
            "bb54ade3109a5ccff9fa52370e094992ae42ed58",
            "bef575a9838919b186576dae6db443929ac15e0c",
            "535c4c0399ad73b557f7b46f782384df5b1af884",
        ),
        (
            2,
            "6211aeaf997850be099291349e86ed0cabd5523b",
            "ed97c451cdd884954bc07c6245e2572f67a950c2",
            "4fddcba436d79b0eafea61d59eeed3709322dd2c",
        ),
    ] {
        let rows = sets.next_set();
        assert_eq!(lines_hash(&rows.orders), orders, "orders of set {set}");
        assert_eq!(lines_hash(&rows.lines), lines, "lines of set {set}");
        let keys = refresh::deleted_keys(Scale::ONE, set);
        let keys: Vec<String> = keys.iter().map(|key| format!("{key}|")).collect();
        assert_eq!(lines_hash(&keys), deleted, "deletes of set {set}");
    }
}

#[test]
fn rows_and_their_places_are_the_same_whatever_the_number_of_connections() {
    let portraits = [(1, false), (5, true)].map(|(threads, foreign_keys)| {
        let database = Database::new();
        let options = LoadOptions {
            threads,
            foreign_keys,
            ..options("0.01")
        };
        let loaded = load_into(&database, &options).unwrap();
        assert_eq!(loaded.meta.scale, options.scale);
        let passed = vec!["rows", "totals", "contents"];
        assert_eq!(checked(&database), (passed, Vec::new()));
        let mut client = database.client();
        Table::ALL.map(|table| {
            let places = "md5(string_agg(ctid::text || t::text, ' ' ORDER BY ctid))";
            let row = client.query_one(&format!("SELECT {places} FROM {table} t"), &[]);
            row.unwrap().get::<_, String>(0)
        })
    });
    assert_eq!(portraits[0], portraits[1]);
}

#[test]
fn wrong_rows_are_found() {
    let database = Database::new();
    load_into(&database, &options("0.008")).unwrap();
    for (harm, condition) in [
        ("DELETE FROM supplier WHERE s_suppkey = 3", "rows"),
        (
            "UPDATE lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey = 7 AND l_linenumber = 2",
            "totals",
        ),
        ("DELETE FROM orders WHERE o_orderkey = 7", "totals"),
        (
            "UPDATE part SET p_comment = 'x' WHERE p_partkey = 1600",
            "contents",
        ),
        ("INSERT INTO region VALUES (5, 'ATLANTIS', '')", "contents"),
    ] {
        let mut client = database.client();
        client.batch_execute(harm).unwrap();
        let (_, failed) = checked(&database);
        assert!(
            failed.iter().any(|said| said.starts_with(condition)),
            "{harm}: {failed:?}"
        );
        load_into(
            &database,
            &LoadOptions {
                replace: true,
                ..options("0.008")
            },
        )
        .unwrap();
    }
}

#[test]
fn what_others_made_and_what_is_there_already_is_refused_and_kept() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute("CREATE TABLE part (mine text); INSERT INTO part VALUES ('kept')")
        .unwrap();
    let replace = LoadOptions {
        replace: true,
        ..options("0.008")
    };
    for options in [&options("0.008"), &replace] {
        let error = load_into(&database, options).unwrap_err();
        assert!(matches!(error, LoadError::Foreign { .. }), "{error}");
    }
    let kept: String = client
        .query_one("SELECT mine FROM part", &[])
        .unwrap()
        .get(0);
    assert_eq!(kept, "kept");
    client.batch_execute("DROP TABLE part").unwrap();

    load_into(&database, &options("0.008")).unwrap();
    let error = load_into(&database, &options("0.01")).unwrap_err();
    assert!(
        error.to_string().contains("TPC-H at scale 0.008"),
        "{error}"
    );
    client
        .batch_execute("ALTER TABLE part RENAME TO old; CREATE TABLE part AS SELECT 1 AS mine")
        .unwrap();
    let error = load_into(&database, &replace).unwrap_err();
    assert!(matches!(error, LoadError::Foreign { .. }), "{error}");
    client
        .batch_execute("DROP TABLE part, lineitem; ALTER TABLE old RENAME TO part")
        .unwrap();
    let error = load_into(&database, &options("0.008")).unwrap_err();
    assert!(matches!(error, LoadError::Partial { .. }), "{error}");
    load_into(&database, &replace).unwrap();
    let existing = inspect(&mut client, "public").unwrap();
    assert!(matches!(existing, Existing::Complete(_)), "{existing:?}");
}

#[test]
fn a_load_that_does_not_fit_or_is_stopped_leaves_nothing() {
    let database = Database::new();
    let small = LoadOptions {
        available_bytes: Some(400_000_000),
        ..options("10")
    };
    let error = load_into(&database, &small).unwrap_err();
    assert!(
        error.to_string().contains("load at most scale 0.1"),
        "{error}"
    );
    let stop = AtomicBool::new(true);
    let connect = || database.config().connect(NoTls);
    let error = load(&options("0.1"), connect, &stop, &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, LoadError::Stopped(Aftermath::Removed)),
        "{error}"
    );
    let existing = inspect(&mut database.client(), "public").unwrap();
    assert_eq!(existing, Existing::Nothing);
}

/// Rows of an answer and a sum over them: numbers with two decimals, rows sorted as text.
fn summary(rows: &[Vec<String>]) -> (usize, String) {
    let cell = |cell: &String| match cell.parse::<f64>() {
        Ok(number) => format!("{number:.2}"),
        Err(_) => cell.clone(),
    };
    let row = |row: &Vec<String>| row.iter().map(cell).collect::<Vec<_>>().join("|");
    let mut lines: Vec<String> = rows.iter().map(row).collect();
    lines.sort();
    let hash = sha1::Sha1::digest(lines.join("\n"));
    let hex: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    (rows.len(), hex.concat())
}

/// Known answers: DuckDB 2.0.0 with the same texts over the files of `dbgen -s 0.01` of the TPC's
/// tools 2.17.3, summed up as [`summary`] does it.
#[test]
fn queries_answer_at_a_small_scale_what_duckdb_answers_over_dbgens_files() {
    let expected = [
        (4, "8f156e687ee1139459b540b132d4b90d39095bd5"),
        (4, "7f98e4aa00bb289aff837914e5a8bdaaf45b92f2"),
        (10, "53a7a29a4a3c449f89a4080f0e080a0ec0f14b76"),
        (5, "08831d49526eb0f6c6c8c41849a02576b54bade6"),
        (5, "4b4aa3e54bacfdf24007f2f6b1edd89ff858b6db"),
        (1, "56481dd774dfa03910152ba4758162a5661ab16d"),
        (4, "34b265101901b2af60b7c9d3a082c9e9f04f8327"),
        (2, "eb7a6a0e272e93735a2b7dcb909ddc45fa3a7125"),
        (173, "6f431ef75c962c2d127258c32189380036bfb537"),
        (20, "c35661f4f9176293b773db4103ba97ed325d91fa"),
        (1, "06ba2ff1551aca2b6876c87ba2a7197903220917"),
        (2, "de1e6bca21c9092e6a55d065dc4378a76fdcdf62"),
        (33, "254e6ee8a0fcc77c05e663dbdda9e91bcdabf9de"),
        (1, "d738d9d5a20955520a086e7650fd90c4c7dc7423"),
        (1, "dbdcc6cb4a4aaa0a12550741820a73124b227d66"),
        (296, "a4e9668573644a388588d3710fb5ec37b16069be"),
        (1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        (2, "b854350f496461ceebe99e7a07e5c803b1bc6034"),
        (1, "a98ad4421bac4e8daff57f5726d90501a4a99c29"),
        (1, "1b05c227e4481ec64d3c5c47f9933f516dc5d722"),
        (1, "dc19b5d14979e6e5fa6845b0bb663b76e9152575"),
        (7, "d62f6e5b3dc8293aad4311985582eb23e9cfd49c"),
    ];
    let database = Database::new();
    let options = options("0.01");
    load_into(&database, &options).unwrap();
    let mut client = database.client();
    for (number, (rows, hash)) in (1..=QUERIES).zip(expected) {
        let query = Query::validation(number, options.scale).unwrap();
        let found = output(&mut client, &query).unwrap();
        assert_eq!(
            summary(&found),
            (rows, hash.to_owned()),
            "query {number}: {found:?}"
        );
    }
}

/// Every value that can be drawn makes a query that the server understands.
#[test]
fn queries_with_drawn_values_run() {
    let database = Database::new();
    let options = options("0.008");
    load_into(&database, &options).unwrap();
    let mut client = database.client();
    for seed in 1..=3 {
        for query in draw(seed, options.scale) {
            output(&mut client, &query).unwrap();
        }
    }
}

#[test]
fn aging_replaces_what_it_should_and_keeps_every_total_right() {
    let database = Database::new();
    load_into(
        &database,
        &LoadOptions {
            foreign_keys: true,
            ..options("0.01")
        },
    )
    .unwrap();
    let (stop, mut client) = (AtomicBool::new(false), database.client());
    for wrong in [0.0, -0.5, 1.0, f64::NAN] {
        let error = age::age("public", &mut client, wrong, &stop, &mut |_, _| ()).unwrap_err();
        assert!(matches!(error, age::AgeError::Share(_)), "{error}");
    }
    let aged = age::age("public", &mut client, 0.1, &stop, &mut |_, _| ()).unwrap();
    assert!(aged.rows_as_expected && aged.sets == 100, "{aged:?}");
    let [orders, lines] = &aged.tables[..] else {
        panic!("{aged:?}");
    };
    assert_eq!((orders.before.rows, orders.after.rows), (15_000, 15_000));
    assert_eq!((orders.inserted, orders.deleted), (1_500, 1_500));
    assert!(orders.before.correlation > Some(0.999), "{aged:?}");
    assert!(
        lines.after.correlation < lines.before.correlation,
        "{aged:?}"
    );
    assert_eq!(aged.free_space_from, None);
    // A tenth of the keys is new, and of the old ones the first tenth is gone.
    let scale = aged.scale;
    let scale: Scale = scale.to_string().parse().unwrap();
    let keys = |of: fn(Scale, u64) -> Vec<i64>| -> Vec<i64> {
        (1..=100).flat_map(|set| of(scale, set)).collect()
    };
    let there = "SELECT count(*) FROM orders WHERE o_orderkey = ANY ($1)";
    let mut count = |keys: Vec<i64>| client.query_one(there, &[&keys]).unwrap().get::<_, i64>(0);
    assert_eq!(count(keys(refresh::inserted_keys)), 1_500);
    assert_eq!(count(keys(refresh::deleted_keys)), 0);
    assert_eq!(checked(&database), (vec!["rows", "totals"], Vec::new()));
    let error = age::age("public", &mut client, 0.95, &stop, &mut |_, _| ()).unwrap_err();
    assert!(
        matches!(error, age::AgeError::UsedUp { used: 100, .. }),
        "{error}"
    );
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = age::age("public", &mut client, 0.1, &stop, &mut |_, _| ()).unwrap_err();
    assert!(
        matches!(error, age::AgeError::Stopped { done: 0, .. }),
        "{error}"
    );
}

fn run_tests(
    database: &Database,
    streams: Option<u32>,
    stop: &AtomicBool,
) -> Result<test::Tested, test::TestError> {
    let options = test::TestOptions {
        schema: "public".to_owned(),
        streams,
        seed: 7,
    };
    let connect = || database.config().connect(NoTls);
    test::run(&options, connect, stop, &mut |_| ())
}

#[test]
fn the_tests_run_every_query_in_its_order_and_leave_the_rows_that_refresh_sets_make() {
    let database = Database::new();
    load_into(&database, &options("0.01")).unwrap();
    let stop = AtomicBool::new(false);
    let tested = run_tests(&database, Some(2), &stop).unwrap();

    let names = |of: &[&test::Executed]| of.iter().map(|one| one.what).collect::<Vec<_>>();
    let queries = |stream| order(stream).unwrap().map(test::What::Query);
    let power: Vec<&test::Executed> = tested.of(test::Test::Power).collect();
    let mut expected = vec![test::What::Insert];
    expected.extend(queries(0));
    expected.push(test::What::Delete);
    assert_eq!(names(&power), expected);
    let ends: Vec<_> = power.iter().map(|one| one.start + one.time).collect();
    assert!(
        power
            .iter()
            .skip(1)
            .zip(&ends)
            .all(|(one, end)| one.start >= *end)
    );
    for stream in 1..=2 {
        let of = tested.of(test::Test::Throughput);
        let of: Vec<&test::Executed> = of.filter(|one| one.stream == stream).collect();
        assert_eq!(names(&of), queries(stream));
        assert!(of.iter().all(|one| one.start >= *ends.last().unwrap()));
    }
    let refresh = tested
        .of(test::Test::Throughput)
        .filter(|one| one.stream == 0);
    let pair = [test::What::Insert, test::What::Delete];
    assert_eq!(names(&refresh.collect::<Vec<_>>()), [pair, pair].concat());
    // 15 orders a set, each with its lines.
    let rows = |what| power.iter().find(|one| one.what == what).unwrap().rows;
    assert!((30..=120).contains(&rows(test::What::Insert)));
    let first = draw(7, "0.01".parse().unwrap()).remove(0);
    let answer = output(&mut database.client(), &first).unwrap();
    assert_eq!(rows(test::What::Query(1)), answer.len() as u64);
    let elapsed = tested.elapsed_s(test::Test::Power);
    let sum: f64 = power.iter().map(|one| one.time.as_secs_f64()).sum();
    assert!(elapsed >= sum && elapsed < sum + 1.0, "{elapsed} {sum}");

    let Existing::Complete(meta) = inspect(&mut database.client(), "public").unwrap() else {
        panic!("the load is not whole any more");
    };
    assert_eq!((meta.inserted, meta.deleted), (3, 3));
    assert_eq!(checked(&database), (vec!["rows", "totals"], Vec::new()));
}

#[test]
fn tests_that_cannot_begin_have_no_result_and_those_that_fail_keep_what_finished() {
    let database = Database::new();
    let mut stop = AtomicBool::new(false);
    for streams in [0, 41] {
        let error = run_tests(&database, Some(streams), &stop).unwrap_err();
        assert!(matches!(error, test::TestError::Streams(_)), "{error}");
    }
    let error = run_tests(&database, None, &stop).unwrap_err();
    assert!(error.to_string().contains("tenbin load tpch"), "{error}");
    load_into(&database, &options("0.008")).unwrap();
    *stop.get_mut() = true;
    let error = run_tests(&database, None, &stop).unwrap_err();
    assert!(matches!(error, test::TestError::Stopped), "{error}");
    *stop.get_mut() = false;
    // A query that the server refuses ends the tests; what finished before is kept.
    let harm = "ALTER TABLE customer RENAME COLUMN c_mktsegment TO was_mktsegment";
    database.client().batch_execute(harm).unwrap();
    let tested = run_tests(&database, Some(2), &stop).unwrap();
    let said = tested.failure.unwrap().to_string();
    assert!(
        said.contains("Q3 of stream 0") && said.contains("c_mktsegment"),
        "{said}"
    );
    // RF1 and the queries of stream 0 before Q3: 14, 2, 9, 20, 6, 17, 18, 8, 21, 13.
    let done: Vec<String> = tested
        .executed
        .iter()
        .map(|one| one.what.to_string())
        .collect();
    assert_eq!(
        done,
        [
            "RF1", "Q14", "Q2", "Q9", "Q20", "Q6", "Q17", "Q18", "Q8", "Q21", "Q13"
        ]
    );
    let used = "UPDATE tenbin_load_tpch SET inserted = 998, deleted = 998";
    database.client().batch_execute(used).unwrap();
    let error = run_tests(&database, Some(2), &stop).unwrap_err();
    assert!(
        matches!(
            error,
            test::TestError::UsedUp {
                asked: 3,
                used: 998
            }
        ),
        "{error}"
    );
}
