//! Test programs that others have written, through the monitor.

use crate::support::Running;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tenbin_server::{Embedded, Options, Source};
use tenbin_tpmonitor::Pooling;

/// Where downloads and what is built of them stay from one run to the next.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("libpq_pipeline")
}

/// Runs a program to its end: what it printed, or why not.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program)
        .args(arguments)
        .current_dir(folder())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&stderr);
    Err(format!(
        "{program} {arguments:?}: {status}: {}",
        said.trim()
    ))
}

/// `apt-get` with lists and a cache of its own: nothing of the machine's is changed.
fn apt(arguments: &[&str]) -> Result<String, String> {
    let at = folder().display().to_string();
    let own = [
        format!("-oDir::State={at}/state"),
        format!("-oDir::Cache={at}/cache"),
        format!("-oDir::Etc::SourceList={at}/sources.list"),
        format!("-oDir::Etc::SourceParts={at}/none"),
        "-oAPT::Sandbox::User=".to_owned(),
    ];
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    output("apt-get", &[&["-qq"], &own[..], arguments].concat())
}

/// `PostgreSQL`'s own test of pipelining, built from the distribution's source of the libpq that is
/// installed, or what is missing for that.
fn libpq_pipeline(major: &str) -> Result<PathBuf, String> {
    let program = folder().join("libpq_pipeline");
    if program.exists() {
        return Ok(program);
    }
    let headers = output("pg_config", &["--includedir"])?;
    let archive = source(&format!("postgresql-{major}"))?;
    let parts = [
        "*/src/include",
        // Made from the catalogs, and part of what is published.
        "*/src/backend/catalog/pg_*_d.h",
        "*/src/test/modules/libpq_pipeline/libpq_pipeline.c",
        "*/src/common/fe_memutils.c",
        "*/src/common/psprintf.c",
        "*/src/port/snprintf.c",
        "*/src/port/strerror.c",
    ];
    let unpack = ["-xf", &archive, "--strip-components=1", "--wildcards"];
    output("tar", &[&unpack[..], &parts].concat())?;
    let include = format!("-I{}", headers.trim());
    let sources = [
        "src/test/modules/libpq_pipeline/libpq_pipeline.c",
        "src/common/fe_memutils.c",
        "src/common/psprintf.c",
        "src/port/snprintf.c",
        "src/port/strerror.c",
    ];
    let built = [
        "-DFRONTEND",
        "-D_GNU_SOURCE",
        "-w",
        "-O1",
        "-Isrc/include",
        "-Isrc/backend",
        &include,
    ];
    let link = ["-lpq", "-lm", "-o", "libpq_pipeline.new"];
    output("cc", &[&built[..], &sources, &link].concat())?;
    // Whole or not at all, should two of these tests ever run at once.
    std::fs::rename(folder().join("libpq_pipeline.new"), &program)
        .map_err(|error| error.to_string())?;
    Ok(program)
}

/// The major version of the libpq that is installed.
fn libpq() -> Result<String, String> {
    std::fs::create_dir_all(folder()).map_err(|error| error.to_string())?;
    let version = output("pg_config", &["--version"])?;
    let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    Ok(digits.chars().take_while(char::is_ascii_digit).collect())
}

/// Downloads the source of a package; the name of its archive.
fn source(package: &str) -> Result<String, String> {
    // Where the machine's own binary packages come from, there are their sources, too. The release as
    // it was published is enough; what updates replace is not there for long.
    let release = std::fs::read_to_string("/etc/os-release").map_err(|error| error.to_string())?;
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .ok_or("a distribution with a codename")?;
    let targets = output(
        "apt-get",
        &[
            "indextargets",
            "--format",
            "$(REPO_URI) $(CODENAME) $(COMPONENT)",
            "Created-By: Packages",
        ],
    )?;
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let signed = if Path::new(keys).exists() {
        format!("[signed-by={keys}] ")
    } else {
        String::new()
    };
    let mut lines: Vec<String> = targets
        .lines()
        .filter(|line| line.ends_with(&format!(" {codename} main")))
        .map(|line| format!("deb-src {signed}{line}"))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    std::fs::write(folder().join("sources.list"), lines.join("\n") + "\n")
        .map_err(|error| error.to_string())?;
    for part in ["state/lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(folder().join(part)).map_err(|error| error.to_string())?;
    }
    apt(&["update"])?;
    apt(&["source", "--download-only", package])?;
    std::fs::read_dir(folder())
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.starts_with(package) && name.contains(".orig.tar."))
        .ok_or_else(|| format!("apt-get source brought no archive of {package}"))
}

#[test]
fn libpq_pipeline_passes_in_every_mode() {
    let found = libpq().and_then(|major| Ok((libpq_pipeline(&major)?, major)));
    let (program, major) = match found {
        Ok(found) => found,
        Err(why) => {
            eprintln!(
                "skipped: libpq_pipeline_passes_in_every_mode needs apt-get, tar, cc, libpq-dev and the distribution's archive: {why}"
            );
            return;
        }
    };
    let program = program.display().to_string();
    let tests = output(&program, &["tests"]).unwrap();
    assert!(tests.lines().count() >= 11, "{tests}");
    // It sets parameters by the names that they had in its own version.
    let options = Options {
        source: Source::release(&major).unwrap(),
        ..Options::default()
    };
    let server = Arc::new(Embedded::start(options).expect("a server"));
    for pooling in [Pooling::Session, Pooling::Transaction, Pooling::Statement] {
        let monitor = Running::before(Arc::clone(&server), |config| {
            config.mode = pooling;
            config.pool_size = 2;
        });
        let target = format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres sslmode=disable",
            monitor.address.port()
        );
        for test in tests.lines() {
            let run = output("timeout", &["60", &program, "-r", "700", test, &target]);
            // Transactions of several statements are what that mode is there to refuse, where it sees
            // them between two statements: what is sent in one go it may not.
            let refusable = pooling == Pooling::Statement
                && matches!(test, "prepared" | "transaction" | "uniqviol");
            assert!(run.is_ok() || refusable, "{pooling:?}, {test}: {run:?}");
        }
    }
}
