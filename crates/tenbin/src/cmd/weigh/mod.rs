//! `tenbin weigh`: configurations under the same load, in turn, until the question is answered.

mod noise;
mod sides;
mod slices;
mod trials;

use crate::args::without_passwords;
use crate::exit::{Answer, Failure, Result};
use crate::screen::{Screen, lab};
use crate::units;
use anyhow::Context as _;
use clap::Parser as _;
use sides::Side;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tenbin_lab::{DataFrom, Lab};
use tenbin_study::weigh::{
    Asked, By, Ended, Limit, LimitAnswer, Plan, StoppedBy, Stopping, WeighFile, WeighedSide,
    Weighing, weigh,
};
use trials::Trials;

/// Weigh configurations: run the same load on each in turn until it is clear which is faster
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
pub(crate) struct Args {
    /// What all sides run, as one word: 'run tpcb --scale 10 --duration 10s'; or FILE.toml, which describes the weighing
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
    /// A side by its name, and the options that it adds; give two or more, the first is compared with the others
    #[arg(long, value_name = "NAME=OPTIONS", conflicts_with_all = ["a", "b"])]
    side: Vec<String>,
    /// An option or a setting, and its values: one side for each; given again, one for each combination
    #[arg(long, value_name = "NAME=VALUE,VALUE", conflicts_with_all = ["a", "b", "side"])]
    vary: Vec<String>,
    /// Weigh sides that do not differ, to see how far equal sides differ
    #[arg(long)]
    equal: bool,
    /// How the sides take turns
    #[arg(long, value_enum, default_value = "auto")]
    by: ByArg,
    /// Length of a slice, a multiple of 10 ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = slice)]
    slice: Duration,
    /// Most pairs of trials; of more than two sides, most rounds
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Begin no pair or round that would end later than this
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = units::duration)]
    budget: Duration,
    /// Call the sides the same when their ratio is within this percentage of 1
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    same_within: f64,
    /// Go on until the interval reaches no farther than this percentage to either side
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<f64>,
    /// Fail if one side is below or above a multiple of another: 'B.throughput < 0.97 * A'
    #[arg(long, value_name = "LIMIT")]
    fail_if: Option<String>,
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
Data are loaded once and copied for each trial, which has a server of its own. Trials
alternate as A B B A; the order of more sides is drawn, and reversed in each second round.
After each pair the interval of B's throughput divided by A's is computed. It stays valid
although it is looked at after each pair.

Examples:
  tenbin weigh 'run tpcb --duration 10s' --b '--set synchronous_commit=off'
  tenbin weigh 'run tpcc -w 5 -d 30s' --a '--pg 17' --b '--pg 18' --budget 30m
  tenbin weigh 'run tpcb -d 10s' --vary terminals=1,2,4,8
  tenbin weigh 'run tpcb -d 10s' --a '--pg 17' --fail-if 'B.throughput < 0.97 * A'

Exit status: 0 the question is answered; 1 a trial failed, or --fail-if is so; 2 bad input;
3 the environment lacks something; 4 interrupted; 5 not decided.";

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

/// How the sides take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ByArg {
    /// By slices where the factor allows it, otherwise by trials
    Auto,
    /// One trial after the other
    Trials,
    /// All servers up, the load moved from one to the other every second
    Slices,
}

/// Rounds of trials that check what slices said.
const CHECKS: u32 = 3;

/// A length of a slice.
fn slice(text: &str) -> std::result::Result<Duration, String> {
    let slice = units::duration(text)?;
    let whole = slice.as_nanos() % 10_000_000 == 0;
    if whole && (Duration::from_millis(100)..=Duration::from_mins(1)).contains(&slice) {
        Ok(slice)
    } else {
        Err(format!(
            "{text} is not a multiple of 10 ms from 100 ms to 60 s"
        ))
    }
}

/// `weigh` alone, for the words of a file.
#[derive(clap::Parser)]
#[command(name = "tenbin weigh")]
struct Alone {
    #[command(flatten)]
    args: Args,
}

/// The arguments of a file, and over them those of the command line.
fn of_file(path: &str) -> Result<Args> {
    let bad = |error: &dyn std::fmt::Display| Failure::bad_input(format!("{path}: {error}"));
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let file = WeighFile::parse(&text).map_err(|error| bad(&error))?;
    let given = std::env::args().skip_while(|word| word != "weigh").skip(1);
    let given = given.filter(|word| word != path);
    let words = ["weigh".to_owned()]
        .into_iter()
        .chain(file.words())
        .chain(given);
    let alone = Alone::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        bad(&text.strip_prefix("error: ").unwrap_or(&text).trim_end())
    })?;
    Ok(alone.args)
}

