//! `io.parquet`: one row per I/O of a block device, in the order of their issue.

use crate::RecordError;
use crate::table::{ColumnsIn, ColumnsOut, Table, TableReader, TableWriter, Written, name};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A text that many rows share.
pub type Text = Arc<str>;

/// What a request asks of the device (`enum req_op` of the kernel).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// From the device.
    Read,
    /// To the device, zone appends included.
    Write,
    /// Make what the disk holds in its cache durable; carries no data and has no place.
    Flush,
    /// Forget a stretch, secure erase included.
    Discard,
    /// Write zeroes without sending them.
    WriteZeroes,
    /// A driver's own command, or one for a zone.
    Other,
}

impl Operation {
    /// Every operation, in the order of its number.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Other,
    ];

    /// The stable name in every record: `write_zeroes`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write_zeroes",
            Self::Other => "other",
        }
    }
}

/// What the I/O was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// A table, an index or another relation of the cluster.
    Relation,
    /// The write-ahead log.
    Wal,
    /// Temporary files and temporary relations.
    Temporary,
    /// Any other file of the cluster: commit status, control file, logs.
    Cluster,
    /// The file system's own: inodes, directories, bitmaps, journal.
    Metadata,
    /// A file that is none of the cluster's.
    File,
    /// What this trace itself wrote.
    Trace,
    /// Memory on its way to or from swap space.
    Swap,
    /// The device itself: a flush, which is of all of it, or any I/O where it has no file system.
    Device,
    /// Cannot be told.
    Unknown,
}

impl Purpose {
    /// Every purpose, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::Relation,
        Self::Wal,
        Self::Temporary,
        Self::Cluster,
        Self::Metadata,
        Self::File,
        Self::Trace,
        Self::Swap,
        Self::Device,
        Self::Unknown,
    ];

    /// The stable name in every record: `metadata`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Relation => "relation",
            Self::Wal => "wal",
            Self::Temporary => "temporary",
            Self::Cluster => "cluster",
            Self::Metadata => "metadata",
            Self::File => "file",
            Self::Trace => "trace",
            Self::Swap => "swap",
            Self::Device => "device",
            Self::Unknown => "unknown",
        }
    }

    /// As it stands among the names of relations: `[metadata]`.
    #[must_use]
    pub fn bracketed(self) -> String {
        format!("[{}]", self.name())
    }
}

/// How the file of an I/O is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Evidence {
    /// The request's first page belongs to it in the page cache.
    Page,
    /// The file system says that the file's blocks lie there.
    Extent,
    /// It is not known.
    None,
}

impl Evidence {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 3] = [Self::Page, Self::Extent, Self::None];

    /// The stable name in every record: `page`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Extent => "extent",
            Self::None => "none",
        }
    }
}

/// One I/O.
#[derive(Debug, Clone, PartialEq)]
pub struct IoRow {
    /// When it was handed to the driver, nanoseconds from the start of the trace by the monotonic clock.
    pub issue_ns: i64,
    /// From issue to completion, nanoseconds; none when the trace ended first, or one of them was not seen.
    pub latency_ns: Option<u64>,
    /// Disk, as under `/sys/block`.
    pub device: Text,
    /// First sector of 512 bytes, from the start of the disk; of a flush 0.
    pub sector: u64,
    /// Length.
    pub bytes: u32,
    /// What it asks.
    pub operation: Operation,
    /// As `blkparse` writes it: `WSM` is a synchronous write of metadata.
    pub flags: Text,
    /// Whether the device answered with an error.
    pub failed: bool,
    /// Process that was running when it was issued; not always the one that wanted it.
    pub pid: u32,
    /// Kind of that process: one of `PostgreSQL`'s, `kernel`, `tenbin`, or its name.
    pub process: Text,
    /// What it was for.
    pub purpose: Purpose,
    /// How that is known.
    pub evidence: Evidence,
    /// The file, from the cluster's data directory or else from the root of its file system.
    pub file: Option<Text>,
    /// The relation: `database.schema.name`.
    pub relation: Option<Text>,
    /// Its fork: `main`, `fsm`, `vm`, `init`.
    pub fork: Option<Text>,
    /// Number of the first block in that fork, all its segments counted.
    pub block: Option<u64>,
    /// Whether a part of it belongs to another file: requests to neighbouring sectors are merged.
    pub mixed: bool,
}

