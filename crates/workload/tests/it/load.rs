//! What a load leaves, and what it leaves alone.

use crate::support::{Database, failed, small, small_options};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenbin_server::{Embedded, Options, Source};
use tenbin_workload::check::Verdict;
use tenbin_workload::load::{Aftermath, LoadError};
use tenbin_workload::tpcc::load::{Existing, LoadOptions, load};
use tenbin_workload::tpcc::rules::Rules;
use tenbin_workload::tpcc::schema::Table;

#[test]
fn a_standard_load_is_what_the_standard_says() {
    let database = Database::new();
    let mut fractions = Vec::new();
    let options = LoadOptions {
        warehouses: 1,
        ..LoadOptions::default()
    };
    let watched = database.load_watched(&options, &AtomicBool::new(false), &mut |progress| {
        fractions.push(progress.fraction);
    });
    let loaded = watched.unwrap();
    assert!(fractions.is_sorted(), "{fractions:?}");
    assert_eq!(fractions.last(), Some(&1.0));
    assert_eq!(database.inspect(), Existing::Complete(loaded.meta));

    // Clause 4.2.2.
    for (table, rows) in [
        ("warehouse", 1),
        ("district", 10),
        ("customer", 30_000),
        ("history", 30_000),
        ("orders", 30_000),
        ("new_order", 9_000),
        ("item", 100_000),
        ("stock", 100_000),
    ] {
        assert_eq!(
            database.ask(&format!("SELECT count(*) FROM {table}")),
            rows.to_string(),
            "{table}"
        );
    }
    let lines: f64 = database
        .ask("SELECT count(*) FROM order_line")
        .parse()
        .unwrap();
    assert!((lines / 300_000.0 - 1.0).abs() < 0.01, "{lines}");
    // Clause 4.3.3.1, as a reader of the database sees it.
    for (question, answer) in [
        (
            "SELECT count(*) FROM item WHERE i_data ~ 'ORIGINAL'",
            "10000",
        ),
        (
            "SELECT count(*) FROM stock WHERE s_data ~ 'ORIGINAL'",
            "10000",
        ),
        (
            "SELECT count(*) FROM customer WHERE c_credit = 'BC'",
            "3000",
        ),
        ("SELECT count(DISTINCT c_last) FROM customer", "1000"),
        (
            "SELECT w_ytd || ' ' || (w_tax BETWEEN 0 AND 0.2) FROM warehouse",
            "300000.00 true",
        ),
        (
            "SELECT min(d_next_o_id) || ' ' || max(d_ytd) FROM district",
            "3001 30000.00",
        ),
        (
            "SELECT min(i_price) || ' ' || max(i_price) FROM item",
            "1.00 100.00",
        ),
        (
            "SELECT min(s_quantity) || ' ' || max(s_quantity) FROM stock",
            "10 100",
        ),
        (
            "SELECT min(c_discount) || ' ' || max(c_discount) FROM customer",
            "0.0000 0.5000",
        ),
        (
            "SELECT min(length(c_data)) || ' ' || max(length(c_data)) FROM customer",
            "300 500",
        ),
        (
            "SELECT count(*) FROM customer WHERE c_zip !~ '^[0-9]{4}11111$' OR c_phone !~ '^[0-9]{16}$'",
            "0",
        ),
        (
            "SELECT count(*) FROM order_line WHERE (ol_delivery_d IS NULL) <> (ol_o_id > 2100)",
            "0",
        ),
        (
            "SELECT count(*) FROM order_line WHERE (ol_amount = 0) <> (ol_o_id <= 2100)",
            "0",
        ),
        (
            "SELECT max(c_since) = (SELECT started_at FROM tenbin_load) FROM customer",
            "true",
        ),
    ] {
        assert_eq!(database.ask(question), answer, "{question}");
    }
    let results = database.check(&Rules::default(), 2);
    assert_eq!(results.len(), 20);
    assert!(
        results.iter().all(|result| result.verdict == Verdict::Pass),
        "{results:#?}"
    );
}

