use crate::sample;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use tenbin_record::{
    DeliveryReader, DeliveryRow, DeliveryWriter, Outcome, RecordError, SampleReader, SampleRow,
    SampleWriter, TransactionReader, TransactionRow, TransactionWriter,
};

fn write(path: &Path, rows: &[TransactionRow]) {
    let writer = TransactionWriter::create(path, &sample::kinds()).unwrap();
    writer.write(rows).unwrap();
    assert_eq!(writer.finish().unwrap().rows, rows.len() as u64);
}

fn read(path: &Path) -> Result<Vec<TransactionRow>, RecordError> {
    let batches = TransactionReader::open(path)?.collect::<Result<Vec<_>, _>>()?;
    Ok(batches.concat())
}

#[test]
fn many_row_groups_keep_every_row_in_order() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("t");
    let rows = sample::rows(300_001);
    let writer = TransactionWriter::create(&path, &sample::kinds()).unwrap();
    for part in rows.chunks(7_919) {
        writer.write(part).unwrap();
    }
    assert_eq!(writer.finish().unwrap().rows, 300_001);
    assert_eq!(read(&path).unwrap(), rows);
    let largest = TransactionReader::open(&path)
        .unwrap()
        .map(|batch| batch.unwrap().len())
        .max();
    assert!(largest.unwrap() <= 131_072);
}

#[test]
fn rows_written_before_the_disk_was_full_can_be_read() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let rows = sample::rows(100_000);
    // By single pages, so that some sizes have room for the last group and not for the footer.
    for kilobytes in (512..=544).step_by(4) {
        let disk = tenbin_disk::Small::new(kilobytes);
        let path = disk.path().join("t");
        let writer = TransactionWriter::create(&path, &sample::kinds()).unwrap();
        // It may stop before all are taken.
        let _ = writer.write(&rows);
        let error = writer.finish().unwrap_err();
        let said = error.to_string();
        let RecordError::CutShort { rows: kept, .. } = error else {
            panic!("{said}");
        };
        assert!(
            said.contains("No space left") && said.contains(&format!("its first {kept} rows")),
            "{said}"
        );
        let read = read(&path).unwrap();
        assert!(read.len() as u64 == kept && kept > 0, "{kept}");
        assert!(read[..] == rows[..read.len()], "{kilobytes}");
    }
}

#[test]
fn no_rows_are_a_file_without_rows() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("t");
    write(&path, &[]);
    assert_eq!(read(&path).unwrap(), []);
    assert_eq!(
        TransactionReader::open(&path).unwrap().kinds(),
        sample::kinds()
    );
}

#[test]
fn threads_share_a_writer() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("t");
    let rows = sample::rows(40_000);
    let writer = TransactionWriter::create(&path, &sample::kinds()).unwrap();
    std::thread::scope(|scope| {
        for part in rows.chunks(10_000) {
            let writer = &writer;
            scope.spawn(move || writer.write(part).unwrap());
        }
    });
    assert_eq!(writer.finish().unwrap().rows, 40_000);
    let mut read = read(&path).unwrap();
    read.sort_by_key(|row| row.start_ns);
    assert_eq!(read, rows);
}

#[test]
fn a_row_of_an_unknown_kind_stops_the_writer_and_says_why() {
    let home = tempfile::tempdir().unwrap();
    let writer = TransactionWriter::create(&home.path().join("t"), &sample::kinds()).unwrap();
    let mut rows = sample::rows(1);
    rows[0].kind = 5;
    writer.write(&rows).unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("a row of kind 5, of 5"), "{error}");
}

