//! From what the crates measured to what `run.json` holds.

use std::collections::BTreeMap;
use tenbin_observe::{Host, Observation};
use tenbin_record::run as record;
use tenbin_rte::{Driven, ErrorCount, KindResult, Point, Times};
use tenbin_workload::Tally;

/// Buckets of a histogram kept in `run.json`, at most: enough for a graph 800 columns wide.
const BUCKETS_MAX: usize = 400;

/// A summary of durations.
pub(crate) fn percentiles(times: &Times) -> record::Percentiles {
    record::Percentiles {
        count: times.count(),
        mean: times.mean_ms(),
        p50: times.quantile_ms(0.5),
        p90: times.quantile_ms(0.9),
        p95: times.quantile_ms(0.95),
        p99: times.quantile_ms(0.99),
        p999: times.quantile_ms(0.999),
        max: times.max_ms(),
    }
}

/// A histogram with few enough buckets, of equal width on a logarithmic scale.
pub(crate) fn buckets(times: &Times) -> Vec<record::HistogramBucket> {
    let recorded: Vec<(f64, u64)> = times
        .histogram()
        .iter_recorded()
        .map(|value| (value.value_iterated_to() as f64 / 1e6, value.count_since_last_iteration()))
        .collect();
    let (Some(first), Some(last)) = (recorded.first(), recorded.last()) else {
        return Vec::new();
    };
    let factor = (last.0 / first.0).powf(1.0 / BUCKETS_MAX as f64).max(1.0);
    let mut buckets: Vec<record::HistogramBucket> = Vec::new();
    let mut start = 0.0;
    for (up_to_ms, count) in recorded {
        match buckets.last_mut() {
            Some(bucket) if up_to_ms <= start * factor => {
                bucket.up_to_ms = up_to_ms;
                bucket.count += count;
            }
            _ => {
                start = up_to_ms;
                buckets.push(record::HistogramBucket { up_to_ms, count });
            }
        }
    }
    buckets
}

fn errors<'a>(errors: impl Iterator<Item = (&'a str, &'a ErrorCount)>) -> BTreeMap<String, record::ErrorInfo> {
    errors
        .map(|(state, error)| {
            let info = record::ErrorInfo { count: error.count, first_message: error.first_message.clone() };
            (state.to_owned(), info)
        })
        .collect()
}

/// One kind of transaction. `skipped`: parts of deferred executions that found nothing to do.
pub(crate) fn transaction(kind: &KindResult, skipped: u64) -> record::TransactionInfo {
    record::TransactionInfo {
        count: kind.due(),
        completed: kind.completed,
        committed: kind.committed + kind.accepted,
        rolled_back: kind.rolled_back,
        errors: kind.errors.count(),
        unfinished: kind.unfinished,
        retries: kind.retried(),
        error_states: errors(kind.errors.iter()),
        retry_states: kind.retries.clone(),
        response_ms: percentiles(&kind.response),
        wait_ms: percentiles(&kind.wait),
        service_ms: percentiles(&kind.service),
        keying_ms: percentiles(&kind.keying),
        think_ms: percentiles(&kind.think),
        p90_limit_s: kind.kind.p90_limit_s,
        response_histogram: buckets(&kind.response),
        think_histogram: buckets(&kind.think),
        deferred: kind.deferred.as_ref().map(|deferred| record::DeferredInfo {
            committed: deferred.committed,
            errors: deferred.errors.count(),
            retries: deferred.retries.values().sum(),
            remaining: deferred.remaining,
            queue_full: deferred.full,
            skipped,
            completion_ms: percentiles(&deferred.completion),
        }),
    }
}

