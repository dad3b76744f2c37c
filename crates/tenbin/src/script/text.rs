//! Results in pgbench's own words and layout (PostgreSQL 18, `printResults` of `pgbench.c`), so that
//! programs that read them go on working.

use std::fmt::Write as _;
use tenbin_lab::script::ScriptRun;
use tenbin_rte::{Driven, KindResult, Times};
use tenbin_workload::script::{CommandCounts, ScriptTally};

/// What was asked for and shows in the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// `-T`, seconds; none under `-t`.
    pub(crate) duration_s: Option<u64>,
    pub(crate) failures_detailed: bool,
    /// `--max-tries`; 0 is any number.
    pub(crate) max_tries: u32,
    /// `-P` was given.
    pub(crate) progress: bool,
}

/// Counts of one script or of all.
struct Counts {
    done: u64,
    skipped: u64,
    late: u64,
    serialization: u64,
    deadlock: u64,
    retried: u64,
    retries: u64,
    response: Times,
    wait: Times,
}

impl Counts {
    fn of<'a>(kinds: impl Iterator<Item = (&'a KindResult, u64)>) -> Self {
        let mut counts = Self {
            done: 0,
            skipped: 0,
            late: 0,
            serialization: 0,
            deadlock: 0,
            retried: 0,
            retries: 0,
            response: Times::new(),
            wait: Times::new(),
        };
        for (kind, retried) in kinds {
            let state = |name| kind.errors.get(name).map_or(0, |error| error.count);
            counts.done += kind.committed + kind.rolled_back;
            counts.skipped += kind.skipped;
            counts.late += kind.late;
            counts.serialization += state("40001");
            counts.deadlock += state("40P01");
            counts.retried += retried;
            counts.retries += kind.retried();
            counts.response.merge(&kind.response);
            counts.wait.merge(&kind.wait);
        }
        counts
    }

    fn failures(&self) -> u64 {
        self.serialization + self.deadlock
    }

    fn all(&self) -> u64 {
        self.done + self.skipped + self.failures()
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

/// The whole text.
pub(crate) fn text(
    run: &ScriptRun,
    driven: &Driven<ScriptTally>,
    form: &Form,
    head: &str,
) -> String {
    let options = &run.options;
    let scripts = run.scripts.program().scripts();
    let retried = |index: usize| driven.tally.scripts.get(index).map_or(0, |s| s.retried);
    let counts = Counts::of(
        (0..)
            .map(retried)
            .zip(&driven.kinds)
            .map(|(n, kind)| (kind, n)),
    );
    let mut out = format!("{head}\n");
    let kind = match scripts {
        [script] => &script.name,
        _ => "multiple scripts",
    };
    let clients = options.terminals;
    let _ = write!(
        out,
        "transaction type: {kind}\nscaling factor: {}\nquery mode: {}\nnumber of clients: {clients}\nnumber of threads: {}\n",
        run.scale,
        run.spec.protocol,
        options.threads()
    );
    if form.max_tries > 0 {
        let _ = writeln!(out, "maximum number of tries: {}", form.max_tries);
    }
    match (form.duration_s, options.transactions) {
        (None, Some(each)) => {
            let _ = write!(
                out,
                "number of transactions per client: {each}\nnumber of transactions actually processed: {}/{}\n",
                counts.done,
                each * u64::from(clients)
            );
        }
        (duration_s, _) => {
            let _ = write!(
                out,
                "duration: {} s\nnumber of transactions actually processed: {}\n",
                duration_s.unwrap_or(0),
                counts.done
            );
        }
    }
    if counts.all() == 0 {
        return out;
    }
    let duration_s = driven.measured_s.max(driven.last_answer_s);
    failures(&mut out, "number of", &counts, run, form);
    latencies(&mut out, &counts, duration_s, run, form);
    let tps = counts.done as f64 / duration_s;
    if options.reconnect {
        let opened = driven.connections.opened.max(1) as f64;
        let _ = write!(
            out,
            "average connection time = {:.3} ms\ntps = {tps:.6} (including reconnection times)\n",
            1e3 * driven.connections.opening_s / opened
        );
    } else {
        let _ = write!(
            out,
            "initial connection time = {:.3} ms\ntps = {tps:.6} (without initial connection time)\n",
            1e3 * driven.connecting_s
        );
    }
    for index in 0..scripts.len() {
        if scripts.len() > 1 {
            let of = Counts::of(
                driven
                    .kinds
                    .get(index)
                    .map(|kind| (kind, retried(index)))
                    .into_iter(),
            );
            script(&mut out, index, &of, &counts, duration_s, run, form);
        }
        if run.spec.per_command {
            out += &commands(run, index, &driven.tally);
        }
    }
    out
}

/// What failed, was tried again or skipped.
fn failures(out: &mut String, prefix: &str, counts: &Counts, run: &ScriptRun, form: &Form) {
    let options = &run.options;
    let all = counts.all();
    let mut share = |what: &str, part: u64| {
        let _ = writeln!(out, "{prefix} {what}: {part} ({:.3}%)", percent(part, all));
    };
    share("failed transactions", counts.failures());
    if form.failures_detailed {
        share("serialization failures", counts.serialization);
        share("deadlock failures", counts.deadlock);
    }
    if form.max_tries != 1 {
        share("transactions retried", counts.retried);
        let total = prefix.replace("number", "total number");
        let _ = writeln!(out, "{total} retries: {}", counts.retries);
    }
    if options.rate.is_some() && options.latency_limit.is_some() {
        let (part, share) = (counts.skipped, percent(counts.skipped, all));
        let _ = writeln!(out, "{prefix} transactions skipped: {part} ({share:.3}%)");
    }
}

fn latencies(out: &mut String, counts: &Counts, duration_s: f64, run: &ScriptRun, form: &Form) {
    let options = &run.options;
    if let Some(limit) = options.latency_limit {
        let _ = writeln!(
            out,
            "number of transactions above the {:.1} ms latency limit: {}/{} ({:.3}%)",
            limit.as_secs_f64() * 1e3,
            counts.late,
            counts.done,
            percent(counts.late, counts.done)
        );
    }
    if options.rate.is_some() || form.progress || options.latency_limit.is_some() {
        mean_and_deviation(out, "latency", &counts.response);
    } else {
        let _ = writeln!(
            out,
            "latency average = {:.3} ms{}",
            1e3 * duration_s * f64::from(options.terminals) / counts.all() as f64,
            if counts.failures() > 0 {
                " (including failures)"
            } else {
                ""
            }
        );
    }
    if options.rate.is_some() {
        let _ = writeln!(
            out,
            "rate limit schedule lag: avg {:.3} (max {:.3}) ms",
            counts.wait.mean_ms(),
            counts.wait.max_ms()
        );
    }
}

fn mean_and_deviation(out: &mut String, prefix: &str, times: &Times) {
    if times.count() > 0 {
        let _ = write!(
            out,
            "{prefix} average = {:.3} ms\n{prefix} stddev = {:.3} ms\n",
            times.mean_ms(),
            times.deviation_ms()
        );
    }
}

/// One of several scripts.
fn script(
    out: &mut String,
    index: usize,
    counts: &Counts,
    whole: &Counts,
    duration_s: f64,
    run: &ScriptRun,
    form: &Form,
) {
    let scripts = run.scripts.program().scripts();
    let weights: u64 = scripts.iter().map(|script| u64::from(script.weight)).sum();
    let this = &scripts[index];
    let _ = write!(
        out,
        "SQL script {}: {}\n - weight: {} (targets {:.1}% of total)\n - {} transactions ({:.1}% of total)\n",
        index + 1,
        this.name,
        this.weight,
        percent(u64::from(this.weight), weights),
        counts.all(),
        percent(counts.all(), whole.all())
    );
    if counts.all() > 0 {
        let _ = writeln!(
            out,
            " - number of transactions actually processed: {} (tps = {:.6})",
            counts.done,
            counts.done as f64 / duration_s
        );
        failures(out, " - number of", counts, run, form);
    }
    mean_and_deviation(out, " - latency", &counts.response);
}

/// What the commands of one script took (`-r`).
fn commands(run: &ScriptRun, index: usize, tally: &ScriptTally) -> String {
    let scripts = run.scripts.program().scripts();
    let retrying = run.options.max_tries != 1;
    let mut out = format!(
        "{}statement latencies in milliseconds{}:\n",
        if scripts.len() > 1 { " - " } else { "" },
        if retrying {
            ", failures and retries"
        } else {
            " and failures"
        }
    );
    let never = CommandCounts::default();
    for (number, command) in scripts[index].commands.iter().enumerate() {
        let count = tally.command(index, number).unwrap_or(&never);
        let mean_ms = count.times.as_ref().map_or(0.0, Times::mean_ms);
        let _ = write!(out, "   {mean_ms:11.3}  {:10} ", count.failures);
        if retrying {
            let _ = write!(out, "{:10} ", count.retries);
        }
        let _ = writeln!(out, "{}", command.first_line);
    }
    out
}
