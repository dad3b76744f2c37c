//! tokio-postgres' own tests, which its package brings.

use super::{Place, Results};
use crate::bench::printed;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How its users come in; the monitor has no clear text on the wire, so that nobody is asked for it.
pub(super) const RULES: &str = "host all pass_user,md5_user 127.0.0.1/32 md5\n\
    host all scram_user 127.0.0.1/32 scram-sha-256\n";
/// What its own `docker/sql_setup.sh` makes, as far as it is for tests without TLS.
pub(super) const SQL: &str = "CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; \
    CREATE USER pass_user PASSWORD 'password'; CREATE USER scram_user PASSWORD 'password'; \
    SET password_encryption TO 'md5'; CREATE USER md5_user PASSWORD 'password'";
/// A package of our own, as theirs would build its benchmarks' needs, too: their tests with what those
/// need, and of the packages whose types they try the newest of each.
const MANIFEST: &str = r#"[package]
name = "suites"
version = "0.0.0"
edition = "2024"

[workspace]

[profile.dev]
debug = false

[[test]]
name = "test"
path = "tests/test/main.rs"

[features]
default = ["runtime", "with-bit-vec-0_9", "with-chrono-0_4", "with-eui48-1", "with-geo-types-0_7", "with-jiff-0_2", "with-serde_json-1", "with-smol_str-01", "with-time-0_3", "with-uuid-1"]
runtime = ["tokio-postgres/runtime"]
with-bit-vec-0_9 = ["tokio-postgres/with-bit-vec-0_9"]
with-chrono-0_4 = ["tokio-postgres/with-chrono-0_4"]
with-eui48-1 = ["tokio-postgres/with-eui48-1"]
with-geo-types-0_7 = ["tokio-postgres/with-geo-types-0_7"]
with-jiff-0_2 = ["tokio-postgres/with-jiff-0_2"]
with-serde_json-1 = ["tokio-postgres/with-serde_json-1"]
with-smol_str-01 = ["tokio-postgres/with-smol_str-01"]
with-time-0_3 = ["tokio-postgres/with-time-0_3"]
with-uuid-1 = ["tokio-postgres/with-uuid-1"]

[dependencies]
tokio-postgres = "=0.7.18"
postgres-types = "0.2"
bytes = "1"
futures-channel = { version = "0.3", features = ["sink"] }
futures-util = { version = "0.3", default-features = false, features = ["async-await-macro", "sink"] }
pin-project-lite = "0.2"
tokio = { version = "1", features = ["macros", "net", "rt", "rt-multi-thread", "time"] }
bit-vec-09 = { version = "0.9", package = "bit-vec" }
chrono-04 = { version = "0.4", package = "chrono", default-features = false }
eui48-1 = { version = "1.0", package = "eui48", default-features = false }
geo-types-07 = { version = "0.7", package = "geo-types" }
jiff-02 = { version = "0.2", package = "jiff" }
serde_json-1 = { version = "1.0", package = "serde_json" }
smol_str-01 = { version = "0.1", package = "smol_str" }
time-03 = { version = "0.3", package = "time", features = ["parsing"] }
uuid-1 = { version = "1.0", package = "uuid" }
"#;
/// Their tests know one port; these go to the one they are told of when they run.
const PORT: &str = r#"
fn port() -> String {
    std::env::var("PGPORT").unwrap()
}

async fn connect_told(
    s: &str,
    tls: NoTls,
) -> Result<(Client, Connection<tokio_postgres::Socket, NoTlsStream>), Error> {
    tokio_postgres::connect(&s.replace("5433", &port()), tls).await
}
"#;
const CHANGES: [(&str, &str, &str); 2] = [
    (
        "main.rs",
        "TcpStream::connect(\"127.0.0.1:5433\")",
        "TcpStream::connect(format!(\"127.0.0.1:{}\", port()))",
    ),
    (
        "runtime.rs",
        "tokio_postgres::connect(",
        "crate::connect_told(",
    ),
];
/// A test that has not ended by then is one that hangs.
const LIMIT_S: &str = "60";

/// A package of our own with their tests, built.
pub(super) fn prepare(folder: &Path, _quick: bool) -> Result<()> {
    let tests = folder.join("tests/test");
    // Without its targets a manifest is none.
    std::fs::create_dir_all(&tests)?;
    if !tests.join("types").exists() {
        std::fs::write(folder.join("Cargo.toml"), MANIFEST)?;
        std::fs::write(tests.join("main.rs"), "")?;
        let theirs = source(folder)?.join("tests/test");
        copy(&theirs, &tests)?;
        for (file, from, to) in CHANGES {
            let path = tests.join(file);
            let text = std::fs::read_to_string(&path)?;
            ensure!(text.contains(from), "{}: no {from}", path.display());
            std::fs::write(&path, text.replace(from, to))?;
        }
        let main = tests.join("main.rs");
        let text = std::fs::read_to_string(&main)?;
        std::fs::write(&main, text + PORT)?;
    }
    built(folder).map(|_| ())
}

/// Where cargo keeps the package.
fn source(folder: &Path) -> Result<PathBuf> {
    let told = cargo(folder, &["metadata", "--format-version", "1"])?;
    let told: Value = serde_json::from_str(&told)?;
    let packages = told["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == "tokio-postgres")
        .find_map(|package| package["manifest_path"].as_str())
        .context("cargo metadata does not name tokio-postgres")?;
    let manifest = Path::new(manifest);
    Ok(manifest.parent().unwrap_or(manifest).to_owned())
}

/// The tests' program, built if it is not.
fn built(folder: &Path) -> Result<PathBuf> {
    let build = ["test", "--no-run", "--quiet", "--message-format", "json"];
    cargo(folder, &build)?
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo test --no-run does not name the program that it built")
}

fn cargo(folder: &Path, arguments: &[&str]) -> Result<String> {
    printed(
        Command::new("cargo")
            .args(arguments)
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", folder.join("target")),
    )
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Runs it; it is as short as a selection.
pub(super) fn run(folder: &Path, place: &Place<'_>) -> Result<Results> {
    let ran = Command::new("timeout")
        .arg(LIMIT_S)
        .arg(built(folder)?)
        // Those that hang hold nobody up.
        .args(["--test-threads", "16"])
        .env("PGPORT", place.port.to_string())
        .current_dir(folder)
        .output()
        .context("cannot run timeout")?;
    let results = read(&String::from_utf8_lossy(&ran.stdout));
    // 0: all passed; 101: some did not; 124: some did not end.
    if !matches!(ran.status.code(), Some(0 | 101 | 124)) {
        bail!(
            "the tests ended with {}:\n{}",
            ran.status,
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    Ok(results)
}

/// Reads lines `test module::name ... ok`.
fn read(printed: &str) -> Results {
    let mut results = Results::default();
    for line in printed.lines() {
        let told = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... "));
        match told {
            Some((name, "ok")) => results.passed.insert(name.to_owned()),
            Some((name, "FAILED")) => results.failed.insert(name.to_owned()),
            _ => false,
        };
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let printed = "\nrunning 4 tests\ntest types::one ... ok\ntest two ... FAILED\n\
                       test runtime::unix_socket ... ignored\n\nfailures:\n\n---- two stdout ----\n\
                       test result: FAILED. 1 passed; 1 failed\n";
        let results = read(printed);
        assert_eq!(Vec::from_iter(results.passed), ["types::one"]);
        assert_eq!(Vec::from_iter(results.failed), ["two"]);
    }
}
