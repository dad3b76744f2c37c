//! Room on a disk that is kept for the result.

use crate::RecordError;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// More than a `run.json` or a `trace.json` takes: their points over time are a few thousand at most.
const BYTES: u64 = 1 << 20;

/// Room in a directory, given up when the disk is full and the result must still be written.
#[derive(Debug)]
pub(crate) struct Room(Option<File>);

impl Room {
    /// Reserves it, in a file without a name. Where the file system cannot reserve, there is none.
    ///
    /// # Errors
    /// The disk is full already.
    pub(crate) fn reserve(directory: &Path) -> Result<Self, RecordError> {
        let path = directory.join("room");
        let file = File::create_new(&path).map_err(RecordError::io("create", &path))?;
        fs::remove_file(&path).map_err(RecordError::io("remove", &path))?;
        match fallocate(&file, FallocateFlags::empty(), 0, BYTES) {
            Ok(()) => Ok(Self(Some(file))),
            Err(error @ (Errno::NOSPC | Errno::DQUOT)) => {
                Err(RecordError::io("reserve 1 MiB in", directory)(error.into()))
            }
            Err(_) => Ok(Self(None)),
        }
    }

    /// Gives the room back.
    pub(crate) fn release(&mut self) {
        self.0 = None;
    }

    /// Writes a file to the disk; if the disk is full, into the reserved room.
    pub(crate) fn write(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let write = || fs::write(path, contents).and_then(|()| File::open(path)?.sync_all());
        match write() {
            Err(error) if is_full(&error) && self.0.take().is_some() => write(),
            written => written,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}
