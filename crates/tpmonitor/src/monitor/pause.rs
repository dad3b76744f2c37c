//! What administrators stop for a while, and those who wait for that to have come about.

use super::Serving;
use super::client::Stage;
use super::pool::{Pool, PoolId, Purpose};
use crate::log::{Level, line};
use crate::messages::{Severity, command_complete, error, ready};
use crate::slab::Id;
use std::collections::BTreeSet;

/// What is stopped.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    /// Everything is paused.
    pub(super) all: bool,
    /// Databases that are paused, as clients name them.
    pub(super) paused: BTreeSet<String>,
    /// Databases that take no further clients.
    pub(super) disabled: BTreeSet<String>,
    /// Nothing is read of sessions, on either side.
    pub(super) suspended: bool,
    awaited: Vec<Awaited>,
}

/// A command that is answered once it has come about.
#[derive(Debug)]
struct Awaited {
    by: Id,
    what: What,
    /// All of them where none is named.
    database: Option<String>,
}

/// Which, and so what has to be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Every server connection.
    Pause,
    /// Those that are to be closed as soon as they are free.
    WaitClose,
    /// Everything that is still to be sent.
    Suspend,
}

/// Why a command is refused, in `PgBouncer`'s words.
type Done = Result<(), String>;

impl Serving {
    /// A database that commands may be about.
    fn named(&self, verb: &str, database: &str) -> Done {
        if self.is_admin_database(database) {
            return Err(format!("cannot {verb} admin db: {database}"));
        }
        if self.config.database(database).is_none() {
            return Err(format!("no such database: {database}"));
        }
        Ok(())
    }

    /// Closes server connections as they become free, and connects to no more. Whoever wants it is answered
    /// when that has come about.
    pub(super) fn pause(&mut self, by: Id, database: Option<&str>) -> Done {
        if self.stopped.all || self.stopped.suspended {
            return Err("already suspended/paused".to_owned());
        }
        self.hold("pause", database)?;
        self.close_when_free(database, "paused");
        self.wait_for(by, What::Pause, database);
        Ok(())
    }

    /// Reads nothing more of sessions, and sends what has been read. What is sent to the monitor meanwhile waits.
    pub(super) fn suspend(&mut self, by: Id) -> Done {
        if self.stopped.all || self.stopped.suspended {
            return Err("already suspended/paused".to_owned());
        }
        self.stopped.suspended = true;
        line(Level::Info, "suspended: sessions are not read", &[]);
        self.wait_for(by, What::Suspend, None);
        Ok(())
    }

    /// Ends the session of one client, as `SHOW CLIENTS` names it (`ptr`).
    pub(super) fn kill_client(&mut self, pointer: &str) -> Done {
        let number = pointer
            .trim_matches('\'')
            .strip_prefix('c')
            .unwrap_or_default();
        let ids = self.clients.ids();
        let found = ids.into_iter().find(|id| id.number().to_string() == number);
        let Some(id) = found else {
            return Err(format!(
                "no such client: {pointer}; SHOW CLIENTS has them under ptr"
            ));
        };
        self.expel(
            id,
            "57P01",
            "terminating connection due to administrator command",
        );
        Ok(())
    }

    /// Ends every session, on both sides, at once. Who comes in next waits until it is resumed.
    pub(super) fn kill(&mut self, database: Option<&str>) -> Done {
        self.hold("kill", database)?;
        let mut text = Vec::new();
        error(
            &mut text,
            Severity::Fatal,
            "57P01",
            "terminating connection due to administrator command",
        );
        let killed = self.pools_of(database);
        for id in self.clients.ids() {
            let pool = self.clients.get(id).and_then(|client| client.pool);
            if pool.is_some_and(|pool| killed.contains(&pool)) {
                self.dismiss(id, &text);
            }
        }
        for pool in &killed {
            self.pools[pool.0].welcome = None;
        }
        for id in self.servers.ids() {
            let pool = self.servers.get(id).map(|server| server.pool);
            if pool.is_some_and(|pool| killed.contains(&pool)) {
                self.close_server(id, "killed by an administrator");
            }
        }
        Ok(())
    }

