//! Starting, using and stopping.

use tenbin_server::{Embedded, Options, Source};

fn start(source: Source) -> Embedded {
    Embedded::start(Options {
        source,
        ..Options::default()
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn lives_and_leaves_nothing(source: Source, major: &str) {
    let embedded = start(source);
    let root = embedded.root().to_owned();
    let pid = embedded.postmaster_pid();
    let server = embedded.server().unwrap();
    assert_eq!(server.version.major().to_string(), major);
    assert_eq!(server.postmaster_pid, Some(pid));
    assert_eq!(server.setting("fsync"), Some("on"));
    let row = embedded
        .connect()
        .unwrap()
        .query_one("SELECT 6 * 7", &[])
        .unwrap();
    assert_eq!(row.get::<_, i32>(0), 42);
    embedded
        .tcp_target()
        .config()
        .connect(postgres::NoTls)
        .unwrap();
    embedded.stop().unwrap();
    assert!(!root.exists());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn the_newest() {
    lives_and_leaves_nothing(Source::default(), "18");
}

#[test]
fn the_oldest() {
    lives_and_leaves_nothing(Source::release("9.6").unwrap(), "9.6");
}

#[test]
fn an_installed_one() {
    lives_and_leaves_nothing(Source::bin("/usr/lib/postgresql/15/bin"), "15");
}
