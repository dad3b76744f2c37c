//! From the emulator's histograms to what audits judge.

use tenbin_rte::Times;
use tenbin_workload::audit::Durations;

/// Times as an audit takes them.
pub(crate) fn durations(times: &Times) -> Durations {
    Durations {
        count: times.count(),
        mean_s: times.mean_ms() / 1e3,
        min_s: times.min_ms() / 1e3,
        p90_s: times.quantile_ms(0.9) / 1e3,
        buckets: times
            .histogram()
            .iter_recorded()
            .map(|value| {
                (
                    value.value_iterated_to() as f64 / 1e9,
                    value.count_since_last_iteration(),
                )
            })
            .collect(),
    }
}
