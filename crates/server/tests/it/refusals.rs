//! What is refused, and what is said then.

use crate::{Small, names, needs_root, open_directory};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tenbin_server::{Account, Cache, Embedded, Error, Options, Progress, Server, Source, kept};

const DEBIAN: &str = "/usr/lib/postgresql/15/bin";

fn refused(options: Options) -> Error {
    match Embedded::start(options) {
        Ok(embedded) => panic!("it started in {}", embedded.root().display()),
        Err(error) => error,
    }
}

/// Starts below a directory of its own, which must be empty again after the refusal.
fn refused_leaving_nothing(options: Options) -> Error {
    let run = open_directory();
    let error = refused(Options {
        run_root: Some(run.path().to_owned()),
        ..options
    });
    assert_eq!(names(run.path()), [] as [PathBuf; 0]);
    error
}

#[test]
fn settings_that_the_server_refuses() {
    let newest = [
        (
            "work_mem",
            "lots",
            "invalid value for parameter \"work_mem\": \"lots\"",
        ),
        (
            "sharde_buffers",
            "1GB",
            "unrecognized configuration parameter \"sharde_buffers\"",
        ),
        (
            "max_connections",
            "0",
            "outside the valid range for parameter \"max_connections\"",
        ),
        ("wal_level", "minimal", "wal_level"),
    ];
    let oldest = [
        ("jit", "on", "unrecognized configuration parameter \"jit\""),
        (
            "superuser_reserved_connections",
            "100",
            "superuser_reserved_connections",
        ),
        ("max_connections", "1", "max_connections"),
    ];
    for (release, cases) in [("18", newest.as_slice()), ("9.6", &oldest)] {
        // One cluster for all: a server that is kept, and stopped.
        let place = open_directory();
        let options = |settings| Options {
            source: Source::release(release).unwrap(),
            settings,
            ..Options::default()
        };
        kept::start(options(Vec::new()), place.path()).unwrap();
        kept::stop(place.path(), &Progress::silent()).unwrap();
        for (name, value, words) in cases {
            let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let settings = vec![pair("maintenance_work_mem", "8MB"), pair(name, value)];
            let error = kept::start(options(settings), place.path()).unwrap_err();
            assert_eq!(error.class().exit_code(), 2, "{error}");
            match &error {
                Error::Setting { given, message } => {
                    assert_eq!(*given, format!("{name}={value}"), "{error}");
                    assert!(message.contains(words), "{error}");
                }
                other => panic!("{other}"),
            }
        }
        drop(place);
        // Asked for the list, it forgets what is gone.
        kept::list().unwrap();
    }
}

#[test]
fn a_setting_refused_leaves_nothing() {
    let error = refused_leaving_nothing(Options {
        settings: vec![("work_mem".into(), "lots".into())],
        ..Options::default()
    });
    assert!(matches!(error, Error::Setting { .. }), "{error}");
}

#[test]
fn memory_that_is_not_there() {
    let error = refused_leaving_nothing(Options {
        settings: vec![("shared_buffers".into(), "4000GB".into())],
        ..Options::default()
    });
    assert!(error.to_string().contains("shared_buffers"), "{error}");
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = refused_leaving_nothing(Options {
        port: Some(port),
        ..Options::default()
    });
    assert!(
        matches!(error, Error::PortInUse { port: found } if found == port),
        "{error}"
    );
    assert_eq!(error.class().exit_code(), 2);
}

#[test]
fn a_directory_the_servers_user_cannot_reach() {
    if !needs_root("a_directory_the_servers_user_cannot_reach") {
        return;
    }
    let closed = open_directory();
    let inner = closed.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    for options in [
        Options {
            run_root: Some(inner.clone()),
            ..Options::default()
        },
        Options {
            wal_parent: Some(inner.clone()),
            ..Options::default()
        },
        Options {
            tablespaces: vec![("t".into(), inner.clone())],
            ..Options::default()
        },
    ] {
        let error = refused(options);
        let said = format!("chmod o+x {}", closed.path().display());
        assert!(error.to_string().contains(&said), "{error}");
        assert_eq!(error.class().exit_code(), 3);
    }
}

#[test]
fn a_file_system_with_no_room() {
    if !needs_root("a_file_system_with_no_room") {
        return;
    }
    let small = Small::mount(1 << 20);
    let error = refused(Options {
        run_root: Some(small.path().to_owned()),
        ..Options::default()
    });
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    let error = Source::release("9.6.24")
        .unwrap()
        .find(
            &Cache::at(small.path()),
            &Account::for_server(),
            &Progress::silent(),
        )
        .unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("unpacking PostgreSQL 9.6.24 needs 200.0 MB"),
        "{error}"
    );
    assert_eq!(error.class().exit_code(), 3);
}

