//! Drives a load of TPC-C's shape (kinds, mix, pauses, round trips; no tables) and prints what that
//! cost the driver: against a stub server in a process of its own, or any server.
//!
//! ```text
//! stub_drive stub|DSN [terminals=N] [connections=N] [threads=N] [pacing=spec|none|FACTOR]
//!            [ramp_s=N] [warmup_s=N] [duration_s=N] [record=PATH]
//! ```
//!
//! Every figure is a `name value` pair, so that other programs can read it.

use std::error::Error as StdError;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_record::TransactionRow;
use tenbin_record::transactions::TransactionWriter;
use tenbin_rte::{
    DeferredRow, Driven, Options, Pacing, Phase, Processors, Progress, RowSink, SinkError, drive,
};
use tenbin_stub::{Answer, StubProcess, Table};
use tenbin_wire::{Error, Param, Session, Target};
use tenbin_workload::{Cycle, Description, Executed, Kind, Tally, Workload};

const SECOND_NS: u64 = 1_000_000_000;

/// What TPC-C (revision 5.11, clause 5.2.5.7) asks of one kind, and round trips as a client with
/// prepared, pipelined statements needs them: executions in each.
struct Shape {
    name: &'static str,
    deferred: bool,
    keying_s: u64,
    think_mean_s: f64,
    trips: &'static [usize],
}

const SHAPES: [Shape; 5] = [
    Shape {
        name: "new_order",
        deferred: false,
        keying_s: 18,
        think_mean_s: 12.0,
        trips: &[4, 20, 21],
    },
    Shape {
        name: "payment",
        deferred: false,
        keying_s: 3,
        think_mean_s: 12.0,
        trips: &[4, 4],
    },
    Shape {
        name: "order_status",
        deferred: false,
        keying_s: 2,
        think_mean_s: 10.0,
        trips: &[2, 2],
    },
    Shape {
        name: "delivery",
        deferred: true,
        keying_s: 2,
        think_mean_s: 5.0,
        trips: &[2, 10, 10, 2],
    },
    Shape {
        name: "stock_level",
        deferred: false,
        keying_s: 2,
        think_mean_s: 5.0,
        trips: &[2],
    },
];

/// The smallest deck that holds the mix of clause 5.2.4.2.
const DECK: [u8; 23] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4,
];

struct Shaped;

struct Terminal {
    state: u64,
    deck: [u8; 23],
    drawn: u8,
}

impl Terminal {
    /// xorshift64 (Marsaglia 2003); good enough for pauses and parameters.
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

#[derive(Default)]
struct Count(u64);

impl Tally for Count {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Workload for Shaped {
    type Terminal = Terminal;
    type Input = (u8, [i64; 15]);
    type Output = u8;
    type Tally = Count;

