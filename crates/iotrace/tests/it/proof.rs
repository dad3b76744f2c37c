//! The same run seen by tools that know nothing of each other: fio, bpftrace, the kernel, tenbin.

use crate::equality::trace;
use crate::{everything_on, may_trace};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use tenbin_disk::{Disk, run};

/// bpftrace counting the issues of one disk, started and attached.
struct Bpftrace {
    child: Child,
    printed: BufReader<ChildStdout>,
}

impl Bpftrace {
    fn start(disk: &Disk) -> Self {
        let number = std::fs::read_to_string(format!("/sys/block/{}/dev", disk.name())).unwrap();
        let (major, minor) = number.trim().split_once(':').unwrap();
        let dev = major.parse::<u64>().unwrap() << 20 | minor.parse::<u64>().unwrap();
        let script = format!(
            "BEGIN {{ printf(\"ready\\n\"); }}
             tracepoint:block:block_rq_issue /args->dev == {dev}/ {{
                @ios[args->rwbs] = count(); @bytes[args->rwbs] = sum(args->bytes);
             }}"
        );
        // It finds tracepoints by their file system, which need not be mounted.
        let mounted = "test -d /sys/kernel/tracing/events \
            || mount -t tracefs tracefs /sys/kernel/tracing && exec \"$@\"";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", mounted, "sh"])
            .args(["bpftrace", "-f", "json", "-e", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(
                printed.read_line(&mut line).unwrap() > 0,
                "bpftrace ended before it was ready"
            );
        }
        Self { child, printed }
    }

    /// I/Os and bytes of requests whose flags begin with a letter.
    fn finish(mut self) -> impl Fn(&str, char) -> u64 {
        // bpftrace looks at signals only while it waits: one that comes at another moment is lost.
        let mut printed = self.printed;
        let (sender, read) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut rest = String::new();
            printed.read_to_string(&mut rest).unwrap();
            sender.send(rest).unwrap();
        });
        let rest = loop {
            run("kill", &["-INT", &self.child.id().to_string()]);
            if let Ok(rest) = read.recv_timeout(Duration::from_secs(5)) {
                break rest;
            }
        };
        assert!(self.child.wait().unwrap().success());
        let maps: Vec<serde_json::Value> = rest
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        move |map, letter| {
            let data = maps
                .iter()
                .find_map(|value| value.pointer(&format!("/data/@{map}")));
            let counted = data.and_then(serde_json::Value::as_object).unwrap();
            let of_kind = counted.iter().filter(|(rwbs, _)| rwbs.starts_with(letter));
            of_kind.map(|(_, value)| value.as_u64().unwrap()).sum()
        }
    }
}

fn fio(disk: &Disk) -> serde_json::Value {
    let filename = format!("--filename={}", disk.device);
    let printed = run(
        "fio",
        &[
            "--name=mixed",
            &filename,
            "--direct=1",
            "--rw=randrw",
            "--bs=4k",
            "--ioengine=psync",
            "--number_ios=20000",
            "--fsync=50",
            "--size=256m",
            "--output-format=json",
        ],
    );
    let json = &printed[printed.find('{').unwrap()..];
    serde_json::from_str(json).unwrap()
}

#[test]
fn fio_bpftrace_the_kernel_and_tenbin_agree() {
    let test = "fio_bpftrace_the_kernel_and_tenbin_agree";
    if !may_trace(test) {
        return;
    }
    for tool in ["/usr/bin/fio", "/usr/bin/bpftrace"] {
        if !Path::new(tool).exists() {
            eprintln!("skipped: {test} needs {tool}");
            return;
        }
    }
    let disk = Disk::new(256);
    let bpftrace = Bpftrace::start(&disk);
    let before = disk.stat();
    let mut told = None;
    let (finished, _folder) = trace(&everything_on(&disk.device), true, || {
        told = Some(fio(&disk));
    });
    let kernel = disk.stat().since(before);
    let bpftrace = bpftrace.finish();
    let told = told.unwrap();
    let fio = |direction: &str, what: &str| told["jobs"][0][direction][what].as_u64().unwrap();
    // The kernel counts one who asks for a flush without data as a writer.
    let syncs = fio("sync", "total_ios");
    let ours = finished.totals;
    assert_eq!(ours.lost, 0);
    let figures = [
        (
            "reads",
            ours.reads.count,
            kernel.reads,
            bpftrace("ios", 'R'),
            fio("read", "total_ios"),
        ),
        (
            "bytes read",
            ours.reads.bytes,
            kernel.read_bytes,
            bpftrace("bytes", 'R'),
            fio("read", "io_bytes"),
        ),
        (
            "writes",
            ours.writes.count,
            kernel.writes - kernel.flushes,
            bpftrace("ios", 'W'),
            fio("write", "total_ios"),
        ),
        (
            "bytes written",
            ours.writes.bytes,
            kernel.written_bytes,
            bpftrace("bytes", 'W'),
            fio("write", "io_bytes"),
        ),
        (
            "flushes",
            ours.flushes,
            kernel.flushes,
            bpftrace("ios", 'F'),
            syncs,
        ),
    ];
    for (what, ours, kernel, bpftrace, fio) in figures {
        eprintln!("{what}: tenbin {ours}, kernel {kernel}, bpftrace {bpftrace}, fio {fio}");
        assert_eq!(ours, kernel, "{what}, beside the kernel's own");
        for (tool, theirs) in [("bpftrace", bpftrace), ("fio", fio)] {
            let apart = ours.abs_diff(theirs) as f64 / theirs as f64;
            assert!(apart <= 0.001, "{what}: {ours}, {tool} says {theirs}");
        }
    }
}
