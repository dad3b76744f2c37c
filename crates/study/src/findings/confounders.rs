//! What else differs between the sides, and could explain the difference instead of the factor.

use crate::differences::{differences, is_drawn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenbin_record::Run;
use tenbin_record::observation::Others;
use tenbin_stats::{CONFIDENCE, mean, student};

/// Something that differs and is no factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confounder {
    /// What kind.
    pub kind: ConfounderKind,
    /// What was seen, and what to do.
    pub sentence: String,
}

/// Kinds of confounder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfounderKind {
    /// The servers are compiled differently.
    Build,
    /// The databases differ before the load begins.
    Data,
    /// The machine, or its state.
    Host,
    /// Several recorded settings differ.
    Settings,
    /// Throughput of both sides changed in the course of the weighing.
    Drift,
    /// Other programs or the hypervisor took processor time.
    OtherPrograms,
    /// The driver did not keep up.
    Driver,
}

/// Databases that differ in size by more than this share hold other data, or are in another state.
const SAME_SIZE: f64 = 0.01;
/// The other programs' share of the processors on both sides may differ by so much.
const SAME_SHARE: f64 = 0.02;
/// Throughput may change by this share from the first pair to the last.
const STEADY: f64 = 0.1;

/// Every confounder that the runs show.
pub(crate) fn confounders(pairs: &[[&Run; 2]], names: [&str; 2]) -> Vec<Confounder> {
    let of = |kind: ConfounderKind| move |sentence: String| Confounder { kind, sentence };
    let mut found: Vec<Confounder> = Vec::new();
    found.extend(build(pairs).map(of(ConfounderKind::Build)));
    found.extend(data(pairs, names).map(of(ConfounderKind::Data)));
    found.extend(recorded(pairs));
    found.extend(drift(pairs).map(of(ConfounderKind::Drift)));
    found.extend(others(pairs, names).map(of(ConfounderKind::OtherPrograms)));
    found.extend(driver(pairs, names).map(of(ConfounderKind::Driver)));
    found
}

/// The optimization level among compiler flags.
fn optimization(flags: &str) -> Option<&str> {
    flags
        .split_whitespace()
        .rfind(|flag| flag.starts_with("-O"))
}

fn build(pairs: &[[&Run; 2]]) -> Option<String> {
    let [a, b] = pairs.first()?.map(|run| &run.server.build);
    let level = |build: &tenbin_record::run::Build| {
        build
            .cflags
            .as_deref()
            .and_then(optimization)
            .map(str::to_owned)
    };
    let (of_a, of_b) = (level(a)?, level(b)?);
    let compiled = (of_a != of_b).then(|| {
        format!("the servers are compiled with {of_a} and {of_b}, which changes CPU time")
    });
    let checks = (a.assertions != b.assertions)
        .then(|| "only one server is compiled with assertions, which cost much".to_owned());
    let pages = (a.data_checksums != b.data_checksums)
        .then(|| "only one server keeps data checksums".to_owned());
    let all: Vec<String> = [compiled, checks, pages].into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("{}. Use servers that are built alike.", all.join("; ")))
}

/// Databases are loaded alike: their sizes before the load agree.
fn data(pairs: &[[&Run; 2]], [a, b]: [&str; 2]) -> Option<String> {
    let sizes = |side: usize| -> Option<f64> {
        let sizes = pairs
            .iter()
            .map(|pair| Some(pair[side].server.database_size_bytes? as f64));
        sizes
            .collect::<Option<Vec<f64>>>()
            .map(|sizes| mean(&sizes))
    };
    let (of_a, of_b) = (sizes(0)?, sizes(1)?);
    let percent = 100.0 * (of_b / of_a - 1.0);
    (percent.abs() > 100.0 * SAME_SIZE).then(|| {
        format!(
            "before the load, the database of {b} is {:.1} % {} than that of {a}. Check that both hold the same data.",
            percent.abs(),
            if percent > 0.0 { "larger" } else { "smaller" }
        )
    })
}

