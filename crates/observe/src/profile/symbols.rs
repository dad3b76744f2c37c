//! Names of functions: from a binary's own tables, its debug file, or the kernel's list.

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef, SymbolKind};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where distributions put the debug files of stripped binaries, by build ID.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";

/// Where names come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// All functions.
    Table,
    /// All functions, from a file beside the binary.
    DebugFile,
    /// Those that other binaries may call: a stripped binary has no others.
    Exported,
    /// It has none, or could not be read.
    Nothing,
}

impl Origin {
    /// As told in `run.json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Table => "symbol table",
            Self::DebugFile => "debug file",
            Self::Exported => "exported functions only",
            Self::Nothing => "none",
        }
    }
}

/// A function: addresses, and where its name stands.
#[derive(Debug, Clone, Copy)]
struct Function {
    start: u64,
    end: u64,
    name: (u32, u32),
}

/// Functions by address.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    names: String,
    sorted: Vec<Function>,
}

impl Functions {
    /// From start, size (0: up to the next) and name, in any order. Of several at one place the first counts.
    fn new<'a>(all: impl Iterator<Item = (u64, u64, &'a str)>) -> Self {
        let mut functions = Self::default();
        for (start, size, name) in all {
            let from = functions.names.len();
            functions.names.push_str(name);
            let to = functions.names.len();
            if let (Ok(from), Ok(to)) = (u32::try_from(from), u32::try_from(to)) {
                functions.sorted.push(Function {
                    start,
                    end: start.saturating_add(size),
                    name: (from, to),
                });
            }
        }
        functions.sorted.sort_by_key(|function| function.start);
        functions.sorted.dedup_by_key(|function| function.start);
        for next in (1..functions.sorted.len()).rev() {
            let start = functions.sorted[next].start;
            let function = &mut functions.sorted[next - 1];
            if function.end == function.start {
                function.end = start;
            }
        }
        functions
    }

    /// The function at an address, by its place in the order of addresses.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        let after = self
            .sorted
            .partition_point(|function| function.start <= address);
        let found = after.checked_sub(1)?;
        (address < self.sorted[found].end).then_some(found)
    }

    /// Its name; none beyond the last.
    pub(crate) fn name(&self, function: usize) -> &str {
        let name = self.sorted.get(function).map_or((0, 0), |of| of.name);
        let at = |end: u32| usize::try_from(end).unwrap_or(0);
        self.names.get(at(name.0)..at(name.1)).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.sorted.len()).map(|function| self.name(function))
    }
}

/// What is known of a binary.
#[derive(Debug)]
pub(crate) struct Symbols {
    pub(crate) origin: Origin,
    pub(crate) functions: Functions,
    /// Stretches of the file and the addresses that they are meant for: offset, length, address.
    segments: Vec<(u64, u64, u64)>,
}

impl Symbols {
    /// Of a binary that cannot be read.
    pub(crate) fn nothing() -> Self {
        Self {
            origin: Origin::Nothing,
            functions: Functions::default(),
            segments: Vec::new(),
        }
    }

    /// Reads a binary; none where it is no ELF file or cannot be read.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        // Parts of it: the driver's own would come to a good deal of memory.
        let data = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&data).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        let segments = segments.collect();
        let own = functions(file.symbols());
        let (origin, functions) = if own.len() > 0 {
            (Origin::Table, own)
        } else if let Some(found) = debug_file(&file) {
            (Origin::DebugFile, found)
        } else {
            let exported = functions(file.dynamic_symbols());
            let some = exported.len() > 0;
            let origin = if some {
                Origin::Exported
            } else {
                Origin::Nothing
            };
            (origin, exported)
        };
        Some(Self {
            origin,
            functions,
            segments,
        })
    }

    /// The function at a place in the file.
    pub(crate) fn at(&self, offset: u64) -> Option<usize> {
        let inside =
            |(from, length, _): &&(u64, u64, u64)| offset >= *from && offset - from < *length;
        let (from, _, address) = self.segments.iter().find(inside)?;
        self.functions.at(address.wrapping_add(offset - from))
    }
}

