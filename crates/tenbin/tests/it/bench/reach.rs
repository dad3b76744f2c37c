//! Which server a bench goes to, and how its options are read, as pgbench would.

use super::{server, tenbin, text};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// `tenbin bench` in pgbench's form, with these variables in its environment.
fn bench(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tenbin"))
        .args(["bench", "--format", "pgbench", "-n"])
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn the_server_is_the_one_that_libpq_would_find() {
    let (server, _) = server();
    let target = server.tcp_target();
    let port = server.port().to_string();
    let (user, database) = (target.user.as_str(), target.database.as_str());
    let password = target.password.unwrap();
    let pairs = format!("user={user} dbname={database}");
    let uri = format!("postgres://{user}@127.0.0.1/{database}");
    let here = "127.0.0.1";
    let place = [
        ("PGHOST", here),
        ("PGPORT", &port),
        ("PGUSER", user),
        ("PGDATABASE", database),
    ];
    let mut client = server.connect().unwrap();
    let mut count = || -> i64 {
        let ask = "SELECT count(*) FROM pgbench_history";
        client.query_one(ask, &[]).unwrap().get(0)
    };
    for (arguments, environment) in [
        (
            &["-h", here, "-p", &port, "-U", user, database][..],
            &[][..],
        ),
        (&["-h", here, "-p", &port, &pairs], &[]),
        (&["-p", &port, "-h", "nowhere.invalid", &uri], &[]),
        (&[], &place),
        (&["-U", user, "-d", database], &place[..2]),
    ] {
        let before = count();
        let secret = [("PGPASSWORD", password.as_str())];
        let all = [environment, &secret].concat();
        let ran = bench(&[&["-N", "-t", "3"], arguments].concat(), &all);
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        assert_eq!(count() - before, 3, "{arguments:?}");
    }
    // An option that a connection string leaves open counts, rather than what happens to be there.
    let elsewhere = bench(
        &[
            "-S",
            "-h",
            "nowhere.invalid",
            &format!("port={port} {pairs}"),
        ],
        &[("PGPASSWORD", &password)],
    );
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
    assert!(text(&elsewhere.stderr).contains("nowhere.invalid"));
    let home = TempDir::new().unwrap();
    let home = home.path().display().to_string();
    let nobody = bench(&["-S", "-p", &port, &uri], &[("HOME", &home)]);
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    assert!(
        text(&nobody.stderr).contains("password missing; give one"),
        "{nobody:?}"
    );
}

#[test]
fn options_are_read_as_pgbench_reads_them() {
    let (_server, dsn) = server();
    let printed = |arguments: &[&str]| {
        let ran = bench(&[arguments, &[&dsn]].concat(), &[]);
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        text(&ran.stdout)
    };
    // The last of several counts, and names may be short; -v gives way to -n.
    let text = printed(&["-n", "-v", "-c1", "-c2", "--sel", "--tr=7", "--trans", "3"]);
    assert!(
        text.contains("number of transactions actually processed: 6/6"),
        "{text}"
    );
    assert!(
        text.contains("transaction type: <builtin: select only>"),
        "{text}"
    );
    let text = printed(&["-S", "-S", "-t", "3"]);
    assert!(
        text.contains("transaction type: multiple scripts"),
        "{text}"
    );
}

#[test]
fn a_run_does_without_the_vacuum_and_the_schema_that_there_are_not() {
    let (server, dsn) = server();
    let mut client = server.connect().unwrap();
    let mut holder = client.transaction().unwrap();
    // What keeps VACUUM away, and nobody else.
    holder
        .batch_execute("LOCK pgbench_branches IN SHARE UPDATE EXCLUSIVE MODE")
        .unwrap();
    let limited = format!("{dsn}?options=-clock_timeout%3D100ms");
    let ran = tenbin(&["bench", "--format", "pgbench", "-S", "-t", "3", &limited]);
    assert!(ran.status.success(), "{ran:?}");
    let warning = "warning: VACUUM pgbench_branches: canceling statement due to lock timeout";
    assert!(text(&ran.stderr).starts_with(warning), "{ran:?}");
    holder.rollback().unwrap();
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("mine.sql");
    std::fs::write(&script, "SELECT * FROM public.pgbench_branches;\n").unwrap();
    let nowhere = format!("{dsn}?options=-csearch_path%3D");
    let ran = bench(
        &["-t", "3", "-f", &script.display().to_string(), &nowhere],
        &[],
    );
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn what_makes_tables_is_refused_where_none_are_made() {
    let (_server, dsn) = server();
    for (option, name) in [
        ("--unlogged-tables", "unlogged-tables"),
        ("-F50", "fillfactor"),
    ] {
        let refused = bench(&["-S", "-t", "1", option, &dsn], &[]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = format!("give --{name} together with -i");
        assert!(text(&refused.stderr).contains(&said), "{refused:?}");
    }
}
