//! From addresses to functions: whose memory they are in, in which file, under which name.

use super::kernel::{Sample, Who};
use super::modules;
use super::symbols::{self, Functions, Symbols};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tenbin_record::profile::KERNEL;

/// How long a process's list of mapped files counts when an address is not in it: of the innermost
/// function, and of callers, which may as well be no addresses at all.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_CALLERS: Duration = Duration::from_secs(10);
/// Processes whose lists are kept.
const PROCESSES_MAX: usize = 4096;

/// Number of a frame.
pub(super) type FrameId = u32;

/// To which part of a program a function belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// To this one.
    Own(&'static str),
    /// To that of whoever called it.
    Callers,
    /// Likewise; it is a library's.
    Library,
}

/// A function as shown.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) text: String,
    pub(super) part: Part,
    pub(super) resolved: bool,
}

/// An executable stretch of a process's memory.
#[derive(Debug, PartialEq)]
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    /// Device and inode as they stand there.
    file: (&'a str, u64),
    /// Empty where there is none.
    path: &'a str,
}

/// A line of `/proc/PID/maps` (proc(5)); none of what holds no code.
fn parse_mapping(line: &str) -> Option<Mapping<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let device = words.next()?;
    let inode = words.next()?.parse().ok()?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    rights.contains('x').then_some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        file: (device, inode),
        path: words.next().unwrap_or_default().trim_start(),
    })
}

/// The same with the binary known.
#[derive(Debug, Clone, Copy)]
struct Code {
    start: u64,
    end: u64,
    offset: u64,
    binary: usize,
}

#[derive(Debug)]
struct Process {
    code: Vec<Code>,
    read: Instant,
}

impl Process {
    /// Binary, and place in its file.
    fn find(&self, address: u64) -> Option<(usize, u64)> {
        let inside = |code: &&Code| (code.start..code.end).contains(&address);
        let code = self.code.iter().find(inside)?;
        Some((code.binary, address - code.start + code.offset))
    }
}

/// A file with code.
#[derive(Debug)]
pub(super) struct Binary {
    /// Its path, or what the kernel calls what is no file.
    pub(super) path: String,
    pub(super) symbols: Symbols,
    nature: Nature,
    /// Frames of its functions, once they were needed.
    frames: Vec<Option<FrameId>>,
    /// Of places without a function.
    unknown: FrameId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    Server,
    /// What all functions of it belong to.
    Whole(&'static str),
    Library,
}

impl Nature {
    fn of(path: &str) -> Self {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or(path);
        let library = Path::new(name).extension().is_some_and(|end| end == "so");
        let module = library && path.contains("postgresql");
        match name {
            "postgres" => Self::Server,
            "" | "llvmjit.so" => Self::Whole("jit"),
            _ if module && name.starts_with("pl") => Self::Whole("language"),
            "libpqwalreceiver.so" | "pgoutput.so" => Self::Whole("replication"),
            _ if module => Self::Whole("extensions"),
            _ => Self::Library,
        }
    }

    fn part(self, function: &str) -> Part {
        match self {
            Self::Server => modules::of_server(function).map_or(Part::Callers, Part::Own),
            Self::Whole(part) => Part::Own(part),
            Self::Library => Part::Library,
        }
    }
}

/// Where everything is.
pub(super) struct Places {
    pub(super) frames: Vec<Frame>,
    by_text: HashMap<String, FrameId>,
    pub(super) binaries: Vec<Binary>,
    by_file: HashMap<(String, u64, String), usize>,
    postmaster: Option<Process>,
    processes: HashMap<(u32, u64), Process>,
    kernel: Functions,
    kernel_frames: Vec<Option<FrameId>>,
    /// Why the files of some process are not known.
    pub(super) denied: Option<String>,
}

impl Places {
    /// Reads what there is to read before the load begins.
    pub(super) fn new(postmaster: Option<u32>, pooler: Option<u32>) -> Self {
        let kernel = symbols::kernel();
        let mut places = Self {
            frames: Vec::new(),
            by_text: HashMap::new(),
            binaries: Vec::new(),
            by_file: HashMap::new(),
            postmaster: None,
            processes: HashMap::new(),
            kernel_frames: vec![None; kernel.len()],
            kernel,
            denied: None,
        };
        places.postmaster = postmaster.map(|pid| places.read(pid));
        // For their symbols.
        for pid in pooler.into_iter().chain([std::process::id()]) {
            places.read(pid);
        }
        places
    }

