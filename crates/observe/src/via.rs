//! A pooler between driver and server: its memory and queue.

use crate::ledger::{Amount, Look};
use postgres::{Client, SimpleQueryMessage};
use procfs::process::Process;
use tenbin_record::observation::{Cpu, ViaSeen};
use tenbin_record::samples::POOLS;
use tenbin_wire::Target;

/// A pooler on this machine, whose database of its own answers `SHOW POOLS`.
#[derive(Debug, Clone)]
pub struct Via {
    /// Its process.
    pub pid: u32,
    /// Its database of its own.
    pub admin: Target,
}

/// Sums over all pools that serve clients, at one look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Pools {
    waiting: f64,
    active: f64,
}

/// Follows a pooler.
pub(crate) struct ViaWatch {
    via: Via,
    client: Option<Client>,
    /// In the interval.
    seen: ViaSeen,
    looks: f64,
}

impl ViaWatch {
    pub(crate) fn new(via: Via) -> Self {
        Self {
            via,
            client: None,
            seen: ViaSeen::default(),
            looks: 0.0,
        }
    }

    /// Looks; `inside`: the interval has begun. What cannot be seen is left out, and told.
    pub(crate) fn look(&mut self, inside: bool, look: &mut Look) -> Result<(), String> {
        let process = i32::try_from(self.via.pid)
            .ok()
            .and_then(|pid| Process::new(pid).ok())
            .ok_or("the pooler is gone")?;
        let stat = process.stat().map_err(|error| error.to_string())?;
        let rss_bytes = stat.rss * procfs::page_size();
        let pools = self.pools()?;
        look.add(POOLS, "cl_waiting", "", Amount::Level(pools.waiting));
        look.add(POOLS, "sv_active", "", Amount::Level(pools.active));
        if inside {
            let seen = &mut self.seen;
            seen.rss_max_bytes = seen.rss_max_bytes.max(rss_bytes);
            seen.waiting_max = seen.waiting_max.max(pools.waiting);
            self.looks += 1.0;
            seen.waiting_mean += (pools.waiting - seen.waiting_mean) / self.looks;
            seen.active_mean += (pools.active - seen.active_mean) / self.looks;
        }
        Ok(())
    }

    /// What was seen in the interval; `cpu`: what its process used.
    pub(crate) fn seen(&self, cpu: Cpu) -> ViaSeen {
        ViaSeen { cpu, ..self.seen }
    }

    fn pools(&mut self) -> Result<Pools, String> {
        let asked = self.ask();
        if asked.is_err() {
            self.client = None;
        }
        asked.map_err(|error| format!("SHOW POOLS: {error}"))
    }

    fn ask(&mut self) -> Result<Pools, postgres::Error> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(self.via.admin.config().connect(postgres::NoTls)?),
        };
        let answer = client.simple_query("SHOW POOLS")?;
        let rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let mut pools = Pools::default();
        for row in rows {
            // The pooler's own database has a row, too.
            if row.get("database") == Some(self.via.admin.database.as_str()) {
                continue;
            }
            let number = |name| {
                row.get(name)
                    .and_then(|text: &str| text.parse::<f64>().ok())
            };
            pools.waiting += number("cl_waiting").unwrap_or(0.0);
            pools.active += number("sv_active").unwrap_or(0.0);
        }
        Ok(pools)
    }
}
