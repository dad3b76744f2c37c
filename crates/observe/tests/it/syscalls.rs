//! System calls, beside those that the test makes itself and those that bpftrace counts.

use crate::{Watching, debian, may_trace, options, start};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenbin_observe::{Counted, Options};

/// bpftrace counting a call of one process and its time, started and attached.
struct Bpftrace {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl Bpftrace {
    fn start(pid: i32, call: &str) -> Self {
        let program = format!(
            "BEGIN {{ printf(\"ready\\n\"); }} \
             tracepoint:syscalls:sys_enter_{call} /pid == {pid}/ {{ @calls = count(); }}"
        );
        // It finds tracepoints by their file system, which need not be mounted.
        let mounted = "test -d /sys/kernel/tracing/events \
            || mount -t tracefs tracefs /sys/kernel/tracing && exec \"$@\"";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", mounted, "sh"])
            .args(["bpftrace", "-e", &program])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert!(
                told.read_line(&mut line).unwrap() > 0,
                "bpftrace ended early"
            );
        }
        Self { child, told }
    }

    fn finish(mut self) -> f64 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut told = String::new();
        self.told.read_to_string(&mut told).unwrap();
        self.child.wait().unwrap();
        let calls = told.lines().find_map(|line| line.strip_prefix("@calls: "));
        calls.unwrap().trim().parse().unwrap()
    }
}

/// bpftrace now and then sees nothing at all where another has the kernel begin and cease to trace calls
/// meanwhile.
static TRACED: Mutex<()> = Mutex::new(());

#[test]
fn calls_are_counted_as_they_are_made() {
    if !may_trace("calls_are_counted_as_they_are_made") {
        return;
    }
    let _alone = TRACED.lock().unwrap_or_else(PoisonError::into_inner);
    let server = start(debian(), &[]);
    let mut client = server.connect().unwrap();
    let pid: i32 = client
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let watching = Watching::start_with(Options {
        syscalls: Some(Counted::All),
        ..options(&server)
    });
    let bpftrace = Bpftrace::start(pid, "getdents64");
    // Of this process: a call that nothing else here makes.
    for _ in 0..12_345 {
        std::hint::black_box(rustix::process::getpgid(None).unwrap());
    }
    for _ in 0..100 {
        client.query("SELECT pg_ls_dir('.')", &[]).unwrap();
    }
    client.query_one("SELECT pg_sleep(0.25)", &[]).unwrap();
    let told = bpftrace.finish();
    // Backends that no look sees, with their title at the end.
    for _ in 0..20 {
        server
            .connect()
            .unwrap()
            .batch_execute("SELECT pg_ls_dir('.')")
            .unwrap();
    }
    let mut waiting = server.connect().unwrap();
    let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    while waiting.query_one(others, &[]).unwrap().get::<_, i64>(0) > 3 {
        std::thread::yield_now();
    }
    let seen = watching.end();
    let calls = seen.syscalls.unwrap();
    assert_eq!(calls.kinds["driver"]["getpgid"].count, 12_345.0);
    assert_eq!(calls.kinds["driver"]["getpgid"].count_95, None);
    let listed = calls.kinds["client_backend"]["getdents64"].count;
    assert!(told >= 200.0, "{told}");
    // As many for each of the twenty others.
    assert_eq!(listed, told * 1.2, "{:?}", calls.kinds);
    let slept = calls.kinds["client_backend"]["epoll_wait"];
    assert!(slept.time_s >= 0.25, "{slept:?}");
    assert!(
        calls.kinds["postmaster"]["wait4"].count >= 20.0,
        "{:?}",
        calls.kinds
    );
    assert_eq!((calls.lost, seen.gaps.len()), (0, 0), "{:?}", seen.gaps);
    assert!(
        calls.event_ns > 0.0 && calls.event_ns < 50_000.0,
        "{}",
        calls.event_ns
    );
}

/// Naps much shorter than a window, and longer than one.
#[test]
fn a_quarter_of_the_time_tells_of_all_of_it() {
    if !may_trace("a_quarter_of_the_time_tells_of_all_of_it") {
        return;
    }
    let _alone = TRACED.lock().unwrap_or_else(PoisonError::into_inner);
    let server = start(debian(), &[]);
    for (nap, calls_within) in [
        (Duration::from_millis(2), 0.9..1.1),
        (Duration::from_millis(150), 0.4..1.8),
    ] {
        let (naps, enough) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let (end, seen) = std::thread::scope(|scope| {
            // It is at it before the interval begins, and still when it ends.
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    std::thread::sleep(nap);
                    naps.lock().unwrap().push(Instant::now());
                }
            });
            let watching = Watching::start_with(Options {
                syscalls: Some(Counted::Quarter),
                ..options(&server)
            });
            watching.wait_for_looks(8);
            let end = Instant::now();
            let seen = watching.end();
            enough.store(true, Ordering::Relaxed);
            (end, seen)
        });
        let calls = seen.syscalls.unwrap();
        let slept = calls.kinds["driver"]["clock_nanosleep"];
        // A busy machine naps less often at times, in windows or between them.
        let mut made = naps.into_inner().unwrap();
        made.retain(|at| *at < end && end.duration_since(*at).as_secs_f64() < seen.interval_s);
        let each = slept.count / made.len() as f64;
        assert!(
            calls_within.contains(&each),
            "{slept:?}, {} naps of {nap:?}",
            made.len()
        );
        // One in 20 runs is outside by definition, and one in a thousand by half as much again.
        let within = slept.count_95.unwrap();
        let half = (within.high - within.low) / 2.0;
        let outside = (made.len() as f64 - (within.low + half)).abs() / half;
        assert!(outside <= 1.6, "{slept:?}, {} naps of {nap:?}", made.len());
        let asleep = slept.time_s / seen.interval_s;
        assert!(
            (0.8..1.01).contains(&asleep),
            "{slept:?} of {} s, naps of {nap:?}",
            seen.interval_s
        );
        assert!((0.2..0.3).contains(&calls.share_of_time), "{calls:?}");
        assert_eq!((calls.lost, seen.gaps.len()), (0, 0), "{:?}", seen.gaps);
    }
}
