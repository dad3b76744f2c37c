//! The trials of the study S2-aging: a fresh and an aged database of the same rows, queried with empty caches
//! while every request to the disk is recorded.

mod caches;
mod databases;
mod plan;
mod trials;
mod waiting;

use crate::{EmbeddedSpec, Error, Lab, Needs, Refusal, Result, ServerSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tenbin_record::aging::{AgingTrial, Caches, Databases, SOURCE_SCALE};
use tenbin_record::run::{Host, Server};
use tenbin_record::trace::Device;
use tenbin_workload::tpch::Scale;
use trials::Bench;

/// The source's bound of query (B), at its scale.
const SOURCE_ORDERKEY_BELOW: u64 = 1_024_000;

/// What PostgreSQL itself would choose, which the source left as it was; tenbin's own servers are set up
/// for the machine otherwise.
const SOURCE_SETTINGS: [(&str, &str, &str); 5] = [
    ("shared_buffers", "128MB", SOURCE_DEFAULT),
    ("effective_cache_size", "4GB", SOURCE_DEFAULT),
    ("work_mem", "4MB", SOURCE_DEFAULT),
    ("random_page_cost", "4", SOURCE_DEFAULT),
    // How often it comes depends on the time that the replacing takes, and so would the result.
    (
        "autovacuum",
        "off",
        "the source's table grew by as much as was replaced: nothing was freed before the end",
    ),
];
const SOURCE_DEFAULT: &str = "PostgreSQL's own default, which the source left as it was";

/// The trials to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgingSpec {
    /// Scale factor of TPC-H.
    #[serde(with = "crate::text")]
    pub scale: Scale,
    /// Share of the orders that is replaced, 0.001 to 0.999.
    pub share: f64,
    /// Pairs of trials, 1 to 1000.
    pub pairs: u32,
    /// The server.
    pub server: EmbeddedSpec,
}

impl AgingSpec {
    /// Says whether the trials can be made, before anything is loaded: without the tracer there is nothing to measure.
    ///
    /// # Errors
    /// A number out of its range; the tracer is not permitted here.
    pub fn check(&self) -> Result<()> {
        let pairs = !(1..=1_000).contains(&self.pairs);
        let share = !(0.001..=0.999).contains(&self.share);
        if pairs {
            return Err(Refusal::Pairs(self.pairs).into());
        }
        if share {
            return Err(Refusal::Share(self.share).into());
        }
        Ok(tenbin_iotrace::probe()?)
    }

    /// Query (B)'s bound on the order keys, which follow the scale.
    fn orderkey_below(&self) -> u64 {
        SOURCE_ORDERKEY_BELOW * u64::from(self.scale.thousandths()) / (1_000 * SOURCE_SCALE)
    }

    /// With the source's settings, and over them the user's.
    fn server(&self) -> ServerSpec {
        let mut server = self.server.clone();
        for (name, value, _) in SOURCE_SETTINGS {
            let settings = server.settings.entry(name.to_owned());
            settings.or_insert_with(|| value.to_owned());
        }
        ServerSpec::Embedded(server)
    }
}

/// What the trials came to.
#[derive(Debug)]
pub struct Aged {
    /// What was compared.
    pub databases: Databases,
    /// How the caches were emptied before each trial.
    pub caches: Caches,
    /// The server.
    pub server: Server,
    /// The machine.
    pub host: Host,
    /// Settings of the disks that were read.
    pub devices: BTreeMap<String, Device>,
    /// Trials of whole pairs, in the order in which they ran; their traces are below the directory.
    pub trials: Vec<AgingTrial>,
    /// I/Os that were not recorded.
    pub lost: u64,
}

impl Lab {
    /// Creates the two databases and makes the trials. Traces go below `directory`.
    ///
    /// # Errors
    /// What is described cannot be done; no tracing here; [`Error::Interrupted`] before a pair was whole.
    pub fn age(&self, spec: &AgingSpec, directory: &Path) -> Result<Aged> {
        spec.check()?;
        let mut sut = self.open(&spec.server(), Needs::default())?;
        databases::refuse_space(&sut, spec)?;
        let databases = databases::create(self, &mut sut, spec)?;
        let mut bench = Bench {
            lab: self,
            sut: &mut sut,
            spec,
            databases: &databases,
            directory,
        };
        let measured = bench.run()?;
        self.tell(crate::Event::Done);
        let Some(caches) = measured.caches.filter(|_| !measured.whole.is_empty()) else {
            return Err(Error::Interrupted);
        };
        let mut server = sut.record();
        for (name, _, why) in SOURCE_SETTINGS {
            let ours = !spec.server.settings.contains_key(name);
            if let Some(setting) = server.settings.get_mut(name).filter(|_| ours) {
                setting.reason = Some(why.to_owned());
            }
        }
        let mut used: Vec<(String, PathBuf)> =
            vec![("study directory".to_owned(), directory.to_owned())];
        let data = sut.server.data_directory.iter();
        used.extend(data.map(|data| ("data".to_owned(), data.clone())));
        sut.close()?;
        Ok(Aged {
            databases,
            caches,
            server,
            host: tenbin_observe::describe(&used),
            devices: measured.devices,
            trials: measured.whole,
            lost: measured.lost,
        })
    }
}
