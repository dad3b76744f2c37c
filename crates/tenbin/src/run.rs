//! What every `tenbin run` does around a trial: signals before, an answer after.

use crate::exit::{Answer, Result};
use crate::screen::{Screen, lab, result};
use std::io::IsTerminal as _;
use tenbin_lab::{Finished, Trial};
use tenbin_record::Verdict;

/// Runs a trial, and prints its result: as JSON, with nothing on standard error on the way, or as text.
pub(crate) fn run_and_show(trial: &Trial, json: bool) -> Result<Answer> {
    let mut finished = run(trial, json)?;
    show(&mut finished, json)
}

/// Runs a trial.
pub(crate) fn run(trial: &Trial, quiet: bool) -> Result<Finished> {
    Ok(lab(Screen::of_run(quiet))?.run(trial)?)
}

/// Prints the result, as far as it is not printed yet, and answers whether all is well.
pub(crate) fn show(finished: &mut Finished, json: bool) -> Result<Answer> {
    let run = &finished.run;
    if json {
        println!("{}", serde_json::to_string_pretty(run)?);
    } else if finished.shown {
        let color = std::io::stdout().is_terminal();
        print!("{}", tenbin_report::terminal_checks(run, 80, color));
    } else {
        print!("{}", result(run, &finished.directory));
    }
    match finished.failure.take() {
        Some(failure) => Err(failure.into()),
        None => Ok(answer(finished)),
    }
}

fn answer(finished: &Finished) -> Answer {
    let result = &finished.run.result;
    let rules = result.audit.iter().map(|item| item.verdict);
    let mut verdicts = rules.chain(result.checks.iter().map(|check| check.verdict));
    if finished.lost {
        Answer::Lost
    } else if finished.run.run.interrupted {
        Answer::Interrupted
    } else if verdicts.any(|verdict| verdict == Verdict::Fail) {
        Answer::No
    } else {
        Answer::Yes
    }
}
