//! Flushes beside the kernel's own count of them: a write without data is none of the writes.

use crate::attribution::trace;
use crate::{everything_on, may_trace};
use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use tenbin_disk::{Disk, run};
use tenbin_record::io::{Operation, Purpose};

#[test]
fn a_flush_is_no_write() {
    if !may_trace("a_flush_is_no_write") {
        return;
    }
    let mut disk = Disk::new(64);
    let at = disk.mount("ext4");
    // What the mount leaves to be written is in no count of this test.
    run("sync", &[]);
    let before = disk.stat();
    let (finished, rows) = trace(&everything_on(&disk.device), || {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(at.join("log"))
            .unwrap();
        file.write_all(&[1; 8192]).unwrap();
        file.sync_all().unwrap();
        for _ in 0..50 {
            file.seek(SeekFrom::Start(0)).unwrap();
            file.write_all(&[2; 8192]).unwrap();
            file.sync_data().unwrap();
        }
    });
    let kernel = disk.stat().since(before);
    let totals = &finished.totals;
    assert!(kernel.flushes >= 50, "{kernel:?}");
    assert_eq!(
        (totals.flushes, totals.writes.bytes),
        (kernel.flushes, kernel.written_bytes)
    );
    // The kernel counts whoever asks for a flush as a writer.
    assert!(totals.writes.count < kernel.writes, "{totals:?} {kernel:?}");
    let flushes = rows.iter().filter(|row| row.operation == Operation::Flush);
    assert_eq!(flushes.clone().count() as u64, totals.flushes);
    assert!(
        flushes
            .clone()
            .all(|row| (row.sector, row.bytes, row.purpose) == (0, 0, Purpose::Device))
    );
    let timed = flushes.filter(|row| row.latency_ns.is_some()).count() as u64;
    assert!(
        timed + 5 >= totals.flushes,
        "{timed} of {} are timed",
        totals.flushes
    );
    let moving = |row: &&tenbin_record::IoRow| {
        matches!(row.operation, Operation::Read | Operation::Write) && row.bytes == 0
    };
    assert_eq!(rows.iter().find(moving), None);
}
