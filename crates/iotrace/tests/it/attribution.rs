//! Which relation an I/O is for, on a server of the test's own.

use crate::{everything_on, may_trace};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tenbin_disk::{Disk, run};
use tenbin_iotrace::{Cluster, Finished, Options, Recorder};
use tenbin_record::io::{Evidence, Operation, Purpose};
use tenbin_record::{IoReader, IoRow, RunWriter};
use tenbin_server::{Embedded, Options as ServerOptions, Source};

pub(crate) fn debian() -> Source {
    Source::bin("/usr/lib/postgresql/15/bin")
}

pub(crate) fn server(
    disk: &mut Disk,
    filesystem: &str,
    source: Source,
    settings: &[(&str, &str)],
) -> Embedded {
    let at = disk.mount(filesystem);
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Embedded::start(ServerOptions {
        source,
        settings: settings.collect(),
        run_root: Some(at),
        ..ServerOptions::default()
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

/// All I/O of the disk, told by the server's catalogue.
pub(crate) fn everything_of(server: &Embedded, disk: &Disk) -> Options {
    Options {
        cluster: Some(Cluster::of_server(&dsn(server)).unwrap()),
        ..everything_on(&disk.device)
    }
}

pub(crate) fn dsn(server: &Embedded) -> String {
    let target = server.tcp_target();
    format!(
        "postgres://{}:{}@127.0.0.1:{}/{}",
        target.user,
        target.password.unwrap_or_default(),
        server.port(),
        target.database
    )
}

/// Who empties the page cache waits for those who count what is read into it: pages read ahead would
/// be read twice.
static PAGE_CACHE: RwLock<()> = RwLock::new(());

pub(crate) fn trace(options: &Options, work: impl FnOnce() + Send) -> (Finished, Vec<IoRow>) {
    let _kept = PAGE_CACHE.read().unwrap_or_else(PoisonError::into_inner);
    let folder = TempDir::new().unwrap();
    let directory = RunWriter::create(&folder.path().join("t")).unwrap();
    let mut recorder =
        Recorder::start(options, &directory).unwrap_or_else(|error| panic!("{error:?}"));
    std::thread::scope(|scope| {
        let work = scope.spawn(work);
        while !work.is_finished() {
            recorder.step(Duration::from_millis(20)).unwrap();
        }
        work.join().unwrap();
    });
    let finished = recorder.finish().unwrap();
    let file = directory.path().join("io.parquet");
    let rows = IoReader::open(&file)
        .unwrap()
        .flat_map(Result::unwrap)
        .collect();
    (finished, rows)
}

const TABLE_ROWS: u32 = 60_000;

/// A table of some 60 MB with an index, out of every cache.
fn make_table(server: &Embedded) {
    fill_table(server);
    drop_caches();
}

fn fill_table(server: &Embedded) {
    let mut client = server.connect().unwrap();
    let fill = format!("INSERT INTO item SELECT g, 'x' FROM generate_series(1, {TABLE_ROWS}) g");
    let make = "CREATE TABLE item (id int PRIMARY KEY, filler char(900))";
    for statement in [make, &fill, "VACUUM (ANALYZE, FREEZE) item", "CHECKPOINT"] {
        client.batch_execute(statement).unwrap();
    }
}

pub(crate) fn drop_caches() {
    run("sync", &[]);
    let _alone = PAGE_CACHE.write().unwrap_or_else(PoisonError::into_inner);
    std::fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

pub(crate) fn bytes<'a>(rows: impl Iterator<Item = &'a IoRow>) -> u64 {
    rows.map(|row| u64::from(row.bytes)).sum()
}

fn reads(rows: &[IoRow]) -> impl Iterator<Item = &IoRow> + Clone {
    rows.iter().filter(|row| row.operation == Operation::Read)
}

/// Nearly every byte that was read has a name. How many there were.
pub(crate) fn attributed(rows: &[IoRow]) -> u64 {
    let all = bytes(reads(rows));
    let known = bytes(reads(rows).filter(|row| row.purpose != Purpose::Unknown));
    assert!(
        known as f64 >= all as f64 * 0.995,
        "{known} of {all} read bytes are attributed"
    );
    all
}

/// Scans the table once; every page comes from the disk.
fn scanned_table_is_named(
    filesystem: &str,
    source: Source,
    settings: &[(&str, &str)],
    evidence: Evidence,
) {
    let mut disk = Disk::new(1024);
    let settings = [&[("shared_buffers", "1MB")], settings].concat();
    let server = server(&mut disk, filesystem, source, &settings);
    make_table(&server);
    let options = everything_of(&server, &disk);
    let mut client = server.connect().unwrap();
    let size: i64 = client
        .query_one("SELECT pg_relation_size('item')", &[])
        .unwrap()
        .get(0);
    let (finished, rows) = trace(&options, || {
        client
            .query_one("SELECT sum(length(filler)) FROM item", &[])
            .unwrap();
    });
    attributed(&rows);
    let name = "postgres.public.item";
    let flow = finished.totals.relations[name].reads;
    let mut item = reads(&rows).filter(|row| row.relation.as_deref() == Some(name));
    assert!(
        item.clone().count() > 0,
        "rows bear the name: {:?}",
        finished.totals.relations.keys()
    );
    // Each page is read once, but for a few that the server still has; the last request may reach
    // beyond the file's end.
    let whole = size.unsigned_abs();
    assert!(
        flow.bytes + (1 << 20) >= whole && flow.bytes <= whole + (1 << 20),
        "{} bytes read of a table of {whole}",
        flow.bytes
    );
    assert!(item.all(|row| row.evidence == evidence && row.fork.as_deref() == Some("main")));
    let mut blocks: Vec<u64> = rows
        .iter()
        .filter(|row| row.relation.as_deref() == Some(name))
        .map(|row| row.block.unwrap())
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.first(), Some(&0));
    assert!(blocks.last().unwrap() < &(whole / 8192));
    server.stop().unwrap();
}

#[test]
fn a_scanned_table_is_named_by_its_pages() {
    if may_trace("a_scanned_table_is_named_by_its_pages") {
        scanned_table_is_named("ext4", debian(), &[], Evidence::Page);
    }
}

/// Past the page cache, where pages tell nothing.
#[test]
fn a_table_read_directly_is_named_by_its_place() {
    if may_trace("a_table_read_directly_is_named_by_its_place") {
        let direct = [("debug_io_direct", "data")];
        scanned_table_is_named("ext4", Source::default(), &direct, Evidence::Extent);
    }
}

/// The server makes a table longer by writing zeroes that are a constant of its program: the page cache's
/// pages, and a file's on another disk.
#[test]
fn a_table_that_grows_directly_is_no_file_of_another_disk() {
    let test = "a_table_that_grows_directly_is_no_file_of_another_disk";
    if !may_trace(test) {
        return;
    }
    let mut disk = Disk::new(1024);
    let direct = [("debug_io_direct", "data"), ("shared_buffers", "16MB")];
    let server = server(&mut disk, "ext4", Source::default(), &direct);
    let options = everything_of(&server, &disk);
    let (finished, rows) = trace(&options, || fill_table(&server));
    let of_a_file = rows.iter().find(|row| row.purpose == Purpose::File);
    assert_eq!(of_a_file, None, "{:?}", finished.totals.relations);
    let table = finished.totals.relations.get("postgres.public.item");
    let written = table.map_or(0, |flows| flows.writes.bytes);
    assert!(
        written > 50 << 20,
        "{written} bytes written of a table of 60 MB"
    );
    server.stop().unwrap();
}

/// Whether this machine can make such a file system.
fn may_make(filesystem: &str, test: &str) -> bool {
    let program = format!("mkfs.{filesystem}");
    let made = std::process::Command::new(&program).arg("-V").output();
    if made.is_err() {
        eprintln!("skipped: {test} needs {program}");
    }
    made.is_ok() && may_trace(test)
}

#[test]
fn a_scanned_table_is_named_on_xfs() {
    if may_make("xfs", "a_scanned_table_is_named_on_xfs") {
        scanned_table_is_named("xfs", debian(), &[], Evidence::Page);
    }
}

#[test]
fn a_table_read_directly_is_named_on_xfs() {
    if may_make("xfs", "a_table_read_directly_is_named_on_xfs") {
        let direct = [("debug_io_direct", "data")];
        scanned_table_is_named("xfs", Source::default(), &direct, Evidence::Extent);
    }
}

#[test]
fn a_scanned_table_is_named_on_btrfs() {
    if may_make("btrfs", "a_scanned_table_is_named_on_btrfs") {
        scanned_table_is_named("btrfs", debian(), &[], Evidence::Page);
    }
}

#[test]
fn writes_are_told_apart_by_what_they_are_for() {
    if !may_trace("writes_are_told_apart_by_what_they_are_for") {
        return;
    }
    let mut disk = Disk::new(1024);
    let settings = [("work_mem", "1MB"), ("shared_buffers", "16MB")];
    let server = server(&mut disk, "ext4", debian(), &settings);
    make_table(&server);
    let options = everything_of(&server, &disk);
    let mut client = server.connect().unwrap();
    let (finished, rows) = trace(&options, || {
        // Made, filled and dropped within the trace: its name is never in a catalogue that others see.
        for statement in [
            "BEGIN",
            "CREATE TABLE brief AS SELECT * FROM item",
            "CHECKPOINT",
            "ROLLBACK",
            "CREATE TABLE lasting AS SELECT * FROM item",
            "CREATE TEMPORARY TABLE passing AS SELECT * FROM item",
            "CHECKPOINT",
        ] {
            client.batch_execute(statement).unwrap();
        }
        // A cursor over a sort keeps its file until the caches have been written out.
        client
            .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT filler, id FROM item ORDER BY id DESC, filler; FETCH 1 FROM c;")
            .unwrap();
        run("sync", &[]);
        client.batch_execute("COMMIT").unwrap();
    });
    let written = |purpose: Purpose| {
        bytes(
            rows.iter()
                .filter(|row| row.operation == Operation::Write && row.purpose == purpose),
        )
    };
    for purpose in [
        Purpose::Relation,
        Purpose::Wal,
        Purpose::Temporary,
        Purpose::Metadata,
    ] {
        assert!(
            written(purpose) > 0,
            "{purpose:?}: {:?}",
            finished.totals.relations
        );
    }
    let sizes = |name: &str| {
        finished
            .totals
            .relations
            .get(name)
            .map(|flows| flows.writes.bytes)
    };
    assert!(
        sizes("postgres.public.lasting").unwrap() > 30 << 20,
        "{:?}",
        finished.totals.relations
    );
    // The one that was rolled back keeps the name of its file, and loses none of its I/O.
    let nameless = |row: &&IoRow| {
        row.relation
            .as_deref()
            .is_some_and(|name| name.starts_with("base/"))
    };
    let brief = bytes(
        rows.iter()
            .filter(|row| row.purpose == Purpose::Relation)
            .filter(nameless),
    );
    assert!(brief > 30 << 20, "{brief}");
    let all = bytes(rows.iter());
    assert!(
        written(Purpose::Unknown) * 200 <= all,
        "{} of {all}",
        written(Purpose::Unknown)
    );
    let processes: Vec<&str> = rows.iter().map(|row| &*row.process).collect();
    assert!(processes.contains(&"checkpointer"), "{processes:?}");
    server.stop().unwrap();
}

#[test]
fn a_relation_dropped_in_mid_trace_keeps_its_name_and_its_ios() {
    if !may_trace("a_relation_dropped_in_mid_trace_keeps_its_name_and_its_ios") {
        return;
    }
    let mut disk = Disk::new(1024);
    let server = server(&mut disk, "ext4", debian(), &[("shared_buffers", "1MB")]);
    make_table(&server);
    let options = everything_of(&server, &disk);
    let mut client = server.connect().unwrap();
    let (finished, rows) = trace(&options, || {
        for statement in [
            "SELECT sum(length(filler)) FROM item",
            "DROP TABLE item",
            // Its file is gone with this, and its number may be another's.
            "CHECKPOINT",
            "CREATE TABLE other AS SELECT repeat('y', 900) FROM generate_series(1, 20000)",
            "CHECKPOINT",
        ] {
            client.batch_execute(statement).unwrap();
        }
    });
    let relations = &finished.totals.relations;
    let item = relations["postgres.public.item"].reads.bytes;
    assert!(
        item > 50 << 20,
        "{item} bytes read of the table that was dropped"
    );
    let other = relations["postgres.public.other"].writes.bytes;
    assert!(
        other > 15 << 20,
        "{other} bytes written of the table that came after it"
    );
    let lost = rows.iter().filter(|row| row.purpose == Purpose::Unknown);
    let (unknown, all) = (bytes(lost), bytes(rows.iter()));
    assert!(
        unknown * 200 <= all,
        "{unknown} of {all} bytes are nobody's"
    );
    assert_eq!(finished.totals.lost, 0);
    server.stop().unwrap();
}

#[test]
fn tables_of_inodes_made_zero_after_a_mount_are_the_file_systems() {
    if !may_trace("tables_of_inodes_made_zero_after_a_mount_are_the_file_systems") {
        return;
    }
    // Over a file in memory mkfs makes the tables zero at once.
    let mut disk = Disk::new_in(&std::env::temp_dir(), 1024);
    let at = disk.mount("ext4");
    let (_, rows) = trace(&everything_on(&disk.device), || {
        let before = disk.stat();
        run(
            "mount",
            &["-o", "remount,init_itable", at.to_str().unwrap()],
        );
        // It begins within 5 s (EXT4_DEF_LI_MAX_START_DELAY). The kernel counts the mount's own
        // writes in, which may have begun before the trace: so wait for more than is asked for.
        let late = Instant::now() + Duration::from_secs(30);
        while disk.stat().since(before).written_bytes <= 16 << 20 && Instant::now() < late {
            std::thread::yield_now();
        }
    });
    let zeroes = rows
        .iter()
        .filter(|row| row.operation == Operation::WriteZeroes);
    assert!(bytes(zeroes) > 10 << 20, "{rows:?}");
    let nobodys = rows.iter().filter(|row| row.purpose == Purpose::Unknown);
    assert_eq!(bytes(nobodys), 0);
}
