//! Findings of a weighing, from the run directories of its trials.

use super::{Findings, findings};
use crate::figures::figures;
use crate::weigh::{Weighed, Weighing};
use std::path::{Path, PathBuf};
use tenbin_record::trials::TrialRow;
use tenbin_record::{RecordError, Run, RunDir};

/// A trial that counts, with what its run directory says.
#[derive(Debug)]
pub struct TrialRun {
    /// Position of its side in [`Weighing::sides`], from 0.
    pub side: usize,
    /// The how manyth of its side it is, from 1: trials of one number ran close in time.
    pub round: u32,
    /// Its run directory.
    pub directory: String,
    /// What `run.json` says.
    pub run: Run,
}

/// Opens the good trials. `place`: the directory of the weighing, where trials are looked for that are no longer where the
/// weighing says.
///
/// # Errors
/// When a run directory is missing or damaged.
pub fn trial_runs(weighing: &Weighing, place: &Path) -> Result<Vec<TrialRun>, RecordError> {
    let good = weighing
        .trials
        .iter()
        .filter(|trial| trial.failed.is_none());
    let with_directory = good.filter_map(|trial| Some((trial, trial.directory.as_ref()?)));
    let mut trials: Vec<TrialRun> = Vec::new();
    for (trial, directory) in with_directory {
        let earlier = trials
            .iter()
            .filter(|other| other.side == trial.side)
            .count();
        trials.push(TrialRun {
            side: trial.side,
            round: u32::try_from(earlier + 1).unwrap_or(u32::MAX),
            directory: directory.clone(),
            run: RunDir::open(&found(directory, place))?.run().clone(),
        });
    }
    Ok(trials)
}

/// A weighing's directory may have been moved as a whole.
fn found(directory: &str, place: &Path) -> PathBuf {
    let told = PathBuf::from(directory);
    let moved = told.file_name().map(|name| place.join(name));
    match moved {
        Some(moved) if moved.exists() => moved,
        _ => told,
    }
}

/// What the trials of each side but the first say beside those of the first, round by round.
#[must_use]
pub fn of_weighing(weighing: &Weighing, trials: &[TrialRun]) -> Vec<Findings> {
    let of = |side: usize, round: u32| {
        let trial = trials
            .iter()
            .find(|trial| (trial.side, trial.round) == (side, round));
        trial.map(|trial| &trial.run)
    };
    let rounds = trials.iter().map(|trial| trial.round).max().unwrap_or(0);
    let same_within = weighing.stopping.same_within;
    let sides = weighing.sides.iter().enumerate().skip(1);
    sides
        .map(|(side, named)| {
            let pairs: Vec<[&Run; 2]> = (1..=rounds)
                .filter_map(|round| Some([of(0, round)?, of(side, round)?]))
                .collect();
            let names = [weighing.sides[0].name.as_str(), named.name.as_str()];
            let differs = weighing.contrasts.iter().any(|contrast| {
                contrast.side == side
                    && matches!(contrast.answer, Weighed::Faster | Weighed::Slower)
            });
            findings(&pairs, names, same_within, differs)
        })
        .collect()
}

/// Every figure of every trial, for `trials.parquet`.
#[must_use]
pub fn trial_rows(weighing: &Weighing, trials: &[TrialRun]) -> Vec<TrialRow> {
    let rows = trials.iter().flat_map(|trial| {
        // With the run on both sides, a figure has a value of each.
        let figures = figures(&[&trial.run], &[&trial.run]).into_iter();
        figures.map(|figure| TrialRow {
            side: weighing.sides[trial.side].name.clone(),
            round: trial.round,
            directory: trial.directory.clone(),
            value: figure.a(),
            measure: figure.id,
            unit: figure.unit,
        })
    });
    rows.collect()
}
