//! pgjdbc's own tests, from the archive of its source that stands beside it in its registry.

use super::{Place, Results};
use crate::bench::{output, printed};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "postgresql-42.7.8-jdbc-src";
const ARTIFACT: &str = "org.postgresql:postgresql:42.7.8:tar.gz:jdbc-src";
/// Whom its own build has in its server, as far as it is for tests without TLS.
pub(super) const SQL: &str = "CREATE USER test PASSWORD 'test'; ALTER DATABASE postgres OWNER TO test; \
    ALTER SCHEMA public OWNER TO test; CREATE EXTENSION hstore; CREATE EXTENSION citext";

/// Which classes have tests, as Maven takes it where nothing is said.
const ALL: &str = "*Test,*Tests,*TestCase,Test*";
/// Where it is known not to pass this one writes until the disk is full: it waits for a session to be lost.
const ENDLESS: (&str, &str) = (
    "org.postgresql.test.jdbc2.CopyTest.lockReleaseOnCancelFailure",
    ",!CopyTest#lockReleaseOnCancelFailure",
);

/// The archive, unpacked and built.
pub(super) fn prepare(folder: &Path, _quick: bool) -> Result<()> {
    if !project(folder).exists() {
        let into = format!("-DoutputDirectory={}", folder.display());
        let artifact = format!("-Dartifact={ARTIFACT}");
        maven(folder, &["dependency:copy", &artifact, &into])?;
        let at = folder.display().to_string();
        let archive = format!("{at}/{NAME}.tar.gz");
        output(Path::new("tar"), &["-xzf", &archive, "-C", &at])?;
    }
    maven(&project(folder), &["test-compile"]).map(|_| ())
}

fn project(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

fn maven(folder: &Path, arguments: &[&str]) -> Result<String> {
    printed(
        Command::new("mvn")
            .args(["--batch-mode", "--quiet"])
            .args(arguments)
            .current_dir(folder),
    )
}

pub(super) fn run(folder: &Path, place: &Place<'_>) -> Result<Results> {
    let project = project(folder);
    let reports = project.join("target/surefire-reports");
    if reports.exists() {
        std::fs::remove_dir_all(&reports)?;
    }
    let port = format!("-Dtest.url.PGPORT={}", place.port);
    let database = format!("-Dtest.url.PGDBNAME={}", place.database);
    let (endless, without) = ENDLESS;
    let without = if place.known.contains(&endless) {
        without
    } else {
        ""
    };
    let tests = format!("-Dtest={ALL}{without}");
    // That some fail is an outcome.
    let more = ["-Dtest.url.PGHOST=127.0.0.1", "-Dmaven.test.failure.ignore"];
    maven(
        &project,
        &[&["surefire:test", &tests, &port, &database][..], &more].concat(),
    )?;
    let mut results = Results::default();
    for entry in std::fs::read_dir(&reports).context("there are no reports")? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "xml") {
            read(&std::fs::read_to_string(&path)?, &mut results);
        }
    }
    let Results { passed, failed } = &mut results;
    // Those that run for several parameters may have one name.
    passed.retain(|name| !failed.contains(name));
    if passed.is_empty() {
        bail!("{}: no test passed", reports.display());
    }
    Ok(results)
}

/// Reads elements `<testcase name="…" classname="…">` and what became of them.
fn read(report: &str, results: &mut Results) {
    for case in report.split("<testcase ").skip(1) {
        let attribute = |name: &str| {
            let (_, rest) = case.split_once(&format!("{name}=\""))?;
            Some(rest.split_once('"')?.0)
        };
        // `classname` has the other's letters in it.
        let (Some(name), Some(class)) = (case.strip_prefix("name=\""), attribute("classname"))
        else {
            continue;
        };
        let name = name.split_once('"').map_or(name, |(name, _)| name);
        let full = format!("{class}.{name}");
        if case.contains("<failure") || case.contains("<error") {
            results.failed.insert(full);
        } else if !case.contains("<skipped") {
            results.passed.insert(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let mut results = Results::default();
        let report = "<testsuite name=\"a.B\">\n  <testcase name=\"one\" classname=\"a.B\" time=\"0.1\"/>\n  \
                      <testcase name=\"two[1: simple]\" classname=\"a.B\" time=\"0\">\n    \
                      <failure message=\"no\"><![CDATA[no]]></failure>\n  </testcase>\n  \
                      <testcase name=\"three\" classname=\"a.B\" time=\"0\">\n    <skipped/>\n  </testcase>\n\
                      </testsuite>";
        read(report, &mut results);
        assert_eq!(Vec::from_iter(results.passed), ["a.B.one"]);
        assert_eq!(Vec::from_iter(results.failed), ["a.B.two[1: simple]"]);
    }
}
