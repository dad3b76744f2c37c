//! `samples.parquet`: observations over time, long form.

use crate::RecordError;
use crate::table::{ColumnsIn, ColumnsOut, Table, TableReader, TableWriter, Written};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::Result as ParquetResult;
use std::borrow::Cow;
use std::path::Path;

/// [`SampleRow::source`] of CPU time: [`USER_S`] and [`SYSTEM_S`] by kind of process.
pub const CPU: &str = "cpu";
/// [`SampleRow::name`] of CPU time in user mode.
pub const USER_S: &str = "user_s";
/// [`SampleRow::name`] of CPU time in kernel mode.
pub const SYSTEM_S: &str = "system_s";
/// [`SampleRow::label`] of the driver's own CPU time.
pub const DRIVER: &str = "driver";
/// [`SampleRow::label`] of CPU time of the pooler between driver and server.
pub const TP_MONITOR: &str = "tp_monitor";
/// [`SampleRow::label`] of CPU time of kernel threads.
pub const KERNEL_THREADS: &str = "kernel_threads";
/// [`SampleRow::label`] of CPU time of all other programs; every label but these four is a kind of
/// server process.
pub const ELSEWHERE: &str = "elsewhere";
/// [`SampleRow::source`] of what else processes used, by kind: context switches, faults, memory.
pub const PROCESSES: &str = "processes";
/// [`SampleRow::source`] of the machine as a whole.
pub const MACHINE: &str = "machine";
/// [`SampleRow::source`] of disks, by device.
pub const DISKS: &str = "disks";
/// [`SampleRow::source`] of network interfaces.
pub const NETWORK: &str = "network";
/// [`SampleRow::source`] of [`BACKENDS`] by what they waited for, as a mean over the looks since the
/// sample before.
pub const WAITS: &str = "waits";
/// [`SampleRow::name`] of a number of backends.
pub const BACKENDS: &str = "backends";
/// [`SampleRow::source`] of system calls, by kind of process and call: `client_backend/recvfrom`; as many as were
/// counted.
pub const SYSCALLS: &str = "syscalls";
/// [`SampleRow::name`] of a number of system calls.
pub const CALLS: &str = "calls";
/// [`SampleRow::source`] of standbys' lag, by `application_name`.
pub const STANDBYS: &str = "standbys";
/// [`SampleRow::source`] of a pooler's queue: `cl_waiting` clients and `sv_active` server connections.
pub const POOLS: &str = "pools";
/// [`SampleRow::source`] of what terminals saw, by kind of transaction: `completed`, `errors` and
/// `retries` in the stretch that ends at the offset, and of its responses `p50_ms`, `p90_ms` and
/// `max_ms`. These rows follow all others.
pub const TERMINALS: &str = "terminals";
/// [`SampleRow::source`] of the position of the write-ahead log: [`LSN_BYTES`].
pub const WAL: &str = "pg_wal";
/// [`SampleRow::name`] of the growth of the write-ahead log.
pub const LSN_BYTES: &str = "lsn_bytes";

/// One value at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRow {
    /// When, seconds from the start of the measurement interval.
    pub offset_s: f64,
    /// Who says so: a view (`pg_stat_database`), `cpu` or `terminals`.
    pub source: Cow<'static, str>,
    /// What, with its unit last: `blks_read`, `user_s`. Counters are growth since the sample before.
    pub name: Cow<'static, str>,
    /// Of whom: a relation, a kind of process; none when there is one only.
    pub label: Option<Cow<'static, str>>,
    /// How much; none marks a gap: it could not be observed.
    pub value: Option<f64>,
}

pub(crate) struct Samples;

impl Table for Samples {
    type Row = SampleRow;
    const SCHEMA: &'static str = "tenbin.samples/1";
    const MESSAGE: &'static str = "message samples {
        required double offset_s;
        required binary source (STRING);
        required binary name (STRING);
        optional binary label (STRING);
        optional double value;
    }";
    const DELTA: &'static [&'static str] = &[];

    fn metadata(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode(&mut self, rows: &[SampleRow], columns: &mut ColumnsOut<'_>) -> ParquetResult<()> {
        let text = |text: &Cow<'static, str>| ByteArray::from(text.as_ref());
        columns.put_all::<DoubleType>(rows.iter().map(|row| row.offset_s))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| text(&row.source)))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| text(&row.name)))?;
        columns
            .put_optional::<ByteArrayType>(rows.iter().map(|row| row.label.as_ref().map(text)))?;
        columns.put_optional::<DoubleType>(rows.iter().map(|row| row.value))
    }
}

/// Writes `samples.parquet`, as [`crate::TransactionWriter`] writes its file.
#[derive(Debug)]
pub struct SampleWriter(TableWriter<SampleRow>);

impl SampleWriter {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        TableWriter::create(path, Samples).map(Self)
    }

    /// Hands rows to the writer's thread; blocks only when the disk is some 65,000 rows behind.
    pub fn write(&self, rows: &[SampleRow]) -> Result<(), RecordError> {
        self.0.write(rows)
    }

    /// Writes what is left, closes the file and syncs it to disk.
    pub fn finish(self) -> Result<Written, RecordError> {
        self.0.finish()
    }
}

/// Reads `samples.parquet`: an iterator over batches of at most 131,072 rows.
pub struct SampleReader {
    table: TableReader,
}

impl SampleReader {
    /// Opens the file and checks that it is whole and of this version.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        TableReader::open::<Samples>(path).map(|table| Self { table })
    }
}

impl Iterator for SampleReader {
    type Item = Result<Vec<SampleRow>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.table.next_group(decode)
    }
}

fn decode(columns: &mut ColumnsIn<'_>) -> Result<Vec<SampleRow>, RecordError> {
    let offset_s = columns.take::<DoubleType>()?;
    let source = columns.take::<ByteArrayType>()?;
    let name = columns.take::<ByteArrayType>()?;
    let label = columns.take_optional::<ByteArrayType>()?;
    let value = columns.take_optional::<DoubleType>()?;
    let text = |text: &ByteArray| {
        let text = text.as_utf8().map_err(|_| columns.unknown("text", text))?;
        Ok(Cow::Owned(text.to_owned()))
    };
    (0..columns.rows())
        .map(|i| {
            Ok(SampleRow {
                offset_s: offset_s[i],
                source: text(&source[i])?,
                name: text(&name[i])?,
                label: label[i].as_ref().map(text).transpose()?,
                value: value[i],
            })
        })
        .collect()
}
