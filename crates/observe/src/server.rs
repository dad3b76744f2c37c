//! The server, asked: one connection, prepared statements, and what they came to.

use crate::bracket;
use crate::bracket::{Bracket, Covered};
use crate::counters::{self, Counters, Weight};
use crate::ledger::{Amount, Ledger, Look};
use crate::waits::{self, WaitWatch};
use postgres::{Client, Statement};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tenbin_record::Observation;
use tenbin_record::observation::Standby;
use tenbin_record::samples::STANDBYS;
use tenbin_wire::Target;

/// How long an attempt to connect again may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Views with many rows are read at most so often …
const HEAVY_EVERY: Duration = Duration::from_secs(10);
/// … and take at most one part in so many of the time.
const HEAVY_SHARE: u32 = 500;

/// A connection with its statements.
struct Connection {
    client: Client,
    light: Statement,
    heavy: Statement,
    waits: Statement,
    ended: Statement,
    /// Its process, if it is on this machine.
    pid: Option<i32>,
}

impl Connection {
    fn open(
        target: &Target,
        local: bool,
        limit: Option<Duration>,
    ) -> Result<(Self, i32), postgres::Error> {
        let mut config = target.config();
        config.application_name("tenbin observe");
        if let Some(limit) = limit {
            config.connect_timeout(limit);
        }
        let mut client = config.connect(postgres::NoTls)?;
        let version: String = client
            .query_one("SHOW server_version_num", &[])?
            .try_get(0)?;
        let version_num = version.parse().unwrap_or(0);
        let pid: i32 = client
            .query_one("SELECT pg_backend_pid()", &[])?
            .try_get(0)?;
        let connection = Self {
            light: client.prepare(&counters::statement(version_num, Weight::Light))?,
            heavy: client.prepare(&counters::statement(version_num, Weight::Heavy))?,
            waits: client.prepare(&waits::statement(version_num))?,
            ended: client.prepare(&bracket::statement(version_num))?,
            pid: local.then_some(pid),
            client,
        };
        Ok((connection, version_num))
    }
}

/// Follows a server.
pub(crate) struct ServerWatch {
    target: Target,
    local: bool,
    connection: Option<Connection>,
    /// Values of every counter when last read.
    last: Counters,
    /// When the views with many rows may be read again.
    heavy_at: Instant,
    version_num: i32,
    /// All counters when the interval began.
    before: Option<(Counters, Bracket)>,
    pub(crate) waits: WaitWatch,
    pub(crate) statements: u64,
    pub(crate) absent: BTreeMap<String, String>,
}

impl ServerWatch {
    /// Connects and looks for the first time. `local`: it runs on this machine.
    pub(crate) fn start(target: Target, local: bool) -> Result<Self, postgres::Error> {
        let (connection, version_num) = Connection::open(&target, local, None)?;
        let mut watch = Self {
            target,
            local,
            connection: Some(connection),
            last: Counters::new(),
            heavy_at: Instant::now(),
            version_num,
            before: None,
            waits: WaitWatch::default(),
            statements: 0,
            absent: counters::absent(version_num),
        };
        watch.absent.extend(waits::absent(version_num));
        if let Some(connection) = &mut watch.connection {
            watch.last = counters::read(&mut connection.client, &connection.heavy)?;
        }
        Ok(watch)
    }

    /// The process that answers, if it is on this machine.
    pub(crate) fn backend(&self) -> Option<i32> {
        self.connection.as_ref()?.pid
    }

    /// Reads counters, and all of them from time to time.
    pub(crate) fn look(&mut self, look: &mut Look) -> Result<(), String> {
        let heavy = Instant::now() >= self.heavy_at;
        let weight = if heavy { Weight::Heavy } else { Weight::Light };
        let counters = self.read(weight)?;
        for (key, now) in &counters {
            let (view, label, name) = key;
            let amount = if counters::is_level(view) {
                Amount::Level(*now)
            } else {
                let before = self.last.get(key).copied();
                Amount::Growth(counters::growth(before, *now))
            };
            if matches!(amount, Amount::Growth(growth) if growth == 0.0) {
                continue;
            }
            look.add(view, name.clone(), label.clone(), amount);
        }
        self.last.extend(counters);
        self.waits.tell(look);
        Ok(())
    }

