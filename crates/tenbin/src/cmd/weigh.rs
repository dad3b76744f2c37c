//! `tenbin weigh`: two configurations under the same load, in turn, until the question is answered.

use crate::cmd::run;
use crate::exit::{Answer, Failure, Result};
use crate::screen::{Screen, lab};
use crate::units;
use anyhow::Context as _;
use clap::Parser as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tenbin_lab::{Error as LabError, Lab, Trial};
use tenbin_record::Verdict;
use tenbin_study::weigh::{
    Ended, Executor, StoppedBy, Stopping, Trialed, Weighed, WeighedPair, WeighedSide, Weighing,
    interval, weigh,
};

/// Weigh two configurations: run the same load on both in turn until it is clear which is faster
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What both sides run, as one word: 'run tpcb --scale 10 --duration 10s'
    command: String,
    /// Options that A adds to it
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        allow_hyphen_values = true
    )]
    a: String,
    /// Options that B adds to it
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        allow_hyphen_values = true
    )]
    b: String,
    /// Most pairs of trials
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Begin no pair that would end later than this
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = units::duration)]
    budget: Duration,
    /// Call the sides the same when their ratio is within this percentage of 1
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    same_within: f64,
    /// Go on until the interval reaches no farther than this percentage to either side
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<f64>,
    /// Directory of the result and of all trials [default: weigh-TIME-ID]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print the result as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

const AFTER_HELP: &str = "\
Each trial has a fresh server and fresh data; trials alternate as A B B A. After each pair
the interval of B's throughput divided by A's is computed. It stays valid although it is
looked at after each pair.

Examples:
  tenbin weigh 'run tpcb --duration 10s' --b '--set synchronous_commit=off'
  tenbin weigh 'run tpcc -w 5 -d 30s' --a '--pg 17' --b '--pg 18' --budget 30m

Exit status: 0 the question is answered; 1 a trial failed; 2 bad input; 3 the environment
lacks something; 4 interrupted; 5 not decided.";

/// `2` or `2%` as a share, above 0 and below 1.
fn percent(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .parse()
        .map_err(|_| format!("{text} is not a percentage"))?;
    if number > 0.0 && number < 100.0 {
        Ok(number / 100.0)
    } else {
        Err(format!("{text} is not above 0 and below 100"))
    }
}

pub(crate) fn run(args: &Args) -> Result {
    let a = trial('A', &args.command, &args.a)?;
    let b = trial('B', &args.command, &args.b)?;
    if a == b {
        return Err(Failure::bad_input(
            "A and B are the same configuration: give --b, or --a and --b, such as --b '--set jit=off'",
        ));
    }
    let directory = args.out.clone().unwrap_or_else(|| {
        tenbin_record::default_path("weigh", SystemTime::now(), &tenbin_record::new_id())
    });
    let mut scale = Scale {
        lab: lab(Screen::of_trials(args.json))?,
        sides: [a, b],
        directory,
        args,
        metric: String::new(),
        began: Instant::now(),
    };
    scale.try_sides()?;
    std::fs::create_dir(&scale.directory)
        .with_context(|| format!("cannot make {}", scale.directory.display()))?;
    scale.began = Instant::now();
    let ended = weigh(&args.stopping(), &mut scale)?;
    let weighing = scale.weighing(ended);
    scale.save(&weighing)?;
    print(args, &weighing, &scale.directory)?;
    Ok(match (weighing.stopped_by, weighing.answer) {
        (StoppedBy::Failure, _) => Answer::No,
        (StoppedBy::Interrupt, _) => Answer::Interrupted,
        (_, Weighed::NotDecided) => Answer::NotDecided,
        _ => Answer::Yes,
    })
}

fn print(args: &Args, weighing: &Weighing, directory: &Path) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(weighing)?);
    } else if args.markdown {
        print!("{}", tenbin_report::weighing_markdown(weighing));
    } else {
        let color = std::io::stdout().is_terminal();
        print!("{}", tenbin_report::weighing_terminal(weighing, 80, color));
        println!("\nResult and trials: {}", directory.display());
    }
    Ok(())
}

/// The trial that a side's words describe.
fn trial(name: char, command: &str, own: &str) -> Result<Trial> {
    let split = |text: &str| {
        shlex::split(text).ok_or_else(|| {
            Failure::bad_input(format!("side {name}: {text} has a quote that does not end"))
        })
    };
    let words = [split(command)?, split(own)?].concat();
    if words.first().map(String::as_str) != Some("run") {
        return Err(Failure::bad_input(format!(
            "{command:?} does not begin with run: write 'run tpcb --scale 10'"
        )));
    }
    let parsed = run::Args::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        Failure::bad_input(format!("side {name}: {text}"))
    })?;
    let (trial, json) = run::trial(parsed)?;
    if json || trial.output.directory.is_some() {
        return Err(Failure::bad_input(format!(
            "side {name}: --json and --out belong to weigh itself, outside the quotes"
        )));
    }
    Ok(trial)
}

impl Args {
    fn stopping(&self) -> Stopping {
        Stopping {
            pairs: self.pairs,
            budget_s: self.budget.as_secs_f64(),
            same_within: self.same_within,
            precision: self.precision,
        }
    }
}

