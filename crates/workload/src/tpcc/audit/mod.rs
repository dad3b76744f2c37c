//! Whether a run kept the rules: one item a rule, with what was measured and what is required.

mod inputs;
mod pacing;
mod responses;
mod whole;

use super::chance::{fits, share_interval};
use super::random::NuRandC;
use super::rules::Rules;
use super::tally::TpccTally;
use tenbin_record::{AuditItem, Verdict};

/// Durations as observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Mean, seconds.
    pub mean_s: f64,
    /// Smallest, seconds.
    pub min_s: f64,
    /// 90th percentile, seconds.
    pub p90_s: f64,
    /// Upper bounds in seconds with how many lie below each and above the one before.
    pub buckets: Vec<(f64, u64)>,
}

/// One kind of transaction as measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KindMeasured {
    /// Due in the interval, however they ended.
    pub due: u64,
    /// Of these, how many ended in an error.
    pub errors: u64,
    /// Responses.
    pub response: Durations,
    /// Keying times.
    pub keying: Durations,
    /// Think times.
    pub think: Durations,
}

/// What the emulator measured, as far as the rules speak of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Factor of the standard's keying and think times; `None` when there were none.
    pub pacing: Option<f64>,
    /// Terminals.
    pub terminals: u32,
    /// Warehouses loaded.
    pub warehouses: u32,
    /// Length of the measurement interval, seconds.
    pub measured_s: f64,
    /// By kind, in the order of [`KINDS`].
    pub kinds: Vec<KindMeasured>,
    /// Menu responses.
    pub menu: Durations,
    /// From a Delivery's acceptance to its completion.
    pub delivery: Durations,
    /// Deliveries accepted but never completed.
    pub delivery_remaining: u64,
    /// Completed Deliveries that skipped a district or more; `None` where nobody kept their log.
    pub delivery_skipping: Option<u64>,
    /// New-Orders answered in each second of the interval.
    pub new_orders_per_s: Vec<u64>,
    /// New-Orders answered in the interval.
    pub new_orders: u64,
    /// NURand's constants of the load.
    pub c_load: Option<NuRandC>,
}

/// Judges a run with constants `c_run` against `rules`.
#[must_use]
pub fn audit(
    rules: &Rules,
    tally: &TpccTally,
    measured: &Measured,
    c_run: NuRandC,
) -> Vec<AuditItem> {
    let auditor = Auditor {
        rules,
        tally,
        measured,
        c_run,
    };
    let mut items = auditor.mix();
    items.extend(auditor.pacing());
    items.extend(auditor.responses());
    items.extend(auditor.inputs());
    items.extend(auditor.whole());
    items
}

/// Whether the headline may be called tpmC; else why not.
#[must_use]
pub fn why_not_tpmc(items: &[AuditItem], pacing: Option<f64>) -> Option<String> {
    match pacing {
        None => {
            return Some(
                "unpaced: the terminals neither keyed nor thought (--pacing spec for tpmC)"
                    .to_owned(),
            );
        }
        Some(factor) if factor.to_bits() != 1.0_f64.to_bits() => {
            return Some(format!("paced at {factor} of the standard's times"));
        }
        Some(_) => {}
    }
    let failed: Vec<&str> = items
        .iter()
        .filter(|item| {
            item.verdict != Verdict::Pass
                && (item.id.starts_with("mix.") || item.id.starts_with("pacing."))
        })
        .map(|item| item.id.as_str())
        .collect();
    (!failed.is_empty()).then(|| {
        format!(
            "the audit of pacing and mix was not passed: {}",
            failed.join(", ")
        )
    })
}

struct Auditor<'a> {
    rules: &'a Rules,
    tally: &'a TpccTally,
    measured: &'a Measured,
    c_run: NuRandC,
}

fn item(id: &str, title: &str, verdict: Verdict, measured: String, required: String) -> AuditItem {
    AuditItem {
        id: id.to_owned(),
        title: title.to_owned(),
        verdict,
        measured,
        required,
        note: None,
    }
}

fn verdict(kept: bool) -> Verdict {
    if kept { Verdict::Pass } else { Verdict::Fail }
}

fn skip(id: &str, title: &str, required: String, why: &str) -> AuditItem {
    AuditItem {
        note: Some(why.to_owned()),
        ..item(id, title, Verdict::Skip, String::new(), required)
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// A share that the rules put into a band.
fn share(
    id: &str,
    title: &str,
    hits: u64,
    of: u64,
    band: (f64, f64),
    exempt: Option<&str>,
) -> AuditItem {
    let required = format!("{} to {}", percent(band.0), percent(band.1));
    if let Some(why) = exempt {
        return skip(id, title, required, why);
    }
    if of == 0 {
        return skip(id, title, required, "there was none to look at");
    }
    let (low, high) = share_interval(hits, of);
    let measured = format!("{} of {of}", percent(hits as f64 / of as f64));
    item(
        id,
        title,
        verdict(high >= band.0 && low <= band.1),
        measured,
        required,
    )
}

/// Numbers that must come as often as these probabilities say.
fn fit(id: &str, title: &str, counts: &[u64], probabilities: &[f64]) -> AuditItem {
    let required = "as by chance".to_owned();
    let total: u64 = counts.iter().sum();
    match fits(counts, probabilities) {
        None => skip(id, title, required, &format!("{total} are too few to tell")),
        Some(true) => item(
            id,
            title,
            Verdict::Pass,
            format!("as by chance ({total})"),
            required,
        ),
        Some(false) => item(
            id,
            title,
            Verdict::Fail,
            format!("not so ({total})"),
            required,
        ),
    }
}