pub(crate) fn run(args: &Args) -> Result {
    let is_file = Path::new(&args.command)
        .extension()
        .is_some_and(|extension| extension == "toml");
    if is_file {
        return weighed(&of_file(&args.command)?);
    }
    weighed(args)
}

fn weighed(args: &Args) -> Result {
    let sides = sides::sides(args)?;
    let (by, why) = by(args.by, &sides)?;
    let names: Vec<String> = sides.iter().map(|side| side.name.clone()).collect();
    let mut session = Session::new(args, args.stopping(&names)?)?;
    let (sides, _templates) = trials::prepare(&mut session, sides)?;
    session.begin()?;
    session.why_by = why;
    let known = noise::Known::of(&sides, by, session.slice);
    session.tell_plan(by, &sides, &known);
    let mut weighing = match by {
        By::Slices => by_slices(&mut session, &sides)?,
        By::Trials => {
            let stopping = session.stopping;
            let ended = by_trials(&mut session, &sides, stopping, "")?;
            session.weighing(ended)
        }
    };
    known.add(&weighing.evidence());
    session.save(&weighing)?;
    crate::weighing::complete(&mut weighing, &session.directory)?;
    session.save(&weighing)?;
    print(args, &weighing, &session.directory)?;
    Ok(answer(&weighing))
}

/// How the sides take turns, and why so.
fn by(asked: ByArg, sides: &[Side]) -> Result<(By, String)> {
    Ok(match asked {
        ByArg::Trials => (By::Trials, "--by trials was given".to_owned()),
        ByArg::Slices => {
            slices::refuse(sides)?;
            (By::Slices, "--by slices was given".to_owned())
        }
        ByArg::Auto => match slices::impossible(sides).or_else(|| slices::unsuitable(sides)) {
            Some(why) => (By::Trials, why),
            None => (
                By::Slices,
                "the sides have the same load, and no setting with a long memory differs"
                    .to_owned(),
            ),
        },
    })
}

fn by_trials(
    session: &mut Session,
    sides: &[Side],
    stopping: Stopping,
    prefix: &'static str,
) -> Result<Ended> {
    let seed = sides[0].trial.load.seed;
    let mut trials = Trials {
        session,
        sides,
        prefix,
    };
    weigh(sides.len(), seed, &stopping, &mut trials)
}

/// Slices, then a few trials that check them; where they disagree, trials until the question is answered.
fn by_slices(session: &mut Session, sides: &[Side]) -> Result<Weighing> {
    let whole = session.stopping;
    let sliced = slices::weigh(
        session,
        sides,
        Stopping {
            rounds: u32::MAX,
            budget_s: whole.budget_s * slices::SHARE,
            ..whole
        },
    )?;
    let by_slices = Weighing {
        slices: sliced.slices,
        ..session.weighing(sliced.ended)
    };
    if !by_slices.decided() {
        return Ok(by_slices);
    }
    session.save(&by_slices)?;
    let few = Stopping {
        rounds: CHECKS,
        precision: Some(f64::MIN_POSITIVE),
        ..whole
    };
    let checked = by_trials(session, sides, few, "check-")?;
    "tps".clone_into(&mut session.metric);
    let (weighing, agrees) = by_slices.checked(checked);
    if agrees != Some(false) {
        return Ok(weighing);
    }
    let ended = by_trials(session, sides, whole, "")?;
    "trials did not agree with slices within their intervals, so that trials decide"
        .clone_into(&mut session.why_by);
    let by_trials = session.weighing(ended);
    Ok(Weighing {
        trials: [weighing.trials, by_trials.trials].concat(),
        slices: weighing.slices,
        check: weighing.check,
        ..by_trials
    })
}

fn answer(weighing: &Weighing) -> Answer {
    match (weighing.stopped_by, weighing.limit) {
        (StoppedBy::Interrupt, _) => Answer::Interrupted,
        (StoppedBy::Failure, _) | (_, Some(LimitAnswer::Fails)) => Answer::No,
        _ if weighing.decided() => Answer::Yes,
        _ => Answer::NotDecided,
    }
}

