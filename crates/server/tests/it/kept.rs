//! Servers that are to stay.

use crate::{lives, open_directory};
use std::fs;
use std::path::Path;
use tenbin_server::{Embedded, Error, Options, Progress, Source, kept};

fn debian() -> Options {
    Options {
        source: Source::bin("/usr/lib/postgresql/15/bin"),
        ..Options::default()
    }
}

/// The servers kept in `directory`, as `list` has them.
fn listed(directory: &Path) -> Vec<kept::Kept> {
    let mut kept = kept::list().unwrap();
    kept.retain(|kept| kept.directory == directory);
    kept
}

#[test]
fn stays_until_it_is_stopped_and_comes_again() {
    let place = open_directory();
    let directory = place.path().join("server");
    let (first, notes) = kept::start(debian(), &directory).unwrap();
    assert_eq!(notes, [] as [String; 0]);
    let pid = first.postmaster_pid.unwrap();
    let mut client = first.server().unwrap().connect().unwrap();
    client
        .batch_execute("CREATE TABLE t AS SELECT 7 AS a")
        .unwrap();
    drop(client);
    first
        .tcp_target()
        .unwrap()
        .config()
        .connect(postgres::NoTls)
        .unwrap();

    // Whoever starts another server leaves this one alone.
    drop(Embedded::start(debian()).unwrap());
    assert_eq!(listed(&directory).len(), 1);
    assert_eq!(listed(&directory)[0].postmaster_pid, Some(pid));
    let error = kept::start(debian(), &directory).unwrap_err();
    assert!(
        matches!(error, Error::DataDirectoryInUse { pid: found, .. } if found == pid),
        "{error}"
    );

    let stopped = kept::stop(&directory, &Progress::silent()).unwrap();
    assert_eq!(stopped.postmaster_pid, None);
    assert!(!lives(pid));
    assert_eq!(listed(&directory)[0].postmaster_pid, None);

    // A setting it refuses does no harm to what is there.
    let mut wrong = debian();
    wrong.settings = vec![("work_mem".into(), "lots".into())];
    let error = kept::start(wrong, &directory).unwrap_err();
    assert!(matches!(error, Error::Setting { .. }), "{error}");
    let mut wrong = debian();
    wrong.source = Source::release("18").unwrap();
    let error = kept::start(wrong, &directory).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("it holds a cluster of PostgreSQL 15"),
        "{error}"
    );

    let (second, _) = kept::start(debian(), &directory).unwrap();
    let mut client = second.server().unwrap().connect().unwrap();
    let a: i32 = client.query_one("SELECT a FROM t", &[]).unwrap().get(0);
    assert_eq!(a, 7);
    drop(client);
    kept::stop(&directory, &Progress::silent()).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert!(listed(&directory).is_empty());
}

#[test]
fn never_in_what_is_someone_elses() {
    let place = open_directory();
    fs::write(place.path().join("letter"), "dear").unwrap();
    let error = kept::start(debian(), place.path()).unwrap_err();
    assert!(matches!(error, Error::DataDirectory { .. }), "{error}");
    assert_eq!(error.class().exit_code(), 2);
    assert_eq!(crate::names(place.path()).len(), 1);

    let embedded = Embedded::start(debian()).unwrap();
    for directory in [embedded.root().to_owned(), embedded.data_directory()] {
        let error = kept::start(debian(), &directory).unwrap_err();
        let pid = embedded.postmaster_pid();
        assert!(
            matches!(error, Error::DataDirectoryInUse { pid: found, .. } if found == pid),
            "{error}"
        );
    }
    embedded.connect().unwrap();
    let error = kept::stop(place.path(), &Progress::silent()).unwrap_err();
    assert!(matches!(error, Error::NoSuchServer { .. }), "{error}");
}

#[test]
fn an_empty_directory_stays_when_nothing_came_of_it() {
    let place = open_directory();
    let mut wrong = debian();
    wrong.settings = vec![("work_mem".into(), "lots".into())];
    let error = kept::start(wrong, place.path()).unwrap_err();
    assert!(matches!(error, Error::Setting { .. }), "{error}");
    assert!(place.path().is_dir());
    assert_eq!(crate::names(place.path()), [] as [std::path::PathBuf; 0]);
    assert!(listed(place.path()).is_empty());
}
