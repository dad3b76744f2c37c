//! One `PostgreSQL` on this machine: where its programs are and whether they run.

use crate::account::Account;
use crate::version::{KNOWN, Major, Version};
use crate::{Error, version};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where an installation came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Fetched by tenbin into its cache.
    Fetched,
    /// Found on the machine, or named with `--pg-bin`.
    Installed,
}

/// Server programs that run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Directory of `postgres` and `initdb`.
    pub bin: PathBuf,
    /// What `postgres --version` said.
    pub version: Version,
    /// Where it came from.
    pub kind: Kind,
}

impl Installation {
    /// Runs the server program once and explains what is missing when it does not start.
    pub fn probe(bin: &Path, kind: Kind, account: &Account) -> Result<Self, Error> {
        let bin = fs::canonicalize(bin).map_err(|error| unusable(bin, &error.to_string()))?;
        for program in ["postgres", "initdb"] {
            if !executable(&bin.join(program)) {
                return Err(unusable(
                    &bin,
                    &format!("there is no program `{program}` in it"),
                ));
            }
        }
        account.check_reach(&bin)?;
        let program = bin.join("postgres");
        let output = account
            .command(&program)
            .arg("--version")
            .output()
            .map_err(|error| loader_refusal(&program, &error))?;
        if !output.status.success() {
            return Err(explain(&program, account, &output));
        }
        let banner = String::from_utf8_lossy(&output.stdout);
        let version = Version::from_banner(&banner).ok_or_else(|| {
            unusable(
                &bin,
                &format!("`postgres --version` printed `{}`", banner.trim()),
            )
        })?;
        if version.major() < KNOWN[0] {
            let reason = format!(
                "it is PostgreSQL {version}, and tenbin knows {}",
                version::known()
            );
            return Err(unusable(&bin, &reason));
        }
        Ok(Self { bin, version, kind })
    }

    /// Its major.
    #[must_use]
    pub fn major(&self) -> Major {
        self.version.major()
    }
}

/// Directories with server programs that the machine's packages and `pg_config` put there.
#[must_use]
pub(crate) fn installed_bins() -> Vec<PathBuf> {
    let mut bins = Vec::new();
    for parent in [
        "/usr/lib/postgresql",
        "/usr/lib64/postgresql",
        "/usr",
        "/opt",
    ] {
        let Ok(entries) = fs::read_dir(parent) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            // /usr and /opt hold more than PostgreSQL; PGDG's RPMs are in /usr/pgsql-16.
            if parent.ends_with("postgresql") || name.to_string_lossy().starts_with("pgsql-") {
                bins.push(entry.path().join("bin"));
            }
        }
    }
    bins.push(PathBuf::from("/usr/local/pgsql/bin"));
    let pg_config = Command::new("pg_config").arg("--bindir").output();
    if let Ok(output) = pg_config.as_ref()
        && output.status.success()
    {
        bins.push(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ));
    }
    let mut bins: Vec<PathBuf> = bins
        .iter()
        .filter_map(|bin| fs::canonicalize(bin).ok())
        .filter(|bin| executable(&bin.join("postgres")) && executable(&bin.join("initdb")))
        .collect();
    bins.sort();
    bins.dedup();
    bins
}

