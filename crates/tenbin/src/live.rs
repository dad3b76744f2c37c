//! What is shown while something takes its time: on a terminal a block that is
//! redrawn, elsewhere a line now and then. All of it goes to standard error.

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};
use tenbin_lab::Drive;
use tenbin_record::run::Metric;
use tenbin_rte::{Phase, Progress};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A block of text that follows what goes on.
pub(crate) struct Live {
    bar: Option<ProgressBar>,
    quiet: bool,
    last_line: Option<Instant>,
}

impl Live {
    /// Draws on standard error, unless `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            quiet,
            last_line: None,
        }
    }

    /// Shows `block` on a terminal; elsewhere `line`, when it is time for one.
    pub(crate) fn show(&mut self, block: impl FnOnce() -> String, line: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(block());
        } else if !self.quiet
            && self
                .last_line
                .is_none_or(|last| last.elapsed() >= LINE_EVERY)
        {
            eprintln!("{}", line());
            self.last_line = Some(Instant::now());
        }
    }

    /// One line for a step whose length is not known.
    pub(crate) fn step(&mut self, text: &str) {
        self.show(|| text.to_owned(), || text.to_owned());
    }

    /// Takes the block away.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_message("");
            bar.finish_and_clear();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `1:05`, `2:03:09`.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_secs();
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A bar of 30 columns, `share` of it filled.
pub(crate) fn bar(share: f64) -> String {
    const WIDTH: usize = 30;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=30"
    )]
    let filled = (share.clamp(0.0, 1.0) * WIDTH as f64).round() as usize;
    format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH - filled))
}

/// The only kind of transactions that throughput counts.
#[derive(Debug, Clone)]
struct Counted {
    /// Its index.
    kind: usize,
    /// What throughput is counted in.
    metric: Metric,
}

/// Shows a run as it goes.
pub(crate) struct RunView {
    names: Vec<String>,
    total_s: f64,
    counted: Option<Counted>,
    recent: Recent,
}

impl RunView {
    /// Of a load that begins.
    pub(crate) fn new(drive: &Drive<'_>) -> Self {
        let only = drive.metric.kind.as_ref();
        let kind = only.and_then(|only| drive.kinds.iter().position(|kind| kind == only));
        Self {
            names: drive.kinds.to_vec(),
            total_s: drive.total_s,
            counted: kind.map(|kind| Counted {
                kind,
                metric: drive.metric.clone(),
            }),
            recent: Recent::default(),
        }
    }

    /// Takes a snapshot, and shows it.
    pub(crate) fn update(&mut self, progress: &Progress<'_>, live: &mut Live) {
        self.recent.add(progress);
        let (names, total_s, counted) = (&self.names, self.total_s, self.counted.as_ref());
        let recent = &self.recent.0;
        live.show(
            || block(names, total_s, counted, progress, recent),
            || line(counted, progress, recent),
        );
    }
}

/// Seconds whose mean is shown as the rate now: paced terminals answer a handful a second.
const RECENT_S: usize = 5;

/// What each kind did of late.
#[derive(Default)]
struct Recent(Vec<RecentKind>);

#[derive(Default)]
struct RecentKind {
    /// Answers in each of the last seconds, the oldest first.
    per_s: VecDeque<u64>,
    second: i64,
    /// Of the last second that had answers.
    p50_ms: f64,
    p90_ms: f64,
}

impl Recent {
    /// Takes the last full second's figures, which a snapshot repeats until the next is full.
    fn add(&mut self, progress: &Progress<'_>) {
        self.0
            .resize_with(progress.kinds.len(), RecentKind::default);
        for (recent, now) in self.0.iter_mut().zip(progress.kinds) {
            let second = progress.whole_s;
            if recent.second == second && !recent.per_s.is_empty() {
                recent.per_s.pop_back();
            }
            recent.second = second;
            recent.per_s.push_back(now.per_s);
            if recent.per_s.len() > RECENT_S {
                recent.per_s.pop_front();
            }
            if now.per_s > 0 {
                (recent.p50_ms, recent.p90_ms) = (now.p50_ms, now.p90_ms);
            }
        }
    }
}

impl RecentKind {
    fn per_s(&self) -> f64 {
        self.per_s.iter().sum::<u64>() as f64 / self.per_s.len().max(1) as f64
    }
}

/// A rate with a decimal where it is small.
fn rate(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1}")
    } else {
        HumanCount(crate::units::whole(value)).to_string()
    }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Connecting => "connecting",
        Phase::RampUp => "ramp-up",
        Phase::WarmUp => "warm-up",
        Phase::Measurement => "measuring",
        Phase::RampDown => "finishing",
    }
}

/// The present rates: `74,040 NOPM · 2,468 transactions/s`.
fn rates(counted: Option<&Counted>, separator: &str, recent: &[RecentKind]) -> String {
    let all = recent.iter().map(RecentKind::per_s).sum();
    let all = format!("{} transactions/s", rate(all));
    match counted.and_then(|of| Some((recent.get(of.kind)?, &of.metric))) {
        Some((kind, metric)) => {
            let value = crate::units::whole(kind.per_s() * metric.period_s);
            format!("{} {}{separator}{all}", HumanCount(value), metric.name)
        }
        None => all,
    }
}