fn print(args: &Args, weighing: &Weighing, directory: &Path) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(weighing)?);
    } else if args.markdown {
        print!("{}", tenbin_report::weighing_markdown(weighing));
    } else {
        let color = std::io::stdout().is_terminal();
        print!("{}", tenbin_report::weighing_terminal(weighing, 80, color));
        println!(
            "\nResult and trials: {}; page: {}",
            directory.display(),
            crate::weighing::PAGE
        );
    }
    Ok(())
}

impl Args {
    /// `names`: of the sides.
    fn stopping(&self, names: &[String]) -> Result<Stopping> {
        let limit = self.fail_if.as_ref().map(|text| Limit::parse(text, names));
        let limit = limit
            .transpose()
            .map_err(|error| Failure::bad_input(error.to_string()))?;
        Ok(Stopping {
            rounds: self.pairs,
            budget_s: self.budget.as_secs_f64(),
            same_within: self.same_within,
            precision: self.precision,
            limit,
        })
    }
}

/// Where the data of a side come from, for the result.
fn data_words(from: &DataFrom) -> String {
    match from {
        DataFrom::Existing => {
            "Data: those of the existing server; each trial leaves them changed for the next."
                .to_owned()
        }
        DataFrom::Template(number) => format!(
            "Data: template {number}, copied file by file before each trial; shared buffers are empty at the start, and the page cache is as the copy leaves it."
        ),
        DataFrom::EachLoad(why) => {
            format!(
                "Data: loaded anew for each trial, because {why}; caches are as the load leaves them."
            )
        }
    }
}

/// What all turns of a weighing share.
struct Session {
    lab: Lab,
    directory: PathBuf,
    quiet: bool,
    command: String,
    stopping: Stopping,
    slice: Duration,
    sides: Vec<WeighedSide>,
    metric: String,
    why_by: String,
    began: Instant,
}

impl Session {
    fn new(args: &Args, stopping: Stopping) -> Result<Self> {
        let directory = args.out.clone().unwrap_or_else(|| {
            tenbin_record::default_path("weigh", SystemTime::now(), &tenbin_record::new_id())
        });
        Ok(Self {
            lab: lab(Screen::of_trials(args.json))?,
            directory,
            quiet: args.json,
            command: args.command.clone(),
            stopping,
            slice: args.slice,
            sides: Vec::new(),
            metric: String::new(),
            why_by: String::new(),
            began: Instant::now(),
        })
    }

    /// Makes the directory of the result; the time of the weighing counts from here.
    fn begin(&mut self) -> Result<()> {
        std::fs::create_dir(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        self.began = Instant::now();
        Ok(())
    }

    /// Says how long it takes, and what it can find.
    fn tell_plan(&self, by: By, sides: &[Side], known: &noise::Known) {
        let trial_s = |side: &Side| side.trial.load.duration_s + side.trial.load.warmup_s;
        let (round_s, most) = match by {
            By::Trials => (sides.iter().map(trial_s).sum(), self.stopping.rounds),
            By::Slices => (slices::round_s(self.slice, sides.len()), u32::MAX),
        };
        let share = match by {
            By::Trials => 1.0,
            By::Slices => slices::SHARE,
        };
        let plan = Plan {
            by,
            sides: sides.len(),
            round_s,
            stopping: Stopping {
                rounds: most,
                budget_s: self.stopping.budget_s * share,
                ..self.stopping
            },
            noise: known.read(),
        };
        if !self.quiet {
            eprintln!("{}", plan.sentence());
        }
    }

    fn weighing(&self, ended: Ended) -> Weighing {
        let mut sides = self.sides.clone();
        for side in &mut sides {
            side.options = without_passwords(&side.options);
        }
        let asked = Asked {
            command: without_passwords(&self.command),
            sides,
            metric: self.metric.clone(),
            why_by: self.why_by.clone(),
            stopping: self.stopping,
        };
        Weighing::of(asked, ended)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_above_0_and_below_100() {
        for bad in ["0", "-1", "100", "x", "nan"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
        assert_eq!(percent("2%"), Ok(0.02));
        for bad in ["0", "50ms", "105ms", "61s", "x"] {
            assert!(slice(bad).is_err(), "{bad}");
        }
        assert_eq!(slice("120ms"), Ok(Duration::from_millis(120)));
    }
}
