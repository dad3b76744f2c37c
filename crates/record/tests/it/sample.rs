//! A run with something in every part of it.

use tenbin_record::Run;
use tenbin_record::transactions::{Outcome, TransactionRow};

pub(crate) const RUN: &str = include_str!("run.json");

pub(crate) fn run() -> Run {
    serde_json::from_str(RUN).unwrap()
}

pub(crate) fn kinds() -> Vec<String> {
    run()
        .workload
        .kinds
        .into_iter()
        .map(|kind| kind.name)
        .collect()
}

/// Rows that differ in every column.
pub(crate) fn rows(count: u32) -> Vec<TransactionRow> {
    let row = |i: u32| {
        let wide = u64::from(i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        TransactionRow {
            start_ns: i64::from(i) * 1_000_003 - 10_000_000_000,
            response_ns: 500_000 + wide % 50_000_000,
            wait_ns: wide % 1_000,
            terminal: i % 997,
            kind: u8::try_from(i % 5).unwrap(),
            outcome: Outcome::ALL[(wide % 6) as usize],
            retries: u8::try_from(i % 256).unwrap(),
        }
    };
    (0..count).map(row).collect()
}
