//! Samples counted by kind of process, part of the program, file and stack.

use super::Named;
use super::kernel::{Sample, Who};
use super::modules::KERNEL_OTHER;
use super::places::{FrameId, Part, Places};
use crate::kind::Kind;
use std::collections::{BTreeMap, HashMap};
use tenbin_record::observation::{BinaryProfile, KindProfile};
use tenbin_record::profile::Stack;
use tenbin_record::samples::{DRIVER, TP_MONITOR};

/// Different stacks that are kept; of more only the kind of process is.
const STACKS_MAX: usize = 200_000;
const MORE: &str = "[stacks beyond what is kept]";
/// Functions with which a program or a thread begins.
const BEGINNINGS: [&str; 5] = ["main", "_start", "start_thread", "clone3", "__clone"];

/// Samples in one file: all, and those without a function.
type InFile = (u64, u64);

/// All that was sampled.
pub(super) struct Stacks {
    pub(super) places: Places,
    counts: HashMap<Box<[FrameId]>, u64>,
    kinds: BTreeMap<Kind, Counted>,
    files: HashMap<usize, InFile>,
    kernel: InFile,
    nowhere: u64,
    /// The stack of the sample at hand, innermost first.
    stack: Vec<FrameId>,
}

#[derive(Debug, Default)]
struct Counted {
    samples: u64,
    kernel: u64,
    whole: u64,
    modules: BTreeMap<&'static str, u64>,
}

/// Where the innermost function of a program is.
enum Innermost {
    /// In this file, with a name or without.
    File(usize, bool),
    /// In no file.
    Nowhere,
}

impl Stacks {
    pub(super) fn new(places: Places) -> Self {
        Self {
            places,
            counts: HashMap::new(),
            kinds: BTreeMap::new(),
            files: HashMap::new(),
            kernel: (0, 0),
            nowhere: 0,
            stack: Vec::new(),
        }
    }

    /// Takes a sample; one from outside the interval only to know its functions when they come again.
    pub(super) fn add(&mut self, sample: &Sample<'_>, inside: bool) {
        let mut stack = std::mem::take(&mut self.stack);
        stack.clear();
        for (depth, address) in sample.kernel().enumerate() {
            stack.push(self.places.in_kernel(address, depth > 0));
        }
        let kernel = stack.len();
        let innermost = self.walk(sample, &mut stack);
        if inside {
            self.count(sample, &mut stack, kernel, innermost.as_ref());
        }
        self.stack = stack;
    }

    /// Puts the program's functions on the stack, up to the first address that is none: what follows
    /// was no stack (a program without frame pointers has none that can be followed).
    fn walk(&mut self, sample: &Sample<'_>, stack: &mut Vec<FrameId>) -> Option<Innermost> {
        let mut innermost = None;
        for (depth, address) in sample.user().enumerate() {
            // 0 and its like end a thread's stack.
            let found = (address > 4096)
                .then(|| self.places.in_program(sample, address, depth > 0))
                .flatten();
            let Some((frame, file)) = found else {
                return innermost.or(Some(Innermost::Nowhere));
            };
            let resolved = self.places.frames[index(frame)].resolved;
            innermost = innermost.or(Some(Innermost::File(file, resolved)));
            stack.push(frame);
        }
        innermost
    }

    fn count(
        &mut self,
        sample: &Sample<'_>,
        stack: &mut Vec<FrameId>,
        kernel: usize,
        innermost: Option<&Innermost>,
    ) {
        let kind = kind(sample);
        let module = self.module(kind, &stack[..kernel], &stack[kernel..]);
        let frame = |id: &FrameId| &self.places.frames[index(*id)];
        let whole = match stack[kernel..].last() {
            Some(_) => stack[kernel..]
                .iter()
                .any(|id| BEGINNINGS.contains(&frame(id).text.as_str())),
            None => sample.who == Who::Kernel,
        };
        let counted = self.kinds.entry(kind).or_default();
        counted.samples += 1;
        counted.kernel += u64::from(kernel > 0);
        counted.whole += u64::from(whole);
        *counted.modules.entry(module).or_default() += 1;
        let unnamed = stack[..kernel]
            .first()
            .is_some_and(|id| !frame(id).resolved);
        match innermost {
            _ if kernel > 0 => {
                self.kernel.0 += 1;
                self.kernel.1 += u64::from(unnamed);
            }
            Some(Innermost::File(file, resolved)) => {
                let of = self.files.entry(*file).or_default();
                of.0 += 1;
                of.1 += u64::from(!*resolved);
            }
            _ => self.nowhere += 1,
        }
        if kernel == 0 && !matches!(innermost, Some(Innermost::File(..))) {
            stack.insert(0, self.places.frame("[unknown]", Part::Callers, false));
        }
        stack.push(self.places.frame(kind.name(), Part::Callers, true));
        self.keep(stack);
    }