/// Recorded entries that differ: those of the machine, and all others if there are several.
fn recorded(pairs: &[[&Run; 2]]) -> Vec<Confounder> {
    let (a, b): (Vec<&Run>, Vec<&Run>) = pairs.iter().map(|[a, b]| (*a, *b)).unzip();
    let own = differences(&a, &b).into_iter();
    let own = own.filter(|entry| entry.because.is_none() && !is_drawn(&entry.field));
    let (host, chosen): (Vec<_>, Vec<_>) = own.partition(|entry| entry.field.starts_with("host."));
    // Compared above in words of its own.
    let chosen: Vec<_> = chosen
        .into_iter()
        .filter(|entry| !entry.field.starts_with("server.build."))
        .collect();
    let list = |entries: &[crate::comparison::Difference]| {
        let fields: Vec<String> = entries
            .iter()
            .map(|entry| format!("{} ({} and {})", entry.field, entry.a, entry.b))
            .collect();
        fields.join(", ")
    };
    let host = (!host.is_empty()).then(|| Confounder {
        kind: ConfounderKind::Host,
        sentence: format!(
            "the machine differs in {}. Run both sides on one machine.",
            list(&host)
        ),
    });
    let settings = (chosen.len() > 1).then(|| Confounder {
        kind: ConfounderKind::Settings,
        sentence: format!(
            "the sides differ in {} things: {}. The difference cannot be attributed to any one of them.",
            chosen.len(),
            list(&chosen)
        ),
    });
    host.into_iter().chain(settings).collect()
}

/// A trend of both sides together over the pairs, by the slope of the logarithms.
fn drift(pairs: &[[&Run; 2]]) -> Option<String> {
    if pairs.len() < 3 {
        return None;
    }
    let level: Vec<f64> = pairs
        .iter()
        .map(|pair| mean(&pair.map(|run| run.result.throughput.value.ln())))
        .collect();
    let middle = (level.len() as f64 - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (place, value) in level.iter().enumerate() {
        products += (place as f64 - middle) * value;
        squares += (place as f64 - middle).powi(2);
    }
    let slope = products / squares;
    let around: Vec<f64> = level
        .iter()
        .enumerate()
        .map(|(place, value)| value - mean(&level) - slope * (place as f64 - middle))
        .collect();
    let residual: f64 = around.iter().map(|value| value * value).sum();
    let error = (residual / (level.len() as f64 - 2.0) / squares).sqrt();
    let over_all = slope * (level.len() as f64 - 1.0);
    let certain = tenbin_stats::slope_differs(slope, error, level.len() as f64 - 2.0, CONFIDENCE);
    (certain && over_all.abs() > STEADY.ln_1p()).then(|| {
        format!(
            "both sides became {} from the first pair to the last, by {:.0} %. Taking turns cancels that, but look for its cause.",
            if slope > 0.0 { "faster" } else { "slower" },
            100.0 * (over_all.exp() - 1.0).abs()
        )
    })
}

/// Processor time that neither driver nor server had.
fn others(pairs: &[[&Run; 2]], [a, b]: [&str; 2]) -> Option<String> {
    let of = |side: usize| -> Option<Vec<f64>> {
        let taken = pairs.iter().map(|pair| {
            pair[side]
                .taken_by_others()
                .map(|others| others.programs + others.hypervisor)
        });
        taken.collect()
    };
    let (of_a, of_b) = (of(0)?, of(1)?);
    let percent = |share: &[f64]| format!("{:.0} %", 100.0 * mean(share));
    let differences: Vec<f64> = of_a.iter().zip(&of_b).map(|(a, b)| b - a).collect();
    let uneven = student(&differences, CONFIDENCE).is_some_and(|difference| {
        difference.mean.abs() > SAME_SHARE && (difference.low > 0.0 || difference.high < 0.0)
    });
    if uneven {
        return Some(format!(
            "other programs and the host took {} of the processors' time in trials of {a} and {} in those of {b}. Repeat on an idle machine.",
            percent(&of_a),
            percent(&of_b)
        ));
    }
    let all = [of_a, of_b].concat();
    (mean(&all) >= Others::MUCH).then(|| {
        format!(
            "other programs and the host took {} of the processors' time, on both sides alike. Intervals are wider than on an idle machine.",
            percent(&all)
        )
    })
}

/// Trials in which the driver itself stood still.
fn driver(pairs: &[[&Run; 2]], names: [&str; 2]) -> Option<String> {
    let stalled = |side: usize| {
        let doubtful = |run: &Run| {
            let beat = run.driver.heartbeat;
            beat.is_some_and(|beat| beat.doubtful(run.run.measured_s))
        };
        pairs.iter().filter(|pair| doubtful(pair[side])).count()
    };
    let (of_a, of_b) = (stalled(0), stalled(1));
    (of_a + of_b > 0).then(|| {
        format!(
            "the driver stood still in {of_a} trials of {} and {of_b} of {}: their response times are partly its own.",
            names[0], names[1]
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_optimization_level_counts() {
        assert_eq!(optimization("-Wall -O2 -g"), Some("-O2"));
        assert_eq!(optimization("-O2 -fPIC -Os"), Some("-Os"));
        assert_eq!(optimization("-Wall"), None);
    }
}
