//! `deliveries.parquet`: the result log of deferred TPC-C Deliveries (clause 2.7.2.2), one row per district.

use crate::RecordError;
use crate::table::{ColumnsIn, ColumnsOut, Table, TableReader, TableWriter, Written, name};
use crate::transactions::{Outcome, outcome_named};
use parquet::data_type::{ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use std::path::Path;

/// One district of one Delivery; a Delivery that ended in an error has one row without a district.
/// Times are nanoseconds from the start of the measurement interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryRow {
    /// Terminal that asked for it, from 0.
    pub terminal: u32,
    /// `W_ID`.
    pub warehouse: i32,
    /// `O_CARRIER_ID`.
    pub carrier: i32,
    /// `D_ID`.
    pub district: Option<i32>,
    /// `O_ID` of the order delivered; none when the district had no open order and was skipped.
    pub order: Option<i32>,
    /// When the queue accepted it.
    pub queued_ns: i64,
    /// When its execution began.
    pub started_ns: i64,
    /// When its last reply came.
    pub completed_ns: i64,
    /// How it ended.
    pub outcome: Outcome,
}

pub(crate) struct Deliveries;

impl Table for Deliveries {
    type Row = DeliveryRow;
    const SCHEMA: &'static str = "tenbin.deliveries/1";
    const MESSAGE: &'static str = "message deliveries {
        required int32 terminal (INTEGER(32, false));
        required int32 warehouse;
        required int32 carrier;
        optional int32 district;
        optional int32 order_id;
        required int64 queued_ns;
        required int64 started_ns;
        required int64 completed_ns;
        required binary outcome (STRING);
    }";
    // All but the outcome: ten rows in a row differ in district and order only.
    const DELTA: &'static [&'static str] = &[
        "terminal",
        "warehouse",
        "carrier",
        "district",
        "order_id",
        "queued_ns",
        "started_ns",
        "completed_ns",
    ];
    const COMPRESSED: bool = false;

    fn metadata(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode(&mut self, rows: &[DeliveryRow], columns: &mut ColumnsOut<'_>) -> ParquetResult<()> {
        columns.put_all::<Int32Type>(rows.iter().map(|row| row.terminal.cast_signed()))?;
        columns.put_all::<Int32Type>(rows.iter().map(|row| row.warehouse))?;
        columns.put_all::<Int32Type>(rows.iter().map(|row| row.carrier))?;
        columns.put_optional::<Int32Type>(rows.iter().map(|row| row.district))?;
        columns.put_optional::<Int32Type>(rows.iter().map(|row| row.order))?;
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.queued_ns))?;
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.started_ns))?;
        columns.put_all::<Int64Type>(rows.iter().map(|row| row.completed_ns))?;
        columns.put_all::<ByteArrayType>(rows.iter().map(|row| name(row.outcome.name())))
    }
}

/// Writes `deliveries.parquet`, as [`crate::TransactionWriter`] writes its file.
#[derive(Debug)]
pub struct DeliveryWriter(TableWriter<DeliveryRow>);

impl DeliveryWriter {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        TableWriter::create(path, Deliveries).map(Self)
    }

    /// Hands rows to the writer's thread; blocks only when the disk is some 65,000 rows behind.
    pub fn write(&self, rows: &[DeliveryRow]) -> Result<(), RecordError> {
        self.0.write(rows)
    }

    /// Writes what is left, closes the file and syncs it to disk.
    pub fn finish(self) -> Result<Written, RecordError> {
        self.0.finish()
    }
}

/// Reads `deliveries.parquet`: an iterator over batches of at most 131,072 rows.
pub struct DeliveryReader {
    table: TableReader,
}

impl DeliveryReader {
    /// Opens the file and checks that it is whole and of this version.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        TableReader::open::<Deliveries>(path).map(|table| Self { table })
    }
}

impl Iterator for DeliveryReader {
    type Item = Result<Vec<DeliveryRow>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.table.next_group(decode)
    }
}

fn decode(columns: &mut ColumnsIn<'_>) -> Result<Vec<DeliveryRow>, RecordError> {
    let terminal = columns.take::<Int32Type>()?;
    let warehouse = columns.take::<Int32Type>()?;
    let carrier = columns.take::<Int32Type>()?;
    let district = columns.take_optional::<Int32Type>()?;
    let order = columns.take_optional::<Int32Type>()?;
    let queued_ns = columns.take::<Int64Type>()?;
    let started_ns = columns.take::<Int64Type>()?;
    let completed_ns = columns.take::<Int64Type>()?;
    let outcome = columns.take::<ByteArrayType>()?;
    (0..columns.rows())
        .map(|i| {
            Ok(DeliveryRow {
                terminal: terminal[i].cast_unsigned(),
                warehouse: warehouse[i],
                carrier: carrier[i],
                district: district[i],
                order: order[i],
                queued_ns: queued_ns[i],
                started_ns: started_ns[i],
                completed_ns: completed_ns[i],
                outcome: outcome_named(outcome[i].data())
                    .ok_or_else(|| columns.unknown("outcome", &outcome[i]))?,
            })
        })
        .collect()
}
