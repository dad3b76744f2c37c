//! How much loads vary on this machine: kept in the cache after each weighing, for the plan of the next.

use super::sides::Side;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenbin_server::Cache;
use tenbin_study::weigh::{By, Evidence, Noise};

/// The file in the cache.
const FILE: &str = "noise.json";

/// The noise of one load, taking turns in one way.
pub(super) struct Known {
    path: Option<PathBuf>,
    key: String,
}

impl Known {
    /// Of what these sides run. Without a cache nothing is known, and nothing kept.
    pub(super) fn of(sides: &[Side], by: By, slice: Duration) -> Self {
        let trial = &sides[0].trial;
        let turns = match by {
            By::Trials => "trials".to_owned(),
            By::Slices => format!("slices of {slice:?}"),
        };
        Self {
            path: Cache::for_user()
                .ok()
                .map(|cache| cache.directory().join(FILE)),
            key: format!("{turns}, {:?}, {:?}", trial.workload, trial.load),
        }
    }

    /// What earlier weighings found.
    pub(super) fn read(&self) -> Option<Noise> {
        all(self.path.as_ref()?).get(&self.key).copied()
    }

    /// Adds what this weighing found. What cannot be kept is found again.
    pub(super) fn add(&self, evidence: &Evidence) {
        let (Some(path), Some(found)) = (&self.path, Noise::of(evidence)) else {
            return;
        };
        let mut known = all(path);
        let noise = known
            .get(&self.key)
            .map_or(found, |before| before.with(found));
        known.insert(self.key.clone(), noise);
        let Ok(json) = serde_json::to_vec_pretty(&known) else {
            return;
        };
        // Another weighing that ends at this moment loses, and none reads half a file.
        let partial = path.with_extension(format!("{}.partial", std::process::id()));
        let _ = std::fs::write(&partial, json).and_then(|()| std::fs::rename(&partial, path));
    }
}

fn all(path: &Path) -> BTreeMap<String, Noise> {
    let text = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_study::weigh::Round;

    #[test]
    fn noise_is_kept_by_load_and_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let known = |key: &str| Known {
            path: Some(folder.path().join(FILE)),
            key: key.to_owned(),
        };
        let evidence = Evidence {
            by: By::Trials,
            sides: 2,
            rounds: [1.0, 1.1, 1.2]
                .map(|b| Round {
                    order: vec![0, 1],
                    throughput: vec![1.0, b],
                })
                .into(),
            taken: Vec::new(),
        };
        assert_eq!(known("tpcb").read(), None);
        known("tpcb").add(&evidence);
        known("tpcb").add(&evidence);
        known("tpcc").add(&evidence);
        let of = |key| known(key).read().unwrap();
        assert_eq!((of("tpcb").freedom, of("tpcc").freedom), (4, 2));
        std::fs::write(folder.path().join(FILE), "no JSON").unwrap();
        assert_eq!(known("tpcb").read(), None);
    }
}
