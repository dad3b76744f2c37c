//! Processes, disks and memory, beside what `/proc` says to the test itself.

use crate::{Watching, debian, start};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

/// Numbers of a process that the kernel keeps: CPU in hundredths of a second, minor faults, context
/// switches. The CPU is that of its scheduler: what `stat` has is sampled, and off by a tenth at times.
fn told(pid: i32) -> [f64; 3] {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<f64> = stat[stat.rfind(')').unwrap() + 3..]
        .split(' ')
        .map(|field| field.trim().parse().unwrap_or(0.0))
        .collect();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let switches = status
        .lines()
        .filter(|line| line.contains("voluntary_ctxt_switches:"));
    let switches: f64 = switches
        .map(|line| {
            line.split(':')
                .nth(1)
                .unwrap()
                .trim()
                .parse::<f64>()
                .unwrap()
        })
        .sum();
    let scheduled = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let run_ns: f64 = scheduled.split(' ').next().unwrap().parse().unwrap();
    // Without pid, name and state: the parent, 4 of proc(5), is the first.
    [run_ns / 1e7, fields[6], switches]
}

#[test]
fn a_backend_is_seen_as_the_kernel_counts_it() {
    let server = start(debian(), &[]);
    let mut client = server.connect().unwrap();
    let pid: i32 = client
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let first = told(pid);
    let watching = Watching::start(&server, &[]);
    let begin = told(pid);
    for _ in 0..200 {
        let sum = "SELECT sum(i * i::numeric) FROM generate_series(1, 10000) i";
        client.query_one(sum, &[]).unwrap();
    }
    let end = told(pid);
    let seen = watching.end();
    let last = told(pid);
    let backends = seen.processes["client_backend"];
    let observers = seen.cost.unwrap().backend_cpu_s.unwrap();
    // The observer's own backend is one, too.
    let ticks = |cpu_s: f64| (cpu_s * 100.0).round();
    let cpu = ticks(backends.cpu.total_s());
    // Time as a user and time in the kernel are seen in whole ticks, each cut off.
    assert!(
        cpu > end[0] - begin[0] - 2.0,
        "{begin:?} to {end:?}: {backends:?}"
    );
    assert!(
        cpu <= last[0] - first[0] + ticks(observers) + 10.0,
        "{first:?} to {last:?}, observer {observers} s: {backends:?}"
    );
    assert!(backends.faults_minor >= end[1] - begin[1], "{backends:?}");
    let switches = backends.switches_voluntary.unwrap() + backends.switches_involuntary.unwrap();
    assert!(
        switches >= end[2] - begin[2] && end[2] - begin[2] >= 50.0,
        "{} of {backends:?}",
        end[2] - begin[2]
    );
    // The observer's backend waits for every statement, and may be interrupted now and then.
    let others = switches - (last[2] - first[2]);
    let statements = seen.cost.unwrap().statements as f64;
    assert!(
        others <= 20.0 * statements + 100.0,
        "{others} of {backends:?}"
    );
    assert_eq!(seen.server_cpu["client_backend"], backends.cpu);
    assert_eq!(seen.driver_cpu.unwrap(), seen.processes["driver"].cpu);
}

/// Backends that come and go within a second, more than any look sees.
#[test]
fn backends_that_come_and_go_are_not_lost() {
    let server = start(debian(), &[]);
    let waited = || {
        let pid = server.postmaster_pid();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks = |index: usize| fields[index].parse::<f64>().unwrap();
        ticks(13) + ticks(14)
    };
    let before = waited();
    let watching = Watching::start(&server, &[]);
    let begin = waited();
    for _ in 0..40 {
        let mut client = server.connect().unwrap();
        let sum = "SELECT sum(i * i::numeric) FROM generate_series(1, 50000) i";
        client.query_one(sum, &[]).unwrap();
        let pid: i32 = client
            .query_one("SELECT pg_backend_pid()", &[])
            .unwrap()
            .get(0);
        drop(client);
        // Until the postmaster has waited for it.
        while fs::exists(format!("/proc/{pid}")).unwrap() {
            std::thread::yield_now();
        }
    }
    let ended = waited() - begin;
    let seen = watching.end();
    let all =
        100.0 * (seen.server_cpu["exited"].total_s() + seen.server_cpu["client_backend"].total_s());
    let observers = 100.0 * seen.cost.unwrap().backend_cpu_s.unwrap();
    assert!(ended >= 40.0, "{ended} ticks are too few to tell anything");
    assert!(all >= ended - 1.0, "{all} of {ended} ticks");
    assert!(
        all <= waited() - before + observers + 2.0,
        "{all} of {ended} ticks"
    );
}