    fn hold(&mut self, verb: &str, database: Option<&str>) -> Done {
        match database {
            None => self.stopped.all = true,
            Some(name) => {
                self.named(verb, name)?;
                self.stopped.paused.insert(name.to_owned());
            }
        }
        line(
            Level::Info,
            "paused: requests wait",
            &[("database", &database.unwrap_or("*"))],
        );
        self.review_holds();
        Ok(())
    }

    /// Lets requests be served again. Whoever waits for the pause to come about is told that it will not.
    pub(super) fn unpause(&mut self, database: Option<&str>) -> Done {
        match database {
            None if std::mem::take(&mut self.stopped.suspended) => {
                self.clients_again.extend(self.clients.ids());
                self.servers_again.extend(self.servers.ids());
            }
            None if !std::mem::take(&mut self.stopped.all) => {
                return Err("pooler is not paused/suspended".to_owned());
            }
            None => {}
            Some(name) => {
                self.named("resume", name)?;
                if !self.stopped.paused.remove(name) {
                    return Err(format!("database {name} is not paused"));
                }
            }
        }
        line(
            Level::Info,
            "resumed",
            &[("database", &database.unwrap_or("*"))],
        );
        self.review_holds();
        self.due.extend((0..self.pools.len()).map(PoolId));
        for index in 0..self.lookups.len() {
            self.ask_around(index);
        }
        let over = |awaited: &mut Awaited| {
            awaited.what != What::WaitClose && awaited.database.as_deref() == database
        };
        let over: Vec<Awaited> = self.stopped.awaited.extract_if(.., over).collect();
        for awaited in over {
            self.answer(awaited.by, Err("PAUSE was ended by RESUME"));
        }
        Ok(())
    }

    /// Lets further clients of a database in, or not.
    pub(super) fn allow(&mut self, database: Option<&str>, allowed: bool) -> Done {
        let database = database.ok_or("a database is required")?;
        self.named(if allowed { "enable" } else { "disable" }, database)?;
        if allowed {
            self.stopped.disabled.remove(database);
        } else {
            self.stopped.disabled.insert(database.to_owned());
        }
        Ok(())
    }

    /// Closes server connections as they become free; others take their place.
    pub(super) fn reconnect(&mut self, database: Option<&str>) -> Done {
        if let Some(name) = database {
            self.named("reconnect", name)?;
        }
        self.close_when_free(database, "an administrator wants others");
        Ok(())
    }

    /// Answers an administrator once no server connection is left that is to be closed.
    pub(super) fn wait_close(&mut self, by: Id, database: Option<&str>) -> Done {
        if let Some(name) = database {
            self.named("wait in", name)?;
        }
        self.wait_for(by, What::WaitClose, database);
        Ok(())
    }

    fn wait_for(&mut self, by: Id, what: What, database: Option<&str>) {
        if let Some(client) = self.clients.get_mut(by)
            && let Stage::Admin { waits, .. } = &mut client.stage
        {
            *waits = true;
            let database = database.map(str::to_owned);
            self.stopped.awaited.push(Awaited { by, what, database });
        }
    }

    /// Answers those whose commands have come about, and forgets those who have left.
    pub(super) fn answer_awaited(&mut self) {
        if self.stopped.awaited.is_empty() {
            return;
        }
        let awaited = std::mem::take(&mut self.stopped.awaited);
        let (left, awaited): (Vec<_>, Vec<_>) = awaited
            .into_iter()
            .partition(|awaited| self.is_left(awaited));
        self.stopped.awaited = left;
        for Awaited { by, what, .. } in awaited {
            self.answer(
                by,
                Ok(match what {
                    What::Pause => "PAUSE",
                    What::WaitClose => "WAIT_CLOSE",
                    What::Suspend => "SUSPEND",
                }),
            );
        }
    }

