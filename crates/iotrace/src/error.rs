//! What can go wrong with a trace.

use tenbin_record::RecordError;

/// An error of the tracer; each message says what was tried, what came back and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such disk.
    #[error("there is no block device {name}: {reason}; `lsblk` lists them")]
    NoDevice {
        /// As it was given.
        name: String,
        /// What came back.
        reason: String,
    },
    /// The device handles no requests of its own.
    #[error(
        "{name} passes its I/O on without requests of its own, so none would be seen: trace what lies below it{}",
        below(slaves)
    )]
    NoRequests {
        /// The device.
        name: String,
        /// What it passes them on to.
        slaves: Vec<String>,
    },
    /// More devices than the kernel's half can tell apart.
    #[error("{0} devices are more than the {max} that can be chosen at once: leave --device away to trace all", max = crate::device::DEVICES_MAX)]
    TooManyDevices(usize),
    /// The ring is too small to hold a record.
    #[error("a ring of {given} bytes cannot hold a record: give at least {least}")]
    RingTooSmall {
        /// As it was given.
        given: u64,
        /// The smallest.
        least: u64,
    },
    /// The kernel refuses.
    #[error(
        "the kernel refuses to load the tracer ({source}): run as root, or grant CAP_BPF and CAP_PERFMON (setcap cap_bpf,cap_perfmon+ep on the program); in a container also --privileged"
    )]
    Permission {
        /// What came back.
        source: Box<aya::EbpfError>,
    },
    /// The kernel lacks something.
    #[error("this kernel ({release}) cannot run the tracer: {reason}")]
    Kernel {
        /// `uname -r`.
        release: String,
        /// What is missing, and what to do.
        reason: String,
    },
    /// The kernel does not take the programs.
    #[error(
        "the kernel ({release}) does not take the tracer's programs; it was written for Linux 5.16 to 6.18"
    )]
    Load {
        /// `uname -r`.
        release: String,
        /// What came back.
        source: Box<aya::EbpfError>,
    },
    /// A map of the kernel's half cannot be read.
    #[error("cannot read the tracer's {map}")]
    Map {
        /// Its name.
        map: &'static str,
        /// What came back.
        source: Box<aya::maps::MapError>,
    },
    /// A record that is none.
    #[error(
        "the kernel's half sent a record of {bytes} bytes that is none of this version's: build it again with `cargo xtask bpf`"
    )]
    Record {
        /// Its length.
        bytes: usize,
    },
    /// Records do not add up.
    #[error("the trace does not add up: {0}; please report this as a fault of tenbin")]
    Unbalanced(String),
    /// Waiting failed.
    #[error("cannot wait for the kernel's records: {0}")]
    Wait(#[from] rustix::io::Errno),
    /// The process to be traced is gone.
    #[error("there is no process {0}: `ps` lists them")]
    NoProcess(u32),
    /// The cluster cannot be told.
    #[error("{0}")]
    Cluster(String),
    /// The server does not answer as it should.
    #[error("cannot ask the server for {what}")]
    Server {
        /// What was asked.
        what: &'static str,
        /// What came back.
        source: postgres::Error,
    },
    /// A trace of a larger disk.
    #[error(
        "the trace reaches beyond the end of the disk {disk} ({sectors} sectors): an I/O of {device} starts at {sector}; choose a larger disk"
    )]
    BeyondModel {
        /// The model.
        disk: &'static str,
        /// Its size, sectors.
        sectors: u64,
        /// Where the I/O starts.
        sector: u64,
        /// The disk traced.
        device: String,
    },
    /// The trace cannot be written or read.
    #[error(transparent)]
    Directory(#[from] RecordError),
}

fn below(slaves: &[String]) -> String {
    if slaves.is_empty() {
        String::new()
    } else {
        format!(" ({})", slaves.join(", "))
    }
}

/// `uname -r`.
pub(crate) fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}
