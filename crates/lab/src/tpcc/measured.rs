//! From the emulator's result to what the audit judges.

use tenbin_rte::Driven;
use tenbin_workload::Tally;
use tenbin_workload::audit::Durations;
use tenbin_workload::tpcc::audit::{KindMeasured, Measured};
use tenbin_workload::tpcc::random::NuRandC;

/// What the rules speak of. `skipping`: Deliveries that skipped a district.
pub(super) fn measured<T: Tally>(
    driven: &Driven<T>,
    options: &tenbin_rte::Options,
    warehouses: u32,
    c_load: NuRandC,
    skipping: u64,
) -> Measured {
    let kinds = driven
        .kinds
        .iter()
        .map(|kind| KindMeasured {
            due: kind.due(),
            errors: kind.errors.count(),
            response: Durations::from(&kind.response),
            keying: Durations::from(&kind.keying),
            think: Durations::from(&kind.think),
            think_cut: Durations::from(&kind.think_cut),
        })
        .collect();
    let deferred = driven.kinds.iter().find_map(|kind| kind.deferred.as_ref());
    let new_order =
        |point: &tenbin_rte::Point| point.kinds.first().map_or(0, |kind| kind.completed);
    let whole = |point: &&tenbin_rte::Point| {
        point.at_s >= 0 && point.at_s as f64 + f64::from(point.width_s) <= driven.measured_s + 1e-9
    };
    Measured {
        pacing: options.pacing.factor(),
        terminals: options.terminals,
        warehouses,
        measured_s: driven.measured_s,
        kinds,
        menu: Durations::from(&driven.menu),
        delivery: deferred.map_or_else(Durations::default, |deferred| {
            Durations::from(&deferred.completion)
        }),
        delivery_remaining: deferred.map_or(0, |deferred| deferred.remaining),
        delivery_skipping: Some(skipping),
        new_orders_per_s: driven
            .timeline
            .iter()
            .filter(whole)
            .map(new_order)
            .collect(),
        new_orders: driven.kinds.first().map_or(0, |kind| kind.completed),
        c_load: Some(c_load),
    }
}