    fn keep(&mut self, stack: &mut Vec<FrameId>) {
        if let Some(count) = self.counts.get_mut(stack.as_slice()) {
            *count += 1;
            return;
        }
        if self.counts.len() >= STACKS_MAX {
            let kind = stack.pop();
            stack.clear();
            stack.push(self.places.frame(MORE, Part::Callers, true));
            stack.extend(kind);
        }
        *self.counts.entry(stack.as_slice().into()).or_default() += 1;
    }

    /// In the kernel, what it was asked for; in a program, the part of the innermost function that
    /// belongs to one.
    fn module(&self, kind: Kind, kernel: &[FrameId], program: &[FrameId]) -> &'static str {
        let frame = |id: &FrameId| &self.places.frames[index(*id)];
        let part = |id: &FrameId| match frame(id).part {
            Part::Own(part) => Some(part),
            Part::Callers | Part::Library => None,
        };
        if !kernel.is_empty() {
            return kernel.iter().rev().find_map(part).unwrap_or(KERNEL_OTHER);
        }
        match kind {
            Kind::Driver => return DRIVER,
            Kind::TpMonitor => return TP_MONITOR,
            _ => {}
        }
        let known = program.iter().find_map(part);
        known.unwrap_or(match program.first().map(frame) {
            Some(first) if first.part == Part::Library => "libraries",
            Some(first) if first.resolved => "other",
            _ => "unresolved",
        })
    }

    /// By kind of process.
    pub(super) fn kinds(&self) -> Named<KindProfile> {
        let kind = |(kind, of): (&Kind, &Counted)| {
            let modules = of
                .modules
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count));
            let profile = KindProfile {
                samples: of.samples,
                kernel: of.kernel,
                whole: of.whole,
                modules: modules.collect(),
            };
            (kind.name().to_owned(), profile)
        };
        self.kinds.iter().map(kind).collect()
    }

    /// By file.
    pub(super) fn binaries(&self) -> Named<BinaryProfile> {
        let mut all = Named::<BinaryProfile>::new();
        let mut add = |name: &str, (samples, unresolved): InFile, symbols: &str| {
            if samples > 0 {
                let of = all.entry(name.to_owned()).or_default();
                of.samples += samples;
                of.unresolved += unresolved;
                symbols.clone_into(&mut of.symbols);
            }
        };
        let known = if self.places.knows_kernel() {
            "symbol table"
        } else {
            "none"
        };
        add("[kernel]", self.kernel, known);
        add("[unknown]", (self.nowhere, self.nowhere), "none");
        for (file, counted) in &self.files {
            let binary = &self.places.binaries[*file];
            add(&binary.path, *counted, binary.symbols.origin.name());
        }
        all
    }

    /// What has no names, and why.
    pub(super) fn absent(&mut self) -> Vec<(&'static str, String)> {
        let mut absent = Vec::new();
        if !self.places.knows_kernel() {
            let reason =
                "/proc/kallsyms hides them from this user: run as root or grant CAP_SYSLOG";
            absent.push(("names of the kernel's functions", reason.to_owned()));
        }
        if let Some(reason) = self.places.denied.take() {
            absent.push(("names of some processes' functions", reason));
        }
        absent
    }

    /// Every stack, from the outermost function.
    pub(super) fn folded(&self) -> Vec<Stack> {
        let text = |id: &FrameId| self.places.frames[index(*id)].text.clone();
        let mut stacks = Vec::with_capacity(self.counts.len());
        for (ids, samples) in &self.counts {
            stacks.push(Stack {
                frames: ids.iter().rev().map(text).collect(),
                samples: *samples,
            });
        }
        stacks
    }
}

fn index(frame: FrameId) -> usize {
    usize::try_from(frame).unwrap_or(usize::MAX)
}

fn kind(sample: &Sample<'_>) -> Kind {
    match sample.who {
        Who::Driver => Kind::Driver,
        Who::Pooler => Kind::TpMonitor,
        Who::Postmaster => Kind::Postmaster,
        Who::Kernel => Kind::KernelThreads,
        Who::Child => Kind::of_title(&String::from_utf8_lossy(sample.title).replace('\0', " ")),
    }
}
