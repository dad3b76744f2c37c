//! `transactions.parquet`: one row per transaction.

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Committed.
    Committed,
    /// Rolled back as the workload intends (TPC-C's 1 % of New-Orders).
    RolledBack,
    /// Accepted for later execution (TPC-C's Delivery).
    Deferred,
    /// Given up after a serialization failure or a deadlock on every attempt.
    SerializationFailure,
    /// The server answered with another error.
    ServerError,
    /// The connection was lost.
    ConnectionLost,
}

/// One transaction. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionRow {
    /// When it was due, from the start of the measurement interval; negative in ramp-up and warm-up.
    pub start_ns: i64,
    /// From when it was due to its last reply (to its acceptance, when deferred).
    pub response_ns: u64,
    /// The part of `response_ns` spent waiting for the driver and for a connection.
    pub wait_ns: u64,
    /// Terminal, from 0.
    pub terminal: u32,
    /// Index into the workload's kinds.
    pub kind: u8,
    /// How it ended.
    pub outcome: Outcome,
    /// Attempts after the first.
    pub retries: u8,
}