    fn describe(&self) -> Description {
        Description {
            kinds: self.kinds(),
            ..Description::default()
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let kind = |shape: &Shape| Kind {
            deferred: shape.deferred,
            ..Kind::new(shape.name)
        };
        SHAPES.iter().map(kind).collect()
    }

    fn terminal(&self, id: u32) -> Terminal {
        Terminal {
            state: (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            deck: DECK,
            drawn: 23,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a capped pause"
    )]
    fn choose(&self, terminal: &mut Terminal) -> Cycle {
        if usize::from(terminal.drawn) == DECK.len() {
            terminal.drawn = 0;
            for last in (1..DECK.len()).rev() {
                let other = terminal.next() % (last as u64 + 1);
                terminal
                    .deck
                    .swap(last, usize::try_from(other).unwrap_or(0));
            }
        }
        let kind = terminal.deck[usize::from(terminal.drawn)];
        terminal.drawn += 1;
        let shape = &SHAPES[usize::from(kind)];
        let uniform = (terminal.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let think_s = (-(1.0 - uniform).ln() * shape.think_mean_s).min(shape.think_mean_s * 10.0);
        Cycle {
            kind,
            keying_ns: shape.keying_s * SECOND_NS,
            think_ns: (think_s * 1e9) as u64,
        }
    }

    fn input(&self, terminal: &mut Terminal, kind: u8) -> (u8, [i64; 15]) {
        (kind, std::array::from_fn(|_| terminal.next().cast_signed()))
    }

    async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        session.parse("s", "SELECT $1::bigint, $2::integer", &[20, 23]);
        session.sync().await.map(|_| ())
    }

    async fn execute(
        &self,
        session: &mut Session,
        (kind, values): &(u8, [i64; 15]),
    ) -> Result<Executed<u8>, Error> {
        for executions in SHAPES[usize::from(*kind)].trips {
            for value in values.iter().cycle().take(*executions) {
                session.execute("s", &[Param::I64(*value), Param::I32(7)]);
            }
            for mut reply in session.sync().await? {
                while let Some(row) = reply.row() {
                    std::hint::black_box(row.raw(0)?);
                }
            }
        }
        Ok(Executed {
            committed: true,
            output: *kind,
        })
    }

    fn tally(&self, count: &mut Count, _: Cycle, _: &Self::Input, _: Option<&Executed<u8>>) {
        count.0 += 1;
    }
}

/// The rows into a file, as a run records them.
struct Recorded(TransactionWriter);

impl RowSink<u8> for Recorded {
    fn rows(&mut self, rows: &[TransactionRow]) -> Result<(), SinkError> {
        Ok(self.0.write(rows)?)
    }

    fn deferred(&mut self, _: &[DeferredRow<u8>]) -> Result<(), SinkError> {
        Ok(())
    }
}

struct Arguments {
    dsn: String,
    options: Options,
    record: Option<String>,
}

fn arguments() -> Result<Arguments, Box<dyn StdError>> {
    let mut arguments = std::env::args().skip(1);
    let dsn = arguments.next().unwrap_or_default();
    let mut options = Options::new(10_000, 100, Duration::from_mins(1));
    options.pacing = Pacing::Spec;
    let mut record = None;
    for argument in arguments {
        let (name, value) = argument
            .split_once('=')
            .ok_or("arguments look like name=value")?;
        let seconds = || value.parse().map(Duration::from_secs_f64);
        match name {
            "terminals" => options.terminals = value.parse()?,
            "connections" => options.connections = value.parse()?,
            "stay_awake" if value.parse()? => options.processors = Processors::StayAwake,
            "threads" => options.threads = Some(value.parse()?),
            "ramp_s" => options.ramp_up = seconds()?,
            "warmup_s" => options.warm_up = seconds()?,
            "duration_s" => options.duration = seconds()?,
            "record" => record = Some(value.to_owned()),
            "pacing" => {
                options.pacing = match value {
                    "spec" => Pacing::Spec,
                    "none" => Pacing::None,
                    factor => Pacing::Factor(factor.parse()?),
                }
            }
            _ => return Err(format!("there is no argument named {name}").into()),
        }
    }
    Ok(Arguments {
        dsn,
        options,
        record,
    })
}

/// This program without arguments, as a server that answers at once.
fn stub() -> std::io::Result<StubProcess> {
    let row = [Some(&[0; 8][..]), Some(&[0; 4][..])];
    let table = Table::new().with("s", Answer::rows(&row, 1, "SELECT 1"));
    let options = tenbin_stub::Options {
        table,
        ..tenbin_stub::Options::default()
    };
    StubProcess::start(&std::env::current_exe()?, &options)
}

/// Resident memory of this process now.
fn rss_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn main() -> Result<(), Box<dyn StdError>> {
    let arguments = arguments()?;
    if arguments.dsn.is_empty() {
        // A server that answers at once holds no processor that a terminal which is due waits for.
        tenbin_rte::ask_for_short_slices()?;
        return Ok(tenbin_stub::serve()?);
    }
    let stub = match arguments.dsn.as_str() {
        "stub" => Some(stub()?),
        _ => None,
    };
    let dsn = stub.as_ref().map_or(arguments.dsn, StubProcess::dsn);
    let target = Target::parse(&dsn)?;
    let mut sink = match &arguments.record {
        Some(path) => Some(Recorded(writer(path)?)),
        None => None,
    };
    let mut minute = 0.0;
    let mut progress = |now: &Progress<'_>| {
        if now.phase == Phase::Measurement && now.elapsed_s >= minute {
            println!(
                "elapsed_s {:.0} rss_kib {}",
                now.elapsed_s,
                rss_kib().unwrap_or(0)
            );
            minute = now.elapsed_s + 60.0;
        }
    };
    let before_kib = rss_kib().unwrap_or(0);
    let stop = AtomicBool::new(false);
    let driven = drive(
        &Shaped,
        &target,
        &arguments.options,
        sink.as_mut().map(|sink| sink as &mut dyn RowSink<u8>),
        &mut progress,
        &stop,
    )?;
    if let Some(Recorded(writer)) = sink {
        let written = writer.finish()?;
        let cpu_us = 1e6 * (driven.usage.cpu_recording_s + written.cpu_s);
        println!("recording_us_per_row {:.3}", cpu_us / written.rows as f64);
    }
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    println!(
        "cpu_process_s {:.3}",
        cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
    );
    println!(
        "rss_before_kib {before_kib} rss_after_kib {}",
        rss_kib().unwrap_or(0)
    );
    print(&driven);
    Ok(())
}

fn print(driven: &Driven<Count>) {
    let usage = &driven.usage;
    let cpu_s = usage.cpu_user_s + usage.cpu_system_s;
    let completed: u64 = driven.kinds.iter().map(|kind| kind.completed).sum();
    println!(
        "ended {:?} threads {} tally {}",
        driven.ended, usage.threads, driven.tally.0
    );
    println!(
        "measured_s {:.3} completed {completed} per_s {:.1}",
        driven.measured_s,
        driven.throughput_per_s()
    );
    println!(
        "cpu_user_s {:.3} cpu_system_s {:.3} cores {:.4} cpu_us_per_transaction {:.1} cpu_recording_s {:.3}",
        usage.cpu_user_s,
        usage.cpu_system_s,
        cpu_s / driven.measured_s,
        cpu_s * 1e6 / completed as f64,
        usage.cpu_recording_s,
    );
    println!(
        "rss_max_kib {} recording_stall_s {:.3}",
        usage.rss_max_bytes / 1024,
        usage.recording_stall_s
    );
    for (name, times) in [("lateness", &driven.lateness), ("menu", &driven.menu)] {
        println!(
            "{name} count {} p50_ms {:.4} p99_ms {:.4} p999_ms {:.4} max_ms {:.4}",
            times.count(),
            times.quantile_ms(0.5),
            times.quantile_ms(0.99),
            times.quantile_ms(0.999),
            times.max_ms()
        );
    }
    for kind in &driven.kinds {
        println!(
            "{} due {} completed {} errors {} unfinished {} response_p50_ms {:.3} p90_ms {:.3} p99_ms {:.3} max_ms {:.3} wait_p90_ms {:.3} service_p50_ms {:.3}",
            kind.kind.name,
            kind.due(),
            kind.completed,
            kind.errors.count(),
            kind.unfinished,
            kind.response.quantile_ms(0.5),
            kind.response.quantile_ms(0.9),
            kind.response.quantile_ms(0.99),
            kind.response.max_ms(),
            kind.wait.quantile_ms(0.9),
            kind.service.quantile_ms(0.5),
        );
    }
}

fn writer(path: &str) -> Result<TransactionWriter, Box<dyn StdError>> {
    let kinds: Vec<_> = SHAPES.iter().map(|shape| shape.name.to_owned()).collect();
    Ok(TransactionWriter::create(Path::new(path), &kinds)?)
}
