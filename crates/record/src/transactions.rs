//! `transactions.parquet`: one row per transaction.

use crate::RecordError;
use crate::table::{ColumnsIn, ColumnsOut, Table, TableReader, TableWriter, Written, name};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use std::path::Path;

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
    /// Given up after a serialization failure (40001), the last of all attempts.
    SerializationFailure,
    /// Given up after a deadlock (40P01), the last of all attempts.
    Deadlock,
    /// The server answered with another error.
    ServerError,
    /// The connection was lost.
    ConnectionLost,
    /// Never begun: later than the latency limit already when a terminal was free for it.
    Skipped,
}

impl Outcome {
    /// Every outcome, in the order of its number.
    pub const ALL: [Self; 8] = [
        Self::Committed,
        Self::RolledBack,
        Self::Deferred,
        Self::SerializationFailure,
        Self::Deadlock,
        Self::ServerError,
        Self::ConnectionLost,
        Self::Skipped,
    ];

    /// The stable name in every record: `rolled_back`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::RolledBack => "rolled_back",
            Self::Deferred => "deferred",
            Self::SerializationFailure => "serialization_failure",
            Self::Deadlock => "deadlock",
            Self::ServerError => "server_error",
            Self::ConnectionLost => "connection_lost",
            Self::Skipped => "skipped",
        }
    }

    /// Whether the terminal had its result: done, rolled back as intended, or put off.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Committed | Self::RolledBack | Self::Deferred)
    }

    /// Whether the transaction was begun and failed.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.is_conflict() || matches!(self, Self::ServerError | Self::ConnectionLost)
    }

    /// Whether others were in its way, so that another attempt may succeed.
    #[must_use]
    pub fn is_conflict(self) -> bool {
        matches!(self, Self::SerializationFailure | Self::Deadlock)
    }
}

/// One transaction. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionRow {
    /// When it was due, from the start of the measurement interval; negative in ramp-up and warm-up.
    pub start_ns: i64,
    /// From when it was due to its last reply (to its acceptance, when deferred; to the moment it was
    /// given up, when skipped).
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

/// Key of the file's metadata that lists the kinds, a JSON array in the order of their numbers.
const KINDS_KEY: &str = "tenbin.kinds";

pub(crate) struct Transactions {
    kinds: Vec<ByteArray>,
    names: String,
}

impl Transactions {
    fn new(kinds: &[String]) -> Self {
        Self {
            kinds: kinds
                .iter()
                .map(|kind| ByteArray::from(kind.as_str()))
                .collect(),
            names: serde_json::Value::from(kinds).to_string(),
        }
    }
}

impl Table for Transactions {
    type Row = TransactionRow;
    const SCHEMA: &'static str = "tenbin.transactions/1";
    const MESSAGE: &'static str = "message transactions {
        required int64 start_ns;
        required int64 response_ns;
        required int64 wait_ns;
        required int32 terminal (INTEGER(32, false));
        required binary kind (STRING);
        required binary outcome (STRING);
        required int32 retries (INTEGER(8, false));
    }";
    const DELTA: &'static [&'static str] =
        &["start_ns", "response_ns", "wait_ns", "terminal", "retries"];
    // Delta-coded, times are as small as they get: zstd took a sixth of the CPU for 1.6 % of the bytes.
    const COMPRESSED: bool = false;

    fn metadata(&self) -> Vec<(&'static str, String)> {
        vec![(KINDS_KEY, self.names.clone())]
    }

    fn encode(
        &mut self,
        rows: &[TransactionRow],
        columns: &mut ColumnsOut<'_>,
    ) -> ParquetResult<()> {
        let kinds = &self.kinds;
        if let Some(row) = rows.iter().find(|row| usize::from(row.kind) >= kinds.len()) {
            let reason = format!("a row of kind {}, of {}", row.kind, kinds.len());
            return Err(ParquetError::General(reason));
        }
        let kind = |row: &TransactionRow| kinds[usize::from(row.kind)].clone();
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.start_ns))?;
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.response_ns.cast_signed()))?;
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.wait_ns.cast_signed()))?;
        columns.put_all::<Int32Type>(rows.iter().map(|row| row.terminal.cast_signed()))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(kind))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| name(row.outcome.name())))?;
        columns.put_all::<Int32Type>(rows.iter().map(|row| i32::from(row.retries)))
    }
}

