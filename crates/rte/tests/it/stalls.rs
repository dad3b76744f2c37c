//! A driver that is stopped says so, in every mode, and its responses count from when they were due.

use crate::support::toy::Toy;
use crate::support::{options, run_with};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tenbin_rte::{Options, Phase, Rate};
use tenbin_stub::Stub;
use tenbin_wire::Target;

/// In the process to be stopped: where it drives to, and by which rate.
const TARGET: &str = "TENBIN_TEST_STALLS_TARGET";
const RATE: &str = "TENBIN_TEST_STALLS_RATE";
/// The stop is at least so long.
const STOP: Duration = Duration::from_millis(400);

/// What the stopped process printed, by name.
type Figures = BTreeMap<String, f64>;

/// Drives in a process of its own that is stopped in the midst of its interval; returns what it says and how
/// long it was stopped for certain, seconds.
fn stopped(test: &str, rate: Option<f64>) -> (Figures, f64) {
    let stub = Stub::start(tenbin_stub::Options::default()).expect("a stub");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture"])
        .env(TARGET, stub.dsn())
        .env(RATE, rate.unwrap_or(0.0).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again");
    let output = child.stdout.take().expect("its output");
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    lines
        .find(|line| line.ends_with("measuring"))
        .expect("its interval begins");
    let stopped_s = stop(&child);
    let figures = lines
        .filter_map(|line| {
            let (name, value) = line.strip_prefix("figure ")?.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect();
    assert!(child.wait().expect("its end").success());
    (figures, stopped_s)
}

/// Stops a process and lets it go on; returns for how long it stood still at least.
fn stop(child: &Child) -> f64 {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).expect("stopped");
    let waited = waitpid(Some(pid), WaitOptions::UNTRACED).expect("its state");
    assert!(waited.is_some_and(|(_, status)| WaitStatus::stopped(status)));
    let since = Instant::now();
    // Not to wait for anything: the length of the stop is what is tested.
    std::thread::sleep(STOP);
    let stopped = since.elapsed();
    kill_process(pid, Signal::CONT).expect("going on");
    stopped.as_secs_f64()
}

/// In the process that is to be stopped: drives, and prints figures. False in any other.
fn drives_here() -> bool {
    let Ok(dsn) = std::env::var(TARGET) else {
        return false;
    };
    let target = Target::parse(&dsn).expect("an address");
    let per_s: f64 = std::env::var(RATE).map_or(0.0, |rate| rate.parse().expect("a rate"));
    let rate = (per_s > 0.0).then_some(Rate { per_s, seed: 11 });
    let options = Options {
        rate,
        threads: Some(2),
        duration: Duration::from_secs(2),
        ..options(8, 8)
    };
    let mut told = false;
    let (driven, kept) = run_with(&Toy::reading(), &target, &options, &mut |progress, _| {
        if progress.phase == Phase::Measurement && !told {
            told = true;
            println!("\nmeasuring");
        }
    });
    let kind = &driven.kinds[0];
    let half_ns = STOP.as_nanos() as u64 / 2;
    let slow = kept.rows.iter().filter(|row| row.response_ns >= half_ns);
    let late = driven
        .lateness
        .histogram()
        .map_or(0, |lateness| lateness.count_between(half_ns, u64::MAX));
    let figures = [
        ("stalls", driven.stalls.count as f64),
        ("stalled_s", driven.stalls.total_s),
        ("longest_s", driven.stalls.longest_s),
        ("beats", driven.heartbeat.count() as f64),
        ("beat_max_s", driven.heartbeat.max_ms() / 1e3),
        ("due", (kind.due() + driven.missed) as f64),
        ("steps", driven.lateness.count() as f64),
        ("late_steps", late as f64),
        ("late_max_s", driven.lateness.max_ms() / 1e3),
        ("slow", slow.count() as f64),
        ("response_max_s", kind.response.max_ms() / 1e3),
    ];
    for (name, value) in figures {
        println!("figure {name} {value}");
    }
    true
}

/// What is the same in every mode.
fn assert_said(figures: &Figures, stopped_s: f64) {
    assert!(figures["longest_s"] >= stopped_s, "{stopped_s} {figures:?}");
    assert!(figures["stalled_s"] >= figures["longest_s"], "{figures:?}");
    assert!(figures["stalls"] >= 1.0, "{figures:?}");
    // One beat in 20 ms may lie before the stop.
    assert!(figures["beat_max_s"] >= stopped_s - 0.02, "{figures:?}");
    // Every beat of 2 s counts once for each thread, those that passed during the stop included.
    assert!((200.0 - figures["beats"]).abs() <= 2.0, "{figures:?}");
}

#[test]
fn a_stop_of_the_driver_shows_in_a_closed_loop() {
    if drives_here() {
        return;
    }
    let (figures, stopped_s) = stopped("stalls::a_stop_of_the_driver_shows_in_a_closed_loop", None);
    assert_said(&figures, stopped_s);
}

#[test]
fn a_stop_of_the_driver_shows_in_an_open_loop_and_in_its_responses() {
    if drives_here() {
        return;
    }
    let test = "stalls::a_stop_of_the_driver_shows_in_an_open_loop_and_in_its_responses";
    let (figures, stopped_s) = stopped(test, Some(1000.0));
    assert_said(&figures, stopped_s);
    // Each arrival is noticed once, be a terminal free for it or not.
    assert!(
        (figures["steps"] - figures["due"]).abs() < 0.5,
        "{figures:?}"
    );
    // Of 1,000 arrivals a second those of the first half of the stop were late by half of it or more, and their
    // responses as slow; six standard deviations.
    let half = 1000.0 * STOP.as_secs_f64() / 2.0;
    let least = half - 6.0 * half.sqrt();
    assert!(figures["late_steps"] >= least, "{least} {figures:?}");
    assert!(figures["slow"] >= least, "{least} {figures:?}");
    // The first of them waited for nearly all of it: 20 ms without an arrival come once in e^20 times.
    assert!(figures["late_max_s"] >= stopped_s - 0.02, "{figures:?}");
    assert!(figures["response_max_s"] >= stopped_s - 0.02, "{figures:?}");
}
