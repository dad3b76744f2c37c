//! What is sent and in how many round trips.

use super::{Form, Tpcb};
use crate::bank::{Move, Size};
use tenbin_wire::{Error, Param, Replies, Session};

/// pgbench's SQL, as its built-in scripts have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statements {
    /// Begins a transaction.
    pub begin: String,
    /// Moves $1 on account $2.
    pub account: String,
    /// Reads account $1.
    pub read: String,
    /// Moves $1 on teller $2.
    pub teller: String,
    /// Moves $1 on branch $2.
    pub branch: String,
    /// Writes teller, branch, account and amount into the history.
    pub history: String,
    /// Ends it.
    pub end: String,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            begin: "BEGIN".into(),
            account: "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2".into(),
            read: "SELECT abalance FROM pgbench_accounts WHERE aid = $1".into(),
            teller: "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2".into(),
            branch: "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2".into(),
            history: "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                      VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)"
                .into(),
            end: "END".into(),
        }
    }
}

impl Statements {
    /// Prepares all, in one round trip.
    pub(super) async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        let named = [
            ("begin", &self.begin),
            ("account", &self.account),
            ("read", &self.read),
            ("teller", &self.teller),
            ("branch", &self.branch),
            ("history", &self.history),
            ("end", &self.end),
        ];
        for (name, sql) in named {
            session.parse(name, sql, &[]);
        }
        session.sync().await.map(|_| ())
    }
}

/// The statements of a form, in pgbench's order.
fn script(form: Form) -> &'static [&'static str] {
    match form {
        Form::Update => &[
            "begin", "account", "read", "teller", "branch", "history", "end",
        ],
        Form::SimpleUpdate => &["begin", "account", "read", "history", "end"],
        Form::Select => &["read"],
    }
}

/// Executes a transaction. Whether it found all its rows.
pub(super) async fn execute(
    session: &mut Session,
    tpcb: &Tpcb,
    input: &Move,
) -> Result<bool, Error> {
    let mut found = true;
    let account = account(&tpcb.size, input.account);
    for name in script(tpcb.form) {
        queue(session, name, account, input);
        if !tpcb.pipeline {
            let replies = session.sync().await?;
            found &= all_found(replies);
        }
    }
    if tpcb.pipeline {
        found = all_found(session.sync().await?);
    }
    Ok(found)
}

/// An account's number in the type of its column.
pub(crate) fn account(size: &Size, number: i64) -> Param<'static> {
    match i32::try_from(number) {
        Ok(number) if !size.is_wide() => Param::I32(number),
        _ => Param::I64(number),
    }
}

fn queue(session: &mut Session, name: &str, account: Param<'_>, input: &Move) {
    let amount = Param::I32(input.amount);
    let (teller, branch) = (Param::I32(input.teller), Param::I32(input.branch));
    match name {
        "account" => session.execute(name, &[amount, account]),
        "read" => session.execute(name, &[account]),
        "teller" => session.execute(name, &[amount, teller]),
        "branch" => session.execute(name, &[amount, branch]),
        "history" => session.execute(name, &[teller, branch, account, amount]),
        _ => session.execute(name, &[]),
    }
}

/// Whether every statement that names a row found it.
pub(crate) fn all_found(mut replies: Replies<'_>) -> bool {
    replies.all(|reply| reply.affected() == 1 || matches!(reply.tag(), "BEGIN" | "COMMIT"))
}
