//! The kernel's half: loading it, reading what it sends, taking it down.

use crate::device::{DEVICES_MAX, Range};
use crate::error::{Error, release};
use crate::event::{self, IO_BYTES, Io, Record};
use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Built from the C beside it by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/iotrace.bpf.o");

/// Smallest ring: a page of the smallest kind. It holds two records of a file's name and little else.
pub const RING_BYTES_MIN: u64 = 4096;
/// Largest ring.
pub const RING_BYTES_MAX: u64 = 1 << 30;

/// Steps after which a look over the requests in flight gives up for this time: four times as many
/// as fit. The kernel starts over when the entry it stands on is removed.
const LOOK_STEPS_MAX: usize = 4 * 65_536;

/// What the kernel's half counted. The order is that of its `COUNT_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    issued: u64,
    ended: u64,
    sent: u64,
    /// I/Os without a record.
    pub(crate) lost: u64,
    overflow: u64,
    /// Whether an overflow is a loss.
    one_process: bool,
}

impl Counters {
    /// Requests that have begun and not ended, as far as was seen.
    pub(crate) fn under_way(&self) -> u64 {
        self.issued.saturating_sub(self.ended)
    }

    /// Records of I/Os that are or were on the ring.
    pub(crate) fn on_ring(&self) -> u64 {
        let never_sent = if self.one_process { self.overflow } else { 0 };
        self.sent - (self.lost - never_sent)
    }
}

/// Whether the kernel takes the tracer: its programs are put on their tracepoints and taken off again.
///
/// # Errors
/// [`Error::Permission`], [`Error::Kernel`] or [`Error::Load`], which say what to grant or to change.
pub fn probe() -> Result<(), Error> {
    Kernel::start(&[], None, RING_BYTES_MIN).map(drop)
}

/// The programs in the kernel. Dropping it takes them out; so does the end of the process, however it ends.
pub(crate) struct Kernel {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    in_flight: HashMap<MapData, u64, [u64; IO_BYTES / 8]>,
    counters: PerCpuArray<MapData, u64>,
    one_process: bool,
}

impl Kernel {
    /// Loads the programs and puts them on their tracepoints.
    pub(crate) fn start(
        ranges: &[Range],
        root_pid: Option<u32>,
        ring_bytes: u64,
    ) -> Result<Self, Error> {
        if ranges.len() > DEVICES_MAX {
            return Err(Error::TooManyDevices(ranges.len()));
        }
        let mut ebpf = load(ranges, root_pid, ring_bytes)?;
        let map = |source| Error::Map {
            map: "maps",
            source: Box::new(source),
        };
        choose(&mut ebpf, ranges).map_err(map)?;
        let mut take = |name: &'static str| {
            let missing = || Error::Map {
                map: name,
                source: Box::new(aya::maps::MapError::InvalidName { name: name.into() }),
            };
            ebpf.take_map(name).ok_or_else(missing)
        };
        let ring = RingBuf::try_from(take("EVENTS")?).map_err(map)?;
        let in_flight = HashMap::try_from(take("IN_FLIGHT")?).map_err(map)?;
        let counters = PerCpuArray::try_from(take("COUNTERS")?).map_err(map)?;
        let mut started = Array::<_, u64>::try_from(take("STARTED")?).map_err(map)?;
        let mut kernel = Self {
            ebpf,
            ring,
            in_flight,
            counters,
            one_process: root_pid.is_some(),
        };
        kernel.attach()?;
        started.set(0, monotonic_ns(), 0).map_err(map)?;
        Ok(kernel)
    }

    /// Completions first: an I/O that is seen to begin is then seen to end.
    fn attach(&mut self) -> Result<(), Error> {
        let btf = Btf::from_sys_fs().map_err(|error| no_btf(&error))?;
        let programs = [
            ("complete", "block_rq_complete"),
            ("requeue", "block_rq_requeue"),
            ("issue", "block_rq_issue"),
        ];
        for (program, tracepoint) in programs {
            self.program(program)?
                .load(tracepoint, &btf)
                .map_err(|error| refusal(error.into()))?;
        }
        for (program, _) in programs {
            self.program(program)?
                .attach()
                .map_err(|error| refusal(error.into()))?;
        }
        Ok(())
    }

    fn program(&mut self, name: &'static str) -> Result<&mut BtfTracePoint, Error> {
        let missing = || Error::Kernel {
            release: release(),
            reason: format!(
                "its half of the tracer lacks the program {name}: build it again with `cargo xtask bpf`"
            ),
        };
        let program = self.ebpf.program_mut(name).ok_or_else(missing)?;
        program.try_into().map_err(|_| missing())
    }

    /// Waits until the ring is a quarter full, a signal comes or the time is up.
    pub(crate) fn wait(&self, at_most: Duration) -> Result<(), Error> {
        let mut polled = [PollFd::new(&self.ring, PollFlags::IN)];
        let timeout = Timespec::try_from(at_most).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands every record that has come to `take`.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Record)) -> Result<(), Error> {
        while let Some(item) = self.ring.next() {
            let bytes = item.len();
            take(event::decode(&item).ok_or(Error::Record { bytes })?);
        }
        Ok(())
    }

    /// Requests that have been issued and have not completed; none when they change too fast to be told.
    pub(crate) fn in_flight(&self) -> Result<Option<Vec<Io>>, Error> {
        let mut found = Vec::new();
        for (step, entry) in self.in_flight.iter().enumerate() {
            if step > LOOK_STEPS_MAX {
                return Ok(None);
            }
            let (_, value) = entry.map_err(|source| Error::Map {
                map: "requests in flight",
                source: Box::new(source),
            })?;
            let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_ne_bytes()).collect();
            found
                .push(event::decode_in_flight(&bytes).ok_or(Error::Record { bytes: bytes.len() })?);
        }
        Ok(Some(found))
    }

    /// The counters, all CPUs together.
    pub(crate) fn counters(&self) -> Result<Counters, Error> {
        let read = |index: u32| {
            let values = self.counters.get(&index, 0).map_err(|source| Error::Map {
                map: "counters",
                source: Box::new(source),
            })?;
            Ok::<u64, Error>(values.iter().sum())
        };
        Ok(Counters {
            issued: read(0)?,
            ended: read(1)?,
            sent: read(2)?,
            lost: read(3)?,
            overflow: read(4)?,
            one_process: self.one_process,
        })
    }

    /// Takes the program off its tracepoint: nothing more is seen to begin.
    pub(crate) fn stop_issues(&mut self) -> Result<(), Error> {
        self.unload("issue")
    }

    /// Nothing more is seen to end.
    pub(crate) fn stop_completions(&mut self) -> Result<(), Error> {
        self.unload("requeue")?;
        self.unload("complete")
    }

    fn unload(&mut self, program: &'static str) -> Result<(), Error> {
        self.program(program)?
            .unload()
            .map_err(|error| refusal(error.into()))
    }
}

