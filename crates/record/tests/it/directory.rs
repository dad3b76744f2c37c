use crate::sample;
use proptest::prelude::*;
use std::fs;
use std::time::{Duration, UNIX_EPOCH};
use tenbin_record::directory::{PARTIAL, RUN_JSON};
use tenbin_record::{RecordError, RunDir, RunWriter, default_path, new_id};

#[test]
fn a_run_is_named_when_it_is_whole_and_reads_back_as_written() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("deep/er/run");
    let mut writer = RunWriter::create(&out).unwrap();
    let rows = sample::rows(1000);
    let transactions = writer.transactions(&sample::kinds()).unwrap();
    transactions.write(&rows).unwrap();
    assert_eq!(transactions.finish().unwrap().rows, 1000);
    let run = sample::run();
    writer.write(&run).unwrap();
    assert!(!out.exists() && writer.path().join(RUN_JSON).exists());
    assert_eq!(writer.finish().unwrap(), out);

    let names: Vec<_> = fs::read_dir(out.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["run"]);
    let dir = RunDir::open(&out).unwrap();
    assert_eq!(dir.run(), &run);
    let read = dir.transactions().unwrap().unwrap();
    assert_eq!(read.kinds(), sample::kinds());
    assert_eq!(read.flat_map(Result::unwrap).collect::<Vec<_>>(), rows);
    assert!(dir.samples().unwrap().is_none() && dir.deliveries().unwrap().is_none());
}

#[test]
fn an_interrupted_run_opens_but_never_looks_finished() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("run");
    let mut writer = RunWriter::create(&out).unwrap();
    let mut run = sample::run();
    run.run.interrupted = true;
    writer.write(&run).unwrap();
    let left = writer.finish().unwrap();
    assert_eq!(left, home.path().join("run.partial"));
    assert!(!out.exists());
    assert!(RunDir::open(&left).unwrap().run().run.interrupted);
}

#[test]
fn a_killed_run_is_told_from_a_missing_one() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("run");
    let writer = RunWriter::create(&out).unwrap();
    fs::write(writer.path().join("transactions.parquet"), "PAR1").unwrap();
    let partial = writer.path().to_owned();
    drop(writer);
    for path in [&out, &partial] {
        let error = RunDir::open(path).unwrap_err();
        assert!(matches!(error, RecordError::Partial { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("run.partial is the directory of an unfinished run"),
            "{error}"
        );
    }
    let error = RunDir::open(&home.path().join("other"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot open") && error.contains("check the path"),
        "{error}"
    );
}

#[test]
fn a_result_that_a_killed_run_saved_is_found() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("run");
    let mut writer = RunWriter::create(&out).unwrap();
    writer.write(&sample::run()).unwrap();
    let partial = writer.path().to_owned();
    drop(writer);
    let said = RunDir::open(&out).unwrap_err().to_string();
    assert!(
        said.contains(partial.to_str().unwrap()) && said.contains("give that directory"),
        "{said}"
    );
    assert_eq!(RunDir::open(&partial).unwrap().run(), &sample::run());
}

#[test]
fn a_result_has_room_on_a_disk_that_has_become_full() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let small = tenbin_disk::Small::new(256);
    let said = RunWriter::create(&small.path().join("run"))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("No space left") && said.contains("make room"),
        "{said}"
    );
    assert_eq!(fs::read_dir(small.path()).unwrap().count(), 0);

    let disk = tenbin_disk::Small::new(2_048);
    let mut writer = RunWriter::create(&disk.path().join("run")).unwrap();
    disk.fill("other");
    let mut run = sample::run();
    for seed in [1, 2] {
        run.run.seed = seed;
        writer.write(&run).unwrap();
    }
    let kept = writer.finish().unwrap();
    assert_eq!(RunDir::open(&kept).unwrap().run(), &run);
}

