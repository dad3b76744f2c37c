//! The tracer at the highest rate of I/O that this machine reaches.

use super::ratio::Ratio;
use super::{Row, folder, output, tenbin};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Length of the long run, seconds.
const LONG_S: u64 = 60;
/// Length of each of the paired runs, seconds.
const SHORT_S: u64 = 10;
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// A minute without loss, what an event costs, and what is left of the rate.
pub(crate) fn iotrace(pairs: usize) -> Result<Vec<Row>> {
    let disk = Disk::new()?;
    let long = long(&disk)?;
    let mut rates = Vec::new();
    for pair in 0..pairs {
        let traced = iops(&Traced::start(&disk, SHORT_S)?.finish()?.1)?;
        let alone = iops(&output(Path::new("fio"), &words(&fio(&disk, SHORT_S)))?)?;
        eprintln!("iotrace pair {pair}: {traced:.0} I/Os a second traced, {alone:.0} alone");
        rates.push((traced, alone));
    }
    let mut rows = long;
    rows.push(Row::new(
        "rate of fio traced; peer: not traced",
        format!(
            "{:.0}/s",
            super::ratio::median(rates.iter().map(|pair| pair.0))
        ),
        format!(
            "{:.0}/s",
            super::ratio::median(rates.iter().map(|pair| pair.1))
        ),
        Ratio::of(&rates).to_string(),
        "as near 1 as it gets",
    ));
    Ok(rows)
}

fn long(disk: &Disk) -> Result<Vec<Row>> {
    fs::write(STATS, "1").context("counting what BPF programs cost needs root")?;
    let mut traced = Traced::start(disk, LONG_S)?;
    let begun = Instant::now();
    // Late enough to stand for the whole, early enough that the programs are still there.
    while begun.elapsed() < Duration::from_secs(LONG_S * 3 / 4) {
        if traced.child.try_wait()?.is_some() {
            bail!("tenbin trace ended early");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let cost = cost(traced.child.id());
    fs::write(STATS, "0")?;
    // To its end whatever was told: fio would go on otherwise.
    let (totals, told) = traced.finish()?;
    let (kernel_ns, ios, reader_s) = cost?;
    let figure = |name: &str| totals[name].as_u64().unwrap_or(0);
    let rate = figure("events") as f64 / totals["duration_s"].as_f64().unwrap_or(f64::NAN);
    eprintln!("fio: {:.0} I/Os a second", iops(&told)?);
    let row = |what: &str, ours: String, reach: &str| Row::new(what, ours, "–", "–", reach);
    Ok(vec![
        row(
            &format!(
                "I/Os of {LONG_S} s at the highest rate fio reaches on a loop device in memory"
            ),
            format!(
                "{} at {rate:.0}/s, {} lost, {} without latency",
                figure("events"),
                figure("lost"),
                figure("untimed")
            ),
            "none lost at 80,000/s or more",
        ),
        row(
            "kernel time an I/O, its three programs",
            format!("{:.2} µs", kernel_ns / ios / 1e3),
            "–",
        ),
        row(
            "reader CPU an I/O",
            format!("{:.2} µs", reader_s * 1e6 / ios),
            "–",
        ),
    ])
}

/// Time in the programs of a process, I/Os they saw complete, CPU of the process itself.
fn cost(pid: u32) -> Result<(f64, f64, f64)> {
    let mut programs = std::collections::BTreeMap::new();
    for file in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let text = fs::read_to_string(file?.path()).unwrap_or_default();
        let field = |name: &str| -> Option<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        // Links, too, name their program, and do not tell what it costs.
        let told = field("run_time_ns:").zip(field("run_cnt:"));
        if let (Some(id), Some(told)) = (field("prog_id:"), told) {
            programs.insert(id.to_bits(), told);
        }
    }
    if programs.is_empty() {
        bail!("the kernel does not tell what programs cost");
    }
    let time: f64 = programs.values().map(|one| one.0).sum();
    let ios = programs.values().map(|one| one.1).fold(0.0, f64::max);
    let stat = procfs::process::Process::new(pid.cast_signed())?.stat()?;
    let cpu = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
    Ok((time, ios, cpu))
}

/// A trace of fio under way.
struct Traced {
    child: Child,
    out: PathBuf,
}

impl Traced {
    fn start(disk: &Disk, seconds: u64) -> Result<Self> {
        let out = folder()?.join("iotrace");
        // What an earlier bench left.
        let _ = fs::remove_dir_all(&out);
        let out_text = out.to_str().context("the build directory is UTF-8")?;
        let child = Command::new(tenbin())
            .args([
                "trace",
                "record",
                "--json",
                "--device",
                &disk.device,
                "--out",
                out_text,
            ])
            .arg("--")
            .arg("fio")
            .args(fio(disk, seconds))
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start tenbin")?;
        Ok(Self { child, out })
    }

    /// The totals of tenbin and what fio printed.
    fn finish(self) -> Result<(serde_json::Value, String)> {
        let output = self.child.wait_with_output()?;
        fs::remove_dir_all(&self.out)?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (told, totals) = printed
            .trim_end()
            .rsplit_once('\n')
            .context("tenbin printed no totals")?;
        Ok((serde_json::from_str(totals)?, told.to_owned()))
    }
}

fn fio(disk: &Disk, seconds: u64) -> Vec<String> {
    vec![
        "--name=bench".into(),
        format!("--filename={}", disk.device),
        "--direct=1".into(),
        "--rw=randread".into(),
        "--bs=512".into(),
        "--ioengine=libaio".into(),
        "--iodepth=64".into(),
        "--time_based".into(),
        format!("--runtime={seconds}"),
        "--output-format=json".into(),
    ]
}

fn words(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

fn iops(told: &str) -> Result<f64> {
    let start = told.find('{').context("fio printed no JSON")?;
    let json: serde_json::Value = serde_json::from_str(&told[start..])?;
    json["jobs"][0]["read"]["iops"]
        .as_f64()
        .context("fio told no rate")
}

/// A loop device over a file in memory.
struct Disk {
    device: String,
    image: PathBuf,
}

impl Disk {
    fn new() -> Result<Self> {
        let image = Path::new("/dev/shm").join(format!("tenbin-bench-{}", std::process::id()));
        fs::File::create(&image)?.set_len(512 << 20)?;
        let path = image.to_str().context("a path in /dev/shm is UTF-8")?;
        let device = output(Path::new("losetup"), &["--find", "--show", path])?;
        Ok(Self {
            device: device.trim().to_owned(),
            image,
        })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .args(["--detach", &self.device])
            .status();
        let _ = fs::remove_file(&self.image);
    }
}
