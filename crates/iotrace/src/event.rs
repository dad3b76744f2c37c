//! The records that the kernel's half sends (`bpf/iotrace.bpf.c`), decoded.

use tenbin_record::io::Operation;

/// What the loader tells apart by the first word of a record.
const IO: u32 = 1;
const FILE: u32 = 2;
const PROCESS: u32 = 3;

/// Size of the record of an I/O, bytes.
pub(crate) const IO_BYTES: usize = 72;
const FILE_HEAD: usize = 24;
const PART: usize = 72;
const PROCESS_HEAD: usize = 32;

/// A file of the kernel's: an inode, on a file system, in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct FileKey {
    pub(crate) inode: u64,
    /// As the kernel numbers devices: major << 20 | minor.
    pub(crate) fs_dev: u32,
    pub(crate) generation: u32,
}

/// Whose memory the first page of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Unknown,
    /// The page cache's, of a file; where in it, bytes.
    File(FileKey, u64),
    /// The page cache's, of a block device: the file system's own blocks, or a device used raw.
    Device,
}

/// One I/O as the kernel saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) dev: u32,
    /// Monotonic clock.
    pub(crate) issue_ns: u64,
    /// None: still in flight, or one of its ends was not seen.
    pub(crate) latency_ns: Option<u64>,
    pub(crate) sector: u64,
    pub(crate) bytes: u32,
    pub(crate) flags: Flags,
    pub(crate) pid: u32,
    pub(crate) host: Host,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    Io(Io),
    /// A file's name and those of the folders above it, with their inodes, innermost first.
    File(FileKey, Vec<(u64, String)>),
    Process {
        pid: u32,
        kernel: bool,
        name: String,
        /// Its arguments, blanks between them; empty where there are none or they cannot be read.
        title: String,
    },
}

/// Operation and flags, in tenbin's own numbering (the kernel's differ between releases).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    pub(crate) const SYNC: u32 = 1 << 8;
    pub(crate) const META: u32 = 1 << 9;
    pub(crate) const FUA: u32 = 1 << 11;
    pub(crate) const PREFLUSH: u32 = 1 << 12;
    pub(crate) const READAHEAD: u32 = 1 << 13;
    pub(crate) const SWAP: u32 = 1 << 15;
    pub(crate) const MIXED: u32 = 1 << 16;
    pub(crate) const ERROR: u32 = 1 << 17;
    const UNENDED: u32 = 1 << 18;
    const UNBEGUN: u32 = 1 << 19;
    /// What `rwbs` spells: the operation and these.
    const SPELLED: u32 =
        0xff | Self::SYNC | Self::META | Self::FUA | Self::PREFLUSH | Self::READAHEAD;

    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Without what the spelling does not tell.
    pub(crate) fn spelling(self) -> Self {
        Self(self.0 & Self::SPELLED)
    }

    /// `enum req_op`, the same since Linux 4.10.
    pub(crate) fn operation(self) -> Operation {
        match self.0 & 0xff {
            0 => Operation::Read,
            1 | 7 => Operation::Write,
            2 => Operation::Flush,
            3 | 5 => Operation::Discard,
            9 => Operation::WriteZeroes,
            _ => Operation::Other,
        }
    }

    /// As the kernel's `blk_fill_rwbs` spells them: `WFSM`, `RA`.
    pub(crate) fn rwbs(self) -> String {
        let mut text = String::new();
        let mut add = |flag: u32, letter: &str| {
            if self.has(flag) {
                text.push_str(letter);
            }
        };
        add(Self::PREFLUSH, "F");
        let operation = match self.0 & 0xff {
            0 => "R",
            1 => "W",
            2 => "F",
            3 => "D",
            5 => "DE",
            7 => "ZA",
            9 => "WZ",
            _ => "N",
        };
        text.push_str(operation);
        let mut add = |flag: u32, letter: &str| {
            if self.has(flag) {
                text.push_str(letter);
            }
        };
        add(Self::FUA, "F");
        add(Self::READAHEAD, "A");
        add(Self::SYNC, "S");
        add(Self::META, "M");
        text
    }
}

