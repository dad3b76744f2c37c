//! A trace as other tools read it.

use crate::Error;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::{self, Write};
use tenbin_record::TraceDir;
use tenbin_record::io::{IoRow, Operation, Text};

/// What was left out of an export, or is left out by its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// I/Os that the format has no word for.
    pub wordless: u64,
    /// Discards, which are in the log, and which fio 3.33 skips.
    pub discards: u64,
}

/// Writes the trace as an I/O log of `fio`, version 3 (fio 3.31 and newer): every I/O in the order
/// and at the moment of its issue. `fio --replay_no_stall=1` leaves the moments out.
///
/// # Errors
/// When the trace cannot be read ([`Error`]) or the log not be written.
pub fn fio(trace: &TraceDir, to: &mut impl Write) -> Result<io::Result<LeftOut>, Error> {
    let mut left_out = LeftOut::default();
    let devices: Vec<String> = trace
        .trace()
        .devices
        .keys()
        .map(|name| path_of(name))
        .collect();
    let mut begin = || -> io::Result<()> {
        writeln!(to, "fio version 3 iolog")?;
        for action in ["add", "open"] {
            for device in &devices {
                writeln!(to, "0 {device} {action}")?;
            }
        }
        Ok(())
    };
    if let Err(error) = begin() {
        return Ok(Err(error));
    }
    let mut last_ns = 0;
    for rows in trace.ios()? {
        for row in rows? {
            last_ns = row.issue_ns;
            let Some(action) = fio_action(row.operation) else {
                left_out.wordless += 1;
                continue;
            };
            left_out.discards += u64::from(row.operation == Operation::Discard);
            let (at, device) = (fio_time(row.issue_ns), path_of(&row.device));
            let bytes = if row.operation == Operation::Flush {
                0
            } else {
                row.bytes
            };
            // Beyond 2^55 sectors there is no disk to replay on.
            let offset = row.sector.saturating_mul(512);
            if let Err(error) = writeln!(to, "{at} {device} {action} {offset} {bytes}") {
                return Ok(Err(error));
            }
        }
    }
    let mut end = || -> io::Result<()> {
        for device in &devices {
            writeln!(to, "{} {device} close", fio_time(last_ns))?;
        }
        to.flush()
    };
    Ok(end().map(|()| left_out))
}

fn path_of(device: &str) -> String {
    format!("/dev/{device}")
}

fn fio_action(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Read => Some("read"),
        Operation::Write => Some("write"),
        Operation::Flush => Some("sync"),
        Operation::Discard => Some("trim"),
        Operation::WriteZeroes | Operation::Other => None,
    }
}

/// fio counts microseconds from the start.
fn fio_time(issue_ns: i64) -> i64 {
    issue_ns.max(0) / 1000
}

/// Writes the trace as `blkparse` prints it: a line for each issue (D) and completion (C), in the
/// order of time. The CPU is not recorded and is 0.
///
/// # Errors
/// As [`fio`].
pub fn blkparse(trace: &TraceDir, to: &mut impl Write) -> Result<io::Result<()>, Error> {
    let mut lines = Lines::new(trace);
    for rows in trace.ios()? {
        for row in rows? {
            if let Err(error) = lines.issue(to, &row) {
                return Ok(Err(error));
            }
        }
    }
    Ok(lines.rest(to))
}

/// A completion still to be printed: when, and in which order it was issued.
type Pending = Reverse<(i64, u64)>;

struct Lines {
    numbers: BTreeMap<String, String>,
    pending: BinaryHeap<Pending>,
    rows: HashMap<u64, IoRow>,
    issued: u64,
    printed: u64,
}

impl Lines {
    fn new(trace: &TraceDir) -> Self {
        let number = |text: &str| {
            let (major, minor) = text.split_once(':').unwrap_or((text, "0"));
            format!("{major:>3},{minor:<3}")
        };
        let devices = trace.trace().devices.iter();
        Self {
            numbers: devices
                .map(|(name, device)| (name.clone(), number(&device.number)))
                .collect(),
            pending: BinaryHeap::new(),
            rows: HashMap::new(),
            issued: 0,
            printed: 0,
        }
    }

    fn issue(&mut self, to: &mut impl Write, row: &IoRow) -> io::Result<()> {
        self.completions(to, row.issue_ns)?;
        let sectors = row.bytes.div_ceil(512);
        let what = format!("{} + {sectors} [{}]", row.sector, row.process);
        self.print(to, row.issue_ns, row, "D", &what)?;
        if let Some(latency_ns) = row.latency_ns {
            let done_ns = row.issue_ns.saturating_add_unsigned(latency_ns);
            self.pending.push(Reverse((done_ns, self.issued)));
            self.rows.insert(self.issued, row.clone());
        }
        self.issued += 1;
        Ok(())
    }

    /// Prints the completions up to a moment.
    fn completions(&mut self, to: &mut impl Write, until_ns: i64) -> io::Result<()> {
        while let Some(Reverse((done_ns, number))) = self.pending.peek().copied() {
            if done_ns > until_ns {
                break;
            }
            self.pending.pop();
            if let Some(row) = self.rows.remove(&number) {
                // EIO stands for whatever the device answered.
                let error = if row.failed { -5 } else { 0 };
                let what = format!("{} + {} [{error}]", row.sector, row.bytes.div_ceil(512));
                self.print(to, done_ns, &row, "C", &what)?;
            }
        }
        Ok(())
    }

    fn rest(&mut self, to: &mut impl Write) -> io::Result<()> {
        self.completions(to, i64::MAX)?;
        to.flush()
    }

    /// blkparse's default format: `%D %2c %8s %5T.%9t %5p %2a %3d`.
    fn print(
        &mut self,
        to: &mut impl Write,
        at_ns: i64,
        row: &IoRow,
        action: &str,
        what: &str,
    ) -> io::Result<()> {
        self.printed += 1;
        let number = self
            .numbers
            .get(&*row.device)
            .map_or("  0,0  ", String::as_str);
        let at_ns = at_ns.max(0);
        let (seconds, rest) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        let (pid, flags, order): (u32, &Text, u64) = (row.pid, &row.flags, self.printed);
        writeln!(
            to,
            "{number} {:>2} {order:>8} {seconds:>5}.{rest:09} {pid:>5} {action:>2} {flags:>3} {what}",
            0
        )
    }
}