    /// Whether the kernel tells its functions.
    pub(super) fn knows_kernel(&self) -> bool {
        self.kernel.len() > 0
    }

    /// The frame of that text, made if there is none.
    pub(super) fn frame(&mut self, text: &str, part: Part, resolved: bool) -> FrameId {
        // What would end a frame or a line of the file.
        let text = text.replace([';', '\n', '\r'], ":");
        if let Some(known) = self.by_text.get(&text) {
            return *known;
        }
        let id = FrameId::try_from(self.frames.len()).unwrap_or(FrameId::MAX);
        self.frames.push(Frame {
            text: text.clone(),
            part,
            resolved,
        });
        self.by_text.insert(text, id);
        id
    }

    /// A function of the kernel. `caller`: the address is behind a call.
    pub(super) fn in_kernel(&mut self, address: u64, caller: bool) -> FrameId {
        let Some(found) = self.kernel.at(address.saturating_sub(u64::from(caller))) else {
            return self.frame("[kernel]", Part::Callers, false);
        };
        if let Some(known) = self.kernel_frames[found] {
            return known;
        }
        let name = self.kernel.name(found);
        let part = modules::of_kernel(name).map_or(Part::Callers, Part::Own);
        let frame = self.frame(&format!("{name}{KERNEL}"), part, true);
        self.kernel_frames[found] = Some(frame);
        frame
    }

    /// A function of the program, and its file; none where there is no code. `caller`: as above.
    pub(super) fn in_program(
        &mut self,
        sample: &Sample<'_>,
        address: u64,
        caller: bool,
    ) -> Option<(FrameId, usize)> {
        let (binary, offset) = self.find(sample, address, caller)?;
        let of = &self.binaries[binary];
        let Some(found) = of.symbols.at(offset.saturating_sub(u64::from(caller))) else {
            return Some((of.unknown, binary));
        };
        if let Some(known) = of.frames[found] {
            return Some((known, binary));
        }
        let name = of.symbols.functions.name(found);
        let part = of.nature.part(name);
        let name = format!("{:#}", rustc_demangle::demangle(name));
        let frame = self.frame(&name, part, true);
        self.binaries[binary].frames[found] = Some(frame);
        Some((frame, binary))
    }

    fn find(&mut self, sample: &Sample<'_>, address: u64, caller: bool) -> Option<(usize, u64)> {
        // A child begins with the postmaster's memory: what is there needs no look at the child, which
        // may be gone.
        if let Some(postmaster) = &self.postmaster
            && matches!(sample.who, Who::Postmaster | Who::Child)
            && let Some(found) = postmaster.find(address)
        {
            return Some(found);
        }
        let key = (sample.process, sample.started);
        let patience = if caller { PATIENCE_CALLERS } else { PATIENCE };
        match self.processes.get(&key) {
            Some(known) => {
                let found = known.find(address);
                if found.is_some() || known.read.elapsed() < patience {
                    return found;
                }
            }
            None if self.processes.len() >= PROCESSES_MAX => self.processes.clear(),
            None => {}
        }
        let now = self.read(sample.process);
        let found = now.find(address);
        self.processes.insert(key, now);
        found
    }

    /// Reads which files a process has mapped; none of one that is gone.
    fn read(&mut self, pid: u32) -> Process {
        let path = format!("/proc/{pid}/maps");
        let text = match std::fs::read(&path) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => {
                if error.kind() == ErrorKind::PermissionDenied {
                    self.denied = Some(format!(
                        "{path}: {error}; run tenbin as the server's user or with CAP_SYS_PTRACE"
                    ));
                }
                String::new()
            }
        };
        let mut code = Vec::new();
        for mapping in text.lines().filter_map(parse_mapping) {
            code.push(Code {
                start: mapping.start,
                end: mapping.end,
                offset: mapping.offset,
                binary: self.binary(pid, &mapping),
            });
        }
        let read = Instant::now();
        Process { code, read }
    }

