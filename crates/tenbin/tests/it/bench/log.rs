//! The log that `-l` asks for, beside pgbench's.

use super::{pgbench, server, tenbin, text};
use std::path::Path;
use std::process::{Command, Output};
use std::time::SystemTime;
use tempfile::TempDir;

/// Stands for the word `skipped` in a log.
const SKIPPED: u64 = u64::MAX;

/// The lines of the folder's logs, in order, whose numbered column is a time around now.
fn read_lines(folder: &Path, time: usize) -> Vec<Vec<u64>> {
    let now_s = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let number = |word: &str| match word {
        "skipped" => SKIPPED,
        number => number.parse().unwrap(),
    };
    let mut lines: Vec<Vec<u64>> = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        lines.extend(
            text.lines()
                .map(|line| line.split(' ').map(number).collect()),
        );
        std::fs::remove_file(path).unwrap();
    }
    let around_now = now_s - 60..=now_s + 1;
    assert!(
        lines.iter().all(|line| around_now.contains(&line[time])),
        "{lines:?}"
    );
    lines.sort();
    lines
}

/// The columns of a log, by client.
fn read_log(folder: &Path) -> Vec<Vec<u64>> {
    let lines = read_lines(folder, 4);
    assert!(lines.iter().all(|line| line[5] < 1_000_000), "{lines:?}");
    lines
}

#[test]
fn the_log_has_a_line_for_each_transaction_as_pgbench_writes_it() {
    let (_server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let prefix = folder.path().join("log").display().to_string();
    let flags: [&[&str]; 2] = [
        &["-S", "-c", "3", "-t", "20"],
        &[
            "-S",
            "-N",
            "-c",
            "3",
            "-t",
            "20",
            "-R",
            "2000",
            "--max-tries",
            "4",
        ],
    ];
    for flags in flags {
        let log = ["-n", "-l", "--log-prefix", &prefix];
        let ours = tenbin(&[&["bench", "--format", "pgbench"], &log[..], flags, &[&dsn]].concat());
        assert!(ours.status.success(), "{ours:?}");
        let ours = read_log(folder.path());
        assert_eq!(ours.len(), 60);
        // Client, number of its transaction; how many columns there are.
        let fixed = |lines: &[Vec<u64>]| -> Vec<(u64, u64, usize)> {
            let columns = lines.iter().map(|line| (line[0], line[1], line.len()));
            columns.collect()
        };
        for (version, program) in pgbench::find() {
            let mut command = Command::new(program);
            let theirs = command.args(log).args(flags).arg(&dsn).output().unwrap();
            assert!(theirs.status.success(), "{theirs:?}");
            assert_eq!(fixed(&ours), fixed(&read_log(folder.path())), "{version}");
        }
        assert!(
            ours.iter().all(|line| (1..60_000_000).contains(&line[2])),
            "{ours:?}"
        );
        let scripts: std::collections::BTreeSet<u64> = ours.iter().map(|line| line[3]).collect();
        assert_eq!(
            scripts.len(),
            flags
                .iter()
                .filter(|flag| ["-S", "-N"].contains(flag))
                .count()
        );
    }
}

/// A program's name, and how it runs what is asked of the database.
type Program<'a> = (String, Box<dyn Fn(&[&str]) -> Output + 'a>);

/// tenbin as pgbench, and every pgbench there is.
fn programs(dsn: &str) -> Vec<Program<'_>> {
    let ours =
        |asked: &[&str]| tenbin(&[&["bench", "--format", "pgbench", "-n"], asked, &[dsn]].concat());
    let theirs = pgbench::find().into_iter().map(|(version, program)| {
        let run = move |asked: &[&str]| {
            let mut command = Command::new(&program);
            command.arg("-n").args(asked).arg(dsn).output().unwrap()
        };
        let program: Program<'_> = (version, Box::new(run));
        program
    });
    let ours: Program<'_> = ("tenbin".to_owned(), Box::new(ours));
    std::iter::once(ours).chain(theirs).collect()
}

/// A script whose transactions take 20 ms.
fn sleeper(folder: &Path) -> String {
    let script = folder.join("s.sql");
    std::fs::write(&script, "\\sleep 20 ms\n").unwrap();
    script.display().to_string()
}

