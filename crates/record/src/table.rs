//! Parquet files of plain rows: a writer with its own thread and flat memory, and a reader.

mod rescue;

use crate::RecordError;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use rescue::Groups;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Rows of one row group: the rows a writer keeps in memory.
pub(crate) const GROUP_ROWS: usize = 16_384;
/// Rows of one message to the writer's thread.
const CHUNK_ROWS: usize = 4_096;
/// Values of a column that are handed over at a time.
const BATCH_ROWS: usize = 1_024;
/// Messages that may wait for the writer's thread.
const QUEUED_CHUNKS: usize = 16;
/// Key of the file's metadata that names its schema.
const SCHEMA_KEY: &str = "tenbin.schema";

/// A kind of file: its schema and how rows become columns and columns rows.
pub(crate) trait Table: Send + 'static {
    type Row: Copyable;
    /// Versioned name kept in the file.
    const SCHEMA: &'static str;
    /// Parquet message type.
    const MESSAGE: &'static str;
    /// Columns whose values are better delta-coded than looked up in a dictionary.
    const DELTA: &'static [&'static str];
    /// Whether compressing is worth its CPU.
    const COMPRESSED: bool = true;
    /// Further metadata of the file.
    fn metadata(&self) -> Vec<(&'static str, String)>;
    /// Writes one row group, every column in the order of the schema.
    fn encode(&mut self, rows: &[Self::Row], columns: &mut ColumnsOut<'_>) -> ParquetResult<()>;
}

/// What rows must allow to be handed to another thread.
pub(crate) trait Copyable: Clone + Send + 'static {}
impl<T: Clone + Send + 'static> Copyable for T {}

/// The columns of one row group being written.
pub(crate) struct ColumnsOut<'a> {
    group: SerializedRowGroupWriter<'a, File>,
}

impl ColumnsOut<'_> {
    /// Writes the next column, every row of which has a value.
    pub(crate) fn put_all<T: DataType>(
        &mut self,
        mut values: impl Iterator<Item = T::T>,
    ) -> ParquetResult<()> {
        self.put::<T>(
            |batch, _| batch.extend(values.by_ref().take(BATCH_ROWS)),
            false,
        )
    }

    /// Writes the next column, which is optional.
    pub(crate) fn put_optional<T: DataType>(
        &mut self,
        mut values: impl Iterator<Item = Option<T::T>>,
    ) -> ParquetResult<()> {
        let fill = |batch: &mut Vec<T::T>, present: &mut Vec<i16>| {
            for value in values.by_ref().take(BATCH_ROWS) {
                present.push(i16::from(value.is_some()));
                batch.extend(value);
            }
        };
        self.put::<T>(fill, true)
    }

    /// Writes the next column in batches that stay in the processor's cache, which the server under
    /// test wants, too. `fill` adds the next values, and which rows have one when that is asked.
    fn put<T: DataType>(
        &mut self,
        mut fill: impl FnMut(&mut Vec<T::T>, &mut Vec<i16>),
        optional: bool,
    ) -> ParquetResult<()> {
        let mut column = self
            .group
            .next_column()?
            .ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
        let (mut batch, mut present) = (Vec::with_capacity(BATCH_ROWS), Vec::new());
        loop {
            fill(&mut batch, &mut present);
            if batch.is_empty() && present.is_empty() {
                return column.close();
            }
            let levels = optional.then_some(present.as_slice());
            column.typed::<T>().write_batch(&batch, levels, None)?;
            batch.clear();
            present.clear();
        }
    }
}

/// A name of the program's own as a value of a column.
pub(crate) fn name(name: &'static str) -> ByteArray {
    ByteArray::from(Bytes::from_static(name.as_bytes()))
}

/// What a writer wrote, and what that took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Written {
    /// Rows in the file.
    pub rows: u64,
    /// CPU of the writer's thread, seconds.
    pub cpu_s: f64,
}

/// Writes one file on its own thread. `Sync`: threads may share it by reference.
#[derive(Debug)]
pub(crate) struct TableWriter<R> {
    path: PathBuf,
    sender: SyncSender<Vec<R>>,
    thread: JoinHandle<Result<Written, RecordError>>,
}

impl<R: Copyable> TableWriter<R> {
    pub(crate) fn create<T: Table<Row = R>>(path: &Path, table: T) -> Result<Self, RecordError> {
        let file = File::create_new(path).map_err(RecordError::io("create", path))?;
        Self::start(file, path, table)
    }

    fn start<T: Table<Row = R>>(file: File, path: &Path, table: T) -> Result<Self, RecordError> {
        let same = file
            .try_clone()
            .map_err(RecordError::io("write to", path))?;
        let writer = open_writer(same, &table).map_err(at(path))?;
        let (sender, receiver) = sync_channel(QUEUED_CHUNKS);
        let owned = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("tenbin-record".into())
            .spawn(move || write_all(&file, writer, table, &receiver, &owned))
            .map_err(RecordError::io("start a thread to write", path))?;
        Ok(Self {
            path: path.to_owned(),
            sender,
            thread,
        })
    }

