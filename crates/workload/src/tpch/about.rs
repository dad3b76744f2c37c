//! What reports say of TPC-H's tests, and which rules they are judged by.

use super::test::What;
use super::{Meta, QUERIES, Scale};
use crate::{Description, Kind};
use tenbin_record::run::Metric;
use tenbin_record::{AuditItem, Verdict};

/// Queries and refresh functions in the order in which they are shown.
pub fn kinds() -> impl Iterator<Item = What> {
    (1..=QUERIES)
        .map(What::Query)
        .chain([What::Insert, What::Delete])
}

/// What `run.json` says of the tests on the tables of `meta`; `streams`: of the throughput test, if there is one.
#[must_use]
pub fn describe(meta: &Meta, streams: Option<u32>) -> Description {
    let metric = match streams {
        Some(_) => "QphH, derived",
        None => "Power, derived",
    };
    let parameters = [
        ("streams", streams.unwrap_or(0).to_string()),
        ("foreign_keys", meta.foreign_keys.to_string()),
        ("refresh_sets_before", meta.inserted.to_string()),
    ];
    Description {
        name: "tpch".to_owned(),
        title: "TPC-H-derived load".to_owned(),
        nature: "derived from TPC-H".to_owned(),
        scale: meta.scale.factor(),
        scale_text: format!("scale {}", meta.scale),
        metric: Metric {
            name: metric.to_owned(),
            counts: metric.to_owned(),
            period_s: 3600.0,
            ..Metric::default()
        },
        kinds: kinds().map(|what| Kind::new(what.to_string())).collect(),
        mix: "streams in the orders of appendix A".to_owned(),
        pacing: "none".to_owned(),
        isolation: "read committed".to_owned(),
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..Description::default()
    }
}

/// What of the standard's rules a run keeps by its nature or by its arguments.
#[must_use]
pub fn audit(scale: Scale, streams: Option<u32>) -> Vec<AuditItem> {
    let (streams, least) = (streams.unwrap_or(0), scale.streams());
    let standard = AuditItem {
        id: "scale".to_owned(),
        title: "Scale factor (clause 4.1.3.1)".to_owned(),
        measured: scale.to_string(),
        required: "1, 10, 30, 100, 300, 1000, …".to_owned(),
        ..applied(scale.is_standard(), "a scale for trying out")
    };
    let enough = AuditItem {
        id: "streams".to_owned(),
        title: "Query streams (clause 5.3.4)".to_owned(),
        measured: streams.to_string(),
        required: format!("at least {least}"),
        ..applied(streams >= least, "fewer were asked for")
    };
    vec![standard, enough]
}

/// A rule that is passed, or else was not applied.
fn applied(passed: bool, note: &str) -> AuditItem {
    AuditItem {
        id: String::new(),
        title: String::new(),
        verdict: if passed { Verdict::Pass } else { Verdict::Skip },
        measured: String::new(),
        required: String::new(),
        note: (!passed).then(|| note.to_owned()),
    }
}