fn functions<'data: 'file, 'file, R: ReadRef<'data> + 'file>(
    symbols: impl Iterator<Item = object::Symbol<'data, 'file, R>>,
) -> Functions {
    let code = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    Functions::new(code.filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| !name.is_empty())?;
        Some((symbol.address(), symbol.size(), name))
    }))
}

/// Functions from the debug file that has the binary's build ID.
fn debug_file<'data, R: ReadRef<'data>>(file: &object::File<'data, R>) -> Option<Functions> {
    let path = debug_path(file.build_id().ok()??)?;
    let data = ReadCache::new(File::open(path).ok()?);
    let found = functions(object::File::parse(&data).ok()?.symbols());
    (found.len() > 0).then_some(found)
}

fn debug_path(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let mut path = format!("{DEBUG_FILES}/{first:02x}/");
    for byte in rest {
        let _ = write!(path, "{byte:02x}");
    }
    Some(PathBuf::from(path + ".debug"))
}

/// The kernel's functions; none where this user may not know their addresses.
pub(crate) fn kernel() -> Functions {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    parse_kernel(&text)
}

/// Lines are address, kind, name, and the module's in brackets. A kernel that hides addresses tells 0.
fn parse_kernel(text: &str) -> Functions {
    let function = |line| -> Option<(u64, u64, &str)> {
        let mut words = str::split_ascii_whitespace(line);
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        let code = address > 0 && matches!(kind, "t" | "T" | "w" | "W");
        Some((address, 0, words.next()?)).filter(|_| code)
    };
    Functions::new(text.lines().filter_map(function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_function_ends_where_it_says_or_where_the_next_begins() {
        let all = [
            (100, 10, "b"),
            (50, 0, "a"),
            (100, 10, "alias"),
            (200, 5, "c"),
        ];
        let functions = Functions::new(all.into_iter());
        let name = |address| functions.at(address).map(|found| functions.name(found));
        assert_eq!(name(49), None);
        assert_eq!((name(50), name(99)), (Some("a"), Some("a")));
        assert_eq!(
            (name(100), name(109), name(110)),
            (Some("b"), Some("b"), None)
        );
        assert_eq!((name(204), name(205)), (Some("c"), None));
    }

    #[test]
    fn the_kernels_list_is_read_and_hidden_addresses_are_not() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t do_one\nffffffff81000100 D data\nffffffffc0000000 t in_module\t[ext4]\n";
        let functions = parse_kernel(text);
        let found = functions.at(0xffff_ffff_8100_0123).unwrap();
        assert_eq!((functions.name(found), functions.len()), ("do_one", 3));
        assert_eq!(parse_kernel("0000000000000000 T _text\n").len(), 0);
    }

    #[test]
    fn debug_files_are_found_by_build_id() {
        let path = debug_path(&[0x44, 0xc0, 0x07]).unwrap();
        assert_eq!(path, Path::new("/usr/lib/debug/.build-id/44/c007.debug"));
        assert_eq!(debug_path(&[]), None);
    }

    #[test]
    fn this_test_finds_itself() {
        let symbols = Symbols::read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(symbols.origin, Origin::Table);
        let own = symbols.functions.names();
        assert!(
            own.filter(|name| name.contains("this_test_finds_itself"))
                .count()
                > 0
        );
    }

    proptest! {
        #[test]
        fn damaged_binaries_are_no_reason_to_fail(
            at in 0..2048_usize, byte in any::<u8>(), length in 0..4096_usize
        ) {
            let mut data = std::fs::read("/bin/true").unwrap();
            data[at] = byte;
            data.truncate(data.len().min(length + 2048));
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("binary");
            std::fs::write(&path, data).unwrap();
            if let Some(symbols) = Symbols::read(&path) {
                for offset in [0, 4096, u64::MAX] {
                    symbols.at(offset);
                }
            }
        }
    }
}
