//! What `tenbin weigh` leaves beside its trials, and reading it again.

use crate::exit::{Class, Failure, Result};
use anyhow::Context as _;
use std::path::Path;
use tenbin_record::{directory, trials};
use tenbin_study::findings::{TrialRun, of_weighing, trial_rows, trial_runs};
use tenbin_study::weigh::Weighing;

/// The result.
pub(crate) const WEIGHING_JSON: &str = "weighing.json";
/// The same for people.
pub(crate) const PAGE: &str = "report.html";

/// Adds what the trials say, and writes their figures and the page.
pub(crate) fn complete(weighing: &mut Weighing, place: &Path) -> Result<()> {
    let runs = runs(weighing, place)?;
    weighing.findings = of_weighing(weighing, &runs);
    trials::write(&place.join(directory::TRIALS), &trial_rows(weighing, &runs))
        .map_err(|error| Failure::new(Class::Environment, error))?;
    let page = place.join(PAGE);
    std::fs::write(&page, tenbin_report::weighing_html(weighing, &runs))
        .with_context(|| format!("cannot write {}", page.display()))?;
    Ok(())
}

/// The page, drawn again from the trials.
pub(crate) fn page(weighing: &Weighing, place: &Path) -> Result<String> {
    Ok(tenbin_report::weighing_html(
        weighing,
        &runs(weighing, place)?,
    ))
}

fn runs(weighing: &Weighing, place: &Path) -> Result<Vec<TrialRun>> {
    trial_runs(weighing, place).map_err(|error| Failure::new(Class::BadInput, error))
}

/// The weighing in a directory; none where there is no `weighing.json`.
pub(crate) fn open(place: &Path) -> Result<Option<Weighing>> {
    let path = place.join(WEIGHING_JSON);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let weighing = serde_json::from_str(&text).map_err(|error| {
        Failure::bad_input(format!(
            "{} is no result of tenbin weigh: {error}",
            path.display()
        ))
    })?;
    Ok(Some(weighing))
}