    /// Looks at what backends wait for; not while the connection is lost, which [`Self::look`] opens again.
    pub(crate) fn look_at_waits(&mut self, inside: bool) -> Result<(), String> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        self.statements += 1;
        let read = self
            .waits
            .read(&mut connection.client, &connection.waits, inside);
        read.map_err(|error| self.lost(&error))
    }

    /// The interval begins.
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        self.before = Some(self.read_bracketed()?);
        Ok(())
    }

    /// The interval ends: what all counters came to.
    pub(crate) fn end(&mut self, observation: &mut Observation) -> Result<(), String> {
        observation.waits = self.waits.sum();
        let Some((before, begun)) = self.before.take() else {
            return Ok(());
        };
        let (after, ended) = self.read_bracketed()?;
        for ((view, label, name), value) in counters::between(&before, &after) {
            if (view, name.as_str()) == counters::WAL_POSITION {
                observation.wal_bytes = Some(value);
            } else if value != 0.0 && !counters::is_level(view) {
                let column = format!("{view}.{name}");
                if counters::is_of_relations(view) {
                    let of = observation.relations.entry(label).or_default();
                    of.insert(column.clone(), value);
                }
                *observation.counters.entry(column).or_default() += value;
            }
        }
        let covered = Covered::between(begun, ended, &observation.counters);
        observation.database_transactions = covered.estimate(self.version_num);
        let counters = observation.counters.iter();
        let each = counters.filter_map(|(name, growth)| {
            Some((name.clone(), observation.each_in_database(*growth)?))
        });
        observation.per_database_transaction = each.collect();
        Ok(())
    }

    /// Reads all counters between two readings of how many transactions have ended, and again if too many were
    /// reported meanwhile.
    fn read_bracketed(&mut self) -> Result<(Counters, Bracket), String> {
        if !bracket::reports_at_once(self.version_num) {
            let own = self.statements as f64;
            let counters = self.read(Weight::Heavy)?;
            let ended = bracket::ended(&counters) - own;
            return Ok((counters, Bracket::new(ended, ended)));
        }
        // Has the observer's own transactions reported before the first.
        self.ended()?;
        let mut best: Option<(Counters, Bracket)> = None;
        for _ in 0..bracket::TRIES {
            let low = self.ended()?;
            let counters = self.read(Weight::Heavy)?;
            let high = self.ended()?;
            let bracket = Bracket::new(low, high);
            if best
                .as_ref()
                .is_none_or(|(_, best)| bracket.width() < best.width())
            {
                best = Some((counters, bracket));
            }
            if bracket.width() == 0.0 {
                break;
            }
        }
        best.ok_or_else(|| "its counters could not be read".to_owned())
    }

    /// Transactions that the server has counted as ended in this database, without those that this session sent before.
    fn ended(&mut self) -> Result<f64, String> {
        let own = self.statements as f64;
        let connection = connected(&mut self.connection, &self.target, self.local)?;
        self.statements += 1;
        let row = connection.client.query_one(&connection.ended, &[]);
        let ended = row.and_then(|row| row.try_get::<_, f64>(0));
        ended
            .map(|ended| ended - own)
            .map_err(|error| self.lost(&error))
    }

    /// Reads counters, connecting again if the connection was lost.
    fn read(&mut self, weight: Weight) -> Result<Counters, String> {
        let (target, local) = (&self.target, self.local);
        let connection = connected(&mut self.connection, target, local)?;
        let began = Instant::now();
        let statement = match weight {
            Weight::Light => &connection.light,
            Weight::Heavy => &connection.heavy,
        };
        self.statements += 1;
        let read = counters::read(&mut connection.client, statement);
        if weight == Weight::Heavy {
            let pause = HEAVY_EVERY.max(began.elapsed() * HEAVY_SHARE);
            self.heavy_at = Instant::now() + pause;
        }
        read.map_err(|error| self.lost(&error))
    }

    fn lost(&mut self, error: &postgres::Error) -> String {
        self.connection = None;
        error.to_string()
    }
}

fn connected<'a>(
    connection: &'a mut Option<Connection>,
    target: &Target,
    local: bool,
) -> Result<&'a mut Connection, String> {
    match connection {
        Some(connection) => Ok(connection),
        none => {
            let opened = Connection::open(target, local, Some(CONNECT_LIMIT));
            let (opened, _) =
                opened.map_err(|error| format!("the server takes no connection: {error}"))?;
            Ok(none.insert(opened))
        }
    }
}

/// Standbys over the interval.
pub(crate) fn sum_standbys(ledger: &Ledger) -> BTreeMap<String, Standby> {
    let of = |standby: &str| {
        let level = |name| ledger.level(STANDBYS, name, standby);
        Standby {
            sent_lag_bytes: level("sent_lag_bytes"),
            write_lag_bytes: level("write_lag_bytes"),
            flush_lag_bytes: level("flush_lag_bytes"),
            replay_lag_bytes: level("replay_lag_bytes"),
            replay_lag_s: level("replay_lag_s"),
        }
    };
    let labels = ledger.labels(STANDBYS).into_iter();
    labels.map(|label| (label.to_owned(), of(label))).collect()
}
