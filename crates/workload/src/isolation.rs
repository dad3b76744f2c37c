//! Isolation levels.

use tenbin_wire::{Error, Session};

/// Isolation level of every transaction of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// Makes it that of all transactions of a session.
    pub(crate) async fn set(self, session: &mut Session) -> Result<(), Error> {
        session.query(&format!(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}",
            self.name()
        ));
        session.sync().await.map(|_| ())
    }
}
