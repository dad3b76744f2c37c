//! What becomes of a file whose writer failed: it ends after its last whole row group.

use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Bytes before the first row group: the magic number.
const START: u64 = 4;

/// The row groups of a file that is being written, as its footer names them.
pub(super) struct Groups {
    file: FileMetaData,
    closed: Vec<RowGroupMetaData>,
    /// Where each group that went to the file ends.
    ends: Vec<u64>,
}

impl Groups {
    /// The groups that were closed. `ends` as in [`Groups`].
    pub(super) fn of(writer: &SerializedFileWriter<File>, ends: Vec<u64>) -> Self {
        let schema = writer.schema_descr().root_schema_ptr();
        let properties = writer.properties();
        let file = FileMetaData::new(
            properties.writer_version().as_num(),
            0,
            Some(properties.created_by().to_owned()),
            properties.key_value_metadata().cloned(),
            Arc::new(SchemaDescriptor::new(schema)),
            None,
        );
        Self {
            file,
            closed: writer.flushed_row_groups().to_vec(),
            ends,
        }
    }

    /// Rows of all of them.
    pub(super) fn rows(&self) -> u64 {
        rows(&self.closed)
    }

    /// Ends the file after its last whole group, or after an earlier one where there is no room for the footer: the
    /// groups left out make room. The rows that stay readable; none if nothing can be written.
    pub(super) fn end(&self, file: &File) -> Option<u64> {
        (0..=self.ends.len()).rev().find_map(|whole| {
            let groups = self.closed.get(..whole)?;
            let end = match whole.checked_sub(1) {
                Some(last) => self.ends[last],
                None => START,
            };
            let footer = self.footer(groups).ok()?;
            file.set_len(end).ok()?;
            file.write_all_at(&footer, end).ok()?;
            file.sync_all().ok()?;
            Some(rows(groups))
        })
    }

    fn footer(&self, groups: &[RowGroupMetaData]) -> ParquetResult<Vec<u8>> {
        let metadata = ParquetMetaData::new(self.file.clone(), groups.to_vec());
        let mut footer = Vec::new();
        ParquetMetaDataWriter::new(&mut footer, &metadata).finish()?;
        Ok(footer)
    }
}

fn rows(groups: &[RowGroupMetaData]) -> u64 {
    let rows = groups.iter().map(RowGroupMetaData::num_rows);
    rows.map(i64::cast_unsigned).sum()
}