#[test]
fn what_was_skipped_has_a_line_as_pgbench_writes_it() {
    let (_server, dsn) = server();
    let (folder, scripts) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let prefix = folder.path().join("log").display().to_string();
    let script = &sleeper(scripts.path());
    // A fifth of what is due can be done.
    let asked = [
        "-f",
        script,
        "-R",
        "250",
        "-L",
        "30",
        "-t",
        "40",
        "-l",
        "--log-prefix",
        &prefix,
    ];
    for (name, run) in programs(&dsn) {
        let output = run(&asked);
        assert!(output.status.success(), "{name}: {output:?}");
        let lines = read_log(folder.path());
        let numbers: Vec<u64> = lines.iter().map(|line| line[1]).collect();
        assert_eq!(numbers, (1..=40).collect::<Vec<_>>(), "{name}");
        assert!(
            lines.iter().all(|line| line.len() == 7),
            "{name}: {lines:?}"
        );
        let skipped: Vec<_> = lines.iter().filter(|line| line[2] == SKIPPED).collect();
        assert!((10..39).contains(&skipped.len()), "{name}: {lines:?}");
        // pgbench has no lag for these, though its manual shows one.
        if name == "tenbin" {
            assert!(skipped.iter().all(|line| line[6] > 30_000), "{lines:?}");
        }
    }
}

#[test]
fn a_log_of_intervals_has_the_columns_and_the_sums_of_pgbenchs() {
    let (_server, dsn) = server();
    let (folder, scripts) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let prefix = folder.path().join("log").display().to_string();
    let script = &sleeper(scripts.path());
    let log = ["-l", "--aggregate-interval", "1", "--log-prefix", &prefix];
    for (rate, most_skipped) in [(&[][..], 0), (&["-R", "100", "-L", "30"][..], 300)] {
        for (name, run) in programs(&dsn) {
            let output = run(&[&log[..], &["-f", script, "-T", "3"], rate].concat());
            assert!(output.status.success(), "{name}: {output:?}");
            let lines = read_lines(folder.path(), 0);
            assert!((2..=4).contains(&lines.len()), "{name}: {lines:?}");
            assert!(
                lines.windows(2).all(|pair| pair[0][0] + 1 == pair[1][0]),
                "{name}: {lines:?}"
            );
            let mut skipped = 0;
            for line in &lines {
                let &[
                    _,
                    count,
                    sum,
                    squares,
                    least,
                    most,
                    lag,
                    lag_squares,
                    lag_least,
                    lag_most,
                    ..,
                ] = &line[..]
                else {
                    panic!("{name}: {line:?}");
                };
                assert_eq!(line.len(), 15, "{name}: {line:?}");
                // The last interval of tenbin's may be of moments.
                assert!(count <= 51, "{name}: {line:?}");
                for (sum, squares, least, most) in [
                    (sum, squares, least, most),
                    (lag, lag_squares, lag_least, lag_most),
                ] {
                    assert!(
                        (count * least..=count * most).contains(&sum)
                            && squares <= sum * most
                            && count * squares >= sum * sum / 100 * 99,
                        "{name}: {line:?}"
                    );
                }
                assert!(count == 0 || least >= 20_000, "{name}: {line:?}");
                // pgbench may begin an interval as it ends, with nothing in it.
                let waited = !rate.is_empty() && count > 0;
                assert_eq!(lag_most > 0, waited, "{name}: {line:?}");
                skipped += line[10];
                assert_eq!(line[11..], [0; 4], "{name}: {line:?}");
            }
            assert_eq!(skipped > 50, most_skipped > 0, "{name}: {lines:?}");
            assert!(skipped <= most_skipped, "{name}: {lines:?}");
            let counted: u64 = lines.iter().map(|line| line[1]).sum();
            assert!((60..=151).contains(&counted), "{name}: {lines:?}");
        }
    }
}

#[test]
fn a_sample_of_the_log_is_smaller_and_a_log_without_a_place_is_refused() {
    let (_server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let prefix = folder.path().join("log").display().to_string();
    let run = |more: &[&str]| {
        let fixed = [
            "bench", "--format", "pgbench", "-n", "-S", "-t", "2000", "-l",
        ];
        tenbin(&[&fixed, more, &[&dsn]].concat())
    };
    let sampled = run(&["--log-prefix", &prefix, "--sampling-rate", "0.1"]);
    assert!(sampled.status.success(), "{sampled:?}");
    let lines = read_log(folder.path()).len();
    assert!((100..320).contains(&lines), "{lines}");
    let nowhere = folder.path().join("nowhere/log").display().to_string();
    let refused = run(&["--log-prefix", &nowhere]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("give another place with --log-prefix"));
    let refused = tenbin(&["bench", "-l", &dsn]);
    assert!(text(&refused.stderr).contains("transactions.parquet"));
}
