//! What backends wait for, ten times a second.

use crate::ledger::{Amount, Look};
use postgres::{Client, Statement};
use std::collections::BTreeMap;
use tenbin_record::observation::Waits;
use tenbin_record::samples::{BACKENDS, WAITS};

/// State of a backend at work that waits for nothing that the server tells.
const RUNNING: &str = "running";

/// The statement that counts backends by what they do. The function below the view is asked, which
/// looks nobody's name up.
pub(crate) fn statement(version_num: i32) -> String {
    // Before version 10 there are backends only, and walsenders, which have no database.
    let which = if version_num >= 100_000 {
        "backend_type IN ('client backend', 'parallel worker')"
    } else {
        "datid <> 0"
    };
    format!(
        "SELECT state, wait_event_type, wait_event, count(*) FROM pg_stat_get_activity(NULL) \
         WHERE {which} AND pid <> pg_backend_pid() GROUP BY 1, 2, 3"
    )
}

/// What a version does not tell.
pub(crate) fn absent(version_num: i32) -> Option<(String, String)> {
    (version_num < 100_000).then(|| {
        let reason = "PostgreSQL tells of them from version 10 on: they count as running";
        ("waits for I/O and clients".to_owned(), reason.to_owned())
    })
}

/// Backends by state: since the last sample, and in all.
#[derive(Debug, Default)]
pub(crate) struct WaitWatch {
    now: BTreeMap<String, f64>,
    looks_now: f64,
    all: BTreeMap<String, f64>,
    looks: u64,
    /// Backends whose state this user may not see, at any look.
    pub(crate) hidden: bool,
}

impl WaitWatch {
    /// Looks once; `inside`: the interval has begun.
    pub(crate) fn read(
        &mut self,
        client: &mut Client,
        statement: &Statement,
        inside: bool,
    ) -> Result<(), postgres::Error> {
        for row in client.query(statement, &[])? {
            let text = |index: usize| row.try_get::<_, Option<String>>(index);
            let (state, class, event) = (text(0)?, text(1)?, text(2)?);
            let count = row.try_get::<_, i64>(3)? as f64;
            let Some(doing) = doing(state.as_deref(), class.as_deref(), event.as_deref()) else {
                self.hidden |= state.is_none();
                continue;
            };
            if inside {
                *self.all.entry(doing.clone()).or_default() += count;
            }
            *self.now.entry(doing).or_default() += count;
        }
        self.looks_now += 1.0;
        self.looks += u64::from(inside);
        Ok(())
    }

    /// Means since the last call.
    pub(crate) fn tell(&mut self, look: &mut Look) {
        if self.looks_now > 0.0 {
            for (doing, count) in std::mem::take(&mut self.now) {
                let mean = Amount::Level(count / self.looks_now);
                look.add(WAITS, BACKENDS, doing, mean);
            }
            self.looks_now = 0.0;
        }
    }

    /// Of all looks of the interval.
    pub(crate) fn sum(&self) -> Option<Waits> {
        let mean = |(doing, count): (&String, &f64)| (doing.clone(), count / self.looks as f64);
        (self.looks > 0).then(|| Waits {
            looks: self.looks,
            backends: self.all.iter().map(mean).collect(),
        })
    }
}

/// What a backend does, in a word or two; none where that may not be known.
fn doing(state: Option<&str>, class: Option<&str>, event: Option<&str>) -> Option<String> {
    match (state, class, event) {
        (Some("active" | "fastpath function call"), Some(class), Some(event)) => {
            // Version 9.6 tells two kinds of lightweight locks apart.
            let class = if class.starts_with("LWLock") {
                "LWLock"
            } else {
                class
            };
            Some(format!("{class}/{event}"))
        }
        (Some("active" | "fastpath function call"), ..) => Some(RUNNING.to_owned()),
        (Some("disabled") | None, ..) => None,
        (Some(state), ..) => Some(state.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_waits_become_words() {
        let told = [
            (Some("active"), None, None, Some("running")),
            (
                Some("active"),
                Some("Lock"),
                Some("tuple"),
                Some("Lock/tuple"),
            ),
            (
                Some("active"),
                Some("LWLockNamed"),
                Some("WALWriteLock"),
                Some("LWLock/WALWriteLock"),
            ),
            (
                Some("idle"),
                Some("Client"),
                Some("ClientRead"),
                Some("idle"),
            ),
            (
                Some("idle in transaction"),
                Some("Client"),
                Some("ClientRead"),
                Some("idle in transaction"),
            ),
            (None, None, None, None),
        ];
        for (state, class, event, expected) in told {
            assert_eq!(doing(state, class, event).as_deref(), expected);
        }
    }
}
