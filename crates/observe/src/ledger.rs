//! The readings of a look, and what they come to over the interval.

use std::borrow::Cow;
use std::collections::BTreeMap;
use tenbin_record::SampleRow;
use tenbin_record::observation::Level;

/// How much of something, and of what nature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    /// Growth since the look before.
    Growth(f64),
    /// As it is now.
    Level(f64),
}

/// One value of one look; names as in [`SampleRow`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    source: &'static str,
    name: Cow<'static, str>,
    label: Cow<'static, str>,
    amount: Amount,
}

/// Everything that one look brings.
#[derive(Debug, Default)]
pub(crate) struct Look {
    readings: Vec<Reading>,
}

impl Look {
    /// Adds a value; `label` is empty where there is one only.
    pub(crate) fn add(
        &mut self,
        source: &'static str,
        name: impl Into<Cow<'static, str>>,
        label: impl Into<Cow<'static, str>>,
        amount: Amount,
    ) {
        self.readings.push(Reading {
            source,
            name: name.into(),
            label: label.into(),
            amount,
        });
    }

    /// Empties it, as rows of `samples.parquet`.
    pub(crate) fn into_rows(self, offset_s: f64) -> impl Iterator<Item = SampleRow> {
        self.readings.into_iter().map(move |reading| {
            let (Amount::Growth(value) | Amount::Level(value)) = reading.amount;
            SampleRow {
                offset_s,
                source: reading.source.into(),
                name: reading.name,
                label: (!reading.label.is_empty()).then_some(reading.label),
                value: Some(value),
            }
        })
    }
}

/// What one value came to.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    sum: f64,
    max: f64,
    looks: f64,
}

/// Source, name, label.
type Key = (&'static str, String, String);

/// What all looks of the interval come to.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<Key, Entry>,
}

impl Ledger {
    /// Adds a look.
    pub(crate) fn add(&mut self, look: &Look) {
        for reading in &look.readings {
            let (Amount::Growth(value) | Amount::Level(value)) = reading.amount;
            let (name, label) = (reading.name.to_string(), reading.label.to_string());
            let entry = self
                .entries
                .entry((reading.source, name, label))
                .or_default();
            entry.sum += value;
            entry.max = entry.max.max(value);
            entry.looks += 1.0;
        }
    }

    /// Labels under which a source said anything.
    pub(crate) fn labels(&self, source: &'static str) -> Vec<&str> {
        let of = self.entries.keys().filter(|key| key.0 == source);
        let mut labels: Vec<&str> = of.map(|key| key.2.as_str()).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// Growth over the interval; none where nothing was read.
    pub(crate) fn growth(&self, source: &'static str, name: &str, label: &str) -> Option<f64> {
        self.entry(source, name, label).map(|entry| entry.sum)
    }

    /// Mean and largest of the looks.
    pub(crate) fn level(&self, source: &'static str, name: &str, label: &str) -> Option<Level> {
        self.entry(source, name, label).map(|entry| Level {
            mean: entry.sum / entry.looks,
            max: entry.max,
        })
    }

    fn entry(&self, source: &'static str, name: &str, label: &str) -> Option<&Entry> {
        self.entries
            .get(&(source, name.to_owned(), label.to_owned()))
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "what is read is not computed with")]
mod tests {
    use super::*;

    #[test]
    fn growth_adds_up_and_levels_have_a_mean() {
        let mut ledger = Ledger::default();
        for value in [1.0, 3.0] {
            let mut look = Look::default();
            look.add("s", "grown", "x", Amount::Growth(value));
            look.add("s", "high", "", Amount::Level(value));
            ledger.add(&look);
            let rows: Vec<SampleRow> = look.into_rows(2.0).collect();
            assert_eq!(rows[0].label.as_deref(), Some("x"));
            assert_eq!(
                (rows[1].label.as_deref(), rows[1].value),
                (None, Some(value))
            );
        }
        assert_eq!(ledger.growth("s", "grown", "x"), Some(4.0));
        let level = ledger.level("s", "high", "").unwrap();
        assert_eq!((level.mean, level.max), (2.0, 3.0));
        assert_eq!(ledger.labels("s"), ["", "x"]);
        assert_eq!(ledger.growth("s", "grown", ""), None);
    }
}
