//! The figures that are compared.

use crate::series::{Sampled, Statistic};
use tenbin_record::Run;
use tenbin_record::observation::PerTransaction;
use tenbin_record::result::Times;
use tenbin_stats::mean;

/// Name, share, and where it stands.
type Quantile = (&'static str, f64, fn(&Times) -> f64);

/// Quantiles of the response time that are compared.
const QUANTILES: [Quantile; 3] = [
    ("p50", 0.5, |times| times.p50),
    ("p90", 0.9, |times| times.p90),
    ("p99", 0.99, |times| times.p99),
];

/// One figure of every trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) statistic: Statistic,
    pub(crate) of_a: Vec<f64>,
    pub(crate) of_b: Vec<f64>,
}

impl Figure {
    pub(crate) fn a(&self) -> f64 {
        geometric_mean(&self.of_a)
    }

    pub(crate) fn b(&self) -> f64 {
        geometric_mean(&self.of_b)
    }
}

/// What lies in the middle of ratios; 0 when a value is.
fn geometric_mean(values: &[f64]) -> f64 {
    match values {
        // Exactly what its run says.
        [value] => *value,
        _ => mean(&values.iter().map(|value| value.ln()).collect::<Vec<_>>()).exp(),
    }
}

/// A cost per transaction: name, title, unit, and where an observation has it.
type Cost = (
    &'static str,
    &'static str,
    &'static str,
    Statistic,
    fn(&PerTransaction) -> Option<f64>,
);

const COSTS: [Cost; 4] = [
    (
        "driver_cpu_us",
        "driver CPU per transaction",
        "µs",
        Statistic::DriverCpu,
        |per| per.driver_cpu_us,
    ),
    (
        "server_cpu_us",
        "server CPU per transaction",
        "µs",
        Statistic::ServerCpu,
        |per| per.server_cpu_us,
    ),
    (
        "via_cpu_us",
        "pooler CPU per transaction",
        "µs",
        Statistic::ViaCpu,
        |per| per.via_cpu_us,
    ),
    (
        "wal_bytes",
        "WAL per transaction",
        "bytes",
        Statistic::Wal,
        |per| per.wal_bytes,
    ),
];

/// Figures that every trial of both sides has, in the order they are shown.
pub(crate) fn figures(a: &[&Run], b: &[&Run]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add =
        |id: String, title: String, unit: &str, statistic, value: &dyn Fn(&Run) -> Option<f64>| {
            let of = |runs: &[&Run]| {
                runs.iter()
                    .map(|run| value(run))
                    .collect::<Option<Vec<f64>>>()
            };
            if let (Some(of_a), Some(of_b)) = (of(a), of(b)) {
                figures.push(Figure {
                    id,
                    title,
                    unit: unit.to_owned(),
                    statistic,
                    of_a,
                    of_b,
                });
            }
        };
    let unit = a
        .first()
        .map_or("", |run| run.result.throughput.metric.as_str());
    let throughput = |run: &Run| Some(run.result.throughput.value);
    add(
        "throughput".into(),
        "throughput".into(),
        unit,
        Statistic::Throughput,
        &throughput,
    );
    add(
        "response_ms.mean".into(),
        "mean response".into(),
        "ms",
        Statistic::MeanResponse,
        &mean_response,
    );
    let kinds = a.first().map_or(&[][..], |run| &run.workload.kinds);
    for kind in kinds {
        for (quantile, share, of) in QUANTILES {
            let statistic = Statistic::Response {
                kind: kind.name.clone(),
                share,
            };
            let response = |run: &Run| {
                run.result
                    .transactions
                    .get(&kind.name)?
                    .response_ms
                    .as_ref()
                    .map(of)
            };
            let id = format!("response_ms.{}.{quantile}", kind.name);
            add(
                id,
                format!("{} {quantile}", kind.name),
                "ms",
                statistic,
                &response,
            );
        }
    }
    for (id, title, unit, statistic, of) in COSTS {
        let value = |run: &Run| of(&run.observation.as_ref()?.per_transaction);
        add(id.to_owned(), title.to_owned(), unit, statistic, &value);
    }
    for sampled in Sampled::ALL {
        let (id, title, unit) = sampled.words();
        let value = |run: &Run| sampled.of(&run.observation.as_ref()?.per_transaction);
        add(
            id.to_owned(),
            title.to_owned(),
            unit,
            Statistic::Sampled(sampled),
            &value,
        );
    }
    figures
}

/// Mean response of all kinds, milliseconds.
fn mean_response(run: &Run) -> Option<f64> {
    let kinds = run.result.transactions.values();
    let (mut sum, mut count) = (0.0, 0.0);
    for (kind, times) in kinds.filter_map(|kind| Some((kind, kind.response_ms.as_ref()?))) {
        let answered = (kind.committed + kind.rolled_back + kind.deferred) as f64;
        sum += times.mean * answered;
        count += answered;
    }
    (count > 0.0).then(|| sum / count)
}