    pub(crate) fn write(&self, rows: &[R]) -> Result<(), RecordError> {
        rows.chunks(CHUNK_ROWS).try_for_each(|chunk| {
            self.sender
                .send(chunk.to_vec())
                .map_err(|_| RecordError::Stopped {
                    path: self.path.clone(),
                })
        })
    }

    pub(crate) fn finish(self) -> Result<Written, RecordError> {
        drop(self.sender);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(RecordError::corrupt(&self.path, "its writer panicked")))
    }
}

fn open_writer<T: Table>(file: File, table: &T) -> ParquetResult<SerializedFileWriter<File>> {
    let schema = Arc::new(parse_message_type(T::MESSAGE)?);
    let mut metadata = vec![KeyValue::new(SCHEMA_KEY.into(), T::SCHEMA.to_string())];
    metadata.extend(
        table
            .metadata()
            .into_iter()
            .map(|(k, v)| KeyValue::new(k.into(), v)),
    );
    let compression = if T::COMPRESSED {
        Compression::ZSTD(ZstdLevel::try_new(1)?)
    } else {
        Compression::UNCOMPRESSED
    };
    let builder = WriterProperties::builder()
        .set_created_by(format!("tenbin {}", env!("CARGO_PKG_VERSION")))
        .set_compression(compression)
        // Of texts looked up in a dictionary the least and the greatest tell a reader nothing, and
        // finding them took a fifth of the CPU of writing.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata));
    let delta = |builder: WriterPropertiesBuilder, column: &&str| {
        builder
            .set_column_dictionary_enabled((*column).into(), false)
            .set_column_encoding((*column).into(), Encoding::DELTA_BINARY_PACKED)
            .set_column_statistics_enabled((*column).into(), EnabledStatistics::Chunk)
    };
    let properties = T::DELTA.iter().fold(builder, delta).build();
    SerializedFileWriter::new(file, schema, Arc::new(properties))
}

/// Writes rows until every sender is gone. If that fails, the row groups before stay readable.
fn write_all<T: Table>(
    file: &File,
    mut writer: SerializedFileWriter<File>,
    mut table: T,
    receiver: &Receiver<Vec<T::Row>>,
    path: &Path,
) -> Result<Written, RecordError> {
    let mut ends = Vec::new();
    let collected = collect(&mut writer, &mut table, receiver, &mut ends);
    let groups = Groups::of(&writer, ends);
    let closed = collected.and_then(|()| {
        writer.finish()?;
        Ok(file.sync_all()?)
    });
    // What it still holds goes to the file now, behind what is kept.
    drop(writer);
    let Err(error) = closed else {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        return Ok(Written {
            rows: groups.rows(),
            cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        });
    };
    Err(match (at(path)(error), groups.end(file)) {
        (RecordError::Io { source, path, .. }, Some(rows)) => {
            RecordError::CutShort { path, rows, source }
        }
        (error, _) => error,
    })
}

/// Collects rows into row groups. `ends`: see [`Groups`].
fn collect<T: Table>(
    writer: &mut SerializedFileWriter<File>,
    table: &mut T,
    receiver: &Receiver<Vec<T::Row>>,
    ends: &mut Vec<u64>,
) -> ParquetResult<()> {
    let mut rows: Vec<T::Row> = Vec::new();
    let mut flush = |rows: &mut Vec<T::Row>| {
        write_group(writer, table, rows)?;
        writer.flush()?;
        ends.push(writer.bytes_written() as u64);
        rows.clear();
        Ok::<(), ParquetError>(())
    };
    for chunk in receiver {
        if rows.len() + chunk.len() > GROUP_ROWS {
            flush(&mut rows)?;
        }
        rows.extend(chunk);
    }
    if rows.is_empty() {
        Ok(())
    } else {
        flush(&mut rows)
    }
}

fn write_group<T: Table>(
    writer: &mut SerializedFileWriter<File>,
    table: &mut T,
    rows: &[T::Row],
) -> ParquetResult<()> {
    let group = writer.next_row_group()?;
    let mut columns = ColumnsOut { group };
    table.encode(rows, &mut columns)?;
    columns.group.close()?;
    Ok(())
}

/// Reads one file, a row group at a time.
pub(crate) struct TableReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    /// The row group to be read next.
    next: usize,
}