    /// Number of a mapped file, whose symbols are read when it is first seen.
    fn binary(&mut self, pid: u32, mapping: &Mapping<'_>) -> usize {
        let (device, inode) = mapping.file;
        let key = (device.to_owned(), inode, mapping.path.to_owned());
        if let Some(known) = self.by_file.get(&key) {
            return *known;
        }
        let path = match mapping.path {
            "" => "[anonymous]",
            path => path.trim_end_matches(" (deleted)"),
        };
        let symbols = files(pid, mapping)
            .iter()
            .find_map(|file| Symbols::read(file));
        let symbols = symbols.unwrap_or_else(Symbols::nothing);
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or(path).trim_matches(['[', ']']);
        let nature = Nature::of(path.trim_start_matches("[anonymous]"));
        let unknown = self.frame(&format!("[{name}]"), nature.part(""), false);
        self.binaries.push(Binary {
            path: path.to_owned(),
            nature,
            frames: vec![None; symbols.functions.len()],
            symbols,
            unknown,
        });
        let number = self.binaries.len() - 1;
        self.by_file.insert(key, number);
        number
    }
}

/// Where a mapped file can be read: as its process sees it, as this one does, or through the mapping
/// itself, which is there for files that were deleted too.
fn files(pid: u32, mapping: &Mapping<'_>) -> Vec<PathBuf> {
    let Mapping {
        start, end, path, ..
    } = mapping;
    if !path.starts_with('/') {
        return Vec::new();
    }
    let mapped = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    [
        mapped,
        format!("/proc/{pid}/root{path}"),
        (*path).to_owned(),
    ]
    .map(PathBuf::from)
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_with_code_are_read() {
        let line = "7f00a000-7f00b000 r-xp 00026000 fe:01 1234   /usr/lib/my lib.so (deleted)";
        let read = parse_mapping(line).unwrap();
        assert_eq!(
            (read.start, read.end, read.offset),
            (0x7f00_a000, 0x7f00_b000, 0x26000)
        );
        assert_eq!(
            (read.file, read.path),
            (("fe:01", 1234), "/usr/lib/my lib.so (deleted)")
        );
        let anonymous = parse_mapping("7f00a000-7f00b000 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.path, anonymous.file.1), ("", 0));
        assert_eq!(
            parse_mapping("7f00a000-7f00b000 rw-p 00026000 fe:01 1234 /x"),
            None
        );
        assert_eq!(parse_mapping("7f00a000"), None);
    }

    #[test]
    fn files_are_told_apart_by_where_they_come_from() {
        let told = [
            ("/usr/lib/postgresql/15/bin/postgres", Nature::Server),
            (
                "/usr/lib/postgresql/15/lib/plpgsql.so",
                Nature::Whole("language"),
            ),
            (
                "/usr/lib/postgresql/15/lib/llvmjit.so",
                Nature::Whole("jit"),
            ),
            (
                "/usr/lib/postgresql/15/lib/pg_stat_statements.so",
                Nature::Whole("extensions"),
            ),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", Nature::Library),
            (
                "/var/cache/tenbin/postgresql-18.6/lib/libpq.so.5",
                Nature::Library,
            ),
            ("", Nature::Whole("jit")),
        ];
        for (path, nature) in told {
            assert_eq!(Nature::of(path), nature, "{path}");
        }
    }

    #[test]
    fn what_would_end_a_frame_does_not_stand_in_one() {
        let mut places = Places::new(None, None);
        let frame = places.frame("<[u8; 4]>::x\n", Part::Callers, true);
        assert_eq!(places.frames[frame as usize].text, "<[u8: 4]>::x:");
    }
}
