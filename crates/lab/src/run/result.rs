//! From what the emulator measured to what `run.json` holds.

use crate::run::Judgement;
use std::collections::BTreeMap;
use tenbin_record::result as record;
use tenbin_record::samples::{SampleRow, TERMINALS};
use tenbin_rte::{Driven, Errors, KindResult, Point};
use tenbin_workload::Tally;

/// Times as `run.json` has them; none where there are none.
#[must_use]
pub fn times(times: &tenbin_rte::Times) -> Option<record::Times> {
    record::Times::of(times.count(), times.mean_ms(), times.max_ms(), |quantile| {
        times.quantile_ms(quantile)
    })
}

fn buckets(times: &tenbin_rte::Times) -> Vec<record::Bucket> {
    times.histogram().map_or_else(Vec::new, record::Bucket::of)
}

fn errors(errors: &Errors) -> BTreeMap<String, record::ErrorCount> {
    errors
        .iter()
        .map(|(state, error)| {
            let count = record::ErrorCount {
                count: error.count,
                first_message: error.first_message.clone(),
            };
            (state.to_owned(), count)
        })
        .collect()
}

fn transaction(kind: &KindResult, statements: Vec<record::Statement>) -> record::Transaction {
    record::Transaction {
        count: kind.due(),
        completed: kind.completed,
        committed: kind.committed,
        rolled_back: kind.rolled_back,
        deferred: kind.accepted,
        errors: kind.errors.count(),
        unfinished: kind.unfinished,
        stuck: kind.stuck,
        skipped: kind.skipped,
        late: kind.late,
        retries: kind.retried(),
        errors_by_sqlstate: errors(&kind.errors),
        retries_by_sqlstate: kind.retries.clone(),
        response_ms: times(&kind.response),
        response_histogram: buckets(&kind.response),
        wait_ms: times(&kind.wait),
        service_ms: times(&kind.service),
        keying_ms: times(&kind.keying),
        think_ms: times(&kind.think),
        think_histogram: buckets(&kind.think),
        statements,
    }
}

fn deferred(deferred: &tenbin_rte::Deferred, skipped: u64, queue_peak: u64) -> record::Deferred {
    record::Deferred {
        committed: deferred.committed,
        rolled_back: deferred.rolled_back,
        errors: deferred.errors.count(),
        errors_by_sqlstate: errors(&deferred.errors),
        retries: deferred.retries.values().sum(),
        remaining: deferred.remaining,
        skipped,
        queue_full: deferred.full,
        queue_peak,
        completion_ms: times(&deferred.completion),
        service_ms: times(&deferred.service),
    }
}

/// What was measured, with what was made of it.
pub(crate) fn result<T: Tally>(
    driven: &Driven<T>,
    throughput: record::Throughput,
    judgement: Judgement,
) -> record::RunResult {
    let name = |kind: &KindResult| kind.kind.name.clone();
    let statements = judgement.statements.into_iter();
    let statements = statements.chain(std::iter::repeat_with(Vec::new));
    record::RunResult {
        throughput,
        transactions: driven
            .kinds
            .iter()
            .zip(statements)
            .map(|(kind, statements)| (name(kind), transaction(kind, statements)))
            .collect(),
        deferred: driven
            .kinds
            .iter()
            .filter_map(|kind| {
                let later = kind.deferred.as_ref()?;
                Some((
                    name(kind),
                    deferred(later, judgement.skipped, driven.deferred_queue_peak),
                ))
            })
            .collect(),
        missed: driven.missed,
        menu_ms: times(&driven.menu),
        tpch: None,
        audit: judgement.audit,
        checks: Vec::new(),
        checks_unfinished: None,
    }
}

/// Throughput and response over time.
pub(crate) fn timeline(points: &[Point], kinds: &[KindResult]) -> record::Timeline {
    let mut timeline = record::Timeline {
        at_s: points.iter().map(|point| point.at_s).collect(),
        width_s: points.iter().map(|point| point.width_s).collect(),
        kinds: BTreeMap::new(),
    };
    for (index, kind) in kinds.iter().enumerate() {
        let of = points.iter().filter_map(|point| point.kinds.get(index));
        timeline.kinds.insert(
            kind.kind.name.clone(),
            record::TimelineKind {
                completed: of.clone().map(|point| point.completed).collect(),
                errors: of.clone().map(|point| point.errors).collect(),
                retries: of.clone().map(|point| point.retries).collect(),
                p50_ms: of.clone().map(|point| point.p50_ms).collect(),
                p90_ms: of.clone().map(|point| point.p90_ms).collect(),
                max_ms: of.map(|point| point.max_ms).collect(),
            },
        );
    }
    timeline
}

/// The timeline as samples, so that it can be read beside what the machine and the server did.
pub(crate) fn samples(points: &[Point], kinds: &[KindResult]) -> Vec<SampleRow> {
    let mut rows = Vec::new();
    for point in points {
        for (kind, of) in kinds.iter().zip(&point.kinds) {
            let quantile = |ms: f64| (of.completed > 0).then_some(ms);
            let values = [
                ("completed", Some(of.completed as f64)),
                ("errors", Some(of.errors as f64)),
                ("retries", Some(of.retries as f64)),
                ("p50_ms", quantile(of.p50_ms)),
                ("p90_ms", quantile(of.p90_ms)),
                ("max_ms", quantile(of.max_ms)),
            ];
            rows.extend(values.map(|(name, value)| SampleRow {
                offset_s: point.at_s as f64 + f64::from(point.width_s),
                source: TERMINALS.into(),
                name: name.into(),
                label: Some(kind.kind.name.clone().into()),
                value,
            }));
        }
    }
    rows
}

/// What the driver used.
pub(crate) fn driver<T: Tally>(
    driven: &Driven<T>,
    options: &tenbin_rte::Options,
) -> record::Driver {
    let usage = &driven.usage;
    record::Driver {
        terminals: options.terminals,
        connections: options.connections,
        threads: usage.threads,
        cpu_user_s: usage.cpu_user_s,
        cpu_system_s: usage.cpu_system_s,
        cpu_recording_s: usage.cpu_recording_s,
        rss_max_bytes: usage.rss_max_bytes,
        stay_awake: usage.stayed_awake,
        lateness_ms: lateness(&driven.lateness),
        heartbeat: lateness(&driven.heartbeat).map(|late_ms| record::Heartbeat {
            late_ms,
            stalls: driven.stalls.count,
            stalled_s: driven.stalls.total_s,
            longest_stall_s: driven.stalls.longest_s,
        }),
        recording_stall_s: usage.recording_stall_s,
        connections_opened: driven.connections.opened,
        connections_lost: driven.connections.lost,
        connect_failures: errors(&driven.connections.failed),
    }
}

fn lateness(late: &tenbin_rte::Times) -> Option<record::Lateness> {
    times(late).map(|late| record::Lateness {
        p50: late.p50,
        p99: late.p99,
        p999: late.p999,
        max: late.max,
    })
}
