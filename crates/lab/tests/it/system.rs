//! Servers from plain values.

use std::path::PathBuf;
use tenbin_lab::{Error, Needs, Pooler, ServerSpec, System, ViaSpec};
use tenbin_server::Progress;

const DEBIAN: &str = r#"{"embedded": {
    "programs": {"installed": "/usr/lib/postgresql/15/bin"},
    "settings": {"work_mem": "5MB"}
}}"#;

#[test]
fn a_server_is_opened_from_its_description() {
    let spec: ServerSpec = serde_json::from_str(DEBIAN).unwrap();
    let sut = System::open(&spec, Needs::default(), Progress::silent()).unwrap();
    let record = sut.record();
    assert!(record.version.starts_with("15."), "{}", record.version);
    let work_mem = &record.settings["work_mem"];
    assert_eq!(work_mem.value, "5MB");
    assert_eq!(work_mem.reason.as_deref(), Some("given by --set"));
    assert_eq!(sut.schema().unwrap(), "public");

    // The same server as an existing one: nothing is created on it, nor is it stopped.
    let dsn = ServerSpec::Dsn(sut.server.target.to_string());
    let needs = Needs {
        tablespaces: vec![("fast".to_owned(), PathBuf::from("/tmp"))],
        ..Needs::default()
    };
    let refused = System::open(&dsn, needs, Progress::silent());
    assert!(matches!(refused, Err(Error::ForeignTablespaces)));
    let data = sut.server.data_directory.clone().unwrap();
    sut.close().unwrap();
    assert!(!data.exists());
}

#[test]
fn descriptions_keep_what_they_say_and_refuse_what_they_do_not_know() {
    let spec: ServerSpec = serde_json::from_str(DEBIAN).unwrap();
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<ServerSpec>(&text).unwrap(), spec);
    let wrong = r#"{"embedded": {"setings": {}}}"#;
    assert!(serde_json::from_str::<ServerSpec>(wrong).is_err());

    let via: ViaSpec = serde_json::from_str(r#"{"pooler": "pgbouncer"}"#).unwrap();
    let expected = ViaSpec {
        pooler: Pooler::PgBouncer,
        pool_size: 20,
    };
    assert_eq!(via, expected);
}