/// Constraints and indexes, and that all rows are frozen, visible and known to the planner.
fn assert_furnished(database: &Database, foreign_keys: u32, leaves: u32) {
    for (question, answer) in [
        (
            "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0",
            foreign_keys,
        ),
        (
            "SELECT count(*) FROM pg_constraint WHERE NOT convalidated",
            0,
        ),
        ("SELECT count(*) FROM pg_index WHERE NOT indisvalid", 0),
        (
            "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conparentid = 0 \
          AND connamespace = 'public'::regnamespace",
            8,
        ),
        (
            "SELECT count(*) FROM pg_indexes WHERE schemaname = 'public' \
          AND indexname IN ('customer_last', 'orders_customer')",
            2,
        ),
        (
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace \
          AND relkind = 'r' AND relname <> 'tenbin_load'",
            leaves,
        ),
    ] {
        assert_eq!(database.ask(question), answer.to_string(), "{question}");
    }
    let unknown = "SELECT string_agg(relname, ', ') FROM pg_class WHERE relkind = 'r' \
                   AND relnamespace = 'public'::regnamespace AND relpages > 0 AND reltuples <= 0";
    assert_eq!(database.ask(unknown), "NULL");
    for table in Table::ALL
        .into_iter()
        .filter(|table| table.primary_key().is_some())
    {
        assert_eq!(
            looked_at(database, table),
            0,
            "rows of {table} not marked as visible to all"
        );
    }
}

