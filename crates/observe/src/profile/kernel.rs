//! The kernel's half: loaded, put on every CPU's clock, read, taken down.

use super::Error;
use crate::bpf;
use aya::maps::{MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::util::online_cpus;
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use std::sync::Arc;
use std::time::Instant;

/// Built from the C beside it by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/profile.bpf.o");

/// Looks a second at each CPU. A prime number, so as not to keep step with what happens a round number
/// of times a second.
pub(crate) const RATE_HZ: u64 = 199;
const CLOCK: PerfEventConfig = PerfEventConfig::Software(SoftwareEvent::CpuClock);
/// Room for samples, of each CPU: five seconds of stacks of half the greatest depth.
const RING_BYTES_EACH: usize = 1 << 20;
const RING_BYTES_MAX: usize = 64 << 20;

/// Work in a row by which the cost of a look is measured, how many rows, and the time between looks then.
const COST_STEPS: u32 = 100_000;
const COST_ROWS: u32 = 15;
const COST_PERIOD_NS: u64 = 50_000;

const TITLE: usize = 160;
/// Length of what comes before the addresses in a record.
const HEAD: usize = 32 + TITLE;

/// Whose sample it is, as the kernel's half can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Driver,
    Pooler,
    Postmaster,
    Child,
    Kernel,
}

/// What a CPU was found to execute.
#[derive(Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    /// When, nanoseconds of the monotonic clock.
    pub(crate) at_ns: u64,
    /// When its process began, by a clock that tells two processes of one number apart.
    pub(crate) started: u64,
    pub(crate) process: u32,
    pub(crate) who: Who,
    /// Title of a child of the postmaster.
    pub(crate) title: &'a [u8],
    kernel: &'a [u8],
    user: &'a [u8],
}

impl<'a> Sample<'a> {
    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let who = [
            Who::Driver,
            Who::Pooler,
            Who::Postmaster,
            Who::Child,
            Who::Kernel,
        ];
        let kernel_bytes = usize::try_from(half(24)?).ok()?;
        let user_bytes = usize::try_from(half(28)?).ok()?;
        let stacks = bytes.get(HEAD..)?;
        let (kernel, user) = stacks.split_at_checked(kernel_bytes)?;
        Some(Self {
            at_ns: word(0)?,
            started: word(8)?,
            process: half(16)?,
            who: *who.get(usize::try_from(half(20)?).ok()?)?,
            title: bytes.get(32..HEAD)?,
            kernel,
            user: user.get(..user_bytes)?,
        })
    }

    /// Addresses in the kernel, innermost first; empty in user mode.
    pub(crate) fn kernel(&self) -> impl DoubleEndedIterator<Item = u64> + use<'a> {
        words(self.kernel)
    }

    /// Addresses in the program, innermost first.
    pub(crate) fn user(&self) -> impl DoubleEndedIterator<Item = u64> + use<'a> {
        words(self.user)
    }
}

fn words(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u64::from_ne_bytes(*word))
}

/// What the kernel's half counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) looks: u64,
    /// Nanoseconds in its program.
    ns: u64,
    pub(crate) lost: u64,
}

impl Counters {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            looks: self.looks - before.looks,
            ns: self.ns - before.ns,
            lost: self.lost - before.lost,
        }
    }
}

/// Reads what the kernel's half counts.
#[derive(Clone)]
pub(crate) struct Counting(Arc<PerCpuArray<MapData, u64>>);

impl Counting {
    /// All CPUs' counters together.
    pub(crate) fn now(&self) -> Result<Counters, MapError> {
        let read = |index: u32| Ok::<u64, MapError>(self.0.get(&index, 0)?.iter().sum());
        Ok(Counters {
            looks: read(0)?,
            ns: read(1)?,
            lost: read(2)?,
        })
    }
}

/// The programs in the kernel. Dropping it takes them out; so does the end of the process.
pub(crate) struct Kernel {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    pub(crate) counting: Counting,
    /// What an interruption takes beside the program that it executes, nanoseconds.
    around_ns: f64,
}

