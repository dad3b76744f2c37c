//! Whether a run kept the rules: one item a rule, with what was measured and what is required.

mod inputs;
mod pacing;
mod responses;
#[cfg(test)]
mod simulated;
mod whole;

use super::random::NuRandC;
use super::rules::Rules;
use super::tally::TpccTally;
use crate::audit::Durations;
use tenbin_record::AuditItem;

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
    /// Think times that began and ended in the interval …
    pub think: Durations,
    /// … and those that its end cut short, up to it.
    pub think_cut: Durations,
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
    /// By kind, in the order of [`KINDS`](crate::tpcc::KINDS).
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

struct Auditor<'a> {
    rules: &'a Rules,
    tally: &'a TpccTally,
    measured: &'a Measured,
    c_run: NuRandC,
}