#[test]
fn a_cache_that_cannot_be_read() {
    let place = open_directory();
    let file = place.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let find = |cache: &Path| {
        Source::release("9.6.24")
            .unwrap()
            .find(
                &Cache::at(cache),
                &Account::for_server(),
                &Progress::silent(),
            )
            .unwrap_err()
    };
    let error = find(&file);
    assert!(matches!(error, Error::Cache { .. }), "{error}");
    assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
    if needs_root("a_cache_that_cannot_be_read, as root") {
        let open_to_all = place.path().join("cache");
        fs::create_dir(&open_to_all).unwrap();
        fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o777)).unwrap();
        let error = find(&open_to_all);
        assert!(
            error
                .to_string()
                .contains("users other than root can change"),
            "{error}"
        );
    }
}

/// The cached build of 9.6.24, fetched if need be.
fn cached() -> PathBuf {
    let source = Source::release("9.6.24").unwrap();
    let cache = Cache::for_user().unwrap();
    let found = source
        .find(&cache, &Account::for_server(), &Progress::silent())
        .unwrap();
    found.installation.bin.parent().unwrap().to_owned()
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_cached_build_that_has_changed() {
    let place = open_directory();
    let build = place.path().join("postgresql-9.6.24");
    copy(&cached(), &build);
    let source = Source::release("9.6.24").unwrap();
    let find = || {
        source.find(
            &Cache::at(place.path()),
            &Account::for_server(),
            &Progress::silent(),
        )
    };
    assert_eq!(find().unwrap().installation.bin, build.join("bin"));
    let program = build.join("bin/postgres");
    let mut bytes = fs::read(&program).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&program, bytes).unwrap();
    let error = find().unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("bin/postgres has the wrong checksum (SHA-256 "),
        "{error}"
    );
    assert_eq!(error.class().exit_code(), 3);
    // The mend it names is one.
    fs::remove_dir_all(&build).unwrap();
    assert_eq!(find().unwrap().installation.bin, build.join("bin"));
}

#[test]
fn a_program_whose_libraries_are_missing() {
    let place = open_directory();
    let bin = place.path().join("bin");
    // Without the lib directory beside it.
    let newest = Source::default();
    let found = newest.find(
        &Cache::for_user().unwrap(),
        &Account::for_server(),
        &Progress::silent(),
    );
    copy(&found.unwrap().installation.bin, &bin);
    let error = refused(Options {
        source: Source::bin(&bin),
        ..Options::default()
    });
    assert!(matches!(error, Error::Libraries { .. }), "{error}");
    let said = error.to_string();
    // Of a release of OpenSSL and ICU that no current Debian has.
    assert!(
        said.contains("libssl.so.1.1") && said.contains("libicuuc.so.60"),
        "{said}"
    );
    assert!(
        said.contains("apt install ") && said.contains("libssl1.1"),
        "{said}"
    );
    assert_eq!(error.class().exit_code(), 3);
}

#[test]
fn directories_that_hold_no_server() {
    let place = open_directory();
    for directory in [
        place.path(),
        Path::new("/proc/absent"),
        Path::new("/usr/bin"),
    ] {
        let error = refused(Options {
            source: Source::bin(directory),
            ..Options::default()
        });
        assert!(matches!(error, Error::NotAnInstallation { .. }), "{error}");
        assert_eq!(error.class().exit_code(), 2);
    }
}

#[test]
fn releases_that_there_are_not() {
    for text in ["8.4", "19", "17.5.1", "new"] {
        let error = Source::release(text).unwrap_err();
        assert!(error.to_string().contains("9.6, 10, 11"), "{error}");
        assert_eq!(error.class().exit_code(), 2);
    }
    let error = refused(Options {
        source: Source::release("16.99").unwrap(),
        ..Options::default()
    });
    assert!(matches!(error, Error::NoSuchRelease { .. }), "{error}");
    assert!(
        error.to_string().contains("the newest of 16 is 16."),
        "{error}"
    );
}

#[test]
fn connection_strings_that_lead_nowhere() {
    for (dsn, exit_code) in [
        ("postgres://me@127.0.0.1:1/db", 3),
        ("host=/proc/absent user=me", 3),
        ("postgres://me@[::1", 2),
        ("postgres://me@localhost/db?sslmode=require", 2),
    ] {
        let error = Server::at_dsn(dsn).unwrap_err();
        assert_eq!(error.class().exit_code(), exit_code, "{error}");
    }
    let embedded = Embedded::start(Options {
        source: Source::bin(DEBIAN),
        ..Options::default()
    })
    .unwrap();
    let mut target = embedded.target();
    target.database = "nowhere".into();
    let error = Server::at(target).unwrap_err();
    assert!(error.to_string().contains("create the database"), "{error}");
}
