//! Counts and bytes beside the kernel's own, and losses to the last one.

use crate::{everything_on, may_trace};
use std::collections::BTreeSet;
use std::time::Duration;
use tempfile::TempDir;
use tenbin_disk::{Disk, Stat, run};
use tenbin_iotrace::{Finished, Options, Recorder};
use tenbin_record::{IoReader, RunWriter};

/// Traces while `work` runs on another thread; `reading` says whether the ring is read meanwhile.
pub(crate) fn trace(
    options: &Options,
    reading: bool,
    work: impl FnOnce() + Send,
) -> (Finished, TempDir) {
    let folder = TempDir::new().unwrap();
    let directory = RunWriter::create(&folder.path().join("t")).unwrap();
    let mut recorder =
        Recorder::start(options, &directory).unwrap_or_else(|error| panic!("{error:?}"));
    std::thread::scope(|scope| {
        let work = scope.spawn(work);
        while reading && !work.is_finished() {
            recorder.step(Duration::from_millis(20)).unwrap();
        }
        work.join().unwrap();
    });
    (recorder.finish().unwrap(), folder)
}

fn rows(folder: &TempDir) -> Vec<tenbin_record::IoRow> {
    let file = folder.path().join("t.partial/io.parquet");
    IoReader::open(&file)
        .unwrap()
        .flat_map(Result::unwrap)
        .collect()
}

/// Reads and writes past the page cache: one request each, of a size that is not split.
fn direct_io(device: &str, count: u32) {
    let (of, count) = (format!("of={device}"), format!("count={count}"));
    run(
        "dd",
        &[
            "if=/dev/zero",
            &of,
            "bs=4k",
            &count,
            "oflag=direct",
            "status=none",
        ],
    );
    let from = format!("if={device}");
    run(
        "dd",
        &[
            &from,
            "of=/dev/null",
            "bs=4k",
            &count,
            "iflag=direct",
            "status=none",
        ],
    );
}

fn seen(finished: &Finished) -> Stat {
    let totals = &finished.totals;
    Stat {
        reads: totals.reads.count,
        read_bytes: totals.reads.bytes,
        writes: totals.writes.count,
        written_bytes: totals.writes.bytes,
        flushes: totals.flushes,
    }
}

#[test]
fn counts_and_bytes_are_those_of_the_kernel() {
    if !may_trace("counts_and_bytes_are_those_of_the_kernel") {
        return;
    }
    let disk = Disk::new(64);
    let before = disk.stat();
    let (finished, folder) = trace(&everything_on(&disk.device), true, || {
        direct_io(&disk.device, 3000);
    });
    let after = disk.stat().since(before);
    assert_eq!(seen(&finished), after);
    assert!(after.reads >= 3000 && after.writes == 3000, "{after:?}");
    assert_eq!(
        (
            finished.totals.lost,
            finished.totals.in_flight,
            finished.disordered
        ),
        (0, 0, 0)
    );
    let rows = rows(&folder);
    assert_eq!(rows.len() as u64, finished.totals.events);
    assert!(
        rows.is_sorted_by_key(|row| row.issue_ns),
        "rows stand in the order of issue"
    );
    let untimed = rows.iter().filter(|row| row.latency_ns.is_none()).count();
    assert_eq!(untimed as u64, finished.totals.untimed);
    assert!(
        untimed < 10 && rows.iter().all(|row| !row.failed),
        "{untimed} without latency"
    );
    let processes: BTreeSet<&str> = rows.iter().map(|row| &*row.process).collect();
    assert!(processes.contains("dd"), "{processes:?}");
    // dd goes from the first block to the last: nothing is between one and the next.
    let writes = finished.totals.writes;
    assert_eq!((writes.sequential, writes.seek_sectors), (2999, 0));
}

#[test]
fn a_starved_reader_tells_exactly_what_it_lost() {
    if !may_trace("a_starved_reader_tells_exactly_what_it_lost") {
        return;
    }
    let disk = Disk::new(64);
    let options = Options {
        ring_bytes: tenbin_iotrace::RING_BYTES_MIN,
        ..everything_on(&disk.device)
    };
    let before = disk.stat();
    let (finished, _folder) = trace(&options, false, || direct_io(&disk.device, 1000));
    let after = disk.stat().since(before);
    let totals = &finished.totals;
    assert!(
        totals.lost > 1000,
        "a ring of a page holds no 2,000 records: {totals:?}"
    );
    let recorded = totals.reads.count + totals.writes.count + totals.flushes + totals.others;
    assert_eq!(recorded, totals.events);
    assert_eq!(
        totals.events + totals.lost,
        after.reads + after.writes + after.flushes + totals.others
    );
}

#[test]
fn only_the_process_and_its_descendants_are_recorded() {
    if !may_trace("only_the_process_and_its_descendants_are_recorded") {
        return;
    }
    let disk = Disk::new(64);
    let options = Options {
        root_pid: Some(std::process::id()),
        ..everything_on(&disk.device)
    };
    let (ours, _folder) = trace(&options, true, || direct_io(&disk.device, 100));
    assert!(ours.totals.writes.count == 100, "{:?}", ours.totals);
    // Nobody descends from this one.
    let options = Options {
        root_pid: Some(u32::MAX >> 1),
        ..options
    };
    let (others, _folder) = trace(&options, true, || direct_io(&disk.device, 100));
    assert_eq!(others.totals.events, 0);
}

#[test]
fn a_partition_is_told_from_the_rest_of_its_disk() {
    if !may_trace("a_partition_is_told_from_the_rest_of_its_disk") {
        return;
    }
    let disk = Disk::new(64);
    let first = disk.add_partition(1, 2048, 32_768);
    let second = disk.add_partition(2, 34_816, 32_768);
    let (finished, folder) = trace(&everything_on(&second), true, || {
        direct_io(&first, 64);
        direct_io(&second, 50);
    });
    assert_eq!(finished.totals.writes.count, 50);
    let least = rows(&folder).iter().map(|row| row.sector).min();
    assert_eq!(
        least,
        Some(34_816),
        "sectors count from the start of the disk"
    );
}
