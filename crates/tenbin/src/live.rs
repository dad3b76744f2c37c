//! What is shown while something takes its time: on a terminal a block that is
//! redrawn, elsewhere a line now and then. All of it goes to standard error.

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};
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

/// Index of a kind of transaction, and what its rate by the minute is called.
pub(crate) type PerMinute = (usize, &'static str);

/// Shows a run as it goes.
pub(crate) struct RunView<'a> {
    live: Live,
    names: &'a [String],
    total_s: f64,
    /// Index of the kind that is also shown by the minute, and what that rate is called.
    per_minute: Option<PerMinute>,
}

impl<'a> RunView<'a> {
    /// `total_s`: from the start of the first terminal to the end of the interval.
    pub(crate) fn new(
        names: &'a [String],
        total_s: f64,
        per_minute: Option<PerMinute>,
        quiet: bool,
    ) -> Self {
        Self {
            live: Live::new(quiet),
            names,
            total_s,
            per_minute,
        }
    }

    /// Takes a snapshot.
    pub(crate) fn update(&mut self, progress: &Progress<'_>) {
        let (names, total_s, per_minute) = (self.names, self.total_s, self.per_minute);
        self.live.show(
            || block(names, total_s, per_minute, progress),
            || line(per_minute, progress),
        );
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
fn rates(per_minute: Option<PerMinute>, separator: &str, progress: &Progress<'_>) -> String {
    let per_s: u64 = progress.kinds.iter().map(|kind| kind.per_s).sum();
    let all = format!("{} transactions/s", HumanCount(per_s));
    match per_minute.and_then(|(kind, metric)| Some((progress.kinds.get(kind)?, metric))) {
        Some((kind, metric)) => {
            format!("{} {metric}{separator}{all}", HumanCount(kind.per_s * 60))
        }
        None => all,
    }
}

fn block(
    names: &[String],
    total_s: f64,
    per_minute: Option<PerMinute>,
    progress: &Progress<'_>,
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
        rates(per_minute, " · ", progress),
        HumanCount(errors),
        HumanCount(retries)
    );
    let _ = writeln!(
        text,
        "  {:<14}{:>10}{:>12}{:>12}{:>10}",
        "transaction", "now/s", "p50 [ms]", "p90 [ms]", "errors"
    );
    for (name, kind) in names.iter().zip(progress.kinds) {
        let _ = writeln!(
            text,
            "  {:<14}{:>10}{:>12.2}{:>12.2}{:>10}",
            name,
            HumanCount(kind.per_s).to_string(),
            kind.p50_ms,
            kind.p90_ms,
            HumanCount(kind.errors).to_string()
        );
    }
    text
}

fn line(per_minute: Option<PerMinute>, progress: &Progress<'_>) -> String {
    let errors: u64 = progress.kinds.iter().map(|kind| kind.errors).sum();
    let kind = per_minute.map_or(0, |(kind, _)| kind);
    let p90_ms = progress.kinds.get(kind).map_or(0.0, |kind| kind.p90_ms);
    format!(
        "{}: {} left, now {}, p90 {p90_ms:.1} ms, {} errors",
        phase(progress.phase),
        clock(progress.remaining_s),
        rates(per_minute, ", ", progress),
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
        let text = block(&names, 70.0, Some((0, "NOPM")), &progress);
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
        let line = line(Some((0, "NOPM")), &progress);
        assert_eq!(
            line,
            "measuring: 0:40 left, now 74,040 NOPM, 2,468 transactions/s, p90 2.2 ms, 2 errors"
        );
        assert!(super::line(None, &progress).contains("now 2,468 transactions/s, p90"));
    }
}
