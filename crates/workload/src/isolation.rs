//! Isolation levels.

use serde::{Deserialize, Serialize};
use tenbin_wire::{Error, Session};

/// Isolation level of every transaction of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// PostgreSQL's default.
    ReadCommitted,
    /// Snapshot isolation.
    RepeatableRead,
    /// Serializable snapshot isolation.
    Serializable,
}

impl Isolation {
    /// As SQL and `run.json` have it: `read committed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    /// Makes it that of all transactions of a session. One that has it already is left alone: behind
    /// a pooler, a session that sets something needs a server of its own from then on.
    pub(crate) async fn set(self, session: &mut Session) -> Result<(), Error> {
        session.query("SHOW default_transaction_isolation");
        let mut replies = session.sync().await?;
        let row = replies.next().and_then(|mut reply| reply.row());
        if row.is_some_and(|row| row.text(0) == Ok(self.name())) {
            return Ok(());
        }
        session.query(&format!(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}",
            self.name()
        ));
        session.sync().await.map(|_| ())
    }
}