/// Runs the trials.
struct Scale<'a> {
    lab: Lab,
    /// A and B.
    sides: [Trial; 2],
    directory: PathBuf,
    args: &'a Args,
    metric: String,
    began: Instant,
}

impl Scale<'_> {
    /// Starts each side once, so that one that cannot start is known before the first trial.
    fn try_sides(&self) -> Result<()> {
        for trial in &self.sides {
            self.lab.open_for(&trial.plan()?)?.close()?;
        }
        Ok(())
    }

    fn weighing(&self, ended: Ended) -> Weighing {
        let sides = [&self.args.command, &self.args.a, &self.args.b].map(Clone::clone);
        Weighing::of(sides, self.metric.clone(), self.args.stopping(), ended)
    }

    /// Writes the result, in place of an earlier one only when it is whole.
    fn save(&self, weighing: &Weighing) -> Result<()> {
        let path = self.directory.join("weighing.json");
        let partial = self.directory.join("weighing.json.partial");
        let json = serde_json::to_string_pretty(weighing)?;
        std::fs::write(&partial, json)
            .and_then(|()| std::fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }
}

impl Executor for Scale<'_> {
    type Error = Failure;

    fn trial(&mut self, side: WeighedSide, pair: u32) -> Result<Trialed> {
        let (trial, letter) = match side {
            WeighedSide::A => (&self.sides[0], 'a'),
            WeighedSide::B => (&self.sides[1], 'b'),
        };
        let mut trial = trial.clone();
        let directory = self.directory.join(format!("{pair:02}-{letter}"));
        trial.output.directory = Some(directory.clone());
        let finished = match self.lab.run(&trial) {
            Err(LabError::Interrupted) => return Ok(Trialed::Interrupted),
            finished => finished?,
        };
        let result = &finished.run.result;
        if finished.lost {
            return Ok(Trialed::Failed(format!(
                "the server of side {} was lost; see {}",
                letter.to_ascii_uppercase(),
                finished.directory.display()
            )));
        }
        if finished.run.run.interrupted {
            return Ok(Trialed::Interrupted);
        }
        if let Some(failure) = finished.failure {
            return Err(failure.into());
        }
        let failed = result
            .audit
            .iter()
            .find(|item| item.id == "failures" && item.verdict == Verdict::Fail);
        let broken = result
            .checks
            .iter()
            .find(|check| check.verdict == Verdict::Fail);
        let why = match (failed, broken) {
            (Some(item), _) => Some(format!("{}: {}", item.title, item.measured)),
            (None, Some(check)) => Some(format!("a consistency check failed: {}", check.title)),
            (None, None) => None,
        };
        if let Some(why) = why {
            let place = directory.display();
            return Ok(Trialed::Failed(format!(
                "a trial of side {} failed, {why}; see {place}",
                letter.to_ascii_uppercase()
            )));
        }
        self.metric.clone_from(&result.throughput.metric);
        Ok(Trialed::Done(
            result.throughput.value,
            directory.display().to_string(),
        ))
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn paired(&mut self, pairs: &[WeighedPair]) {
        // What there is is kept, should the rest be lost.
        let _ = self.save(&self.weighing(Ended {
            pairs: pairs.to_vec(),
            stopped_by: StoppedBy::Interrupt,
            failure: None,
        }));
        let Some(last) = pairs.last().filter(|_| !self.args.json) else {
            return;
        };
        let so_far = interval(pairs).map_or_else(String::new, |at| {
            format!("; interval {:.3} to {:.3}", at.low, at.high)
        });
        eprintln!(
            "pair {}: A {:.0} {metric}, B {:.0} {metric}, B/A {:.3}{so_far}",
            pairs.len(),
            last.a,
            last.b,
            last.ratio(),
            metric = self.metric,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_the_command_with_its_own_options() {
        let command = "run tpcb --scale 3 --duration 5s";
        let a = trial('A', command, "").unwrap();
        let b = trial('B', command, "--set 'log_line_prefix=%m x' -c 4").unwrap();
        assert_eq!(a.load.duration_s.to_bits(), 5.0_f64.to_bits());
        assert_eq!((a.load.terminals, b.load.terminals), (Some(10), Some(4)));
        assert_ne!(a.server, b.server);
        assert_eq!(a, trial('A', command, "--seed 42").unwrap());
    }

    #[test]
    fn sides_that_cannot_be_are_refused_by_name() {
        for (command, own, wanted) in [
            ("tpcb", "", "does not begin with run"),
            ("run tpcb --scale 'x", "", "a quote that does not end"),
            (
                "run tpcb",
                "--no-such-option",
                "side B: unexpected argument",
            ),
            ("run tpcb", "--json", "outside the quotes"),
            ("run tpcb --out x", "", "outside the quotes"),
            ("run tpcb", "--duration soon", "side B: invalid value"),
        ] {
            let Err(error) = trial('B', command, own) else {
                panic!("{command} {own} was taken")
            };
            assert!(error.to_string().contains(wanted), "{error}");
        }
        for bad in ["0", "-1", "100", "x", "nan"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
        assert_eq!(percent("2%"), Ok(0.02));
    }
}
