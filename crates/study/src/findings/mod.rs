//! What the trials of a side say beside those of another: measures with answers, where the time goes, causes, and what
//! else differs.
//!
//! Everything here is computed from the run directories of the trials, so that it can be computed again.

mod causes;
mod confounders;
mod evidence;
mod measures;
mod time;
mod weighed;
mod work;

pub use causes::{Cause, CauseKind, Causes};
pub use confounders::{Confounder, ConfounderKind};
pub use measures::{Answer, Measure};
pub use time::{Part, TimeAccount, TimePart};
pub use weighed::{TrialRun, of_weighing, trial_rows, trial_runs};
pub use work::{Amount, Work};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenbin_record::Run;

/// What one side's trials say beside the first side's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// The side whose trials are the measure.
    pub against: String,
    /// The side that is compared with it.
    pub side: String,
    /// Throughput, response times and costs, each with its answer; throughput first.
    pub measures: Vec<Measure>,
    /// Where the time of a transaction goes; none where waits were not observed.
    pub time: Option<TimeAccount>,
    /// The amounts of work that explain it.
    pub amounts: Vec<Amount>,
    /// Why the sides differ.
    pub causes: Causes,
    /// What else differs.
    pub confounders: Vec<Confounder>,
}

/// What pairs of trials say. In each pair the first run is of the side `names[0]`; `same_within` is the share by which
/// sides may differ and still count as the same. `known_to_differ`: whether other evidence than these pairs (slices) says that
/// throughput differs.
#[must_use]
pub fn findings(
    pairs: &[[&Run; 2]],
    names: [&str; 2],
    same_within: f64,
    known_to_differ: bool,
) -> Findings {
    let measures = measures::measures(pairs, names, same_within);
    let time = time::account(pairs);
    let amounts = work::amounts(pairs);
    let differs = known_to_differ
        || measures.iter().any(|measure| {
            let of_speed = matches!(measure.id.as_str(), "throughput" | "response_ms.mean");
            of_speed && matches!(measure.answer, Answer::Better | Answer::Worse)
        });
    Findings {
        against: names[0].to_owned(),
        side: names[1].to_owned(),
        causes: causes::causes(pairs, time.as_ref(), &amounts, differs),
        confounders: confounders::confounders(pairs, names),
        measures,
        time,
        amounts,
    }
}
