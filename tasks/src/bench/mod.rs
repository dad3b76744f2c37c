//! `cargo xtask bench`: tenbin beside its peers, in one run, interleaved.

mod causes;
mod driver;
mod equal;
mod iotrace;
mod observe;
mod peers;
mod pgbench;
mod ratio;
mod rows;
mod stub;
mod tpmonitor;

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::target;

/// What can be measured.
pub(crate) const NAMES: [&str; 11] = [
    "load",
    "driver",
    "terminals",
    "stub",
    "growth",
    "pgbench",
    "iotrace",
    "observe",
    "tpmonitor",
    "causes",
    LONG,
];

/// Takes the better part of an hour, and runs only where it is named.
const LONG: &str = "equal";

/// Runs the benches named, or all, and prints the table of `docs/performance.md`.
pub(crate) fn run(names: &[String], pairs: usize) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!(
            "there is no bench {unknown}; there are {}",
            NAMES.join(", ")
        );
    }
    let chosen =
        |name: &str| names.is_empty() && name != LONG || names.iter().any(|given| given == name);
    xtask::run(
        "cargo",
        &["build", "--release", "--locked", "-p", "tenbin"],
        &[],
    )?;
    let mut rows = vec![Row::new("what", "tenbin", "peer", "ratio", "reach")];
    let mut failed = Ok(());
    for name in NAMES {
        // What was measured before one fails is worth printing.
        if chosen(name) && failed.is_ok() {
            failed = measure(name, pairs).map(|measured| rows.extend(measured));
        }
    }
    print(&rows);
    failed
}

fn measure(name: &str, pairs: usize) -> Result<Vec<Row>> {
    match name {
        "load" => rows::load(pairs),
        "driver" => driver::driver(pairs),
        "terminals" => driver::terminals(),
        "stub" => stub::stub(),
        "growth" => stub::growth(),
        "pgbench" => pgbench::pgbench(pairs),
        "iotrace" => iotrace::iotrace(pairs),
        "observe" => observe::observe(pairs),
        "tpmonitor" => tpmonitor::tpmonitor(pairs),
        "causes" => causes::causes(pairs),
        LONG => equal::equal(pairs),
        unknown => bail!("there is no bench {unknown}"),
    }
}

/// One line of the table.
pub(crate) struct Row([String; 5]);

impl Row {
    pub(crate) fn new(
        what: impl Into<String>,
        ours: impl Into<String>,
        peer: impl Into<String>,
        ratio: impl Into<String>,
        reach: impl Into<String>,
    ) -> Self {
        Self([
            what.into(),
            ours.into(),
            peer.into(),
            ratio.into(),
            reach.into(),
        ])
    }
}

fn print(rows: &[Row]) {
    println!();
    for (index, Row(cells)) in rows.iter().enumerate() {
        println!("| {} |", cells.join(" | "));
        if index == 0 {
            println!("|{}", "---|".repeat(cells.len()));
        }
    }
}

/// Folder for what benches build and write, under the build directory.
pub(crate) fn folder() -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn tenbin() -> PathBuf {
    target().join("release/tenbin")
}

/// An example program of one of the crates, built for release.
fn example(package: &str, name: &str) -> Result<PathBuf> {
    xtask::run(
        "cargo",
        &[
            "build",
            "--release",
            "--locked",
            "-p",
            package,
            "--example",
            name,
        ],
        &[],
    )?;
    Ok(target().join("release/examples").join(name))
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn output(program: &Path, arguments: &[&str]) -> Result<String> {
    printed(Command::new(program).args(arguments))
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn printed(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} {} failed ({}):\n{printed}{said}",
            command.get_program().display(),
            command
                .get_args()
                .collect::<Vec<_>>()
                .join(OsStr::new(" "))
                .display(),
            output.status
        );
    }
    Ok(printed)
}

/// CPU time, user and system, of the children waited for so far, seconds.
fn children_cpu_s() -> Result<f64> {
    let stat = procfs::process::Process::myself()?.stat()?;
    let ticks = stat.cutime + stat.cstime;
    Ok(ticks as f64 / procfs::ticks_per_second() as f64)
}