#[test]
fn memory_of_backends_is_what_the_kernel_says_of_each() {
    let server = start(debian(), &[("shared_buffers", "64MB")]);
    let mut clients: Vec<_> = (0..5).map(|_| server.connect().unwrap()).collect();
    let mut pids = Vec::new();
    for client in &mut clients {
        let fill = "CREATE TEMP TABLE held AS SELECT i FROM generate_series(1, 100000) i";
        client.batch_execute(fill).unwrap();
        let row = client.query_one("SELECT pg_backend_pid()", &[]).unwrap();
        pids.push(row.get::<_, i32>(0));
    }
    let watching = Watching::start(&server, &[]);
    watching.wait_for_looks(2);
    let pss = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Pss:"))
            .unwrap();
        1024.0
            * line
                .trim()
                .strip_suffix(" kB")
                .unwrap()
                .trim()
                .parse::<f64>()
                .unwrap()
    };
    let held: f64 = pids.iter().map(pss).sum();
    let seen = watching.end();
    let backends = seen.processes["client_backend"];
    // The observer's own is the sixth.
    assert_eq!(backends.count.unwrap().max, 6.0);
    let ratio = backends.pss_bytes.unwrap().max / held;
    assert!((0.95..1.5).contains(&ratio), "{ratio}: {backends:?}");
    assert_eq!(seen.processes["checkpointer"].count.unwrap().mean, 1.0);
    assert!(seen.processes["driver"].pss_bytes.unwrap().mean > 1e6);
    assert!(
        !seen.absent.contains_key("memory of some processes"),
        "{:?}",
        seen.absent
    );
    let machine = seen.machine.unwrap();
    assert!(
        machine.page_cache_bytes.mean > 0.0 && machine.faults > 0.0,
        "{machine:?}"
    );
    assert!(
        machine.cpu.total_s() + machine.idle_s > 0.5 * seen.interval_s,
        "{machine:?}"
    );
}

/// Columns of `/proc/diskstats` by device: sectors read, writes, sectors written.
fn disks() -> BTreeMap<String, [f64; 3]> {
    let text = fs::read_to_string("/proc/diskstats").unwrap();
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words[index].parse().unwrap();
        (words[2].to_owned(), [number(5), number(7), number(9)])
    };
    text.lines().map(of).collect()
}

#[test]
fn writes_to_the_disk_of_the_data_are_counted() {
    let server = start(debian(), &[]);
    let data = server.data_directory();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let first = disks();
    let watching = Watching::start(
        &server,
        &[
            ("data", data.clone()),
            ("files", folder.path().to_owned()),
            ("memory", "/dev/shm".into()),
        ],
    );
    let mut file = fs::File::create(folder.path().join("f")).unwrap();
    file.write_all(&vec![7; 64 << 20]).unwrap();
    file.sync_all().unwrap();
    let seen = watching.end();
    let last = disks();
    assert!(
        seen.absent["disk of memory"].contains("not on a disk"),
        "{:?}",
        seen.absent
    );
    let (disk, of) = seen
        .disks
        .iter()
        .find(|(_, disk)| disk.used_for.contains(&"files".to_owned()))
        .unwrap();
    assert_eq!(of.used_for, ["data", "files"]);
    let most = |index: usize| last[disk][index] - first[disk][index];
    assert!(of.sectors_written >= f64::from(64 << 20) / 512.0, "{of:?}");
    assert!(
        of.sectors_written <= most(2) && of.writes <= most(1) && of.sectors_read <= most(0),
        "{of:?}"
    );
    assert!(
        of.busy_share > 0.0 && of.queue_mean > 0.0 && of.write_ms.unwrap() > 0.0,
        "{of:?}"
    );
}
