//! pgx's own tests, from the Go module proxy.

use super::{Place, Results};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const VERSION: &str = "v5.10.0";
/// What its own `testsetup/postgresql_setup.sql` makes, as far as it is for tests without TLS.
pub(super) const SQL: &str = "CREATE EXTENSION hstore; CREATE EXTENSION ltree; \
    CREATE DOMAIN uint64 AS numeric(20,0); \
    CREATE USER \" tricky, ' } \"\" \\ test user \" SUPERUSER PASSWORD 'secret'";
const PACKAGE: &str = "github.com/jackc/pgx/v5";
/// Those whose tests speak to a server.
const PACKAGES: [&str; 6] = ["", "pgconn", "pgtype", "pgxpool", "stdlib", "tracelog"];

/// A module of our own that asks for one version; its tests are built with it.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    std::fs::write(
        folder.join("go.mod"),
        format!("module suites\n\ngo 1.25\n\nrequire {PACKAGE} {VERSION}\n"),
    )?;
    std::fs::write(
        folder.join("suites.go"),
        format!("package suites\n\nimport _ \"{PACKAGE}\"\n"),
    )?;
    // The first time, what the tests need is looked up and built.
    let built = go(folder, &["-run", "^$"], &PACKAGES).output()?;
    if !built.status.success() {
        bail!(
            "go test: {}\n{}",
            String::from_utf8_lossy(&built.stdout),
            String::from_utf8_lossy(&built.stderr)
        );
    }
    Ok(())
}

fn go(folder: &Path, options: &[&str], packages: &[&str]) -> Command {
    let mut command = Command::new("go");
    command
        .args(["test", "-mod=mod", "-count=1", "-vet=off", "-p=1"])
        .args(options)
        .args(
            packages
                .iter()
                .map(|name| [PACKAGE, name].join("/").trim_end_matches('/').to_owned()),
        )
        .env("GONOSUMDB", "*")
        .current_dir(folder);
    command
}

pub(super) fn run(folder: &Path, place: &Place, quick: bool) -> Result<Results> {
    let target = format!(
        "host=127.0.0.1 port={} user=postgres dbname={} sslmode=disable",
        place.port, place.database
    );
    let what = if quick {
        &PACKAGES[1..2]
    } else {
        &PACKAGES[..]
    };
    let ran = go(folder, &["-json", "-timeout=300s"], what)
        .env("PGX_TEST_DATABASE", &target)
        .env("PGX_TEST_TCP_CONN_STRING", &target)
        .output()
        .context("cannot run go")?;
    let results = read(&String::from_utf8_lossy(&ran.stdout))?;
    if results.passed.is_empty() {
        bail!("go test: {}", String::from_utf8_lossy(&ran.stderr));
    }
    Ok(results)
}

/// Reads `go test -json`; parts of a test are not counted for themselves.
fn read(printed: &str) -> Result<Results> {
    let mut results = Results::default();
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let event: serde_json::Value = serde_json::from_str(line)?;
        let text = |name: &str| event.get(name).and_then(serde_json::Value::as_str);
        let (Some(action), Some(package), Some(test)) =
            (text("Action"), text("Package"), text("Test"))
        else {
            continue;
        };
        if test.contains('/') {
            continue;
        }
        let package = package.strip_prefix(PACKAGE).unwrap_or(package);
        let name = format!(".{package} {test}");
        match action {
            "pass" => results.passed.insert(name),
            "fail" => results.failed.insert(name),
            _ => false,
        };
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let event = |action: &str, test: &str| {
            format!(
                "{{\"Action\":\"{action}\",\"Package\":\"{PACKAGE}/pgconn\",\"Test\":\"{test}\"}}\n"
            )
        };
        let printed = [
            event("run", "TestA"),
            event("pass", "TestA/part"),
            event("pass", "TestA"),
            event("fail", "TestB"),
            event("skip", "TestC"),
            "FAIL\n".to_owned(),
        ];
        let results = read(&printed.concat()).unwrap();
        assert_eq!(Vec::from_iter(results.passed), ["./pgconn TestA"]);
        assert_eq!(Vec::from_iter(results.failed), ["./pgconn TestB"]);
    }
}
