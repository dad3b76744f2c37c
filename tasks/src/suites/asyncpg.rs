//! asyncpg's own tests, from its source distribution.

use super::{Place, Results};
use crate::bench::output;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const VERSION: &str = "0.32.0";
const PACKAGES: [&str; 4] = [
    "asyncpg==0.32.0",
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "distro==1.9.0",
];
/// Files that are quick and are about the protocol.
const SELECTION: [&str; 4] = [
    "tests/test_cancellation.py",
    "tests/test_cursor.py",
    "tests/test_prepare.py",
    "tests/test_transaction.py",
];

/// The packages, and beside them the tests, which are in no wheel.
pub(super) fn prepare(folder: &Path, _quick: bool) -> Result<()> {
    if folder.join("tests").exists() {
        return Ok(());
    }
    let at = folder.display().to_string();
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"];
    let packages = folder.join("packages").display().to_string();
    let install = [
        "install",
        "--root-user-action=ignore",
        "--target",
        &packages,
    ];
    output(
        Path::new("python3"),
        &[&pip[..], &install, &PACKAGES].concat(),
    )?;
    let source = ["download", "--no-deps", "--no-binary", "asyncpg", "-d", &at];
    output(
        Path::new("python3"),
        &[&pip[..], &source, &PACKAGES[..1]].concat(),
    )?;
    let name = format!("asyncpg-{VERSION}");
    let archive = format!("{at}/{name}.tar.gz");
    let unpack = ["-xzf", &archive, "-C", &at, "--strip-components=1"];
    let tests = format!("{name}/tests");
    output(Path::new("tar"), &[&unpack[..], &[tests.as_str()]].concat()).map(|_| ())
}

pub(super) fn run(folder: &Path, place: &Place<'_>) -> Result<Results> {
    let what = if place.quick {
        &SELECTION[..]
    } else {
        &["tests"]
    };
    let ran = Command::new("python3")
        .args(["-m", "pytest", "-v", "--tb=no", "--timeout=120"])
        .args(["-p", "no:cacheprovider", "-W", "ignore"])
        .args(what)
        .current_dir(folder)
        .env("PYTHONPATH", folder.join("packages"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", place.port.to_string())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", &place.database)
        .output()
        .context("cannot run python3")?;
    let printed = String::from_utf8_lossy(&ran.stdout);
    let results = read(&printed);
    // 0: all passed; 1: some did not.
    if !matches!(ran.status.code(), Some(0 | 1)) {
        bail!("pytest ended with {}:\n{printed}", ran.status);
    }
    Ok(results)
}

/// Reads what pytest prints: lines `tests/test_a.py::Class::test[a value] PASSED [ 1%]`.
pub(super) fn read(printed: &str) -> Results {
    let mut results = Results::default();
    for line in printed.lines().filter(|line| line.starts_with("tests/")) {
        let with = |outcome: &str| line.rsplit_once(outcome).map(|(name, _)| name.to_owned());
        if let Some(name) = with(" PASSED") {
            results.passed.insert(name);
        } else if let Some(name) = with(" FAILED").or_else(|| with(" ERROR")) {
            results.failed.insert(name);
        }
    }
    // A test whose taking down fails is there twice.
    let Results { passed, failed } = &mut results;
    passed.retain(|name| !failed.contains(name));
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let printed = "tests/a.py::A::one PASSED [ 1%]\ntests/a.py::A::two FAILED [ 2%]\n\
                       tests/a.py::A::three SKIPPED (no) [ 3%]\ntests/a.py::A::four PASSED [ 4%]\n\
                       tests/a.py::A::four ERROR [ 4%]\ntests/a.py::five[a b] PASSED [ 5%]\n=== 2 passed ===\n";
        let results = read(printed);
        assert_eq!(
            Vec::from_iter(results.passed),
            ["tests/a.py::A::one", "tests/a.py::five[a b]"]
        );
        assert_eq!(
            Vec::from_iter(results.failed),
            ["tests/a.py::A::four", "tests/a.py::A::two"]
        );
    }
}
