//! TPC-H: dbgen's rows in the tables, wrong data found out, nothing of others' touched.

use crate::support::Database;
use postgres::NoTls;
use sha1::Digest as _;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use tenbin_workload::check::Verdict;
use tenbin_workload::load::{Aftermath, LoadError};
use tenbin_workload::tpch::{
    Existing, LoadOptions, Loaded, QUERIES, Query, Scale, Table, check, inspect, lines, load,
    output,
};

fn options(scale: &str) -> LoadOptions {
    LoadOptions::new(scale.parse().unwrap())
}

fn load_into(database: &Database, options: &LoadOptions) -> Result<Loaded, LoadError> {
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
    client.batch_execute("DROP TABLE lineitem").unwrap();
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

#[test]
fn every_query_runs() {
    let database = Database::new();
    let options = options("0.01");
    load_into(&database, &options).unwrap();
    let mut client = database.client();
    for number in 1..=QUERIES {
        let query = Query::validation(number, options.scale).unwrap();
        output(&mut client, &query).unwrap();
    }
}