fn executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn unusable(bin: &Path, reason: &str) -> Error {
    Error::NotAnInstallation {
        path: bin.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The kernel would not even load the program.
fn loader_refusal(program: &Path, error: &std::io::Error) -> Error {
    let (reason, mend) = match error.kind() {
        // The file is there (checked before), so what is not found is its interpreter.
        std::io::ErrorKind::NotFound => (
            "the C library it was built for (glibc) is not on this machine".to_owned(),
            "install PostgreSQL from the distribution and name it with --pg-bin",
        ),
        _ => (
            error.to_string(),
            "check that it was built for this processor and that its file system is not mounted noexec",
        ),
    };
    Error::Libraries {
        program: program.to_owned(),
        reason,
        mend: mend.to_owned(),
    }
}

/// Reads why the dynamic loader gave up.
fn explain(program: &Path, account: &Account, output: &Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !said.contains("error while loading shared libraries") && !said.contains("' not found") {
        let directory = program.parent().unwrap_or(program);
        return unusable(
            directory,
            &format!("`postgres --version` failed ({}): {said}", output.status),
        );
    }
    // The loader stops at the first library it misses; asked to trace, it lists them all.
    let trace = account
        .command(program)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let mut missing = missing_libraries(&trace);
    if missing.is_empty() {
        missing.extend(missing_library(&said));
    }
    let (reason, mend) = if missing.is_empty() {
        (
            format!("the dynamic loader said `{said}`"),
            "its C library is newer than this machine's: choose an older release, or install PostgreSQL from the distribution and name it with --pg-bin".to_owned(),
        )
    } else {
        (
            format!("shared libraries are missing: {}", missing.join(", ")),
            install_hint(&missing),
        )
    };
    Error::Libraries {
        program: program.to_owned(),
        reason,
        mend,
    }
}

/// `libxml2.so.2 => not found` of the loader's trace.
fn missing_libraries(trace: &str) -> Vec<String> {
    trace
        .lines()
        .filter_map(|line| line.trim().strip_suffix("=> not found"))
        .map(|name| name.trim().to_owned())
        .collect()
}

/// `postgres: error while loading shared libraries: libxml2.so.2: cannot open …`.
fn missing_library(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("error while loading shared libraries: ")?;
    let (name, why) = rest.split_once(':')?;
    why.contains("cannot open").then(|| name.trim().to_owned())
}

/// Which Debian packages hold what is missing, as far as that is known.
fn install_hint(missing: &[String]) -> String {
    let mut packages: Vec<String> = missing
        .iter()
        .filter_map(|name| debian_package(name))
        .collect();
    packages.sort();
    packages.dedup();
    if packages.is_empty() {
        "install the packages that hold them".to_owned()
    } else {
        format!(
            "on Debian and Ubuntu `apt install {}` brings them; elsewhere install the packages that hold them",
            packages.join(" ")
        )
    }
}

/// Debian names a library's package after its soname; these are the ones servers link to
/// whose packages do not follow that rule to the letter.
fn debian_package(library: &str) -> Option<String> {
    let (stem, soname) = library.split_once(".so")?;
    let version = soname.trim_start_matches('.');
    let package = match stem {
        "libxml2" => "libxml2".to_owned(),
        "libxslt" => "libxslt1.1".to_owned(),
        "libssl" | "libcrypto" => format!("libssl{version}"),
        "libicuuc" | "libicui18n" | "libicudata" => format!("libicu{version}"),
        "libuuid" => "libuuid1".to_owned(),
        "libz" => "zlib1g".to_owned(),
        "libzstd" => "libzstd1".to_owned(),
        "liblz4" => "liblz4-1".to_owned(),
        "libreadline" => format!("libreadline{version}"),
        "libpam" => "libpam0g".to_owned(),
        "libgssapi_krb5" => "libgssapi-krb5-2".to_owned(),
        stem if stem.starts_with("libldap") => "libldap-2.5-0".to_owned(),
        "libsystemd" => "libsystemd0".to_owned(),
        "liburing" => "liburing2".to_owned(),
        stem if stem.starts_with("libLLVM") => {
            format!("libllvm{}", stem.trim_start_matches("libLLVM-"))
        }
        _ => return None,
    };
    Some(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_packages_of_missing_libraries() {
        let trace = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibxml2.so.2 => not found\n\tlibssl.so.1.1 => not found\n\tlibcrypto.so.1.1 => not found\n\tlibm.so.6 => /lib/libm.so.6 (0x7f)\n";
        let missing = missing_libraries(trace);
        assert_eq!(
            missing,
            ["libxml2.so.2", "libssl.so.1.1", "libcrypto.so.1.1"]
        );
        let hint = install_hint(&missing);
        assert!(hint.contains("`apt install libssl1.1 libxml2`"), "{hint}");
        let said = "postgres: error while loading shared libraries: libicuuc.so.60: cannot open shared object file: No such file or directory";
        assert_eq!(missing_library(said).as_deref(), Some("libicuuc.so.60"));
        assert_eq!(
            debian_package("libicuuc.so.60").as_deref(),
            Some("libicu60")
        );
        assert_eq!(debian_package("libstrange.so.1"), None);
    }
}