/// Now, by the clock of the kernel's half.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let parts = u64::try_from(now.tv_sec)
        .ok()
        .zip(u64::try_from(now.tv_nsec).ok());
    parts.map_or(0, |(s, ns)| s * 1_000_000_000 + ns)
}

fn load(ranges: &[Range], root_pid: Option<u32>, ring_bytes: u64) -> Result<Ebpf, Error> {
    let too_small = Error::RingTooSmall {
        given: ring_bytes,
        least: RING_BYTES_MIN,
    };
    if ring_bytes < RING_BYTES_MIN {
        return Err(too_small);
    }
    let ring = u32::try_from(ring_bytes.min(RING_BYTES_MAX)).map_err(|_| too_small)?;
    let btf = Btf::from_sys_fs().map_err(|error| no_btf(&error))?;
    let page_shift = rustix::param::page_size().trailing_zeros();
    let count = u32::try_from(ranges.len()).unwrap_or(0);
    let pid = root_pid.unwrap_or(0);
    let wake = u64::from(ring) / 4;
    EbpfLoader::new()
        .btf(Some(&btf))
        .override_global("PAGE_SHIFT", &page_shift, true)
        .override_global("RANGES", &count, true)
        .override_global("ROOT_PID", &pid, true)
        .override_global("WAKE_BYTES", &wake, true)
        .map_max_entries("EVENTS", ring)
        .load(OBJECT)
        .map_err(refusal)
}

/// Puts the chosen stretches where the kernel's half looks for them.
fn choose(ebpf: &mut Ebpf, ranges: &[Range]) -> Result<(), aya::maps::MapError> {
    let name = "DEVICES";
    let map = ebpf
        .map_mut(name)
        .ok_or_else(|| aya::maps::MapError::InvalidName { name: name.into() })?;
    let mut devices: Array<_, [u64; 3]> = Array::try_from(map)?;
    for (index, range) in (0..).zip(ranges) {
        let dev = u64::from_ne_bytes(padded(range.dev));
        devices.set(index, [range.first, range.end, dev], 0)?;
    }
    Ok(())
}

/// A number followed by four bytes of nothing.
fn padded(number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_ne_bytes();
    [a, b, c, d, 0, 0, 0, 0]
}

fn no_btf(error: &impl std::error::Error) -> Error {
    Error::Kernel {
        release: release(),
        reason: format!(
            "it does not tell its own types in /sys/kernel/btf/vmlinux ({error}): use one built with CONFIG_DEBUG_INFO_BTF, as distributions' kernels are"
        ),
    }
}

/// Tells a missing permission from a kernel that is too old, too new or too small.
fn refusal(error: EbpfError) -> Error {
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(one) = cause {
        let io = one.downcast_ref::<std::io::Error>();
        // EACCES is the verifier's answer; EPERM that of whoever guards the door.
        if io.and_then(std::io::Error::raw_os_error) == Some(Errno::PERM.raw_os_error()) {
            return Error::Permission {
                source: Box::new(error),
            };
        }
        cause = one.source();
    }
    Error::Load {
        release: release(),
        source: Box::new(error),
    }
}
