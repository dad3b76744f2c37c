//! pgx's own tests, which its module brings.

use super::{Place, Results};
use crate::bench::{output, printed};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "v5.10.0";
/// What its own `testsetup/postgresql_setup.sql` makes, as far as it is for tests without TLS.
pub(super) const SQL: &str = "CREATE EXTENSION hstore; CREATE EXTENSION ltree; \
    CREATE DOMAIN uint64 AS numeric(20,0); \
    CREATE USER \" tricky, ' } \"\" \\ test user \" SUPERUSER PASSWORD 'secret'";
const PACKAGE: &str = "github.com/jackc/pgx/v5";
/// Those whose tests speak to a server.
const PACKAGES: [&str; 6] = ["", "pgconn", "pgtype", "pgxpool", "stdlib", "tracelog"];

/// What a selection is.
const SELECTION: [&str; 1] = ["pgconn"];

/// A test that has not ended by then is one that hangs. Each runs in a process of its own, so that it costs
/// nobody else's outcome; those of a selection, of which none is known to hang, in one for a package.
const LIMIT: &str = "60s";
/// Tests at a time, of those that allow others beside them: they wait more than they work.
const PARALLEL: &str = "16";

/// A module of our own that asks for one version; its tests are built with it, a program for each package.
pub(super) fn prepare(folder: &Path, quick: bool) -> Result<()> {
    std::fs::write(
        folder.join("go.mod"),
        format!("module suites\n\ngo 1.25\n\nrequire {PACKAGE} {VERSION}\n"),
    )?;
    std::fs::write(
        folder.join("suites.go"),
        format!("package suites\n\nimport _ \"{PACKAGE}\"\n"),
    )?;
    for name in packages(quick) {
        let program = program(folder, name);
        if !program.exists() {
            // The first time, what the tests need is looked up.
            let program = program.display().to_string();
            let build = ["test", "-mod=mod", "-vet=off", "-c", "-o", &program];
            go(folder, &build, name)?;
        }
    }
    Ok(())
}

fn packages(quick: bool) -> &'static [&'static str] {
    if quick { &SELECTION } else { &PACKAGES }
}

fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("pgx{VERSION}{name}.test"))
}

/// What go prints about a package.
fn go(folder: &Path, arguments: &[&str], name: &str) -> Result<String> {
    printed(
        Command::new("go")
            .args(arguments)
            .arg([PACKAGE, name].join("/").trim_end_matches('/'))
            .env("GONOSUMDB", "*")
            .current_dir(folder),
    )
}

pub(super) fn run(folder: &Path, place: &Place<'_>) -> Result<Results> {
    let mut results = Results::default();
    for name in packages(place.quick) {
        let package = [".", name].join("/");
        let package = package.trim_end_matches('/');
        let source = go(folder, &["list", "-mod=mod", "-f", "{{.Dir}}"], name)?;
        let program = program(folder, name);
        let printed = |tests: &str| printed_by(&program, Path::new(source.trim()), place, tests);
        let full = |test: &str| [package, test].join(" ");
        let known = |test: &str| place.known.contains(&full(test).as_str());
        let all = output(&program, &["-test.list", "^(Test|Example|Fuzz)"])?;
        let mut tests: Vec<&str> = all.lines().collect();
        let mut together = String::new();
        if place.quick {
            tests.retain(|test| !known(test));
            together = printed(&tests.join("|"))?;
        }
        for test in tests {
            let alone = if place.quick {
                None
            } else {
                Some(printed(test)?)
            };
            match outcome(alone.as_deref().unwrap_or(&together), test) {
                Outcome::Passed => results.passed.insert(full(test)),
                Outcome::Failed => results.failed.insert(full(test)),
                Outcome::Skipped => false,
            };
        }
    }
    Ok(results)
}

/// Runs tests where they find their files, and gives what they print.
fn printed_by(program: &Path, source: &Path, place: &Place<'_>, tests: &str) -> Result<String> {
    let target = format!(
        "host=127.0.0.1 port={} user=postgres dbname={} sslmode=disable",
        place.port, place.database
    );
    let ran = Command::new(program)
        .args(["-test.v", "-test.timeout", LIMIT])
        .args(["-test.parallel", PARALLEL, "-test.run"])
        .arg(format!("^({tests})$"))
        .current_dir(source)
        .env("PGX_TEST_DATABASE", &target)
        .env("PGX_TEST_TCP_CONN_STRING", &target)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// Finds the line of the test itself; parts of it, whose lines stand further in, are not counted.
fn outcome(printed: &str, test: &str) -> Outcome {
    let is = |word: &str| {
        let start = format!("--- {word}: {test} (");
        printed.lines().any(|line| line.starts_with(&start))
    };
    if is("PASS") {
        Outcome::Passed
    } else if is("SKIP") {
        Outcome::Skipped
    } else {
        Outcome::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let printed = "=== RUN   TestA\n=== RUN   TestA/part\n--- PASS: TestA (0.01s)\n    \
                       --- FAIL: TestA/part (0.00s)\n--- FAIL: TestB (0.00s)\n--- SKIP: TestC (0.00s)\n\
                       === RUN   TestD\npanic: test timed out after 60s\n";
        let of = |test| outcome(printed, test);
        assert_eq!(of("TestA"), Outcome::Passed);
        assert_eq!(of("TestB"), Outcome::Failed);
        assert_eq!(of("TestC"), Outcome::Skipped);
        assert_eq!(of("TestD"), Outcome::Failed);
    }
}