impl IoRow {
    /// First sector behind it; none beyond the largest number.
    #[must_use]
    pub fn end_sector(&self) -> Option<u64> {
        self.sector.checked_add(u64::from(self.bytes.div_ceil(512)))
    }
}

/// Texts as the file wants them, made once each.
pub(crate) struct Ios {
    texts: HashMap<Text, ByteArray>,
}

/// Texts remembered before all are forgotten: more than a trace has files and processes, as a rule.
const TEXTS_MAX: usize = 65_536;

impl Ios {
    fn new() -> Self {
        Self {
            texts: HashMap::new(),
        }
    }

    fn text(&mut self, text: &Text) -> ByteArray {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= TEXTS_MAX {
            self.texts.clear();
        }
        let made = ByteArray::from(text.as_ref());
        self.texts.insert(Text::clone(text), made.clone());
        made
    }

    fn texts(
        &mut self,
        rows: &[IoRow],
        columns: &mut ColumnsOut<'_>,
        pick: fn(&IoRow) -> &Text,
    ) -> ParquetResult<()> {
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| self.text(pick(row))))
    }

    fn optional(
        &mut self,
        rows: &[IoRow],
        columns: &mut ColumnsOut<'_>,
        pick: fn(&IoRow) -> Option<&Text>,
    ) -> ParquetResult<()> {
        let text = |row| pick(row).map(|text| self.text(text));
        columns.put_optional::<ByteArrayType>(rows.iter().map(text))
    }
}

impl Table for Ios {
    type Row = IoRow;
    const SCHEMA: &'static str = "tenbin.io/1";
    const MESSAGE: &'static str = "message io {
        required int64 issue_ns;
        optional int64 latency_ns;
        required binary device (STRING);
        required int64 sector (INTEGER(64, false));
        required int32 bytes (INTEGER(32, false));
        required binary operation (STRING);
        required binary flags (STRING);
        required boolean failed;
        required int32 pid (INTEGER(32, false));
        required binary process (STRING);
        required binary purpose (STRING);
        required binary evidence (STRING);
        optional binary file (STRING);
        optional binary relation (STRING);
        optional binary fork (STRING);
        optional int64 block (INTEGER(64, false));
        required boolean mixed;
    }";
    const DELTA: &'static [&'static str] = &["issue_ns", "latency_ns", "sector", "block"];

    fn metadata(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode(&mut self, rows: &[IoRow], columns: &mut ColumnsOut<'_>) -> ParquetResult<()> {
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.issue_ns))?;
        let latency = |row: &IoRow| row.latency_ns.map(u64::cast_signed);
        columns.put_optional::<Int64Type>(rows.iter().map(latency))?;
        self.texts(rows, columns, |row| &row.device)?;
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.sector.cast_signed()))?;
        columns.put_all::<Int32Type>(rows.iter().map(|row| row.bytes.cast_signed()))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| name(row.operation.name())))?;
        self.texts(rows, columns, |row| &row.flags)?;
        columns.put_all::<BoolType>(rows.iter().map(|row| row.failed))?;
        columns.put_all::<Int32Type>(rows.iter().map(|row| row.pid.cast_signed()))?;
        self.texts(rows, columns, |row| &row.process)?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| name(row.purpose.name())))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| name(row.evidence.name())))?;
        self.optional(rows, columns, |row| row.file.as_ref())?;
        self.optional(rows, columns, |row| row.relation.as_ref())?;
        self.optional(rows, columns, |row| row.fork.as_ref())?;
        let block = |row: &IoRow| row.block.map(u64::cast_signed);
        columns.put_optional::<Int64Type>(rows.iter().map(block))?;
        columns.put_all::<BoolType>(rows.iter().map(|row| row.mixed))
    }
}

/// Writes `io.parquet`, as [`crate::TransactionWriter`] writes its file.
#[derive(Debug)]
pub struct IoWriter(TableWriter<IoRow>);

impl IoWriter {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        TableWriter::create(path, Ios::new()).map(Self)
    }

    /// Hands rows to the writer's thread; blocks only when the disk is some 65,000 rows behind.
    pub fn write(&self, rows: &[IoRow]) -> Result<(), RecordError> {
        self.0.write(rows)
    }

    /// Writes what is left, closes the file and syncs it to disk.
    pub fn finish(self) -> Result<Written, RecordError> {
        self.0.finish()
    }
}

