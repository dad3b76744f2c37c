//! Several servers that hold the same: which of them takes writes, which cannot be reached, and how
//! far the others are behind.
//!
//! How far is told by time, and by no clock but the monitor's own. The one that takes writes is asked
//! for its position now and then; a standby that has come as far holds all that had been written
//! before that question.

use super::pool::PoolId;
use crate::config::{Database, Place, Wants};
use crate::messages::cells;
use crate::slab::Id;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tenbin_wire::Address;

/// Positions that are remembered: of standbys further behind it is not known how far.
const SAMPLES_LIMIT: usize = 4096;
/// Headers of a page: of any, and of a segment's first. At the very start of a page the position of the
/// next record is behind the header, and that of the end of the last one before it: the same place. (A
/// record that ends there because it began on the page before is not lost sight of: who has replayed
/// up to the start of the page or beyond has it.)
const PAGE_HEADERS_BYTES: [u64; 2] = [24, 40];

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Not heard of yet.
    Unknown,
    /// It cannot be reached, or does not answer.
    Down,
    /// It takes writes.
    Primary { timeline: u32 },
    /// It follows another.
    Standby,
}

/// One server.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) role: Role,
    /// Why it is down.
    pub(super) why: String,
    /// It holds all that was written before this moment.
    pub(super) fresh: Option<Instant>,
    /// The pool that the connection for checks is in, and that connection.
    pub(super) pool: PoolId,
    pub(super) probe: Option<Id>,
    /// When it was asked what it has not answered.
    pub(super) asked_at: Option<Instant>,
    /// When it is to be asked next.
    pub(super) next_at: Instant,
}

/// Servers that hold the same.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Whose servers they are, as the configuration has it.
    pub(super) database: Database,
    pub(super) nodes: Vec<Node>,
    /// When the one that takes writes was asked for its position, and what that was.
    samples: VecDeque<(Instant, u64)>,
    /// Which takes writes. Of several (one that does not know that it was replaced), the one on the
    /// newest timeline.
    pub(super) writable: Option<usize>,
    /// Since when none has.
    pub(super) none_since: Instant,
    /// The configuration does not name them any more.
    pub(super) retired: bool,
}

/// What a server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    role: Role,
    /// Of the write-ahead log: where the next record goes, or up to where it has been replayed.
    position: Option<u64>,
}

/// The question, as servers of this version understand it.
pub(super) fn question(version: u32) -> &'static str {
    if version < 10 {
        return "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_last_xlog_replay_location() ELSE pg_current_xlog_insert_location() END, CASE WHEN NOT pg_is_in_recovery() THEN pg_xlogfile_name(pg_current_xlog_insert_location()) END, current_setting('wal_block_size')";
    }
    "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END, CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END, current_setting('wal_block_size')"
}

impl Answer {
    /// Reads the row that answers the question: the body of a `DataRow`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let cells = cells(body)?;
        let text = |index: usize| {
            let cell = cells.get(index).copied().flatten();
            cell.and_then(|cell| std::str::from_utf8(cell).ok())
        };
        let position = text(1).and_then(position);
        if text(0)? == "t" {
            let role = Role::Standby;
            return Some(Self { role, position });
        }
        let timeline = u32::from_str_radix(text(2)?.get(..8)?, 16).ok()?;
        let page_bytes: u64 = text(3)?.parse().ok()?;
        let into_page = position?.checked_rem(page_bytes)?;
        Some(Self {
            role: Role::Primary { timeline },
            position: position.map(|at| {
                if PAGE_HEADERS_BYTES.contains(&into_page) {
                    at - into_page
                } else {
                    at
                }
            }),
        })
    }
}

/// `16/B374D848`.
fn position(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let part = |digits| u32::from_str_radix(digits, 16).ok().map(u64::from);
    Some((part(high)? << 32) | part(low)?)
}

impl Cluster {
    pub(super) fn new(
        database: Database,
        pools: impl Iterator<Item = PoolId>,
        now: Instant,
    ) -> Self {
        let nodes = database.places.iter().zip(pools).map(|(place, pool)| Node {
            place: place.clone(),
            role: Role::Unknown,
            why: String::new(),
            fresh: None,
            pool,
            probe: None,
            asked_at: None,
            next_at: now,
        });
        Self {
            nodes: nodes.collect(),
            database,
            samples: VecDeque::new(),
            writable: None,
            none_since: now,
            retired: false,
        }
    }

    /// Takes an answer to a question asked at `asked_at`; whether another takes writes now.
    pub(super) fn answered(
        &mut self,
        index: usize,
        asked_at: Instant,
        answer: Answer,
        now: Instant,
    ) -> bool {
        let Some(node) = self.nodes.get_mut(index) else {
            return false;
        };
        node.role = answer.role;
        node.why.clear();
        let changed = self.elect(now);
        let Some(position) = answer.position else {
            return changed;
        };
        if self.writable == Some(index) {
            if self
                .samples
                .back()
                .is_some_and(|(_, last)| *last >= position)
            {
                self.samples.pop_back();
            }
            if self.samples.len() >= SAMPLES_LIMIT {
                self.samples.pop_front();
            }
            self.samples.push_back((asked_at, position));
        } else if answer.role == Role::Standby {
            let reached = self.samples.iter().rev().find(|(_, at)| *at <= position);
            if let Some((at, _)) = reached {
                self.nodes[index].fresh = Some(*at);
            }
        }
        changed
    }

