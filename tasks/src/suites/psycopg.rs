//! psycopg's own tests, from Debian's source package: no package of `PyPI` has them.

use super::asyncpg::read;
use super::{Place, Results};
use crate::bench::output;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with the source of psycopg [`VERSION`], for machines whose registry does not have Debian's package.
const SOURCE_VARIABLE: &str = "PSYCOPG_SOURCE";
/// What Debian's release [`RELEASE`] has.
const VERSION: &str = "3.2.6";
const RELEASE: &str = "trixie";
const PACKAGES: [&str; 4] = [
    "psycopg==3.2.6",
    "anyio==4.12.0",
    "pytest==8.3.5",
    "pytest-timeout==2.4.0",
];
/// What needs more than a server, measures time, or is for another server.
const MARKERS: &str = "not slow and not timing and not proxy and not mypy and not pool";
/// Files that are quick and are about the protocol.
const SELECTION: [&str; 4] = [
    "tests/test_copy.py",
    "tests/test_cursor_server.py",
    "tests/test_pipeline.py",
    "tests/test_transaction.py",
];

pub(super) fn prepare(folder: &Path, _quick: bool) -> Result<()> {
    let tests = folder.join("source/tests");
    if !tests.exists() {
        let source = match std::env::var_os(SOURCE_VARIABLE) {
            Some(source) => PathBuf::from(source),
            None => debian_source(folder).with_context(|| {
                format!("{SOURCE_VARIABLE} may name a folder with the source of psycopg {VERSION}")
            })?,
        };
        let partial = folder.join("partial");
        if partial.exists() {
            std::fs::remove_dir_all(&partial)?;
        }
        std::fs::create_dir(&partial)?;
        let copied = [source.join("tests"), source.join("pyproject.toml")];
        let [from, settings] = copied.map(|path| path.display().to_string());
        let to = partial.display().to_string();
        output(Path::new("cp"), &["-r", &from, &settings, &to])?;
        std::fs::rename(&partial, folder.join("source"))?;
    }
    let packages = folder.join("packages");
    if !packages.exists() {
        let partial = folder.join("packages.partial").display().to_string();
        let install = [
            &["-m", "pip", "--quiet", "--disable-pip-version-check"][..],
            &["install", "--root-user-action=ignore", "--upgrade"],
            &["--target", &partial],
            &PACKAGES,
        ];
        output(Path::new("python3"), &install.concat())?;
        std::fs::rename(&partial, packages)?;
    }
    Ok(())
}

/// Gets Debian's source package with an apt configuration of its own: the machine's stays as it is.
fn debian_source(folder: &Path) -> Result<PathBuf> {
    let apt = folder.join("apt");
    for name in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(apt.join(name))?;
    }
    std::fs::write(
        apt.join("debian.sources"),
        format!(
            "Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: {RELEASE}\nComponents: main\n\
             Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        ),
    )?;
    let at = apt.display();
    let settings = [
        format!("Dir::Etc::sourcelist={at}/debian.sources"),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State::lists={at}/lists"),
        format!("Dir::Cache={at}/cache"),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let get = |what: &[&str]| -> Result<()> {
        let got = Command::new("apt-get")
            .args(settings.iter().flat_map(|setting| ["-o", setting]))
            .args(["-qq", "--error-on=any"])
            .args(what)
            .current_dir(&apt)
            .output()
            .context("cannot run apt-get")?;
        if !got.status.success() {
            let said = String::from_utf8_lossy(&got.stderr);
            bail!("apt-get {} failed: {said}", what.join(" "));
        }
        Ok(())
    };
    get(&["update"])?;
    get(&["source", "--download-only", "psycopg3"])?;
    let source = apt.join("source");
    std::fs::create_dir_all(&source)?;
    let archive = format!("{at}/psycopg3_{VERSION}.orig.tar.xz");
    let to = source.display().to_string();
    let unpack = ["-xJf", &archive, "-C", &to, "--strip-components=1"];
    output(Path::new("tar"), &unpack)?;
    Ok(source)
}

pub(super) fn run(folder: &Path, place: &Place<'_>) -> Result<Results> {
    let target = format!(
        "host=127.0.0.1 port={} user=postgres dbname={}",
        place.port, place.database
    );
    let what = if place.quick {
        &SELECTION[..]
    } else {
        &["tests"]
    };
    let ran = Command::new("python3")
        .args(["-m", "pytest", "-v", "--tb=no", "--timeout=120"])
        .args(["-p", "pytest_timeout", "-p", "anyio.pytest_plugin"])
        .args(["-W", "ignore", "-m", MARKERS, "--test-dsn", &target])
        .arg("-o")
        .arg(format!("cache_dir={}", folder.join("cache").display()))
        .args(what)
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
