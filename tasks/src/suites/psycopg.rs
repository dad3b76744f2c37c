//! psycopg's own tests, from its repository: they are in no package.

use super::asyncpg::read;
use super::{Place, Results};
use crate::bench::output;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const REPOSITORY: &str = "https://github.com/psycopg/psycopg.git";
/// Names another place of the repository, for machines that cannot reach it.
const REPOSITORY_VARIABLE: &str = "PSYCOPG_REPOSITORY";
/// 3.3.5.dev1, of 20 July 2026.
const COMMIT: &str = "c079c37c959a89a8684a3d3858cbaff7e5543e71";
const PACKAGES: [&str; 3] = ["anyio==4.12.0", "pytest==9.0.2", "pytest-timeout==2.4.0"];
/// What needs more than a server, measures time, or is for another server.
const MARKERS: &str = "not slow and not timing and not proxy and not mypy and not pool";

pub(super) fn prepare(folder: &Path, _quick: bool) -> Result<()> {
    let source = folder.join("source");
    if !source.exists() {
        let partial = folder.join("partial");
        if partial.exists() {
            std::fs::remove_dir_all(&partial)?;
        }
        let from = std::env::var(REPOSITORY_VARIABLE);
        let from = from.unwrap_or_else(|_| REPOSITORY.to_owned());
        let git = Path::new("git");
        let at = partial.display().to_string();
        output(git, &["clone", "--quiet", &from, &at])
            .with_context(|| format!("{REPOSITORY_VARIABLE} may name a copy of {REPOSITORY}"))?;
        output(git, &["-C", &at, "checkout", "--quiet", COMMIT])?;
        let packages = folder.join("packages").display().to_string();
        let package = format!("{at}/psycopg");
        let install = [
            &["-m", "pip", "--quiet", "--disable-pip-version-check"][..],
            &["install", "--root-user-action=ignore", "--upgrade"],
            &["--target", &packages, &package],
            &PACKAGES,
        ];
        output(Path::new("python3"), &install.concat())?;
        std::fs::rename(&partial, &source)?;
    }
    Ok(())
}

pub(super) fn run(folder: &Path, place: &Place<'_>) -> Result<Results> {
    let target = format!(
        "host=127.0.0.1 port={} user=postgres dbname={}",
        place.port, place.database
    );
    let ran = Command::new("python3")
        .args(["-m", "pytest", "-v", "--tb=no", "--timeout=120"])
        .args(["-p", "pytest_timeout", "-p", "anyio.pytest_plugin"])
        .args(["-W", "ignore", "-m", MARKERS, "--test-dsn", &target])
        .arg("-o")
        .arg(format!("cache_dir={}", folder.join("cache").display()))
        .arg("tests")
        .current_dir(folder.join("source"))
        .env("PYTHONPATH", folder.join("packages"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // What else is installed on this machine changes nothing.
        .env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        .env("PSYCOPG_IMPL", "python")
        .output()
        .context("cannot run python3")?;
    let printed = String::from_utf8_lossy(&ran.stdout);
    // 0: all passed; 1: some did not.
    if !matches!(ran.status.code(), Some(0 | 1)) {
        bail!("pytest ended with {}:\n{printed}", ran.status);
    }
    Ok(read(&printed))
}
