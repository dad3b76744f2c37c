//! Starting, using and stopping.

use crate::{lives, open_directory};
use tenbin_server::{Cache, Embedded, Error, Options, Origin, Server, Source};

const DEBIAN: &str = "/usr/lib/postgresql/15/bin";

fn start(source: Source) -> Embedded {
    Embedded::start(Options {
        source,
        ..Options::default()
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn lives_and_leaves_nothing(source: Source, major: &str, origin: Origin) {
    let embedded = start(source);
    let root = embedded.root().to_owned();
    let pid = embedded.postmaster_pid();
    let server = embedded.server().unwrap();
    assert_eq!(server.version.major().to_string(), major);
    assert_eq!(server.origin, origin);
    assert_eq!(server.postmaster_pid, Some(pid));
    assert_eq!(server.data_directory, Some(embedded.data_directory()));
    assert!(server.build.version.starts_with("PostgreSQL"));
    assert!(server.build.cflags.as_ref().unwrap().contains("-O"));
    for name in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(server.setting(name), Some("on"));
    }
    // Every default has arrived as it was meant.
    let mut client = embedded.connect().unwrap();
    for setting in embedded.settings() {
        let sql = "SELECT source FROM pg_settings WHERE lower(name) = $1";
        let source: String = client.query_one(sql, &[&setting.name]).unwrap().get(0);
        assert_eq!(source, "configuration file", "{}", setting.name);
        assert!(!setting.reason.is_empty());
    }
    let one: i32 = client.query_one("SELECT 6 * 7", &[]).unwrap().get(0);
    assert_eq!(one, 42);
    embedded.stop().unwrap();
    assert!(!root.exists());
    assert!(!lives(pid));
}

#[test]
fn the_newest() {
    lives_and_leaves_nothing(Source::default(), "18", Origin::Embedded);
}

#[test]
fn the_oldest() {
    lives_and_leaves_nothing(Source::release("9.6").unwrap(), "9.6", Origin::Embedded);
}

#[test]
fn an_installed_one() {
    lives_and_leaves_nothing(Source::bin(DEBIAN), "15", Origin::Installed);
}

#[test]
fn started_again_it_has_its_data_and_leaves_nothing() {
    let mut embedded = start(Source::default());
    let make = "CREATE TABLE kept (id int); INSERT INTO kept VALUES (42)";
    embedded.connect().unwrap().batch_execute(make).unwrap();
    let (root, before) = (embedded.root().to_owned(), embedded.postmaster_pid());
    let alive = embedded.restart(|| lives(before)).unwrap();
    assert!(!alive, "nothing runs between stopping and starting");
    let after = embedded.postmaster_pid();
    assert_ne!(before, after);
    let mut client = embedded.connect().unwrap();
    let id: i32 = client.query_one("SELECT id FROM kept", &[]).unwrap().get(0);
    assert_eq!(id, 42);
    drop(client);
    embedded.stop().unwrap();
    assert!(!root.exists() && !lives(after));
}

#[test]
fn over_tcp_only_with_the_password() {
    for release in ["18", "9.6"] {
        let embedded = start(Source::release(release).unwrap());
        let mut target = embedded.tcp_target();
        target.config().connect(postgres::NoTls).unwrap();
        target.password = Some("guess".to_owned());
        let error = Server::at(target).unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
        assert!(error.to_string().contains("PGPASSWORD"), "{error}");
        assert_eq!(error.class().exit_code(), 3);
    }
}

#[test]
fn servers_are_copies_of_one_cluster_each_with_its_own_password() {
    let cache = Cache::for_user().unwrap().directory().to_owned();
    let is_kept = || {
        let entries = std::fs::read_dir(&cache).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        names.any(|name| name.to_string_lossy().starts_with("cluster-15"))
    };
    // The first server's is kept, unless another process is changing the cache at that moment.
    let kept = is_kept() || (0..5).any(|_| start(Source::bin(DEBIAN)).stop().is_ok() && is_kept());
    assert!(kept, "no cluster of PostgreSQL 15 in {}", cache.display());
    let (one, other) = (start(Source::bin(DEBIAN)), start(Source::bin(DEBIAN)));
    // `initdb` would draw another one each time.
    let identifier = |embedded: &Embedded| -> i64 {
        let sql = "SELECT system_identifier FROM pg_control_system()";
        let mut client = embedded.connect().unwrap();
        client.query_one(sql, &[]).unwrap().get(0)
    };
    assert_eq!(identifier(&one), identifier(&other));
    let mut target = one.tcp_target();
    target.config().connect(postgres::NoTls).unwrap();
    target.password = other.tcp_target().password;
    assert!(target.config().connect(postgres::NoTls).is_err());
}

#[test]
fn the_users_settings_reach_the_server() {
    let embedded = Embedded::start(Options {
        settings: vec![
            ("work_mem".into(), "7MB".into()),
            ("shared_buffers".into(), "64MB".into()),
            ("bench.note".into(), "it's \\ odd".into()),
        ],
        connections: 500,
        ..Options::default()
    })
    .unwrap();
    let server = embedded.server().unwrap();
    assert_eq!(server.setting("work_mem"), Some("7MB"));
    assert_eq!(server.setting("shared_buffers"), Some("64MB"));
    let mut client = embedded.connect().unwrap();
    let note: String = client.query_one("SHOW bench.note", &[]).unwrap().get(0);
    assert_eq!(note, "it's \\ odd");
    assert_eq!(server.setting("max_connections"), Some("520"));
    // The telling ones are there at their defaults too.
    for name in [
        "data_checksums",
        "block_size",
        "jit",
        "io_method",
        "wal_level",
    ] {
        assert!(server.setting(name).is_some(), "{name}");
    }
}

#[test]
fn log_and_tablespaces_go_where_they_are_sent() {
    let (one, two) = (open_directory(), open_directory());
    let embedded = Embedded::start(Options {
        source: Source::bin(DEBIAN),
        wal_parent: Some(one.path().to_owned()),
        tablespaces: vec![
            ("fast".into(), two.path().to_owned()),
            ("near \"it\"".into(), one.path().to_owned()),
        ],
        ..Options::default()
    })
    .unwrap();
    let sql = "CREATE TABLE t TABLESPACE fast AS SELECT 1 AS a";
    embedded.connect().unwrap().batch_execute(sql).unwrap();
    let placement = embedded.server().unwrap().placement;
    let place = |name: &str| {
        let found = placement.iter().find(|(known, _)| known == name);
        found
            .unwrap_or_else(|| panic!("{name} in {placement:?}"))
            .1
            .clone()
    };
    assert!(place("wal").starts_with(one.path()));
    assert!(place("wal").join("000000010000000000000001").exists());
    assert!(place("fast").starts_with(two.path()));
    assert!(place("near \"it\"").starts_with(one.path()));
    drop(embedded);
    for directory in [&one, &two] {
        assert_eq!(
            crate::names(directory.path()),
            [] as [std::path::PathBuf; 0]
        );
    }
}

#[test]
fn a_panic_leaves_nothing() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let embedded = start(Source::bin(DEBIAN));
        let held = (embedded.root().to_owned(), embedded.postmaster_pid());
        sender.send(held).unwrap();
        panic!("on purpose");
    });
    let (root, pid) = receiver.recv().unwrap();
    assert!(thread.join().is_err());
    assert!(!root.exists());
    assert!(!lives(pid));
}

#[test]
fn a_server_of_someone_else_is_described_and_left_alone() {
    let embedded = start(Source::bin(DEBIAN));
    let sql = "CREATE ROLE guest LOGIN; CREATE DATABASE guests OWNER guest";
    for statement in sql.split(';') {
        embedded
            .connect()
            .unwrap()
            .batch_execute(statement)
            .unwrap();
    }
    let mut target = embedded.target();
    target.user = "guest".into();
    target.database = "guests".into();
    let server = Server::at(target).unwrap();
    assert_eq!(server.origin, Origin::Dsn);
    assert_eq!(server.postmaster_pid, Some(embedded.postmaster_pid()));
    assert_eq!(server.setting("fsync"), Some("on"));
    // Not for every role to know.
    assert_eq!(server.data_directory, None);
    assert_eq!(server.build.cflags, None);
}
