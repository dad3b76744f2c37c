//! `tenbin trace record`: every request to a disk, until it is told to end.

use crate::exit::{Answer, Failure, Result};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime};
use tenbin_iotrace::{Cluster, Ending, Error, Options, Recorder};
use tenbin_record::trace::{Totals, Trace};
use tenbin_record::{RunWriter, default_path, new_id};
use tenbin_server::signals::Graceful;

/// Record every request to a disk with its relation
///
/// Ends when the duration is over, the command or the process has ended, or on Ctrl-C, whichever
/// comes first. Takes root, or the capabilities `CAP_BPF` and `CAP_PERFMON`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin trace record --device sda --duration 30s --out t\n  tenbin trace record --dsn postgres://me@localhost/shop -- pgbench -S -T 30 shop\n  tenbin trace record --json | tail -1 | jq .reads.seek_sectors\n\nExit status: 0 recorded, 1 the command traced failed, 2 bad input, 3 no permission or no room, 4 interrupted."
)]
pub(crate) struct Args {
    /// Disk or partition: sda, /dev/nvme0n1p2; may be repeated [default: every disk]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Only what this process and its descendants issue, until it ends; writeback by the kernel is not theirs
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Length of the trace
    #[arg(short, long, value_parser = crate::units::duration)]
    duration: Option<Duration>,
    /// Name relations as the catalogues of this server do; it must run on this machine
    #[arg(long, value_name = "URL")]
    dsn: Option<String>,
    /// Data directory of the cluster, where there is no --dsn: relations keep the names of their files
    #[arg(long, value_name = "DIR", conflicts_with = "dsn")]
    pgdata: Option<PathBuf>,
    /// Room for records between the kernel and the reader
    #[arg(long, value_name = "SIZE", default_value = "32MB", value_parser = ring)]
    ring: u64,
    /// Directory for the trace; it must not exist [default: tenbin-runs/trace-TIME-ID]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the totals as JSON, last and on one line
    #[arg(long)]
    json: bool,
    /// Trace while this command runs: all I/O of the devices, of all processes
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn ring(text: &str) -> std::result::Result<u64, String> {
    tenbin_lab::size_bytes(text).ok_or_else(|| {
        format!(
            "{text} is not a size; write 65536, 64kB or 32MB (units: B, kB, MB, GB, TB, spelled so)"
        )
    })
}

/// Why a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Duration,
    Command(Option<i32>),
    Process,
    Signal,
    Unrecorded,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Command(_) => "command",
            Self::Process => "process",
            Self::Signal => "signal",
            Self::Unrecorded => "recording failed",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result {
    let graceful = Graceful::begin();
    let options = options(args)?;
    let at = SystemTime::now();
    let id = new_id();
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| default_path("trace", at, &id));
    let mut directory = RunWriter::create(&out)?;
    let mut recorder = Recorder::start(&options, &directory)?;
    let end = tracing(args, &graceful, &mut recorder)?;
    let mut finished = recorder.finish()?;
    let cut_short = finished.cut_short.take();
    let end = cut_short.as_ref().map_or(end, |_| End::Unrecorded);
    // Without a length, Ctrl-C is how a trace ends.
    let open_ended = args.duration.is_none() && args.command.is_empty() && args.pid.is_none();
    let interrupted = end == End::Signal && !open_ended || cut_short.is_some();
    let ending = Ending {
        by: end.name(),
        interrupted,
        command_status: match end {
            End::Command(status) => status,
            _ => None,
        },
    };
    if finished.disordered > 0 {
        eprintln!(
            "warning: {} I/Os came too late to stand in the order of their issue; seek distances are off by theirs",
            finished.disordered
        );
    }
    let trace = finished.trace(options, (&id, at), ending, crate::args::command_line());
    directory.write_trace(&trace)?;
    let kept = directory.finish()?;
    show(args, &trace, &kept)?;
    if let Some(cut_short) = cut_short {
        return Err(cut_short.into());
    }
    Ok(match end {
        _ if interrupted => Answer::Interrupted,
        End::Command(status) if status != Some(0) => Answer::No,
        _ => Answer::Yes,
    })
}

fn options(args: &Args) -> Result<Options> {
    let cluster = match (&args.dsn, &args.pgdata) {
        (Some(dsn), _) => Some(Cluster::of_server(dsn)?),
        (None, Some(data)) => Some(Cluster::at(data)?),
        (None, None) => None,
    };
    let resolved = args.device.iter().map(|name| tenbin_iotrace::resolve(name));
    if let Some(pid) = args.pid.filter(|pid| !process_path(*pid).exists()) {
        return Err(Error::NoProcess(pid).into());
    }
    Ok(Options {
        devices: resolved.collect::<std::result::Result<_, _>>()?,
        root_pid: args.pid,
        ring_bytes: args.ring,
        cluster,
    })
}

fn process_path(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Reads until the trace is to end, and says why it did.
fn tracing(args: &Args, stop: &Graceful, recorder: &mut Recorder) -> Result<End> {
    let mut command = start(args)?;
    let started = Instant::now();
    let progress = std::io::stderr().is_terminal() && !args.json;
    let mut shown = Instant::now();
    if !args.json {
        eprintln!("tracing {}; Ctrl-C ends it", tracing_what(args));
    }
    let end = loop {
        recorder.step(Duration::from_millis(50))?;
        if recorder.stopped() {
            break End::Unrecorded;
        }
        if stop.requested() {
            break End::Signal;
        }
        if args
            .duration
            .is_some_and(|length| started.elapsed() >= length)
        {
            break End::Duration;
        }
        if let Some(child) = &mut command
            && let Some(status) = child.try_wait()?
        {
            break End::Command(status.code());
        }
        if args.pid.is_some_and(|pid| !process_path(pid).exists()) {
            break End::Process;
        }
        if progress && shown.elapsed() >= Duration::from_secs(1) {
            let (seen, lost) = recorder.so_far()?;
            eprint!(
                "\r{} s: {seen} I/Os, {lost} lost",
                started.elapsed().as_secs()
            );
            shown = Instant::now();
        }
    };
    if progress {
        eprintln!();
    }
    if let Some(child) = command {
        end_command(child, end)?;
    }
    Ok(end)
}

fn start(args: &Args) -> Result<Option<Child>> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Ok(None);
    };
    let started = Command::new(program).args(arguments).spawn();
    started.map(Some).map_err(|error| {
        Failure::bad_input(format!("cannot start {program}: {error}; check its name"))
    })
}

fn tracing_what(args: &Args) -> String {
    if args.device.is_empty() {
        "every disk".to_owned()
    } else {
        args.device.join(", ")
    }
}

/// A command outlives its trace only until it has been asked to end.
fn end_command(mut child: Child, end: End) -> Result<()> {
    if matches!(end, End::Command(_)) {
        return Ok(());
    }
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may have ended by itself just now.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    child.wait()?;
    Ok(())
}

/// The totals with where they are kept.
#[derive(serde::Serialize)]
struct Printed<'a> {
    directory: &'a Path,
    interrupted: bool,
    duration_s: f64,
    #[serde(flatten)]
    totals: &'a Totals,
}

fn show(args: &Args, trace: &Trace, kept: &Path) -> Result<()> {
    if args.json {
        let printed = Printed {
            directory: kept,
            interrupted: trace.trace.interrupted,
            duration_s: trace.trace.duration_s,
            totals: &trace.result,
        };
        println!("{}", serde_json::to_string(&printed)?);
    } else {
        let color = std::io::stdout().is_terminal();
        print!(
            "{}",
            tenbin_report::trace_terminal(trace, kept, super::width(), color)
        );
    }
    Ok(())
}