impl Kernel {
    /// Loads the program, measures what a look costs, and puts it on the clock of every CPU.
    pub(crate) fn start(postmaster: Option<u32>, pooler: Option<u32>) -> Result<Self, Error> {
        let btf = Btf::from_sys_fs().map_err(EbpfError::from)?;
        let cpus = online_cpus().map_err(|(_, error)| Error::Processors(error))?;
        let ring_bytes = (cpus.len() * RING_BYTES_EACH).min(RING_BYTES_MAX);
        let ring_bytes = u32::try_from(ring_bytes.next_power_of_two()).unwrap_or(u32::MAX);
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("DRIVER", &std::process::id(), true)
            .override_global("POOLER", &pooler.unwrap_or(0), true)
            .override_global("POSTMASTER", &postmaster.unwrap_or(0), true)
            .map_max_entries("SAMPLES", ring_bytes)
            .load(OBJECT)?;
        program(&mut ebpf)?.load().map_err(EbpfError::from)?;
        let mut take = |name| ebpf.take_map(name).ok_or_else(|| bpf::missing(name));
        let ring = RingBuf::try_from(take("SAMPLES")?)?;
        let counting = Counting(Arc::new(PerCpuArray::try_from(take("COUNTERS")?)?));
        let mut kernel = Self {
            ebpf,
            ring,
            counting,
            around_ns: 0.0,
        };
        kernel.around_ns = kernel.calibrate()?;
        for cpu in cpus {
            let scope = PerfEventScope::AllProcessesOneCpu { cpu };
            let policy = SamplePolicy::Period(1_000_000_000 / RATE_HZ);
            program(&mut kernel.ebpf)?
                .attach(CLOCK, scope, policy, false)
                .map_err(EbpfError::from)?;
        }
        Ok(kernel)
    }

    /// What an interruption takes beside the program: the same work with and without many of them.
    fn calibrate(&mut self) -> Result<f64, Error> {
        let least = || {
            let rows = (0..COST_ROWS).map(|_| row_ns());
            rows.fold(f64::INFINITY, f64::min)
        };
        let quiet_ns = least();
        let before = self.counting.now()?;
        let scope = PerfEventScope::CallingProcess { cpu: None };
        let policy = SamplePolicy::Period(COST_PERIOD_NS);
        let program = program(&mut self.ebpf)?;
        let link = program
            .attach(CLOCK, scope, policy, false)
            .map_err(EbpfError::from)?;
        let disturbed_ns = least();
        program.detach(link).map_err(EbpfError::from)?;
        let seen = self.counting.now()?.since(before);
        if seen.looks == 0 {
            return Ok(0.0);
        }
        let each_ns = (disturbed_ns - quiet_ns) / disturbed_ns * COST_PERIOD_NS as f64;
        Ok((each_ns - seen.ns as f64 / seen.looks as f64).max(0.0))
    }

    /// Hands every sample that has come to `take`.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&Sample<'_>)) -> Result<(), Error> {
        while let Some(item) = self.ring.next() {
            let bytes = item.len();
            take(&Sample::decode(&item).ok_or(Error::Record { bytes })?);
        }
        Ok(())
    }

    /// What so many looks took on average, nanoseconds.
    pub(crate) fn look_ns(&self, counted: Counters) -> f64 {
        self.around_ns + counted.ns as f64 / counted.looks.max(1) as f64
    }

    /// Takes the program off the clocks.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        program(&mut self.ebpf)?.unload().map_err(EbpfError::from)?;
        Ok(())
    }
}

fn program(ebpf: &mut Ebpf) -> Result<&mut PerfEvent, Error> {
    let program = ebpf.program_mut("look");
    let program = program.ok_or_else(|| bpf::missing("look"))?;
    Ok(program.try_into().map_err(EbpfError::from)?)
}

/// Time of a row of work, nanoseconds.
fn row_ns() -> f64 {
    let begun = Instant::now();
    let mut value = 1_u64;
    for step in 0..COST_STEPS {
        value = std::hint::black_box(value.rotate_left(5) ^ u64::from(step));
    }
    std::hint::black_box(value);
    begun.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kernel: &[u64], user: &[u64], who: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(7_u64.to_ne_bytes());
        bytes.extend(8_u64.to_ne_bytes());
        for word in [
            9,
            who,
            8 * u32::try_from(kernel.len()).unwrap(),
            8 * u32::try_from(user.len()).unwrap(),
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([b'x'; TITLE]);
        bytes.extend(
            kernel
                .iter()
                .chain(user)
                .flat_map(|word| word.to_ne_bytes()),
        );
        bytes
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_are_written(
            kernel in prop::collection::vec(any::<u64>(), 0..127),
            user in prop::collection::vec(any::<u64>(), 0..127),
        ) {
            let bytes = record(&kernel, &user, 3);
            let sample = Sample::decode(&bytes).unwrap();
            prop_assert_eq!((sample.at_ns, sample.started, sample.process), (7, 8, 9));
            prop_assert_eq!(sample.who, Who::Child);
            prop_assert_eq!(sample.kernel().collect::<Vec<_>>(), kernel);
            prop_assert_eq!(sample.user().collect::<Vec<_>>(), user);
        }

        #[test]
        fn whatever_is_cut_off_is_no_sample(cut in 0..300_usize) {
            let bytes = record(&[1, 2], &[3, 4, 5], 0);
            let cut = cut.min(bytes.len() - 1);
            prop_assert!(Sample::decode(&bytes[..cut]).is_none());
        }
    }

    #[test]
    fn an_unknown_process_is_no_sample() {
        assert!(Sample::decode(&record(&[], &[], 5)).is_none());
    }
}
