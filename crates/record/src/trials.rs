//! `trials.parquet`: the trials of a weighing, one figure a row.

use crate::RecordError;
use crate::table::{ColumnsIn, ColumnsOut, Table, TableReader, TableWriter, Written};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
use parquet::errors::Result as ParquetResult;
use std::path::Path;

/// One figure of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRow {
    /// Name of the side.
    pub side: String,
    /// Its round, from 1.
    pub round: u32,
    /// The trial's run directory.
    pub directory: String,
    /// Stable name of the figure: `throughput`, `response_ms.new_order.p90`.
    pub measure: String,
    /// Its unit.
    pub unit: String,
    /// Its value.
    pub value: f64,
}

pub(crate) struct Trials;

impl Table for Trials {
    type Row = TrialRow;
    const SCHEMA: &'static str = "tenbin.trials/1";
    const MESSAGE: &'static str = "message trials {
        required binary side (STRING);
        required int32 round (INTEGER(32, false));
        required binary directory (STRING);
        required binary measure (STRING);
        required binary unit (STRING);
        required double value;
    }";
    const DELTA: &'static [&'static str] = &[];

    fn metadata(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode(&mut self, rows: &[TrialRow], columns: &mut ColumnsOut<'_>) -> ParquetResult<()> {
        let text = |text: &String| ByteArray::from(text.as_str());
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| text(&row.side)))?;
        columns.put_all::<Int32Type>(rows.iter().map(|row| row.round.cast_signed()))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| text(&row.directory)))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| text(&row.measure)))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| text(&row.unit)))?;
        columns.put_all::<DoubleType>(rows.iter().map(|row| row.value))
    }
}

/// Writes `trials.parquet` in one go.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, rows: &[TrialRow]) -> Result<Written, RecordError> {
    let writer = TableWriter::create(path, Trials)?;
    writer.write(rows)?;
    writer.finish()
}

/// Reads `trials.parquet`.
///
/// # Errors
/// When the file is missing, damaged or of another version.
pub fn read(path: &Path) -> Result<Vec<TrialRow>, RecordError> {
    let mut table = TableReader::open::<Trials>(path)?;
    let mut rows = Vec::new();
    while let Some(group) = table.next_group(decode) {
        rows.extend(group?);
    }
    Ok(rows)
}

fn decode(columns: &mut ColumnsIn<'_>) -> Result<Vec<TrialRow>, RecordError> {
    let side = columns.take::<ByteArrayType>()?;
    let round = columns.take::<Int32Type>()?;
    let directory = columns.take::<ByteArrayType>()?;
    let measure = columns.take::<ByteArrayType>()?;
    let unit = columns.take::<ByteArrayType>()?;
    let value = columns.take::<DoubleType>()?;
    let text = |text: &ByteArray| {
        let text = text.as_utf8().map_err(|_| columns.unknown("text", text))?;
        Ok::<_, RecordError>(text.to_owned())
    };
    (0..columns.rows())
        .map(|i| {
            Ok(TrialRow {
                side: text(&side[i])?,
                round: round[i].cast_unsigned(),
                directory: text(&directory[i])?,
                measure: text(&measure[i])?,
                unit: text(&unit[i])?,
                value: value[i],
            })
        })
        .collect()
}
