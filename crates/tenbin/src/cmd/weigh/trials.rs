//! Turns by trials: each starts a server from the same bytes.

use super::sides::Side;
use super::{Session, data_words};
use crate::exit::{Failure, Result};
use std::time::Duration;
use tenbin_lab::{Error as LabError, Finished, Templates, Trial};
use tenbin_record::Verdict;
use tenbin_study::weigh::{
    Ended, Evidence, Executor, StoppedBy, Trialed, WeighedSide, WeighedTrial,
};

/// Runs trials.
pub(super) struct Trials<'a> {
    pub(super) session: &'a mut Session,
    /// They start from templates.
    pub(super) sides: &'a [Side],
    /// What the names of run directories begin with.
    pub(super) prefix: &'static str,
}

/// Starts each side once, so that one that cannot start is known before the first trial; loads the data of all sides.
/// The sides as they are to be run any number of times, as long as the templates are kept.
pub(super) fn prepare(session: &mut Session, sides: Vec<Side>) -> Result<(Vec<Side>, Templates)> {
    for side in &sides {
        let opened = session.lab.open_for(&side.trial.plan()?);
        opened.and_then(tenbin_lab::System::close)?;
    }
    let mut templates = Templates::default();
    let mut started = Vec::new();
    for side in sides {
        let (trial, from) = templates.start(&session.lab, &side.trial)?;
        session.sides.push(WeighedSide {
            name: side.name.clone(),
            options: side.options.clone(),
            data: data_words(&from),
            directory: None,
        });
        started.push(Side { trial, ..side });
    }
    Ok((started, templates))
}

impl Trials<'_> {
    /// The trial of a round, with its run directory named.
    fn named(&self, side: &Side, round: u32, attempt: u32) -> Trial {
        let again = match attempt {
            1 => String::new(),
            attempt => format!("-{attempt}"),
        };
        let name = format!("{}{round:02}-{}{again}", self.prefix, side.slug);
        let mut trial = side.trial.clone();
        trial.output.directory = Some(self.session.directory.join(name));
        trial
    }
}

impl Executor for Trials<'_> {
    type Error = Failure;

    fn trial(&mut self, side: usize, round: u32, attempt: u32) -> Result<Trialed> {
        let side = &self.sides[side];
        let trial = self.named(side, round, attempt);
        let finished = match self.session.lab.run(&trial) {
            Err(LabError::Interrupted) => return Ok(Trialed::Interrupted),
            finished => finished?,
        };
        let place = finished.directory.display().to_string();
        if let Some(why) = failed(side, &finished) {
            return Ok(Trialed::Failed(format!("{why}; see {place}"), Some(place)));
        }
        if finished.run.run.interrupted {
            return Ok(Trialed::Interrupted);
        }
        if let Some(failure) = finished.failure {
            return Err(failure.into());
        }
        let throughput = &finished.run.result.throughput;
        self.session.metric.clone_from(&throughput.metric);
        Ok(Trialed::Done(throughput.value, place))
    }

    fn elapsed(&self) -> Duration {
        self.session.began.elapsed()
    }

    fn after_round(&mut self, trials: &[WeighedTrial], evidence: &Evidence) {
        if !self.prefix.is_empty() {
            return; // What they check is saved.
        }
        // What there is is kept, should the rest be lost.
        let so_far = Ended {
            trials: trials.to_vec(),
            evidence: evidence.clone(),
            stopped_by: StoppedBy::Interrupt,
            failure: None,
        };
        let _ = self.session.save(&self.session.weighing(so_far));
        if !self.session.quiet {
            told(self.session, evidence);
        }
    }
}

/// One line about the round that has ended.
fn told(session: &Session, evidence: &Evidence) {
    let Some(last) = evidence.rounds.last() else {
        return;
    };
    let sides = &session.sides;
    let values = sides.iter().zip(&last.throughput);
    let values: Vec<String> = values
        .map(|(side, value)| format!("{} {value:.0}", side.name))
        .collect();
    let so_far = |side| {
        let at = evidence.contrast(side, 0)?;
        Some(format!(
            "; {}/{} {:.3}, interval {:.3} to {:.3}",
            sides[side].name, sides[0].name, at.ratio, at.low, at.high
        ))
    };
    let so_far: String = (1..sides.len()).filter_map(so_far).collect();
    eprintln!(
        "round {}: {} {}{so_far}",
        evidence.rounds.len(),
        values.join(", "),
        session.metric
    );
}

/// Why a trial's result is not valid.
pub(super) fn failed(side: &Side, finished: &Finished) -> Option<String> {
    let name = &side.name;
    if finished.lost {
        return Some(format!("the server of side {name} was lost"));
    }
    if finished.run.run.interrupted {
        return None;
    }
    let result = &finished.run.result;
    let failed = result
        .audit
        .iter()
        .find(|item| item.id == "failures" && item.verdict == Verdict::Fail);
    if let Some(item) = failed {
        let what = format!("{}: {}", item.title, item.measured);
        return Some(format!("a trial of side {name} failed, {what}"));
    }
    let mut checks = result.checks.iter();
    if let Some(check) = checks.find(|check| check.verdict == Verdict::Fail) {
        let what = format!("a consistency check failed: {}", check.title);
        return Some(format!("a trial of side {name} failed, {what}"));
    }
    (result.throughput.value <= 0.0)
        .then(|| format!("a trial of side {name} failed, no transaction was completed"))
}