/// Rows that an index-only scan of the whole table has to look at.
pub(crate) fn looked_at(database: &Database, table: impl std::fmt::Display) -> u32 {
    let mut client = database.client();
    client
        .batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        .unwrap();
    let scan = format!("EXPLAIN (ANALYZE, COSTS off, TIMING off) SELECT count(*) FROM {table}");
    let plan: Vec<String> = client
        .query(&scan, &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let fetches: Vec<u32> = plan
        .iter()
        .filter_map(|line| line.trim().strip_prefix("Heap Fetches: "))
        .map(|count| count.parse().unwrap())
        .collect();
    assert!(!fetches.is_empty(), "{plan:#?}");
    fetches.iter().sum()
}

/// A digest of each table's rows, but for the time of the load.
fn digests(database: &Database) -> Vec<String> {
    let digest = |table: Table| {
        database.ask(&format!(
            "SELECT md5(string_agg(r, '' ORDER BY r)) FROM (SELECT (to_jsonb(t) - 'c_since' \
             - 'h_date' - 'o_entry_d' - 'ol_delivery_d')::text COLLATE \"C\" AS r FROM {table} t) s"
        ))
    };
    Table::ALL.into_iter().map(digest).collect()
}

#[test]
fn the_data_are_the_same_however_they_are_loaded() {
    let options = |threads, partitions| LoadOptions {
        threads,
        partitions,
        foreign_keys: true,
        ..small_options(7)
    };
    let reference = Database::alone();
    reference.load(&options(1, None)).unwrap();
    assert_furnished(&reference, 10, 9);
    let expected = digests(&reference);
    // Two connections copy whole tables, nine share the large ones, partitions go one by one.
    for (threads, partitions, leaves) in [(2, None, 9), (9, None, 9), (3, Some(4), 3 + 6 * 4)] {
        let database = Database::on(Arc::clone(&reference.server), "template0");
        database.load(&options(threads, partitions)).unwrap();
        assert_furnished(&database, 10, leaves);
        assert_eq!(
            digests(&database),
            expected,
            "{threads} threads, partitions {partitions:?}"
        );
        assert!(failed(&database.check(&small(), 2)).is_empty());
    }
    let other = Database::on(Arc::clone(&reference.server), "template0");
    other
        .load(&LoadOptions {
            seed: 2,
            ..small_options(7)
        })
        .unwrap();
    assert_furnished(&other, 0, 9);
    let differing = digests(&other)
        .iter()
        .zip(&expected)
        .filter(|(a, b)| a != b)
        .count();
    assert_eq!(
        differing, 8,
        "all but new_order, which holds nothing random"
    );
}

#[test]
fn what_is_there_is_refused_and_replaced_only_when_asked() {
    let database = Database::new();
    assert_eq!(database.inspect(), Existing::Nothing);
    database.load(&small_options(1)).unwrap();
    let again = database.load(&small_options(2)).unwrap_err();
    assert!(
        matches!(&again, LoadError::Complete { what, .. } if what == "TPC-C with 1 warehouse"),
        "{again}"
    );
    assert_eq!(database.ask("SELECT count(*) FROM warehouse"), "1");
    database.run("CREATE TABLE mine AS SELECT 42 AS answer");
    let replace = LoadOptions {
        replace: true,
        ..small_options(2)
    };
    let loaded = database.load(&replace).unwrap();
    assert_eq!(database.inspect(), Existing::Complete(loaded.meta));
    assert_eq!(database.ask("SELECT count(*) FROM warehouse"), "2");
    assert_eq!(database.ask("SELECT answer FROM mine"), "42");
}

#[test]
fn what_others_made_is_not_touched() {
    let database = Database::new();
    database.run(
        "CREATE TABLE orders AS SELECT 'theirs' AS whose; CREATE VIEW stock AS SELECT 1 AS one",
    );
    assert_eq!(
        database.inspect(),
        Existing::Foreign(vec!["orders".into(), "stock".into()])
    );
    let error = database.load(&small_options(1)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("schema public holds orders, stock that tenbin's tpcc did not create")
    );
    assert_eq!(database.ask("SELECT whose FROM orders"), "theirs");
    assert_eq!(
        database.ask("SELECT count(*) FROM pg_class WHERE relname = 'tenbin_load'"),
        "0"
    );
    let replace = LoadOptions {
        replace: true,
        ..small_options(1)
    };
    let error = database.load(&replace).unwrap_err();
    assert!(matches!(error, LoadError::Foreign { .. }), "{error}");
    assert_eq!(database.ask("SELECT whose FROM orders"), "theirs");
    // Another schema is free; it goes with a failed load, and stays with a good one.
    let elsewhere = LoadOptions {
        schema: "Other \"one\"".into(),
        ..small_options(1)
    };
    database.load(&elsewhere).unwrap();
    assert_eq!(
        database.ask("SELECT count(*) FROM \"Other \"\"one\"\"\".stock"),
        "400"
    );

    // Nor is a table that has taken a name of the load's since, though the marker is still there.
    let database = Database::new();
    database.load(&small_options(1)).unwrap();
    database.run("ALTER TABLE history RENAME TO kept; CREATE TABLE history (like kept)");
    assert_eq!(
        database.inspect(),
        Existing::Foreign(vec!["history".into()])
    );
    let error = database.load(&replace).unwrap_err();
    assert!(matches!(error, LoadError::Foreign { .. }), "{error}");
    database.run("DROP TABLE history; ALTER TABLE kept RENAME TO history");
    assert!(matches!(database.inspect(), Existing::Complete(_)));
    // What prevents dropping keeps everything as it is, and the message names it.
    database.run("CREATE VIEW mine AS SELECT * FROM history");
    let message = database.load(&replace).unwrap_err().to_string();
    assert!(
        message.contains("dropping the old tables") && message.contains("; nothing was changed"),
        "{message}"
    );
    assert_eq!(database.ask("SELECT count(*) > 0 FROM mine"), "true");

    for (marker, says) in [
        ("(anything int)", "tenbin_load (not made by tenbin)"),
        (
            "AS SELECT 'tpcb'::text AS workload, 1 AS schema_version, 'complete'::text AS state",
            "tenbin_load (of workload tpcb, schema version 1)",
        ),
        (
            "(workload text, schema_version int, state text)",
            "tenbin_load (0 rows instead of one)",
        ),
    ] {
        let database = Database::new();
        database.run(&format!("CREATE TABLE tenbin_load {marker}"));
        assert_eq!(database.inspect(), Existing::Foreign(vec![says.into()]));
        assert!(matches!(
            database.load(&small_options(1)),
            Err(LoadError::Foreign { .. })
        ));
    }
}

#[test]
fn a_stopped_load_removes_what_it_made() {
    let database = Database::new();
    database.run("CREATE TABLE mine AS SELECT 42 AS answer");
    let stop = AtomicBool::new(false);
    let options = LoadOptions {
        warehouses: 4,
        schema: "fresh".into(),
        ..LoadOptions::default()
    };
    let mut seen = 0;
    let stopped = database.load_watched(&options, &stop, &mut |progress| {
        seen = progress.rows;
        stop.store(progress.rows > 0, Ordering::Relaxed);
    });
    assert!(
        matches!(stopped, Err(LoadError::Stopped(Aftermath::Removed))),
        "{stopped:?}"
    );
    assert!(seen > 0);
    assert_eq!(
        database.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'fresh'"),
        "0"
    );
    assert_eq!(database.ask("SELECT answer FROM mine"), "42");
}

#[test]
fn a_load_that_lost_its_server_is_known_as_partial() {
    let database = Database::new();
    let options = LoadOptions {
        warehouses: 4,
        ..LoadOptions::default()
    };
    let lost = AtomicBool::new(false);
    let connect = || {
        let mut config = database.config();
        if lost.load(Ordering::Relaxed) {
            config.dbname("no_such_database");
        }
        config.connect(postgres::NoTls)
    };
    let outcome = load(
        &options,
        connect,
        &AtomicBool::new(false),
        &mut |progress| {
            if progress.rows > 0 && !lost.swap(true, Ordering::Relaxed) {
                database.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
                );
            }
        },
    );
    let Err(LoadError::Server { aftermath, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(aftermath, Aftermath::Partial);
    assert!(matches!(database.inspect(), Existing::Partial(meta) if meta.warehouses == 4));
    let again = database.load(&small_options(1)).unwrap_err();
    assert!(
        again
            .to_string()
            .contains("reload with `tenbin load tpcc --replace`"),
        "{again}"
    );
    let replace = LoadOptions {
        replace: true,
        ..small_options(1)
    };
    let loaded = database.load(&replace).unwrap();
    assert_eq!(database.inspect(), Existing::Complete(loaded.meta));
}

#[test]
fn two_loads_into_one_schema_do_not_mix() {
    let database = Database::new();
    let mut second = None;
    let first = database.load_watched(&small_options(1), &AtomicBool::new(false), &mut |_| {
        second.get_or_insert_with(|| database.load(&small_options(1)).map(drop));
    });
    first.unwrap();
    let Some(Err(LoadError::Busy { schema, holders })) = second else {
        panic!("{second:?}")
    };
    assert_eq!((&*schema, holders.len()), ("public", 1));
    assert!(holders[0].starts_with("tenbin load tpcc (server process "));
}

#[test]
fn options_that_cannot_be_are_refused_before_anything_is_made() {
    let database = Database::new();
    let refused = |options: LoadOptions, says: &str| {
        let error = database.load(&options).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(database.inspect(), Existing::Nothing);
    };
    refused(
        small_options(0),
        "cannot load 0 warehouses; give 1 to 1000000",
    );
    refused(small_options(u32::MAX), "cannot load 4294967295 warehouses");
    let threads = 0;
    refused(
        LoadOptions {
            threads,
            ..small_options(1)
        },
        "cannot load over 0 connections",
    );
    let partitions = Some(1);
    refused(
        LoadOptions {
            partitions,
            ..small_options(1)
        },
        "cannot make 1 partitions; give 2 to 1024",
    );
    let placed = |name: &str, space: &str| LoadOptions {
        tablespaces: [(name.to_owned(), space.to_owned())].into(),
        ..small_options(1)
    };
    refused(
        placed("lineitem", "pg_default"),
        "TPC-C has no such table or index; it has warehouse,",
    );
    refused(
        placed("stock_p0", "pg_default"),
        "TPC-C has no such table or index",
    );
    refused(
        placed("stock", "fast"),
        "cannot place stock in tablespace \"fast\": the server has only pg_default",
    );
    let available_bytes = Some(10 << 30);
    refused(
        LoadOptions {
            available_bytes,
            ..small_options(1_000)
        },
        "but only 10.7 GB are free; make room, or load at most ",
    );
}

/// The oldest server that tenbin knows cannot partition by hash, sets no visibility while
/// copying, and has none of the settings that came later.
#[test]
fn the_oldest_server_is_loaded_and_checked_too() {
    let source = Source::release("9.6").unwrap();
    let server = Embedded::start(Options {
        source,
        ..Options::default()
    });
    let database = Database::on(Arc::new(server.unwrap()), "template0");
    let partitioned = LoadOptions {
        partitions: Some(2),
        ..small_options(2)
    };
    let error = database.load(&partitioned).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("hash partitioning needs PostgreSQL 11 or newer, but the server is 9.6"),
        "{error}"
    );
    let options = LoadOptions {
        foreign_keys: true,
        ..small_options(2)
    };
    database.load(&options).unwrap();
    assert_eq!(looked_at(&database, Table::OrderLine), 0);
    let results = database.check(&small(), 2);
    assert!(
        results.iter().all(|result| result.verdict == Verdict::Pass),
        "{results:#?}"
    );
}
