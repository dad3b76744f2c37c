//! The bank: loaded like pgbench's, by either and for either; wrong data found out.

use crate::load::looked_at;
use crate::support::Database;
use postgres::NoTls;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenbin_server::{Embedded, Options, Source};
use tenbin_workload::bank::{
    self, Design, Existing, LoadOptions, Meta, PartitionMethod, Partitions, Ran, Size, Storage,
    Table, check, inspect, load, mark_ran,
};
use tenbin_workload::check::Verdict;
use tenbin_workload::load::{Aftermath, LoadError};

const DEBIAN: &str = "/usr/lib/postgresql/15/bin";

fn options(design: Design) -> LoadOptions {
    LoadOptions::new(design, Size::pgbench(1))
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

/// Conditions by verdict: those that pass, fail and are skipped.
fn checked(database: &Database, design: Design) -> [String; 3] {
    let stop = AtomicBool::new(false);
    let results = check(design, "public", database.client(), None, &stop).unwrap();
    let of = |which: fn(&Verdict) -> bool| {
        let chosen = results.iter().filter(|result| which(&result.verdict));
        chosen
            .map(|result| result.condition)
            .collect::<Vec<_>>()
            .join(" ")
    };
    [
        of(|verdict| *verdict == Verdict::Pass),
        of(|verdict| *verdict == Verdict::Fail),
        of(|verdict| matches!(verdict, Verdict::Skip(_))),
    ]
}

fn all_pass() -> [String; 3] {
    ["1 2 3 4 5 6".to_owned(), String::new(), String::new()]
}

/// Debian's pgbench 15 on `database`.
fn pgbench(database: &Database, arguments: &[&str]) -> Output {
    let target = database.server.tcp_target();
    let output = Command::new(format!("{DEBIAN}/pgbench"))
        .args(["-h", "127.0.0.1", "-p"])
        .arg(database.config().get_ports()[0].to_string())
        .args(["-U", &target.user])
        .args(arguments)
        .arg(&database.name)
        .env("PGPASSWORD", target.password.unwrap_or_default())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output
}

/// Tables, columns, keys, options, places and contents, as text.
fn portrait(database: &Database) -> Vec<String> {
    let mut client = database.client();
    let mut portrait: Vec<String> = Vec::new();
    for query in [
        "SELECT format('%s %s %s', relname, reloptions, relpersistence) FROM pg_class \
         WHERE relname LIKE 'pgbench%' AND relkind = 'r' ORDER BY 1",
        "SELECT format('%s in %s', relname, spcname) FROM pg_class c \
         LEFT JOIN pg_tablespace s ON s.oid = reltablespace \
         WHERE relname LIKE 'pgbench%' ORDER BY 1",
        "SELECT format('%s %s %s', relname, pg_get_partkeydef(oid), \
         pg_get_expr(relpartbound, oid)) FROM pg_class \
         WHERE relname LIKE 'pgbench%' AND relkind IN ('r', 'p') ORDER BY 1",
        "SELECT format('%s.%s %s %s %s', attrelid::regclass, attname, attnum, \
         format_type(atttypid, atttypmod), attnotnull) FROM pg_attribute \
         WHERE attrelid::regclass::text LIKE 'pgbench%' AND attnum > 0 ORDER BY 1",
        "SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) \
         FROM pg_constraint WHERE conrelid::regclass::text LIKE 'pgbench%' ORDER BY 1",
        "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'pgbench%' ORDER BY 1",
        "SELECT format('branches %s %s', count(*), md5(string_agg(b::text, ' ' ORDER BY bid))) \
         FROM pgbench_branches b",
        "SELECT format('tellers %s %s', count(*), md5(string_agg(t::text, ' ' ORDER BY tid))) \
         FROM pgbench_tellers t",
        "SELECT format('accounts %s %s', count(*), md5(string_agg(a::text, ' ' ORDER BY aid))) \
         FROM pgbench_accounts a",
        "SELECT format('history %s', count(*)) FROM pgbench_history",
    ] {
        let rows = client.query(query, &[]).unwrap();
        portrait.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    portrait
}

#[test]
fn tenbins_tables_cannot_be_told_from_pgbenchs() {
    let divided = |count, method| Storage {
        partitions: Some(Partitions { count, method }),
        ..Storage::default()
    };
    let unlogged = Storage {
        unlogged: true,
        ..Storage::default()
    };
    let elsewhere = Storage {
        tablespace: Some("one".to_owned()),
        index_tablespace: Some("two".to_owned()),
        ..divided(4, PartitionMethod::Hash)
    };
    let cases: [(u32, u8, Storage, &[&str]); 5] = [
        (1, 100, Storage::default(), &[]),
        (3, 70, Storage::default(), &[]),
        (1, 100, unlogged, &["--unlogged-tables"]),
        (
            1,
            90,
            divided(3, PartitionMethod::Range),
            &["--partitions=3", "--partition-method=range"],
        ),
        (
            2,
            100,
            elsewhere,
            &[
                "--partitions=4",
                "--partition-method=hash",
                "--tablespace=one",
                "--index-tablespace=two",
            ],
        ),
    ];
    for (threads, fillfactor, storage, flags) in cases {
        let ours = Database::alone();
        let theirs = Database::on(Arc::clone(&ours.server), "template0");
        let mut client = ours.client();
        for statement in [
            "SET allow_in_place_tablespaces = on",
            "CREATE TABLESPACE one LOCATION ''",
            "CREATE TABLESPACE two LOCATION ''",
        ] {
            client.batch_execute(statement).unwrap();
        }
        let fill = format!("-F{fillfactor}");
        let given = ["-i", "-q", "-s2", &fill, "--foreign-keys"];
        pgbench(&theirs, &[&given, flags].concat());
        let options = LoadOptions {
            size: Size::pgbench(2),
            threads,
            fillfactor,
            foreign_keys: true,
            storage: storage.clone(),
            ..options(Design::Pgbench)
        };
        load_into(&ours, &options).unwrap();
        assert_eq!(portrait(&ours), portrait(&theirs));
        for database in [&ours, &theirs] {
            let found = bank::stored(&mut database.client(), Design::Pgbench, "public").unwrap();
            let told = found.iter().map(|(name, value)| {
                let flag = format!("--{}={value}", name.replace('_', "-"));
                flag.trim_end_matches("=true").to_owned()
            });
            assert_eq!(told.collect::<Vec<_>>(), flags);
        }
        // Nothing is left for VACUUM to do.
        let accounts = Design::Pgbench.table(Table::Accounts);
        assert_eq!(looked_at(&ours, accounts), 0, "{threads} connections");
        assert_eq!(checked(&ours, Design::Pgbench), all_pass());
        assert_eq!(checked(&theirs, Design::Pgbench), all_pass());
    }
}

#[test]
fn pgbench_runs_on_tenbins_tables() {
    let database = Database::new();
    load_into(&database, &options(Design::Pgbench)).unwrap();
    pgbench(&database, &["-n", "-c4", "-t50"]);
    assert_eq!(database.ask("SELECT count(*) FROM pgbench_history"), "200");
    assert_eq!(checked(&database, Design::Pgbench), all_pass());
    pgbench(&database, &["-n", "-S", "-Mprepared", "-c2", "-t50"]);
    assert_eq!(checked(&database, Design::Pgbench), all_pass());
    // Without -n pgbench empties the history first: it cannot account for the balances then.
    pgbench(&database, &["-c2", "-t10"]);
    let [pass, fail, skip] = checked(&database, Design::Pgbench);
    assert_eq!([pass.as_str(), &fail, &skip], ["1 2 3", "", "4 5 6"]);
}

#[test]
fn pgbenchs_tables_are_checked_and_never_dropped() {
    let database = Database::new();
    pgbench(&database, &["-i", "-q", "-s2"]);
    let found = inspect(&mut database.client(), Design::Pgbench, "public").unwrap();
    assert!(
        matches!(&found, Existing::Foreign { size: Some(size), .. } if *size == Size::pgbench(2)),
        "{found:?}"
    );
    let refuses = |database: &Database| {
        for replace in [false, true] {
            let options = LoadOptions {
                replace,
                ..options(Design::Pgbench)
            };
            let refused = load_into(database, &options).unwrap_err();
            assert!(matches!(refused, LoadError::Foreign { .. }), "{refused}");
        }
        assert_eq!(
            database.ask("SELECT count(*) FROM pgbench_accounts"),
            "200000"
        );
    };
    refuses(&database);
    // Those that pgbench made where tenbin had loaded are pgbench's, too.
    let database = Database::new();
    load_into(&database, &options(Design::Pgbench)).unwrap();
    pgbench(&database, &["-i", "-q", "-s2"]);
    refuses(&database);
    pgbench(&database, &["-n", "-t20"]);
    assert_eq!(checked(&database, Design::Pgbench), all_pass());
    // What nobody recorded is no failure: -N moves accounts alone.
    pgbench(&database, &["-n", "-N", "-t20"]);
    let [pass, fail, skip] = checked(&database, Design::Pgbench);
    assert_eq!([pass.as_str(), &fail, &skip], ["1 2 4", "", "3 5 6"]);
    pgbench(&database, &["-t20"]);
    let [pass, fail, skip] = checked(&database, Design::Pgbench);
    assert_eq!([pass.as_str(), &fail, &skip], ["1 2", "", "3 4 5 6"]);
    // But what no run of pgbench does is one.
    database.run("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 7");
    assert!(checked(&database, Design::Pgbench)[1].contains('2'));
}

#[test]
fn each_condition_finds_its_fault() {
    for design in [Design::Pgbench, Design::TpcA] {
        let clean = Database::new();
        load_into(&clean, &options(design)).unwrap();
        let [branches, tellers, accounts, history] = Table::ALL.map(|table| design.table(table));
        let tpca = design == Design::TpcA;
        let (key, balance) = if tpca {
            (
                ["branch_id", "teller_id", "account_id"],
                ["branch_balance", "teller_balance", "account_balance"],
            )
        } else {
            (["bid", "tid", "aid"], ["bbalance", "tbalance", "abalance"])
        };
        let into = if tpca {
            "(account_id, teller_id, branch_id, amount, time_stamp, filler) VALUES (5, 3, 1, 9, now(), '')"
        } else {
            "(aid, tid, bid, delta, mtime) VALUES (5, 3, 1, 9, now())"
        };
        clean.run(&format!(
            "UPDATE {accounts} SET {1} = {1} + 9 WHERE {0} = 5; \
             UPDATE {tellers} SET {3} = {3} + 9 WHERE {2} = 3; \
             UPDATE {branches} SET {4} = {4} + 9; INSERT INTO {history} {into}",
            key[2], balance[2], key[1], balance[1], balance[0]
        ));
        assert_eq!(checked(&clean, design), all_pass());
        for (fault, fails) in [
            (format!("DELETE FROM {tellers} WHERE {} = 10", key[1]), "1"),
            (
                format!("UPDATE {accounts} SET {} = 2 WHERE {} = 77", key[0], key[2]),
                "1",
            ),
            (
                format!(
                    "UPDATE {tellers} SET {} = 0 WHERE {} = 3",
                    balance[1], key[1]
                ),
                "2 3 5",
            ),
            (format!("UPDATE {branches} SET {} = 0", balance[0]), "2 6"),
            (
                format!(
                    "UPDATE {accounts} SET {} = 0 WHERE {} = 5",
                    balance[2], key[2]
                ),
                "3 4",
            ),
            (
                format!(
                    "UPDATE {accounts} SET {0} = CASE {1} WHEN 5 THEN 0 ELSE 9 END WHERE {1} IN (5, 6)",
                    balance[2], key[2]
                ),
                "4",
            ),
            (format!("DELETE FROM {history}"), "4 5 6"),
            (
                format!(
                    "INSERT INTO {history} {}",
                    into.replace("(5, 3", "(100001, 3").replace(", 9,", ", 0,")
                ),
                "4",
            ),
        ] {
            let broken = clean.copy();
            broken.run(&fault);
            assert_eq!(checked(&broken, design)[1], fails, "{fault}");
        }
        // What tenbin itself did is known, and no failure.
        let marked = clean.copy();
        mark_ran(&mut marked.client(), design, "public", Ran::Mix).unwrap();
        marked.run(&format!(
            "UPDATE {accounts} SET {} = 4 WHERE {} = 8",
            balance[2], key[2]
        ));
        let [pass, fail, skip] = checked(&marked, design);
        assert_eq!([pass.as_str(), &fail, &skip], ["1 2", "", "3 4 5 6"]);
        let simple = clean.copy();
        mark_ran(&mut simple.client(), design, "public", Ran::SimpleUpdate).unwrap();
        assert_eq!(checked(&simple, design)[2], "3 5 6");
    }
}

#[test]
fn a_load_replaces_its_own_and_removes_what_it_could_not_finish() {
    let database = Database::new();
    let tpca = LoadOptions {
        size: Size {
            branches: 20,
            tellers_per_branch: 10,
            accounts_per_branch: 1_000,
        },
        ..options(Design::TpcA)
    };
    let loaded = load_into(&database, &tpca).unwrap();
    assert_eq!(loaded.progress.rows, 20 + 200 + 20_000);
    assert_eq!(checked(&database, Design::TpcA), all_pass());
    let again = load_into(&database, &tpca).unwrap_err().to_string();
    assert!(
        again.contains("20 branches") && again.contains("tenbin load tpca --replace"),
        "{again}"
    );
    let replaced = LoadOptions {
        size: Size {
            branches: 3,
            ..tpca.size
        },
        replace: true,
        ..tpca.clone()
    };
    load_into(&database, &replaced).unwrap();
    assert_eq!(database.ask("SELECT count(*) FROM tpca_branch"), "3");
    // Both workloads live beside each other.
    load_into(&database, &options(Design::Pgbench)).unwrap();
    assert_eq!(checked(&database, Design::TpcA), all_pass());

    let stopped = Database::new();
    let stop = AtomicBool::new(false);
    let slow = LoadOptions {
        size: Size::pgbench(40),
        ..options(Design::Pgbench)
    };
    let outcome = load(
        &slow,
        || stopped.config().connect(NoTls),
        &stop,
        &mut |_| {
            stop.store(true, Ordering::Relaxed);
        },
    );
    assert!(
        matches!(outcome, Err(LoadError::Stopped(Aftermath::Removed))),
        "{outcome:?}"
    );
    let left = inspect(&mut stopped.client(), Design::Pgbench, "public").unwrap();
    assert_eq!(left, Existing::Nothing);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let database = Database::new();
    let sized = |branches| Size {
        branches,
        ..Size::pgbench(1)
    };
    let base = options(Design::Pgbench);
    for (options, word) in [
        (
            LoadOptions {
                size: sized(0),
                ..base.clone()
            },
            "without a branch",
        ),
        (
            LoadOptions {
                fillfactor: 9,
                ..base.clone()
            },
            "give 10 to 100",
        ),
        (
            LoadOptions {
                storage: Storage {
                    partitions: Some(Partitions {
                        count: 100_001,
                        method: PartitionMethod::Hash,
                    }),
                    ..Storage::default()
                },
                ..base.clone()
            },
            "give 1 to that many",
        ),
        (
            LoadOptions {
                threads: 0,
                ..base.clone()
            },
            "give 1 to 256",
        ),
        (
            LoadOptions {
                size: sized(500),
                available_bytes: Some(2 << 30),
                ..base.clone()
            },
            "load at most",
        ),
    ] {
        let refused = load_into(&database, &options).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    }
    database.run("CREATE VIEW tpca_history AS SELECT 1 AS one");
    let refused = load_into(&database, &options(Design::TpcA)).unwrap_err();
    assert!(matches!(refused, LoadError::Foreign { .. }), "{refused}");
    let stop = AtomicBool::new(false);
    let unchecked = check(Design::TpcA, "public", database.client(), None, &stop).unwrap_err();
    assert!(
        unchecked.to_string().contains("tpca_history"),
        "{unchecked}"
    );
}

#[test]
fn the_oldest_server_is_loaded_and_checked_too() {
    let server = Embedded::start(Options {
        source: Source::release("9.6").unwrap(),
        ..Options::default()
    });
    let database = Database::on(Arc::new(server.unwrap()), "template0");
    for (design, threads) in [(Design::Pgbench, 1), (Design::TpcA, 2)] {
        let options = LoadOptions {
            threads,
            foreign_keys: true,
            ..options(design)
        };
        let partitions = Some(Partitions {
            count: 2,
            method: PartitionMethod::Range,
        });
        for (foreign_keys, version) in [(false, "11"), (true, "12")] {
            let options = LoadOptions {
                foreign_keys,
                storage: Storage {
                    partitions,
                    ..Storage::default()
                },
                ..options.clone()
            };
            let refused = load_into(&database, &options).unwrap_err().to_string();
            let needs = format!("needs PostgreSQL {version}");
            assert!(refused.contains(&needs), "{refused}");
        }
        load_into(&database, &options).unwrap();
        assert_eq!(checked(&database, design), all_pass());
        let found = bank::stored(&mut database.client(), design, "public").unwrap();
        assert_eq!(found, []);
    }
    pgbench(&database, &["-n", "-c2", "-t20"]);
    assert_eq!(checked(&database, Design::Pgbench), all_pass());
}