fn block(
    names: &[String],
    total_s: f64,
    counted: Option<&Counted>,
    progress: &Progress<'_>,
    recent: &[RecentKind],
) -> String {
    let mut text = format!(
        "{:<11} {} {} left\n",
        phase(progress.phase),
        bar(progress.elapsed_s / total_s),
        clock(progress.remaining_s)
    );
    let errors: u64 = progress.kinds.iter().map(|kind| kind.errors).sum();
    let retries: u64 = progress.kinds.iter().map(|kind| kind.retries).sum();
    let _ = writeln!(
        text,
        "  now {} · {} errors · {} retries",
        rates(counted, " · ", recent),
        HumanCount(errors),
        HumanCount(retries)
    );
    let _ = writeln!(
        text,
        "  {:<14}{:>10}{:>12}{:>12}{:>10}",
        "transaction", "now/s", "p50 [ms]", "p90 [ms]", "errors"
    );
    for ((name, kind), recent) in names.iter().zip(progress.kinds).zip(recent) {
        let _ = writeln!(
            text,
            "  {:<14}{:>10}{:>12.2}{:>12.2}{:>10}",
            name,
            rate(recent.per_s()),
            recent.p50_ms,
            recent.p90_ms,
            HumanCount(kind.errors).to_string()
        );
    }
    text
}

fn line(counted: Option<&Counted>, progress: &Progress<'_>, recent: &[RecentKind]) -> String {
    let errors: u64 = progress.kinds.iter().map(|kind| kind.errors).sum();
    let kind = counted.map_or(0, |of| of.kind);
    let p90_ms = recent.get(kind).map_or(0.0, |kind| kind.p90_ms);
    format!(
        "{}: {} left, now {}, p90 {p90_ms:.1} ms, {} errors",
        phase(progress.phase),
        clock(progress.remaining_s),
        rates(counted, ", ", recent),
        HumanCount(errors)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_rte::KindProgress;

    #[test]
    fn times_and_bars_are_short() {
        assert_eq!(clock(65.4), "1:05");
        assert_eq!(clock(7389.0), "2:03:09");
        assert_eq!(clock(-1.0), "0:00");
        assert_eq!(clock(f64::MAX), "277777:46:40");
        assert_eq!(bar(0.0).chars().filter(|c| *c == '█').count(), 0);
        assert_eq!(bar(0.5).chars().filter(|c| *c == '█').count(), 15);
        assert_eq!(bar(9.0).chars().count(), 30);
    }

    #[test]
    fn the_block_names_every_transaction_and_fits_80_columns() {
        let names = ["new_order", "payment"].map(str::to_owned);
        let kind = KindProgress {
            completed: 9,
            errors: 1,
            retries: 2,
            per_s: 1_234,
            p50_ms: 1.5,
            p90_ms: 2.25,
            ..KindProgress::default()
        };
        let progress = Progress {
            phase: Phase::Measurement,
            elapsed_s: 30.0,
            remaining_s: 40.0,
            whole_s: 30,
            kinds: &[kind, kind],
        };
        let counted = Counted {
            kind: 0,
            metric: Metric {
                name: "NOPM".to_owned(),
                period_s: 60.0,
                ..Metric::default()
            },
        };
        let mut recent = Recent::default();
        recent.add(&progress);
        let recent = recent.0;
        let text = block(&names, 70.0, Some(&counted), &progress, &recent);
        assert!(
            text.contains("74,040 NOPM") && text.contains("2,468 transactions/s"),
            "{text}"
        );
        assert!(
            text.contains("new_order") && text.contains("payment") && text.contains("0:40 left")
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let line = line(Some(&counted), &progress, &recent);
        assert_eq!(
            line,
            "measuring: 0:40 left, now 74,040 NOPM, 2,468 transactions/s, p90 2.2 ms, 2 errors"
        );
        assert!(super::line(None, &progress, &recent).contains("now 2,468 transactions/s, p90"));
    }

    #[test]
    fn a_rate_is_the_mean_of_the_last_seconds() {
        let mut recent = Recent::default();
        let mut at = |whole_s: i64, per_s: u64| {
            let kind = KindProgress {
                per_s,
                p90_ms: per_s as f64,
                ..KindProgress::default()
            };
            recent.add(&Progress {
                phase: Phase::Measurement,
                elapsed_s: 1.0,
                remaining_s: 1.0,
                whole_s,
                kinds: &[kind],
            });
            (recent.0[0].per_s(), recent.0[0].p90_ms)
        };
        assert_eq!(at(1, 4), (4.0, 4.0));
        assert_eq!(at(1, 4), (4.0, 4.0), "the same second once more");
        assert_eq!(at(2, 0), (2.0, 4.0));
        let last = (3..=7).map(|second| at(second, 1)).last();
        assert_eq!(last, Some((1.0, 1.0)), "older seconds are forgotten");
        assert_eq!(
            (rate(0.25), rate(9_876.5)),
            ("0.2".to_owned(), "9,877".to_owned())
        );
    }
}
