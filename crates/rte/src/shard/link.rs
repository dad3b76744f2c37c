//! How one shard's connections stand: who may open, who was hung up on, and when to give up.

use crate::error::DriveError;
use std::collections::VecDeque;

/// Connections opened at once by one shard: the server forks for each, and its queue is short.
const OPENING: u32 = 32;
/// Before the start, "too many clients" may still be the loader's sessions going away.
const TOO_MANY_PATIENCE_NS: u64 = 3_000_000_000;

/// See the module. Times are the run's clock.
pub(super) struct Link {
    wanted: u32,
    up: u32,
    limit_ns: u64,
    /// When a connection last came up or the last one went.
    since_ns: u64,
    last_failure: String,
    started: bool,
    fatal: Option<DriveError>,
    opening: u32,
    asking: VecDeque<u32>,
    permits: Vec<bool>,
    hangups: Vec<bool>,
    /// Connections to be polled although their socket did not move.
    pub(super) runnable: Vec<u32>,
}

impl Link {
    pub(super) fn new(wanted: u32, limit_ns: u64, now_ns: u64) -> Self {
        Self {
            wanted,
            up: 0,
            limit_ns,
            since_ns: now_ns,
            last_failure: "nothing yet".to_owned(),
            started: false,
            fatal: None,
            opening: 0,
            asking: VecDeque::new(),
            permits: vec![false; wanted as usize],
            hangups: vec![false; wanted as usize],
            runnable: Vec::new(),
        }
    }

    /// Asks for leave to open a connection.
    pub(super) fn ask(&mut self, me: u32) {
        if self.opening < OPENING {
            self.opening += 1;
            self.permits[me as usize] = true;
        } else {
            self.asking.push_back(me);
        }
    }

    /// Whether it has come; it is used up by this.
    pub(super) fn permitted(&mut self, me: u32) -> bool {
        std::mem::take(&mut self.permits[me as usize])
    }

    /// An attempt is over: the next may begin.
    pub(super) fn release(&mut self) {
        if let Some(next) = self.asking.pop_front() {
            self.permits[next as usize] = true;
            self.runnable.push(next);
        } else {
            self.opening -= 1;
        }
    }

    pub(super) fn opened(&mut self, now_ns: u64) {
        self.up += 1;
        self.since_ns = now_ns;
    }

    pub(super) fn lost(&mut self, now_ns: u64) {
        self.up -= 1;
        if self.up == 0 {
            self.since_ns = now_ns;
        }
    }

    /// An attempt failed. True when there is no point in another: before the start some answers are final.
    pub(super) fn failed(&mut self, sqlstate: &str, message: String, now_ns: u64) -> bool {
        self.last_failure = message;
        if self.started {
            return false;
        }
        let (patience_ns, mend) = match sqlstate {
            "08006" => (
                self.limit_ns,
                "see whether the server runs and listens there",
            ),
            "57P03" => (
                self.limit_ns,
                "wait until the server has started, then run again",
            ),
            "53300" => (
                self.limit_ns.min(TOO_MANY_PATIENCE_NS),
                "raise max_connections of the server or use fewer connections",
            ),
            "28000" | "28P01" => (
                0,
                "check the user, the password and the server's pg_hba.conf",
            ),
            "3D000" => (0, "name a database that exists, or load the workload first"),
            _ => (
                0,
                "see the server's log, and whether the workload is loaded there",
            ),
        };
        let in_vain = now_ns.saturating_sub(self.since_ns) >= patience_ns;
        if in_vain && self.fatal.is_none() {
            self.fatal = Some(DriveError::Connect {
                wanted: self.wanted,
                open: self.up,
                cause: self.last_failure.clone(),
                mend,
            });
        }
        in_vain
    }

    /// All connections stand. From the start on, failures to connect are borne.
    pub(super) fn complete(&self) -> bool {
        self.up == self.wanted
    }

    pub(super) fn start(&mut self) {
        self.started = true;
    }

    pub(super) fn take_fatal(&mut self) -> Option<DriveError> {
        self.fatal.take()
    }

    /// How long there has been no connection at all, and why, once that is too long.
    pub(super) fn forsaken(&self, now_ns: u64) -> Option<(f64, String)> {
        let down_ns = now_ns.saturating_sub(self.since_ns);
        let too_long = self.started && self.up == 0 && down_ns >= self.limit_ns;
        too_long.then(|| (crate::clock::seconds(down_ns), self.last_failure.clone()))
    }

    pub(super) fn hang_up(&mut self, me: u32) {
        self.hangups[me as usize] = true;
    }

    pub(super) fn hung_up(&self, me: u32) -> bool {
        self.hangups[me as usize]
    }

    pub(super) fn forget_hangup(&mut self, me: u32) {
        self.hangups[me as usize] = false;
    }
}