#[test]
fn deliveries_and_samples_read_back() {
    let home = tempfile::tempdir().unwrap();
    let delivery = |i: i32| DeliveryRow {
        terminal: i.unsigned_abs() % 20,
        warehouse: i / 10 + 1,
        carrier: i % 10 + 1,
        district: (i % 50 != 7).then_some(i % 10 + 1),
        order: (i % 11 != 3).then_some(2_101 + i),
        queued_ns: i64::from(i) * 1_000_000 - 5_000_000,
        started_ns: i64::from(i) * 1_000_000 - 4_000_000,
        completed_ns: i64::from(i) * 1_000_000 + 2_500_000,
        outcome: if i % 50 == 7 {
            Outcome::ServerError
        } else {
            Outcome::Committed
        },
    };
    let deliveries: Vec<_> = (0..1000).map(delivery).collect();
    let path = home.path().join("d");
    let writer = DeliveryWriter::create(&path).unwrap();
    writer.write(&deliveries).unwrap();
    assert_eq!(writer.finish().unwrap().rows, 1000);
    let read: Vec<_> = DeliveryReader::open(&path)
        .unwrap()
        .flat_map(Result::unwrap)
        .collect();
    assert_eq!(read, deliveries);

    let sample = |i: u32| SampleRow {
        offset_s: f64::from(i) - 10.25,
        source: if i.is_multiple_of(2) {
            "cpu".into()
        } else {
            "pg_stat_database".into()
        },
        name: format!("name_{}", i % 7).into(),
        label: (!i.is_multiple_of(3)).then(|| format!("öffentlich.tabelle_{}", i % 3).into()),
        value: (!i.is_multiple_of(13)).then_some(f64::from(i) * 0.1),
    };
    let samples: Vec<_> = (0..1000).map(sample).collect();
    let path = home.path().join("s");
    let writer = SampleWriter::create(&path).unwrap();
    writer.write(&samples).unwrap();
    assert_eq!(writer.finish().unwrap().rows, 1000);
    let read: Vec<_> = SampleReader::open(&path)
        .unwrap()
        .flat_map(Result::unwrap)
        .collect();
    assert_eq!(read, samples);

    // One file is not taken for another.
    let error = TransactionReader::open(&path)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(r#"holds schema "tenbin.samples/1""#),
        "{error}"
    );
}

fn small() -> (tempfile::TempDir, Vec<u8>) {
    let home = tempfile::tempdir().unwrap();
    write(&home.path().join("t"), &sample::rows(64));
    let bytes = fs::read(home.path().join("t")).unwrap();
    (home, bytes)
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let (home, bytes) = small();
    for length in 0..bytes.len() {
        let path = home.path().join("cut");
        fs::write(&path, &bytes[..length]).unwrap();
        let error = read(&path).unwrap_err();
        assert!(
            matches!(error, RecordError::Corrupt { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn a_changed_byte_never_panics() {
    let (home, bytes) = small();
    for at in 0..bytes.len() {
        for bit in [1 << (at % 8), 0xFF] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            let path = home.path().join("changed");
            fs::write(&path, &changed).unwrap();
            // Values may read differently, there is no checksum; what matters is that reading ends.
            match read(&path) {
                Ok(rows) => assert!(rows.len() <= 64, "byte {at}"),
                Err(error) => assert!(
                    !matches!(error, RecordError::Stopped { .. }),
                    "byte {at}: {error}"
                ),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_rows_read_back(
        values in prop::collection::vec((any::<i64>(), any::<u64>(), any::<u64>(), any::<u32>(), 0..5_u8, 0..6_usize, any::<u8>()), 0..300)
    ) {
        let rows: Vec<TransactionRow> = values
            .into_iter()
            .map(|(start_ns, response_ns, wait_ns, terminal, kind, outcome, retries)| TransactionRow {
                start_ns, response_ns, wait_ns, terminal, kind, outcome: Outcome::ALL[outcome], retries,
            })
            .collect();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("t");
        write(&path, &rows);
        prop_assert_eq!(read(&path).unwrap(), rows);
    }

    #[test]
    fn arbitrary_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("t");
        fs::write(&path, [b"PAR1", &bytes[..], b"PAR1"].concat()).unwrap();
        prop_assert!(read(&path).is_err());
    }
}
