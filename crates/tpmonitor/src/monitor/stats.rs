//! What was done in each database, as `PgBouncer` shows it.

use super::Serving;
use super::admin::{Table, number, text};
use super::pool::Totals;
use std::collections::BTreeMap;
use std::time::Duration;

/// What was done, in all and on average.
const STATS: [&str; 15] = [
    "database",
    "total_xact_count",
    "total_query_count",
    "total_received",
    "total_sent",
    "total_xact_time",
    "total_query_time",
    "total_wait_time",
    "avg_xact_count",
    "avg_query_count",
    "avg_recv",
    "avg_sent",
    "avg_xact_time",
    "avg_query_time",
    "avg_wait_time",
];

/// One half of it.
const HALF: [&str; 8] = [
    "database",
    "xact_count",
    "query_count",
    "bytes_received",
    "bytes_sent",
    "xact_time",
    "query_time",
    "wait_time",
];

impl Serving {
    /// What was done in each database; `what`: one half of it, or both.
    pub(super) fn show_stats(&self, what: &str) -> Table {
        let past = self.past.iter();
        let mut databases: BTreeMap<&str, (Totals, Totals)> = past
            .map(|(name, past)| (name.as_str(), (*past, Totals::default())))
            .collect();
        for pool in self.pools.iter().filter(|pool| pool.serves()) {
            let (all, period) = databases.entry(&pool.key.database).or_default();
            all.add(&pool.totals);
            period.add(&pool.period);
        }
        let rows = databases.into_iter().map(|(name, (all, last))| {
            let numbers = match what {
                "stats_totals" => totals(&all),
                "stats_averages" => averages(&last),
                _ => [totals(&all), averages(&last)].concat(),
            };
            let cells = numbers.into_iter().map(number);
            std::iter::once(text(name)).chain(cells).collect()
        });
        Table {
            columns: if what == "stats" { &STATS } else { &HALF },
            rows: rows.collect(),
        }
    }

    /// The same of all databases together.
    pub(super) fn show_totals(&self) -> Table {
        let (mut all, mut last) = (Totals::default(), Totals::default());
        for past in self.past.values() {
            all.add(past);
        }
        for pool in self.pools.iter().filter(|pool| pool.serves()) {
            all.add(&pool.totals);
            last.add(&pool.period);
        }
        let names = STATS[1..].iter().map(|name| {
            // Here alone they are called otherwise.
            let name = name.replace("received", "client_bytes");
            let name = name.replace("recv", "client_bytes");
            name.replace("sent", "server_bytes")
        });
        let numbers = [totals(&all), averages(&last)].concat();
        let rows = names.zip(numbers);
        Table {
            columns: &["name", "value"],
            rows: rows
                .map(|(name, value)| vec![Some(name), number(value)])
                .collect(),
        }
    }
}

/// As columns have them: counts, bytes, microseconds.
fn totals(all: &Totals) -> Vec<u128> {
    vec![
        all.transactions.into(),
        all.queries.into(),
        all.received_bytes.into(),
        all.sent_bytes.into(),
        all.transaction_time.as_micros(),
        all.query_time.as_micros(),
        all.wait.as_micros(),
    ]
}

/// Counts and bytes in a second; times of each.
fn averages(last: &Totals) -> Vec<u128> {
    let seconds = u128::from(super::ticks::PERIOD.as_secs());
    let second = |count: u64| u128::from(count) / seconds;
    let each = |time: Duration, count: u64| time.as_micros() / u128::from(count.max(1));
    vec![
        second(last.transactions),
        second(last.queries),
        second(last.received_bytes),
        second(last.sent_bytes),
        each(last.transaction_time, last.transactions),
        each(last.query_time, last.queries),
        each(last.wait, last.transactions),
    ]
}
