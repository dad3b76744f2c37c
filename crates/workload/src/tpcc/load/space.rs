//! How much disk a load takes.

use crate::tpcc::schema::Table;

/// Bytes of heap and of indexes that one unit of a table takes, measured on
/// `PostgreSQL` 15 with 8 KiB pages (`pg_table_size` and `pg_indexes_size` of
/// 20 warehouses, per warehouse).
#[must_use]
pub(super) fn unit_bytes(table: Table) -> (u64, u64) {
    match table {
        Table::Warehouse => (820, 820),
        Table::District => (2_050, 820),
        Table::Item => (10_700_000, 2_300_000),
        Table::Customer => (18_500_000, 2_600_000),
        Table::History => (2_400_000, 0),
        Table::Orders => (1_800_000, 1_900_000),
        Table::NewOrder => (400_000, 290_000),
        Table::OrderLine => (27_900_000, 9_500_000),
        Table::Stock => (35_500_000, 2_250_000),
    }
}

/// Bytes of disk that loading `warehouses` warehouses takes at its peak: tables
/// and indexes, a tenth for sorting and for free space maps, and the
/// write-ahead log, which checkpoints keep from growing far beyond
/// `max_wal_bytes` (the server's `max_wal_size`).
#[must_use]
pub fn required_bytes(warehouses: u32, max_wal_bytes: u64) -> u64 {
    let unit: u64 = Table::ALL
        .into_iter()
        .filter(|&table| table != Table::Item)
        .map(|table| {
            let (heap, index) = unit_bytes(table);
            heap + index
        })
        .sum();
    let (item_heap, item_index) = unit_bytes(Table::Item);
    let data = item_heap + item_index + unit * u64::from(warehouses);
    let log = data.min(max_wal_bytes);
    data + data / 10 + log
}

/// The most warehouses that fit into `available_bytes`.
#[must_use]
pub(super) fn fitting(available_bytes: u64, max_wal_bytes: u64) -> u32 {
    let (mut fits, mut exceeds) = (0, u32::MAX);
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if required_bytes(middle, max_wal_bytes) <= available_bytes {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_fits_and_one_more_does_not() {
        for available in [1 << 30, 20 << 30, 3 << 40] {
            let fits = fitting(available, 1 << 30);
            assert!(required_bytes(fits, 1 << 30) <= available);
            assert!(required_bytes(fits + 1, 1 << 30) > available);
            assert!(fitting(available, 8 << 30) <= fits);
        }
        assert_eq!(fitting(1 << 20, 1 << 30), 0);
    }
}