    /// Whether something is left of what is to be gone.
    fn is_left(&self, awaited: &Awaited) -> bool {
        if awaited.what == What::Suspend {
            let mut clients = self.clients.iter().map(|(_, client)| &client.conn);
            let mut servers = self.servers.iter().map(|(_, server)| &server.conn);
            return clients.any(|conn| conn.unsent() > 0) || servers.any(|conn| conn.unsent() > 0);
        }
        let pools = self.pools_of(awaited.database.as_deref());
        let mut servers = self.servers.iter().map(|(_, server)| server);
        servers.any(|server| {
            pools.contains(&server.pool) && (awaited.what == What::Pause || server.condemned)
        })
    }

    /// Ends an administrator's waiting.
    fn answer(&mut self, id: Id, said: Result<&str, &str>) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Stage::Admin { waits, .. } = &mut client.stage else {
            return;
        };
        *waits = false;
        let mut out = Vec::new();
        match said {
            Ok(tag) => command_complete(&mut out, tag),
            Err(why) => error(&mut out, Severity::Error, "57014", why),
        }
        ready(&mut out, b'I');
        if !client.conn.send(&self.epoll, &out) {
            return self.drop_client(id);
        }
        let input = std::mem::take(&mut client.conn.input);
        self.administrate(id, &input);
        self.read_client(id);
    }

    /// An administrator who waits has sent a request to cancel: a pause is taken back.
    pub(super) fn cancel_awaited(&mut self, id: Id) {
        let mut awaited = self.stopped.awaited.iter();
        let Some(index) = awaited.position(|awaited| awaited.by == id) else {
            return;
        };
        let awaited = self.stopped.awaited.swap_remove(index);
        self.answer(id, Err("canceling statement due to user request"));
        if awaited.what != What::WaitClose {
            // Where another session has resumed it, nothing is left to do.
            let _ = self.unpause(awaited.database.as_deref());
        }
    }

    /// Closes the server connections of a database, or all, as they become free.
    fn close_when_free(&mut self, database: Option<&str>, why: &str) {
        for id in self.pools_of(database) {
            self.close_pool(id, why);
        }
    }

    /// Closes the server connections of a pool as they become free. What its servers say at log-in may be
    /// another thing afterwards.
    pub(super) fn close_pool(&mut self, id: PoolId, why: &str) {
        self.pools[id.0].welcome = None;
        let servers = self.servers.iter();
        let mine: Vec<(Id, bool)> = servers
            .filter(|(_, server)| server.pool == id)
            .map(|(id, server)| (id, server.stands()))
            .collect();
        for (server, stands) in mine {
            if stands {
                self.retire(server, why);
            } else {
                self.close_server(server, why);
            }
        }
        if let Purpose::LookUp(index) = self.pools[id.0].purpose {
            self.let_go(index);
        }
    }

    /// Pools that a command for a database, or for all, is about; never those that look at servers.
    fn pools_of(&self, database: Option<&str>) -> Vec<PoolId> {
        let pools = (0..self.pools.len()).map(PoolId);
        pools
            .filter(|id| self.is_about(&self.pools[id.0], database))
            .collect()
    }

    fn is_about(&self, pool: &Pool, database: Option<&str>) -> bool {
        match (pool.purpose, database) {
            (Purpose::Probe(_), _) => false,
            (_, None) => true,
            (Purpose::Serve, Some(name)) => pool.key.database == name,
            // It names its database as the server does.
            (Purpose::LookUp(_), Some(name)) => self.config.database(name).is_some_and(|known| {
                known.places == pool.database.places
                    && known.name.as_deref().unwrap_or(name) == pool.key.database
            }),
        }
    }

    /// Whether a pool's requests wait by command.
    pub(super) fn is_held(&self, pool: &Pool) -> bool {
        let mut paused = self.stopped.paused.iter();
        (self.stopped.all && self.is_about(pool, None))
            || paused.any(|name| self.is_about(pool, Some(name)))
    }

    fn review_holds(&mut self) {
        for index in 0..self.pools.len() {
            self.pools[index].paused = self.is_held(&self.pools[index]);
        }
    }
}
