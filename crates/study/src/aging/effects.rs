//! From trials to what aging does.

use super::{AgingTrial, Effect, Figure, MeanReads, Mode, Query, RelationEffect, Side, source};
use std::collections::{BTreeMap, BTreeSet};
use tenbin_stats::{CONFIDENCE, mean};

/// Every figure of every query and mode that has a whole pair. A trial without its partner does not count.
#[must_use]
pub fn effects(trials: &[AgingTrial]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (mode, query) in combinations() {
        let pairs = pairs(trials, mode, query);
        if pairs.is_empty() {
            continue;
        }
        effects.extend(Figure::ALL.map(|figure| effect(&pairs, mode, query, figure)));
    }
    effects
}

/// What each relation contributes, most bytes first within a query and a mode.
#[must_use]
pub fn relations(trials: &[AgingTrial]) -> Vec<RelationEffect> {
    let mut found = Vec::new();
    for (mode, query) in combinations() {
        let pairs = pairs(trials, mode, query);
        let names: BTreeSet<&String> = pairs
            .iter()
            .flat_map(|(fresh, aged)| fresh.relations.keys().chain(aged.relations.keys()))
            .collect();
        let mut of_query: Vec<RelationEffect> = names
            .into_iter()
            .map(|name| RelationEffect {
                query,
                mode,
                relation: name.clone(),
                fresh: reads(pairs.iter().map(|(fresh, _)| *fresh), name),
                aged: reads(pairs.iter().map(|(_, aged)| *aged), name),
            })
            .collect();
        let size = |effect: &RelationEffect| effect.fresh.bytes + effect.aged.bytes;
        of_query.sort_by(|a, b| size(b).total_cmp(&size(a)));
        found.extend(of_query);
    }
    found
}

fn combinations() -> impl Iterator<Item = (Mode, Query)> {
    Mode::ALL
        .into_iter()
        .flat_map(|mode| Query::ALL.map(|query| (mode, query)))
}

/// Fresh and aged trials of the same pair.
fn pairs(trials: &[AgingTrial], mode: Mode, query: Query) -> Vec<(&AgingTrial, &AgingTrial)> {
    let mut by_pair: BTreeMap<u32, [Option<&AgingTrial>; 2]> = BTreeMap::new();
    let of = trials
        .iter()
        .filter(|trial| trial.mode == mode && trial.query == query);
    for trial in of {
        let place = usize::from(trial.side == Side::Aged);
        by_pair.entry(trial.pair).or_default()[place] = Some(trial);
    }
    let whole = by_pair
        .into_values()
        .filter_map(|[fresh, aged]| fresh.zip(aged));
    whole.collect()
}

fn effect(
    pairs: &[(&AgingTrial, &AgingTrial)],
    mode: Mode,
    query: Query,
    figure: Figure,
) -> Effect {
    let fresh: Vec<f64> = pairs.iter().map(|(fresh, _)| figure.of(fresh)).collect();
    let aged: Vec<f64> = pairs.iter().map(|(_, aged)| figure.of(aged)).collect();
    let geometric = |values: &[f64]| {
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        mean(&logarithms).exp()
    };
    let ratio = tenbin_stats::paired(&fresh, &aged, CONFIDENCE);
    let interval = ratio.filter(|_| pairs.len() > 1);
    Effect {
        query,
        mode,
        figure,
        pairs: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        fresh: geometric(&fresh),
        aged: geometric(&aged),
        ratio: ratio.map(|found| found.ratio),
        ratio_low: interval.map(|found| found.low),
        ratio_high: interval.map(|found| found.high),
        source: source::published(query, figure),
    }
}

fn reads<'a>(trials: impl ExactSizeIterator<Item = &'a AgingTrial>, name: &str) -> MeanReads {
    let count = trials.len() as f64;
    let mut sum = MeanReads::default();
    for flow in trials.filter_map(|trial| trial.relations.get(name)) {
        sum.count += flow.count as f64 / count;
        sum.bytes += flow.bytes as f64 / count;
        sum.seek_sectors += flow.seek_sectors as f64 / count;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_record::trace::Flow;

    fn trial(pair: u32, query: Query, side: Side, time_s: f64, bytes: u64) -> AgingTrial {
        let reads = Flow {
            count: bytes / 8192,
            bytes,
            sequential: 0,
            seek_sectors: bytes * 2,
        };
        AgingTrial {
            pair,
            query,
            mode: Mode::Serial,
            side,
            time_s,
            reads,
            relations: BTreeMap::from([("lineitem".to_owned(), reads)]),
            elsewhere: Flow::default(),
            answer: "1".to_owned(),
            plan: "Seq Scan".to_owned(),
            trace: "t".to_owned(),
        }
    }

    #[test]
    fn only_whole_pairs_count_and_in_whatever_order_they_ran() {
        let trials = [
            trial(1, Query::A, Side::Fresh, 2.0, 8192),
            trial(1, Query::A, Side::Aged, 3.0, 16_384),
            trial(2, Query::A, Side::Aged, 6.0, 16_384),
            trial(2, Query::A, Side::Fresh, 4.0, 8192),
            trial(3, Query::A, Side::Fresh, 999.0, 8192),
            trial(1, Query::B, Side::Aged, 1.0, 8192),
        ];
        let found = effects(&trials);
        assert_eq!(found.len(), 4, "{found:?}");
        let time = &found[0];
        assert_eq!((time.figure, time.pairs), (Figure::Time, 2));
        assert!((time.fresh - 8_f64.sqrt()).abs() < 1e-12);
        // Both pairs have the same ratio, so that nothing is left to vary.
        for ratio in [time.ratio, time.ratio_low, time.ratio_high] {
            assert!((ratio.unwrap() - 1.5).abs() < 1e-12, "{time:?}");
        }
        let bytes = &found[2];
        assert!((bytes.ratio.unwrap() - 2.0).abs() < 1e-12);
        let by_relation = relations(&trials);
        assert_eq!(by_relation.len(), 1);
        assert!((by_relation[0].aged.bytes - 16_384.0).abs() < 1e-9);
    }

    #[test]
    fn one_pair_has_a_ratio_and_no_interval_and_nothing_read_has_neither() {
        let trials = [
            trial(1, Query::B, Side::Fresh, 2.0, 0),
            trial(1, Query::B, Side::Aged, 3.0, 8192),
        ];
        let found = effects(&trials);
        assert_eq!((found[0].ratio, found[0].ratio_low), (Some(1.5), None));
        assert_eq!((found[2].ratio, found[2].ratio_high), (None, None));
    }

    /// The ratios that the source prints are those of the figures it prints, as far as these have digits.
    #[test]
    fn the_source_agrees_with_itself() {
        for (query, figure) in Query::ALL
            .into_iter()
            .flat_map(|query| Figure::ALL.map(|figure| (query, figure)))
        {
            let row = source::published(query, figure);
            let quotient = row.aged / row.fresh;
            assert!(
                (quotient / row.ratio - 1.0).abs() < 0.01,
                "{query:?} {figure:?} {quotient}"
            );
        }
    }
}