/// Writes `transactions.parquet` on a thread of its own, in flat memory.
///
/// `Sync`: the shards of a run may share one writer by reference. Rows appear in the file in the
/// order of the calls.
#[derive(Debug)]
pub struct TransactionWriter(TableWriter<TransactionRow>);

impl TransactionWriter {
    /// Creates the file; `kinds` are the names that [`TransactionRow::kind`] counts.
    pub fn create(path: &Path, kinds: &[String]) -> Result<Self, RecordError> {
        TableWriter::create(path, Transactions::new(kinds)).map(Self)
    }

    /// Hands rows to the writer's thread. Call it with some hundreds to thousands of rows at a time.
    ///
    /// Blocks only when the disk is some 65,000 rows behind. After [`RecordError::Stopped`] nothing
    /// more is written and [`Self::finish`] returns the cause.
    pub fn write(&self, rows: &[TransactionRow]) -> Result<(), RecordError> {
        self.0.write(rows)
    }

    /// Writes what is left, closes the file and syncs it to disk.
    pub fn finish(self) -> Result<Written, RecordError> {
        self.0.finish()
    }
}

/// Reads `transactions.parquet`: an iterator over batches of at most 131,072 rows.
pub struct TransactionReader {
    table: TableReader,
    kinds: Vec<String>,
}

impl TransactionReader {
    /// Opens the file and checks that it is whole and of this version.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let table = TableReader::open::<Transactions>(path)?;
        let kinds = table.metadata(KINDS_KEY).unwrap_or_default();
        let kinds = serde_json::from_str(kinds)
            .map_err(|error| RecordError::corrupt(path, &format!("{KINDS_KEY}: {error}")))?;
        Ok(Self { table, kinds })
    }

    /// The names that [`TransactionRow::kind`] counts.
    #[must_use]
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }
}

impl Iterator for TransactionReader {
    type Item = Result<Vec<TransactionRow>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.table
            .next_group(|columns| decode(columns, &self.kinds))
    }
}

fn decode(
    columns: &mut ColumnsIn<'_>,
    kinds: &[String],
) -> Result<Vec<TransactionRow>, RecordError> {
    let start = columns.take::<Int64Type>()?;
    let response = columns.take::<Int64Type>()?;
    let wait = columns.take::<Int64Type>()?;
    let terminal = columns.take::<Int32Type>()?;
    let kind = columns.take::<ByteArrayType>()?;
    let outcome = columns.take::<ByteArrayType>()?;
    let retries = columns.take::<Int32Type>()?;
    let kind_of = |name: &ByteArray| {
        let index = kinds.iter().position(|kind| kind.as_bytes() == name.data());
        index.and_then(|index| u8::try_from(index).ok())
    };
    (0..columns.rows())
        .map(|i| {
            Ok(TransactionRow {
                start_ns: start[i],
                response_ns: response[i].cast_unsigned(),
                wait_ns: wait[i].cast_unsigned(),
                terminal: terminal[i].cast_unsigned(),
                kind: kind_of(&kind[i]).ok_or_else(|| columns.unknown("kind", &kind[i]))?,
                outcome: outcome_named(outcome[i].data())
                    .ok_or_else(|| columns.unknown("outcome", &outcome[i]))?,
                retries: u8::try_from(retries[i]).unwrap_or(u8::MAX),
            })
        })
        .collect()
}

pub(crate) fn outcome_named(name: &[u8]) -> Option<Outcome> {
    Outcome::ALL
        .into_iter()
        .find(|outcome| outcome.name().as_bytes() == name)
}