impl TableReader {
    pub(crate) fn open<T: Table>(path: &Path) -> Result<Self, RecordError> {
        let file = File::open(path).map_err(RecordError::io("open", path))?;
        let file = guarded(path, || SerializedFileReader::new(file).map_err(at(path)))?;
        let reader = Self {
            path: path.to_owned(),
            file,
            next: 0,
        };
        let found = reader.metadata(SCHEMA_KEY).unwrap_or("no tenbin schema");
        if found != T::SCHEMA {
            return Err(RecordError::Version {
                path: path.to_owned(),
                found: found.into(),
                wanted: T::SCHEMA,
            });
        }
        let wanted = parse_message_type(T::MESSAGE).map_err(at(path))?;
        if reader.file.metadata().file_metadata().schema() != &wanted {
            return Err(RecordError::corrupt(
                path,
                "its columns are not those of its schema",
            ));
        }
        Ok(reader)
    }

    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        let pairs = self.file.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Decodes the next row group; none behind the last, and none behind an error.
    pub(crate) fn next_group<R>(
        &mut self,
        decode: impl FnOnce(&mut ColumnsIn<'_>) -> Result<Vec<R>, RecordError>,
    ) -> Option<Result<Vec<R>, RecordError>> {
        if self.next == self.file.num_row_groups() {
            return None;
        }
        let rows = guarded(&self.path, || {
            self.group(self.next)
                .and_then(|mut columns| decode(&mut columns))
        });
        self.next = if rows.is_ok() {
            self.next + 1
        } else {
            self.file.num_row_groups()
        };
        Some(rows)
    }

    fn group(&self, index: usize) -> Result<ColumnsIn<'_>, RecordError> {
        let group = self.file.get_row_group(index).map_err(at(&self.path))?;
        let rows = usize::try_from(group.metadata().num_rows())
            .map_err(|_| RecordError::corrupt(&self.path, "a negative number of rows"))?;
        Ok(ColumnsIn {
            path: &self.path,
            group,
            rows,
            next: 0,
        })
    }
}

/// The columns of one row group being read.
pub(crate) struct ColumnsIn<'a> {
    path: &'a Path,
    group: Box<dyn RowGroupReader + 'a>,
    rows: usize,
    next: usize,
}

impl ColumnsIn<'_> {
    /// Rows of the group.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The next column, every row of which has a value.
    pub(crate) fn take<T: DataType>(&mut self) -> Result<Vec<T::T>, RecordError> {
        let (values, _) = self.read::<T>(false)?;
        if values.len() == self.rows {
            return Ok(values);
        }
        Err(self.short(values.len()))
    }

    /// The next column, which is optional.
    pub(crate) fn take_optional<T: DataType>(&mut self) -> Result<Vec<Option<T::T>>, RecordError> {
        let (values, present) = self.read::<T>(true)?;
        let wanted = present.iter().filter(|p| **p == 1).count();
        if present.len() != self.rows || wanted != values.len() {
            return Err(self.short(present.len()));
        }
        let mut values = values.into_iter();
        Ok(present
            .iter()
            .map(|p| if *p == 1 { values.next() } else { None })
            .collect())
    }

    fn read<T: DataType>(&mut self, optional: bool) -> Result<(Vec<T::T>, Vec<i16>), RecordError> {
        let (mut values, mut present) = (Vec::new(), Vec::new());
        let column = self
            .group
            .get_column_reader(self.next)
            .map_err(at(self.path))?;
        self.next += 1;
        let mut column = get_typed_column_reader::<T>(column);
        // One more row than the group claims to have, so that a longer column shows itself.
        let mut left = self.rows + 1;
        while left > 0 {
            let levels = optional.then_some(&mut present);
            let (read, _, _) = column
                .read_records(left, levels, None, &mut values)
                .map_err(at(self.path))?;
            if read == 0 {
                break;
            }
            left -= read;
        }
        Ok((values, present))
    }

    /// A value that its column may not have.
    pub(crate) fn unknown(&self, what: &str, value: &ByteArray) -> RecordError {
        let reason = format!("unknown {what} {:?}", String::from_utf8_lossy(value.data()));
        RecordError::corrupt(self.path, &reason)
    }

    fn short(&self, found: usize) -> RecordError {
        let reason = format!(
            "column {} has {found} rows, its row group {}",
            self.next - 1,
            self.rows
        );
        RecordError::corrupt(self.path, &reason)
    }
}

/// The decoders of the `parquet` crate panic on some damaged pages (seen in 60.1: a shift by more
/// than the width in `BitReader::get_vlq_int`); to a reader of ours that is a damaged file.
fn guarded<R>(
    path: &Path,
    read: impl FnOnce() -> Result<R, RecordError>,
) -> Result<R, RecordError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(RecordError::corrupt(path, "its pages cannot be decoded")))
}

/// Tells an error of the file system from damaged contents.
fn at(path: &Path) -> impl Fn(ParquetError) -> RecordError {
    let path = path.to_owned();
    move |error| match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => RecordError::Io {
                action: "use",
                path: path.clone(),
                source: *source,
            },
            Err(other) => RecordError::corrupt(&path, &other),
        },
        other => RecordError::corrupt(&path, &other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{SampleRow, Samples};

    #[test]
    fn a_full_disk_is_an_error_with_its_mend() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let writer = TableWriter::start(file, Path::new("/dev/full"), Samples).unwrap();
        let row = SampleRow {
            offset_s: 0.0,
            source: "cpu".into(),
            name: "user_s".into(),
            label: None,
            value: Some(1.0),
        };
        writer.write(&[row]).unwrap();
        let error = writer.finish().unwrap_err().to_string();
        assert!(
            error.contains("No space left") && error.contains("make room"),
            "{error}"
        );
    }
}