    /// A server cannot be reached, or does not answer; whether that leaves nobody to take writes.
    pub(super) fn lost(&mut self, index: usize, why: &str, now: Instant) -> bool {
        let Some(node) = self.nodes.get_mut(index) else {
            return false;
        };
        node.role = Role::Down;
        why.clone_into(&mut node.why);
        self.elect(now)
    }

    /// Finds out who takes writes; whether that is another than before.
    fn elect(&mut self, now: Instant) -> bool {
        let newest = self.nodes.iter().filter_map(|node| match node.role {
            Role::Primary { timeline } => Some(timeline),
            _ => None,
        });
        let newest = newest.max();
        let suits = |node: &Node| matches!(node.role, Role::Primary { timeline } if Some(timeline) == newest);
        let kept = self.writable.filter(|index| suits(&self.nodes[*index]));
        let elected = kept.or_else(|| self.nodes.iter().position(suits));
        if elected == self.writable {
            return false;
        }
        if self.writable.is_some() && elected.is_none() {
            self.none_since = now;
        }
        if elected.is_some() {
            // Positions on another's log mean nothing.
            self.samples.clear();
            for node in &mut self.nodes {
                node.fresh = None;
            }
        }
        self.writable = elected;
        true
    }

    /// How far a server is behind, if that is known.
    pub(super) fn lag(&self, index: usize) -> Option<Duration> {
        if self.writable == Some(index) {
            return Some(Duration::ZERO);
        }
        let (newest, _) = self.samples.back()?;
        let fresh = self.nodes.get(index)?.fresh?;
        Some(newest.saturating_duration_since(fresh))
    }

    /// Whether a server holds what had been written by this moment.
    pub(super) fn holds(&self, index: usize, written: Option<Instant>) -> bool {
        let Some(written) = written else {
            return true;
        };
        let fresh = self.nodes.get(index).and_then(|node| node.fresh);
        self.writable == Some(index) || fresh.is_some_and(|fresh| fresh > written)
    }

    /// The servers that a pool may use.
    pub(super) fn eligible(&self, wants: Wants, lag_limit: Option<Duration>) -> Vec<usize> {
        let all = 0..self.nodes.len();
        let standbys = || {
            // Where none takes writes, and none did, there is nothing to be behind of.
            let measured = self.writable.is_some() || !self.samples.is_empty();
            let near = |index: &usize| match lag_limit {
                Some(limit) if measured => self.lag(*index).is_some_and(|lag| lag <= limit),
                _ => true,
            };
            let standby = |index: &usize| self.nodes[*index].role == Role::Standby;
            (0..self.nodes.len()).filter(standby).filter(near).collect()
        };
        let or = |found: Vec<usize>, otherwise: Vec<usize>| {
            if found.is_empty() { otherwise } else { found }
        };
        match wants {
            Wants::Any => {
                let up = |index: &usize| self.nodes[*index].role != Role::Down;
                or(all.clone().filter(up).collect(), all.collect())
            }
            Wants::Writable => self.writable.into_iter().collect(),
            Wants::Standby => standbys(),
            Wants::Reading => or(standbys(), self.writable.into_iter().collect()),
        }
    }

