//! Which `PostgreSQL` to use: a release, or the programs in a directory.

use crate::Error;
use crate::account::Account;
use crate::archive::Miss;
use crate::cache::{self, Cache};
use crate::installation::{Installation, Kind, installed_bins};
use crate::progress::Progress;
use crate::version::{NEWEST, Request, Version};
use std::path::PathBuf;

/// Which server programs to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A release (`--pg 18`, `--pg 17.5`): fetched, or when that cannot be, one the machine has.
    Release(Request),
    /// The programs in this directory (`--pg-bin`).
    Bin(PathBuf),
}

impl Default for Source {
    /// The newest.
    fn default() -> Self {
        Self::Release(Request::Newest)
    }
}

impl Source {
    /// `18`, `9.6`, `17.5`: as `--pg` takes it.
    pub fn release(text: &str) -> Result<Self, Error> {
        text.parse().map(Self::Release)
    }

    /// A directory: as `--pg-bin` takes it.
    pub fn bin(directory: impl Into<PathBuf>) -> Self {
        Self::Bin(directory.into())
    }

    /// Finds the programs, fetching them where needed, and sees that they run.
    ///
    /// For a release the builds of the archive come first, so that versions set side by
    /// side come from one maker; what the machine has installed is taken when the archive
    /// has no such build or cannot be asked, and the notes then say so.
    pub fn find(
        &self,
        cache: &Cache,
        account: &Account,
        progress: &Progress,
    ) -> Result<Found, Error> {
        let request = match self {
            Self::Bin(directory) => {
                let installation = Installation::probe(directory, Kind::Installed, account)?;
                return Ok(Found {
                    notes: installation.version.beyond_known().into_iter().collect(),
                    installation,
                });
            }
            Self::Release(request) => *request,
        };
        let miss = match fetched(request, cache, account, progress) {
            Ok(installation) => {
                return Ok(Found {
                    installation,
                    notes: Vec::new(),
                });
            }
            Err(miss) => miss,
        };
        let why = match &miss {
            Miss::Refused(_) => return Err(refuse(miss, request, cache, progress)),
            Miss::NoSuchRelease => "the archive has no such build for this machine".to_owned(),
            Miss::Offline(reason) => format!("the archive of builds cannot be reached ({reason})"),
        };
        let Some(installation) = local(request, cache, account)? else {
            return Err(refuse(miss, request, cache, progress));
        };
        let note = format!(
            "{why}: using PostgreSQL {} from {}",
            installation.version,
            installation.bin.display()
        );
        Ok(Found {
            installation,
            notes: vec![note],
        })
    }
}

/// What [`Source::find`] found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The programs.
    pub installation: Installation,
    /// What the user should know about the choice.
    pub notes: Vec<String>,
}

/// From the cache, or fetched into it.
fn fetched(
    request: Request,
    cache: &Cache,
    account: &Account,
    progress: &Progress,
) -> Result<Installation, Miss> {
    let version = match request {
        Request::Exact(version) => version,
        Request::Major(major) => cache.newest(major, progress)?,
        Request::Newest => cache.newest(NEWEST, progress)?,
    };
    match cache.get(version, account)? {
        Some(installation) => Ok(installation),
        None => cache.fetch(version, account, progress),
    }
}

/// The newest that the cache or the machine has; among equals the cache's.
fn local(
    request: Request,
    cache: &Cache,
    account: &Account,
) -> Result<Option<Installation>, Error> {
    let cached: Option<Version> = cache
        .releases()?
        .into_iter()
        .map(|(version, _)| version)
        .find(|version| request.accepts(*version));
    let installed = installed(account)
        .into_iter()
        .find(|installation| request.accepts(installation.version));
    match cached {
        Some(version)
            if installed
                .as_ref()
                .is_none_or(|other| other.version <= version) =>
        {
            cache.get(version, account)
        }
        _ => Ok(installed),
    }
}

/// Installations of the machine that run, newest first.
fn installed(account: &Account) -> Vec<Installation> {
    let mut found: Vec<Installation> = installed_bins()
        .iter()
        .filter_map(|bin| Installation::probe(bin, Kind::Installed, account).ok())
        .collect();
    found.sort_by_key(|installation| std::cmp::Reverse(installation.version));
    found
}

/// Every release at hand without fetching (`tenbin server list`): the cache's, then the machine's.
pub fn list() -> Result<Vec<Installation>, Error> {
    let cached = Cache::for_user()?.releases()?;
    let cached = cached.into_iter().map(|(version, directory)| Installation {
        bin: directory.join("bin"),
        version,
        kind: Kind::Fetched,
    });
    Ok(cached.chain(installed(&Account::for_server())).collect())
}

/// Fetches a release into the cache (`tenbin server install 18`), asking the archive anew
/// which is the newest.
pub fn install(request: Request, progress: &Progress) -> Result<Installation, Error> {
    let cache = Cache::for_user()?;
    let major = match request {
        Request::Newest => Some(NEWEST),
        Request::Major(major) => Some(major),
        Request::Exact(_) => None,
    };
    let outcome = major
        .map_or(Ok(()), |major| cache.look_up(major, progress).map(drop))
        .and_then(|()| fetched(request, &cache, &Account::for_server(), progress));
    outcome.map_err(|miss| refuse(miss, request, &cache, progress))
}

/// What to tell when nothing else is left.
fn refuse(miss: Miss, request: Request, cache: &Cache, progress: &Progress) -> Error {
    let asked = match request {
        Request::Newest => NEWEST.to_string(),
        named => named.to_string(),
    };
    match miss {
        Miss::Refused(error) => error,
        Miss::NoSuchRelease => Error::NoSuchRelease {
            asked,
            hint: cache::hint(cache, request, progress),
        },
        Miss::Offline(reason) => Error::Unreachable {
            asked,
            cache: cache.directory().to_owned(),
            reason,
        },
    }
}
