//! Servers that start from the same bytes.

use crate::trial::{drive, lab, passed, tpcb};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tenbin_lab::{Error, OnExisting, ServerSpec, System, Trial};

/// The file of the accounts, below the data directory.
fn accounts(sut: &System) -> PathBuf {
    let mut client = sut.server.connect().unwrap();
    let row = client.query_one("SELECT pg_relation_filepath('pgbench_accounts')", &[]);
    PathBuf::from(row.unwrap().get::<_, String>(0))
}

/// The same trial, on a server that starts from `template`.
fn from_template(mut trial: Trial, template: &Path) -> Trial {
    if let ServerSpec::Embedded(server) = &mut trial.server {
        server.template = Some(template.to_owned());
    }
    trial
}

#[test]
fn two_trials_begin_from_the_same_bytes_without_loading_again() {
    let folder = TempDir::new().unwrap();
    let template = folder.path().join("template");
    let (lab, counting) = lab();
    let source = tpcb(&folder.path().join("unused"));
    let plan = source.plan().unwrap();
    let mut sut = lab.open_for(&plan).unwrap();
    plan.load(&lab, &sut, OnExisting::Take).unwrap();
    let relative = accounts(&sut);
    sut.keep_data(&template).unwrap();
    let again = sut.keep_data(&template).unwrap_err();
    assert!(again.to_string().contains("there already"), "{again}");
    // The source goes on.
    plan.load(&lab, &sut, OnExisting::Require).unwrap();
    sut.close().unwrap();

    let kept = fs::read(template.join(&relative)).unwrap();
    for name in ["first", "second"] {
        let trial = from_template(tpcb(&folder.path().join(name)), &template);
        let plan = trial.plan().unwrap();
        let mut sut = lab.open_for(&plan).unwrap();
        let data = sut.server.data_directory.clone().unwrap();
        assert!(
            fs::read(data.join(&relative)).unwrap() == kept,
            "{name} trial: the accounts are not those of the template"
        );
        let mut found = plan.load(&lab, &sut, OnExisting::Require).unwrap();
        let (checks, committed) = drive(&lab, &sut, &trial, &mut found, true);
        assert!(passed(&checks), "{checks:?}");
        assert!(committed > 0);
        sut.restart(|| ()).unwrap();
        assert!(
            fs::read(data.join(&relative)).unwrap() != kept,
            "the trial changed accounts"
        );
        sut.close().unwrap();
    }
    assert_eq!(counting.loaded(), 1);

    let trial = from_template(source.clone(), &template);
    fs::write(template.join("PG_VERSION"), "14\n").unwrap();
    let other = lab.open_for(&trial.plan().unwrap()).map(drop).unwrap_err();
    assert!(
        matches!(&other, Error::Server(tenbin_server::Error::Template { .. })),
        "{other}"
    );
}