    pub(super) fn index_of(&self, address: &Address) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.place.address == *address)
    }

    /// What each server is, for whoever finds none that serves.
    pub(super) fn description(&self) -> String {
        let nodes = self.nodes.iter().map(|node| {
            let address = &node.place.address;
            match node.role {
                Role::Unknown => format!("{address} has not been heard of ({})", node.why),
                Role::Down => format!("{address} is down ({})", node.why),
                Role::Primary { .. } => format!("{address} is a primary"),
                Role::Standby => format!("{address} is a standby"),
            }
        });
        nodes.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Route};
    use crate::messages::data_row;
    use proptest::prelude::*;

    fn cluster(count: usize) -> (Cluster, Instant) {
        let hosts = vec!["127.0.0.1"; count].join(",");
        let ports: Vec<String> = (1..=count).map(|port| port.to_string()).collect();
        let dsn = format!("host={hosts} port={} user=me", ports.join(","));
        let route = Route::parse(&dsn, std::path::Path::new("")).unwrap();
        let config = Config::in_front_of(route, Vec::new());
        let now = Instant::now();
        let database = config.databases["*"].clone();
        (Cluster::new(database, (0..).map(PoolId), now), now)
    }

    fn primary(timeline: u32, position: u64) -> Answer {
        Answer {
            role: Role::Primary { timeline },
            position: Some(position),
        }
    }

    fn standby(position: u64) -> Answer {
        Answer {
            role: Role::Standby,
            position: Some(position),
        }
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_newest_timeline_takes_the_writes() {
        let (mut cluster, now) = cluster(3);
        assert_eq!(cluster.eligible(Wants::Writable, None), [] as [usize; 0]);
        assert!(cluster.answered(0, now, primary(1, 100), now));
        assert!(!cluster.answered(1, now, standby(100), now));
        assert_eq!(cluster.eligible(Wants::Writable, None), [0]);
        // Promoted while the old one still believes in itself.
        assert!(cluster.answered(1, now, primary(2, 120), now));
        assert_eq!(cluster.eligible(Wants::Writable, None), [1]);
        assert!(!cluster.answered(0, now, primary(1, 130), now));
        assert!(cluster.lost(1, "gone", now));
        assert_eq!(cluster.eligible(Wants::Writable, None), [0]);
        assert!(cluster.lost(0, "gone", now));
        assert_eq!(cluster.eligible(Wants::Writable, None), [] as [usize; 0]);
        assert!(cluster.description().contains("127.0.0.1:2 is down (gone)"));
    }

    #[test]
    fn standbys_are_as_far_behind_as_the_position_they_have_reached_is_old() {
        let (mut cluster, now) = cluster(2);
        let reads = |cluster: &Cluster| cluster.eligible(Wants::Reading, Some(seconds(10)));
        cluster.answered(0, now, primary(1, 100), now);
        assert_eq!(reads(&cluster), [0]);
        cluster.answered(1, now, standby(100), now);
        assert_eq!(cluster.lag(1), Some(Duration::ZERO));
        assert_eq!(reads(&cluster), [1]);
        assert!(cluster.holds(1, now.checked_sub(seconds(1))));
        // Written at second 1: not known to be there before a later position is.
        let written = now + seconds(1);
        cluster.answered(0, now + seconds(5), primary(1, 200), now);
        cluster.answered(1, now + seconds(5), standby(199), now);
        assert_eq!(cluster.lag(1), Some(seconds(5)));
        assert!(!cluster.holds(1, Some(written)) && cluster.holds(0, Some(written)));
        cluster.answered(0, now + seconds(20), primary(1, 300), now);
        cluster.answered(1, now + seconds(20), standby(250), now);
        assert_eq!(cluster.lag(1), Some(seconds(15)));
        assert!(cluster.holds(1, Some(written)));
        assert_eq!(reads(&cluster), [0]);
        assert_eq!(
            cluster.eligible(Wants::Standby, Some(seconds(10))),
            [] as [usize; 0]
        );
        assert_eq!(cluster.eligible(Wants::Standby, None), [1]);
        cluster.answered(1, now + seconds(21), standby(300), now);
        assert_eq!(reads(&cluster), [1]);
        // Nobody writes: nobody is behind, however long that lasts.
        cluster.lost(0, "gone", now);
        assert_eq!(reads(&cluster), [1]);
    }

    #[test]
    fn standbys_without_a_primary_are_behind_nobody() {
        let (mut cluster, now) = cluster(2);
        cluster.answered(0, now, standby(5), now);
        cluster.lost(1, "refused", now);
        let limit = Some(seconds(1));
        assert_eq!(cluster.eligible(Wants::Standby, limit), [0]);
        assert_eq!(cluster.eligible(Wants::Any, limit), [0]);
        cluster.lost(0, "refused", now);
        assert_eq!(cluster.eligible(Wants::Any, limit), [0, 1]);
    }

    fn row(cells: &[Option<&str>]) -> Vec<u8> {
        let mut out = Vec::new();
        let cells: Vec<_> = cells.iter().map(|cell| cell.map(str::to_owned)).collect();
        data_row(&mut out, &cells);
        out.split_off(crate::scan::HEADER_BYTES)
    }

    #[test]
    fn answers_as_servers_give_them() {
        let name = Some("00000003000000160000001F");
        let read = |cells: &[Option<&str>]| Answer::parse(&row(cells));
        let size = Some("8192");
        assert_eq!(
            read(&[Some("f"), Some("16/B374D848"), name, size]),
            Some(primary(3, 0x16_b374_d848))
        );
        assert_eq!(
            read(&[Some("f"), Some("0/3000018"), name, size]),
            Some(primary(3, 0x300_0000))
        );
        assert_eq!(
            read(&[Some("f"), Some("0/4000028"), name, size]),
            Some(primary(3, 0x400_0000))
        );
        assert_eq!(
            read(&[Some("t"), Some("0/3000018"), None, size]),
            Some(standby(0x300_0018))
        );
        let unknown = Answer {
            role: Role::Standby,
            position: None,
        };
        assert_eq!(read(&[Some("t"), None, None, size]), Some(unknown));
        assert_eq!(read(&[Some("f"), None, name, size]), None);
        assert_eq!(read(&[]), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Answer::parse(&bytes);
        }
    }
}