#[test]
fn a_run_that_wrote_nothing_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    drop(RunWriter::create(&home.path().join("run")).unwrap());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("run");
    fs::create_dir(&out).unwrap();
    let error = RunWriter::create(&out).unwrap_err().to_string();
    assert!(
        error.contains("exists already and is left as it is"),
        "{error}"
    );

    // Neither what another run is writing, nor a name that was taken in the meantime.
    let other = home.path().join("other");
    let mut first = RunWriter::create(&other).unwrap();
    assert!(matches!(
        RunWriter::create(&other),
        Err(RecordError::Exists { .. })
    ));
    first.write(&sample::run()).unwrap();
    fs::create_dir(&other).unwrap();
    assert!(matches!(first.finish(), Err(RecordError::Exists { .. })));
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    assert!(
        home.path()
            .join(format!("other{PARTIAL}"))
            .join(RUN_JSON)
            .exists()
    );
}

#[test]
fn a_place_that_cannot_be_written_to_is_said_before_anything_starts() {
    let error = RunWriter::create("/proc/tenbin/run".as_ref())
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("cannot create /proc/tenbin:"), "{error}");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let error = RunWriter::create(&file.join("run")).unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::Io {
                action: "create",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn other_versions_and_damage_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(RUN_JSON);
    let open = |text: &str| {
        fs::write(&path, text).unwrap();
        RunDir::open(home.path()).unwrap_err().to_string()
    };
    let older = open(&sample::RUN.replace("tenbin.run/2", "tenbin.run/1"));
    assert!(
        older.contains(r#"holds schema "tenbin.run/1", this tenbin reads "tenbin.run/2""#),
        "{older}"
    );
    let cut = open(&sample::RUN[..sample::RUN.len() / 2]);
    assert!(cut.contains("is damaged: EOF while parsing"), "{cut}");
    let mistyped = open(&sample::RUN.replace("\"seed\": 42", "\"seed\": \"x\""));
    assert!(
        mistyped.contains("invalid type: string \"x\", expected u64 at line"),
        "{mistyped}"
    );
    fs::remove_file(&path).unwrap();
    let empty = RunDir::open(home.path()).unwrap_err().to_string();
    assert!(
        empty.contains("is not a run directory (it has no run.json)"),
        "{empty}"
    );
    fs::write(&path, sample::RUN).unwrap();
    let file = RunDir::open(&path).unwrap_err().to_string();
    assert!(file.contains("is not a run directory"), "{file}");
}

#[test]
fn a_number_that_json_cannot_hold_is_an_error_and_leaves_no_file() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(&home.path().join("run")).unwrap();
    let mut run = sample::run();
    run.result.throughput.value = f64::NAN;
    assert!(matches!(
        writer.write(&run),
        Err(RecordError::Corrupt { .. })
    ));
    assert!(!writer.path().join(RUN_JSON).exists());
}

#[test]
fn lists_stand_on_one_line() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(&home.path().join("run")).unwrap();
    writer.write(&sample::run()).unwrap();
    let text = fs::read_to_string(writer.path().join(RUN_JSON)).unwrap();
    assert!(text.contains("\"at_s\": [-1, 0, 1],\n"), "{text}");
}

#[test]
fn default_names_say_what_and_when() {
    let at = UNIX_EPOCH + Duration::from_secs(951_782_399);
    let path = default_path("tpcc", at, "0a1b2c3d");
    assert_eq!(
        path.to_str().unwrap(),
        "tenbin-runs/tpcc-20000228T235959Z-0a1b2c3d"
    );
    assert_ne!(new_id(), new_id());
    assert_eq!(new_id().len(), 8);
}

fn open_bytes(bytes: &[u8]) -> Result<RunDir, RecordError> {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(RUN_JSON), bytes).unwrap();
    RunDir::open(home.path())
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(open_bytes(&bytes).is_err());
    }

    #[test]
    fn a_cut_file_is_an_error(at in 0..sample::RUN.trim_end().len()) {
        prop_assert!(open_bytes(&sample::RUN.as_bytes()[..at]).is_err());
    }

    /// A changed byte may still make sense; it must never make a panic.
    #[test]
    fn a_changed_byte_never_panics(at in 0..sample::RUN.len(), to in any::<u8>()) {
        let mut bytes = sample::RUN.as_bytes().to_vec();
        bytes[at] = to;
        if let Err(error) = open_bytes(&bytes) {
            prop_assert!(matches!(error, RecordError::Corrupt { .. } | RecordError::Version { .. }), "{}", error);
        }
    }
}
