//! What can go wrong with a run directory.

use std::path::{Path, PathBuf};

/// An error of the run directory; each message says what was tried, what came back and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}{}", hint(source))]
    Io {
        /// What was tried: `create`, `write`, `read`, `rename`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What came back.
        source: std::io::Error,
    },
    /// A file of rows ends early: the disk was full, mostly.
    #[error(
        "cannot write {path}: {source}; its first {rows} rows are kept{}",
        hint(source)
    )]
    CutShort {
        /// The file, which can be read.
        path: PathBuf,
        /// Its rows.
        rows: u64,
        /// What came back.
        source: std::io::Error,
    },
    /// The output directory is there already.
    #[error("{path} exists already and is left as it is: choose another --out, or remove it")]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds no `run.json`.
    #[error(
        "{path} is not a run directory (it has no run.json): give a directory that `tenbin run` wrote"
    )]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds no `trace.json`.
    #[error(
        "{path} is not a trace (it has no trace.json): give a directory that `tenbin trace record` wrote"
    )]
    NotATrace {
        /// The directory.
        path: PathBuf,
    },
    /// The run was killed before it ended.
    #[error(
        "{path} is the directory of an unfinished run (its name ends in .partial) and has no result; run it again"
    )]
    Partial {
        /// The directory.
        path: PathBuf,
    },
    /// It is under another name, as its run did not end in order.
    #[error(
        "{path} does not exist; what its run measured until it ended early is in {kept}: give that directory"
    )]
    EndedEarly {
        /// The directory that was asked for.
        path: PathBuf,
        /// The one that is there.
        kept: PathBuf,
    },
    /// Written by another version of the format.
    #[error(
        "{path} holds schema {found:?}, this tenbin reads {wanted:?}: use the tenbin that wrote it"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        found: String,
        /// What was expected.
        wanted: &'static str,
    },
    /// The contents make no sense.
    #[error("{path} is damaged: {reason}; restore it or run again")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// The background writer ended early; `finish` returns the error that stopped it.
    #[error("writing {path} stopped early; finishing it says why")]
    Stopped {
        /// The file.
        path: PathBuf,
    },
}

impl RecordError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    pub(crate) fn corrupt(path: &Path, reason: &(impl ToString + ?Sized)) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

fn hint(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; choose a place you can write to with --out"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; make room, or choose another place with --out"
        }
        ErrorKind::FileTooLarge => {
            "; raise the limit of file sizes (ulimit -f), or choose another place with --out"
        }
        ErrorKind::NotFound => "; check the path",
        _ => "",
    }
}