/// Reads numbers one behind the other; beyond the end they are none.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    fn file(&mut self) -> Option<FileKey> {
        Some(FileKey {
            inode: self.u64()?,
            fs_dev: self.u32()?,
            generation: self.u32()?,
        })
    }

    /// A text of at most `bytes`, ended by a NUL if it is shorter.
    fn text(&mut self, bytes: usize) -> Option<String> {
        let raw = self.take(bytes)?;
        let end = raw.iter().position(|byte| *byte == 0).unwrap_or(bytes);
        Some(String::from_utf8_lossy(&raw[..end]).into_owned())
    }
}

/// Decodes one record; none when it is not one of this version's.
pub(crate) fn decode(record: &[u8]) -> Option<Record> {
    let mut bytes = Bytes(record);
    match bytes.u32()? {
        IO if record.len() == IO_BYTES => io(&mut bytes).map(Record::Io),
        FILE if record.len() >= FILE_HEAD => file(&mut bytes),
        PROCESS if record.len() > PROCESS_HEAD => process(&mut bytes),
        _ => None,
    }
}

/// Decodes an I/O that has not completed, as the kernel's half keeps it.
pub(crate) fn decode_in_flight(record: &[u8]) -> Option<Io> {
    match decode(record)? {
        Record::Io(io) => Some(Io {
            latency_ns: None,
            ..io
        }),
        _ => None,
    }
}

fn io(bytes: &mut Bytes<'_>) -> Option<Io> {
    let dev = bytes.u32()?;
    let (issue_ns, latency_ns, sector) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let (length, flags) = (bytes.u32()?, Flags(bytes.u32()?));
    let (pid, host) = (bytes.u32()?, bytes.u32()?);
    let (key, offset) = (bytes.file()?, bytes.u64()?);
    Some(Io {
        dev,
        issue_ns,
        latency_ns: (!flags.has(Flags::UNENDED | Flags::UNBEGUN)).then_some(latency_ns),
        sector,
        bytes: length,
        flags,
        pid,
        host: match host {
            1 => Host::File(key, offset),
            2 => Host::Device,
            _ => Host::Unknown,
        },
    })
}

fn file(bytes: &mut Bytes<'_>) -> Option<Record> {
    let depth = usize::try_from(bytes.u32()?).ok()?;
    let key = bytes.file()?;
    let parts = (0..depth).map(|_| Some((bytes.u64()?, bytes.text(PART - 8)?)));
    Some(Record::File(key, parts.collect::<Option<_>>()?))
}

fn process(bytes: &mut Bytes<'_>) -> Option<Record> {
    let (pid, kernel, filled) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    let name = bytes.text(16)?;
    let raw = bytes.take(usize::try_from(filled).ok()?)?;
    // Two NULs in a row end the arguments; the environment follows.
    let end = raw.windows(2).position(|pair| pair == [0, 0]);
    let raw = &raw[..end.unwrap_or(raw.len())];
    let title = String::from_utf8_lossy(raw).replace('\0', " ");
    Some(Record::Process {
        pid,
        kernel: kernel != 0,
        name,
        title: title.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flags_are_spelled_as_the_kernel_spells_them() {
        let spelled = |bits: u32| Flags(bits).rwbs();
        assert_eq!(spelled(0), "R");
        assert_eq!(spelled(Flags::READAHEAD), "RA");
        assert_eq!(spelled(1 | Flags::SYNC | Flags::META), "WSM");
        assert_eq!(
            spelled(1 | Flags::PREFLUSH | Flags::FUA | Flags::SYNC),
            "FWFS"
        );
        assert_eq!(spelled(2 | Flags::PREFLUSH), "FF");
        assert_eq!(spelled(3), "D");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_decoded_or_refused(
            kind in 0_u32..5,
            mut rest in proptest::collection::vec(any::<u8>(), 0..700),
        ) {
            let mut record = kind.to_ne_bytes().to_vec();
            record.append(&mut rest);
            let decoded = decode(&record);
            prop_assert_eq!(decoded.is_some() && kind == IO, record.len() == IO_BYTES && kind == IO);
        }
    }
}
