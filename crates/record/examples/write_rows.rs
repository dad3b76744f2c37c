//! What recording costs: `cargo run --release -p tenbin-record --example write_rows -- FILE [ROWS]`.
//!
//! Writes rows such as an unpaced TPC-C run makes, and prints the CPU time of the whole process
//! for each (making the rows included), bytes for each, and the largest resident memory.

use std::path::Path;
use tenbin_record::{Outcome, TransactionRow, TransactionWriter};

/// Rows handed over at a time.
const BATCH: u64 = 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("give a file to write")?;
    let rows: u64 = arguments
        .next()
        .map_or(Ok(10_000_000), |rows| rows.parse())?;
    let kinds = [
        "new_order",
        "payment",
        "order_status",
        "delivery",
        "stock_level",
    ];
    let writer = TransactionWriter::create(Path::new(&file), &kinds.map(str::to_owned))?;
    let mut batch = Vec::new();
    let mut seed = 42_u64;
    for first in (0..rows).step_by(usize::try_from(BATCH)?) {
        batch.clear();
        batch.extend((first..rows.min(first + BATCH)).map(|i| row(i, &mut seed)));
        writer.write(&batch)?;
    }
    let written = writer.finish()?.rows as f64;
    let cpu_ns = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu_ns = cpu_ns.tv_sec as f64 * 1e9 + cpu_ns.tv_nsec as f64;
    println!("{written} rows");
    println!("{:.0} ns CPU a row", cpu_ns / written);
    println!(
        "{:.1} bytes a row",
        std::fs::metadata(&file)?.len() as f64 / written
    );
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find(|line| line.starts_with("VmHWM"));
    println!("largest resident memory: {}", resident.unwrap_or("unknown"));
    Ok(())
}

/// Responses spread over several powers of ten, in about the order of their ends.
fn row(i: u64, seed: &mut u64) -> TransactionRow {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let random = *seed >> 33;
    let response_ns: u64 = 300_000 + (1 << (random % 24));
    TransactionRow {
        start_ns: (i * 50_000).cast_signed() - response_ns.cast_signed(),
        response_ns,
        wait_ns: random % 5_000,
        terminal: u32::try_from(random % 100).unwrap_or(0),
        kind: [0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4][(random % 11) as usize],
        outcome: if random.is_multiple_of(200) {
            Outcome::RolledBack
        } else {
            Outcome::Committed
        },
        retries: u8::from(random.is_multiple_of(1000)),
    }
}