/// Reads `io.parquet`: an iterator over batches of at most 131,072 rows, in the order of issue.
pub struct IoReader {
    table: TableReader,
    texts: HashMap<Vec<u8>, Text>,
}

impl IoReader {
    /// Opens the file and checks that it is whole and of this version.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let table = TableReader::open::<Ios>(path)?;
        let texts = HashMap::new();
        Ok(Self { table, texts })
    }
}

impl Iterator for IoReader {
    type Item = Result<Vec<IoRow>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { table, texts } = self;
        table.next_group(|columns| decode(columns, texts))
    }
}

/// One shared text for equal bytes.
fn shared(
    texts: &mut HashMap<Vec<u8>, Text>,
    columns: &ColumnsIn<'_>,
    bytes: &ByteArray,
) -> Result<Text, RecordError> {
    if let Some(known) = texts.get(bytes.data()) {
        return Ok(Text::clone(known));
    }
    let text = bytes
        .as_utf8()
        .map_err(|_| columns.unknown("text", bytes))?;
    if texts.len() >= TEXTS_MAX {
        texts.clear();
    }
    let text = Text::from(text);
    texts.insert(bytes.data().to_vec(), Text::clone(&text));
    Ok(text)
}

fn named<T: Copy>(
    all: &[T],
    name: fn(T) -> &'static str,
    what: &str,
    columns: &ColumnsIn<'_>,
    bytes: &ByteArray,
) -> Result<T, RecordError> {
    let found = all
        .iter()
        .find(|one| name(**one).as_bytes() == bytes.data());
    found.copied().ok_or_else(|| columns.unknown(what, bytes))
}

fn decode(
    columns: &mut ColumnsIn<'_>,
    texts: &mut HashMap<Vec<u8>, Text>,
) -> Result<Vec<IoRow>, RecordError> {
    let issue = columns.take::<Int64Type>()?;
    let latency = columns.take_optional::<Int64Type>()?;
    let device = columns.take::<ByteArrayType>()?;
    let sector = columns.take::<Int64Type>()?;
    let bytes = columns.take::<Int32Type>()?;
    let operation = columns.take::<ByteArrayType>()?;
    let flags = columns.take::<ByteArrayType>()?;
    let failed = columns.take::<BoolType>()?;
    let pid = columns.take::<Int32Type>()?;
    let process = columns.take::<ByteArrayType>()?;
    let purpose = columns.take::<ByteArrayType>()?;
    let evidence = columns.take::<ByteArrayType>()?;
    let file = columns.take_optional::<ByteArrayType>()?;
    let relation = columns.take_optional::<ByteArrayType>()?;
    let fork = columns.take_optional::<ByteArrayType>()?;
    let block = columns.take_optional::<Int64Type>()?;
    let mixed = columns.take::<BoolType>()?;
    let columns = &*columns;
    let mut text = |bytes: &ByteArray| shared(texts, columns, bytes);
    (0..columns.rows())
        .map(|i| {
            Ok(IoRow {
                issue_ns: issue[i],
                latency_ns: latency[i].map(i64::cast_unsigned),
                device: text(&device[i])?,
                sector: sector[i].cast_unsigned(),
                bytes: bytes[i].cast_unsigned(),
                operation: named(
                    &Operation::ALL,
                    Operation::name,
                    "operation",
                    columns,
                    &operation[i],
                )?,
                flags: text(&flags[i])?,
                failed: failed[i],
                pid: pid[i].cast_unsigned(),
                process: text(&process[i])?,
                purpose: named(
                    &Purpose::ALL,
                    Purpose::name,
                    "purpose",
                    columns,
                    &purpose[i],
                )?,
                evidence: named(
                    &Evidence::ALL,
                    Evidence::name,
                    "evidence",
                    columns,
                    &evidence[i],
                )?,
                file: file[i].as_ref().map(&mut text).transpose()?,
                relation: relation[i].as_ref().map(&mut text).transpose()?,
                fork: fork[i].as_ref().map(&mut text).transpose()?,
                block: block[i].map(i64::cast_unsigned),
                mixed: mixed[i],
            })
        })
        .collect()
}
