//! How much runs of a load vary on a machine, from earlier ones.

use crate::compare::CompareError;
use crate::differences;
use crate::figures::{Figure, figures as figures_of};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tenbin_record::{Run, RunDir};
use tenbin_stats::Noise;

/// Earlier runs in groups of one configuration each: within a group all differences are noise.
///
/// # Errors
/// When one is of another load or machine than the runs compared, stands there twice or is itself compared,
/// and when no two have the same configuration.
pub(crate) fn groups<'a>(
    compared: &[&RunDir],
    earlier: &'a [RunDir],
) -> Result<Vec<Vec<&'a Run>>, CompareError> {
    let mut seen: BTreeSet<_> = compared.iter().map(|dir| place(dir)).collect();
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for dir in earlier {
        let path = dir.path().display().to_string();
        if !seen.insert(place(dir)) {
            return Err(CompareError::Twice { path });
        }
        for other in compared {
            let fields = other_load(&[dir.run(), other.run()]);
            if !fields.is_empty() {
                let other = other.path().display().to_string();
                return Err(CompareError::OtherLoad {
                    path,
                    other,
                    fields: fields.join(", "),
                });
            }
        }
        let alike = |group: &&mut Vec<&Run>| differences::within(&[group[0], dir.run()]).is_empty();
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(dir.run()),
            None => groups.push(vec![dir.run()]),
        }
    }
    if groups.iter().all(|group| group.len() < 2) {
        return Err(CompareError::NoRepetition);
    }
    Ok(groups)
}

fn place(dir: &RunDir) -> PathBuf {
    let path = dir.path();
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// In what two runs differ but for the server and its settings, which may be what is compared.
fn other_load(runs: &[&Run]) -> Vec<String> {
    let mut fields = differences::within(runs);
    fields.retain(|field| !field.starts_with("server.") && !field.starts_with("tenbin."));
    fields
}

/// How much each of these figures varies between runs of one configuration; none where some earlier run lacks
/// it, or it is 0.
pub(crate) fn of(figures: &[Figure], groups: &[Vec<&Run>]) -> Vec<Option<Noise>> {
    let groups: Vec<Vec<Figure>> = groups.iter().map(|runs| figures_of(runs, &[])).collect();
    let noise = |figure: &Figure| {
        let of_group = |group: &Vec<Figure>| {
            let same = group.iter().find(|other| other.id == figure.id)?;
            Some(same.of_a.clone())
        };
        let values: Option<Vec<Vec<f64>>> = groups.iter().map(of_group).collect();
        Noise::of(&values?)
    };
    figures.iter().map(noise).collect()
}