/// The timeline.
pub(crate) fn timeline(points: &[Point]) -> Vec<record::TimelinePoint> {
    let kind = |kind: &tenbin_rte::PointKind| record::TimelineKind {
        completed: kind.completed,
        errors: kind.errors,
        retries: kind.retries,
        p50_ms: kind.p50_ms,
        p90_ms: kind.p90_ms,
        max_ms: kind.max_ms,
    };
    points
        .iter()
        .map(|point| record::TimelinePoint {
            at_s: point.at_s,
            width_s: point.width_s,
            kinds: point.kinds.iter().map(kind).collect(),
        })
        .collect()
}

/// The driver.
pub(crate) fn driver<T: Tally>(driven: &Driven<T>, options: &tenbin_rte::Options) -> record::DriverInfo {
    let usage = &driven.usage;
    let completed: u64 = driven.kinds.iter().map(|kind| kind.completed).sum();
    let deferred = driven.kinds.iter().any(|kind| kind.kind.deferred);
    record::DriverInfo {
        terminals: options.terminals,
        connections: options.connections,
        deferred_connections: if deferred { options.deferred_connections() } else { 0 },
        threads: usage.threads,
        cpu_user_s: usage.cpu_user_s,
        cpu_system_s: usage.cpu_system_s,
        cpu_recording_s: usage.cpu_recording_s,
        cpu_per_transaction_us: per(1e6 * (usage.cpu_user_s + usage.cpu_system_s), completed).unwrap_or(0.0),
        rss_max_bytes: usage.rss_max_bytes,
        lateness_ms: percentiles(&driven.lateness),
        connections_opened: driven.connections.opened,
        connections_lost: driven.connections.lost,
        connect_errors: errors(driven.connections.failed.iter()),
    }
}

/// What was observed; `completed` transactions were answered in the interval.
pub(crate) fn observation(seen: &Observation, completed: u64) -> record::ObservationInfo {
    let server = seen.server_cpu();
    let server_us = 1e6 * (server.user_s + server.system_s);
    record::ObservationInfo {
        observed_s: seen.observed_s,
        cpu: seen
            .cpu
            .iter()
            .map(|(kind, cpu)| (kind.name().to_owned(), record::CpuInfo { user_s: cpu.user_s, system_s: cpu.system_s }))
            .collect(),
        server_cpu_per_transaction_us: if server_us > 0.0 { per(server_us, completed) } else { None },
        wal_bytes_per_transaction: seen.counter("pg_wal", "lsn_bytes").and_then(|bytes| per(bytes, completed)),
        counters: seen
            .counters
            .iter()
            .map(|(view, label, name, value)| record::CounterInfo {
                view: (*view).to_owned(),
                label: label.clone(),
                name: name.clone(),
                value: *value,
            })
            .collect(),
        gaps: seen.gaps,
        gap_reason: seen.gap_reason.clone(),
    }
}

/// The machine.
pub(crate) fn host(host: Host) -> record::HostInfo {
    record::HostInfo {
        cpu: host.cpu,
        cores: host.cores,
        memory_bytes: host.memory_bytes,
        kernel: host.kernel,
        virtualized: host.virtualized,
        disks: host
            .disks
            .into_iter()
            .map(|disk| record::DiskInfo {
                device: disk.device,
                model: disk.model,
                size_bytes: disk.size_bytes,
                rotational: disk.rotational,
                scheduler: disk.scheduler,
                read_ahead_kib: disk.read_ahead_kib,
            })
            .collect(),
    }
}

fn per(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_keeps_every_count_in_few_buckets() {
        let mut times = Times::new();
        for us in 1..=200_000_u64 {
            times.record(us * 1_000);
        }
        let buckets = buckets(&times);
        assert!(buckets.len() <= BUCKETS_MAX + 1, "{}", buckets.len());
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 200_000);
        assert!(buckets.windows(2).all(|pair| pair[0].up_to_ms < pair[1].up_to_ms));
        let half: u64 = buckets.iter().filter(|bucket| bucket.up_to_ms <= 100.0).map(|bucket| bucket.count).sum();
        assert!(half.abs_diff(100_000) < 5_000, "{half}");
        assert!(super::buckets(&Times::new()).is_empty());
    }
}
