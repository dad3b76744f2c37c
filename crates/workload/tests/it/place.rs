//! Tablespaces, and disks that are full.

use crate::support::{Database, small_options};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use tenbin_server::{Embedded, Options};
use tenbin_workload::load::{Aftermath, LoadError};
use tenbin_workload::tpcc::load::{Existing, LoadOptions};
use tenbin_workload::tpcc::rules::Rules;

/// A directory that the server's user can reach.
fn open_directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new()
        .prefix("tenbin-test-")
        .tempdir_in("/var/tmp")
        .unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

fn server(tablespaces: Vec<(String, PathBuf)>) -> Arc<Embedded> {
    let options = Options {
        tablespaces,
        ..Options::default()
    };
    Arc::new(Embedded::start(options).unwrap())
}

#[test]
fn tables_and_indexes_go_where_they_are_placed() {
    let (fast, vast) = (open_directory(), open_directory());
    let server = server(vec![
        ("fast".into(), fast.path().into()),
        ("vast".into(), vast.path().into()),
    ]);
    let options = LoadOptions {
        tablespaces: [
            ("stock", "fast"),
            ("customer_last", "fast"),
            ("order_line_pkey", "fast"),
            ("history", "vast"),
        ]
        .map(|(name, space)| (name.to_owned(), space.to_owned()))
        .into(),
        ..small_options(2)
    };
    let placed = |database: &Database| {
        database.ask(
            "SELECT string_agg(relname || ' ' || spcname, ', ' ORDER BY relname COLLATE \"C\") \
             FROM pg_class JOIN pg_tablespace t ON t.oid = reltablespace \
             WHERE spcname IN ('fast', 'vast') AND relkind IN ('r', 'i') AND relname !~ 'pg_'",
        )
    };
    let plain = Database::on(Arc::clone(&server), "template0");
    plain.load(&options).unwrap();
    assert_eq!(
        placed(&plain),
        "customer_last fast, history vast, order_line_pkey fast, stock fast"
    );
    let mut partitioned = LoadOptions {
        partitions: Some(2),
        ..options
    };
    partitioned
        .tablespaces
        .insert("stock_p1".into(), "vast".into());
    let database = Database::on(server, "template0");
    database.load(&partitioned).unwrap();
    assert_eq!(
        placed(&database),
        "customer_last_p0 fast, customer_last_p1 fast, history_p0 vast, history_p1 vast, \
         order_line_pkey_p0 fast, order_line_pkey_p1 fast, stock_p0 fast, stock_p1 vast"
    );
}

/// A file system of its own in memory.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Self {
        let directory = open_directory();
        let options = format!("size={size},mode=755");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(directory.path())
            .status();
        assert!(mounted.unwrap().success());
        Self(directory)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(std::thread::panicking() || unmounted.unwrap().success());
    }
}

#[test]
fn a_full_disk_ends_the_load_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        println!("a_full_disk_ends_the_load_and_nothing_else: needs root, skipped");
        return;
    }
    let disk = Small::mount("8m");
    let server = server(vec![("tiny".into(), disk.0.path().into())]);
    let database = Database::on(server, "template0");
    database.run("CREATE TABLE mine TABLESPACE tiny AS SELECT 42 AS answer");
    let options = |name: &str| LoadOptions {
        warehouses: 1,
        tablespaces: [(name.to_owned(), "tiny".to_owned())].into(),
        rules: Rules {
            customers_per_district: 1_000,
            items: 40_000,
            ..Rules::default()
        },
        ..LoadOptions::default()
    };
    for name in ["stock", "order_line"] {
        let outcome = database.load(&options(name));
        let Err(error @ LoadError::DiskFull { aftermath, .. }) = &outcome else {
            panic!("{name}: {outcome:?}");
        };
        assert_eq!(*aftermath, Aftermath::Removed);
        let message = error.to_string();
        assert!(
            message.contains(&format!("copying into {name}, warehouses 1..=1")),
            "{message}"
        );
        assert!(message.contains("make room or load less"), "{message}");
        assert_eq!(database.inspect(), Existing::Nothing);
        assert_eq!(database.ask("SELECT answer FROM mine"), "42");
    }
    database.load(&small_options(1)).unwrap();
    drop(database);
    drop(disk);
}
