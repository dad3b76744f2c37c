//! What a trace comes to: counts, bytes and seek distances, in the order of issue.

use std::collections::{BTreeMap, HashMap};
use tenbin_record::io::{IoRow, Operation, Purpose, Text};
use tenbin_record::trace::{Flow, Flows, Totals};

/// I/Os of one kind on any number of disks.
///
/// The seek distance is that of the source (S2): in the order of issue, the sum over all but the
/// first of |start − end of the one before|, in sectors; every disk has a head of its own.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    count: u64,
    bytes: u64,
    sequential: u64,
    seek: u128,
    /// By disk: where the last one ended. A handful, so a list beats a table.
    ends: Vec<(Text, u128)>,
}

impl Stream {
    /// Adds the next one.
    pub fn add(&mut self, device: &Text, sector: u64, bytes: u32) {
        self.count += 1;
        self.bytes += u64::from(bytes);
        let start = u128::from(sector);
        let end = start + u128::from(bytes.div_ceil(512));
        match self.ends.iter_mut().find(|(known, _)| known == device) {
            Some((_, last)) => {
                self.seek += start.abs_diff(*last);
                self.sequential += u64::from(start == *last);
                *last = end;
            }
            None => self.ends.push((Text::clone(device), end)),
        }
    }

    /// What it comes to so far.
    #[must_use]
    pub fn flow(&self) -> Flow {
        Flow {
            count: self.count,
            bytes: self.bytes,
            sequential: self.sequential,
            seek_sectors: u64::try_from(self.seek).unwrap_or(u64::MAX),
        }
    }

    /// The seek distance, sectors, however large.
    #[must_use]
    pub fn seek_sectors(&self) -> u128 {
        self.seek
    }
}

#[derive(Debug, Default)]
struct Both {
    reads: Stream,
    writes: Stream,
    flushes: u64,
}

impl Both {
    fn add(&mut self, row: &IoRow) {
        let stream = match row.operation {
            Operation::Read => &mut self.reads,
            Operation::Write => &mut self.writes,
            Operation::Flush => {
                self.flushes += 1;
                return;
            }
            _ => return,
        };
        stream.add(&row.device, row.sector, row.bytes);
    }

    fn flows(&self) -> Flows {
        Flows {
            reads: self.reads.flow(),
            writes: self.writes.flow(),
            flushes: self.flushes,
        }
    }
}

/// Adds rows up, in the order of their issue.
#[derive(Debug, Default)]
pub struct Tally {
    totals: Totals,
    all: Both,
    devices: HashMap<Text, Both>,
    relations: HashMap<Text, Both>,
    purposes: BTreeMap<Purpose, Both>,
}

impl Tally {
    /// Adds one. `relation` names what it is counted under, where it is a relation's.
    pub fn add(&mut self, row: &IoRow, relation: Option<&Text>) {
        self.totals.events += 1;
        self.totals.untimed += u64::from(row.latency_ns.is_none());
        self.totals.failed += u64::from(row.failed);
        self.totals.mixed += u64::from(row.mixed);
        self.all.add(row);
        self.devices
            .entry(Text::clone(&row.device))
            .or_default()
            .add(row);
        match row.operation {
            Operation::Read | Operation::Write => {}
            Operation::Flush => return,
            _ => {
                self.totals.others += 1;
                return;
            }
        }
        match relation {
            Some(relation) => self
                .relations
                .entry(Text::clone(relation))
                .or_default()
                .add(row),
            None => self.purposes.entry(row.purpose).or_default().add(row),
        }
    }

    /// How many were added.
    pub(crate) fn events(&self) -> u64 {
        self.totals.events
    }

    /// The sums so far; `name` gives the name of a relation that was counted under its file.
    #[must_use]
    pub fn totals(
        &self,
        lost: u64,
        in_flight: u64,
        name: impl Fn(&str) -> Option<String>,
    ) -> Totals {
        let named = |(key, both): (&Text, &Both)| {
            let name = name(key).unwrap_or_else(|| key.to_string());
            (name, both.flows())
        };
        let bracketed = |(purpose, both): (&Purpose, &Both)| (purpose.bracketed(), both.flows());
        let by_purpose = self.purposes.iter().map(bracketed);
        let all = self.all.flows();
        Totals {
            lost,
            in_flight,
            untimed: self.totals.untimed - in_flight,
            reads: all.reads,
            writes: all.writes,
            flushes: all.flushes,
            devices: self
                .devices
                .iter()
                .map(|(name, both)| (name.to_string(), both.flows()))
                .collect(),
            relations: self.relations.iter().map(named).chain(by_purpose).collect(),
            ..self.totals.clone()
        }
    }
}
