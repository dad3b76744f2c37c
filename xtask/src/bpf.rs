//! The kernel's halves of what is traced: built from their C, and shown to be what their C builds.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use xtask::root;

/// The release of clang that the objects in the repository are built with: Debian 12's.
const CLANG: u32 = 14;
/// Folder, and name of source and object in it, without what they end in.
const PROGRAMS: [(&str, &str); 3] = [
    ("crates/iotrace/bpf", "iotrace"),
    ("crates/observe/bpf", "profile"),
    ("crates/observe/bpf", "syscalls"),
];

/// Builds the objects, or (`check`) says whether they are what their sources build.
pub(crate) fn build(check: bool) -> Result<()> {
    if let Err(reason) = compiler() {
        if check {
            eprintln!("\n── skipped: that BPF objects are what their sources build ({reason})");
            return Ok(());
        }
        bail!("{reason}; on Debian 12: apt-get install clang llvm");
    }
    PROGRAMS
        .iter()
        .try_for_each(|(folder, name)| build_one(&root().join(folder), name, check))
}

fn build_one(folder: &Path, name: &str, check: bool) -> Result<()> {
    let (source, object) = (format!("{name}.bpf.c"), format!("{name}.bpf.o"));
    let built = compile(folder, &source, &object)?;
    let kept = folder.join(&object);
    if std::fs::read(&kept).is_ok_and(|old| old == built) {
        eprintln!("{object} is what {source} builds");
        return Ok(());
    }
    if check {
        bail!("{object} is not what {source} builds; run `cargo xtask bpf` and commit");
    }
    std::fs::write(&kept, built).with_context(|| format!("cannot write {}", kept.display()))?;
    eprintln!("wrote {}", kept.display());
    Ok(())
}

/// Why the compiler here cannot build the object byte by byte, if it cannot.
fn compiler() -> std::result::Result<(), String> {
    let said = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let clang = said("clang").ok_or(format!("needs clang {CLANG}"))?;
    said("llvm-strip").ok_or("needs llvm-strip")?;
    let release = clang.split("version ").nth(1).unwrap_or_default();
    let major: Option<u32> = release.split('.').next().and_then(|text| text.parse().ok());
    if major == Some(CLANG) {
        return Ok(());
    }
    let found = clang.lines().next().unwrap_or_default();
    Err(format!("needs clang {CLANG}, here is {found}"))
}

fn compile(folder: &Path, source: &str, object: &str) -> Result<Vec<u8>> {
    let target = xtask::target();
    std::fs::create_dir_all(&target)?;
    let built = target.canonicalize()?.join(object);
    let path = built.to_str().context("the build directory is UTF-8")?;
    let run = |program: &str, arguments: &[&str]| -> Result<()> {
        let status = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .status()
            .with_context(|| format!("cannot run {program}"))?;
        if !status.success() {
            bail!("`{program} {}` failed: {status}", arguments.join(" "));
        }
        Ok(())
    };
    run(
        "clang",
        &[
            "-target",
            "bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            // So that the object does not depend on where it is built.
            "-fdebug-compilation-dir=.",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            "-Wno-unused-parameter",
            "-Wno-unused-variable",
            "-c",
            source,
            "-o",
            path,
        ],
    )?;
    // The type information stays, what only a debugger reads goes.
    run("llvm-strip", &["-g", path])?;
    std::fs::read(&built).context("clang wrote no object")
}
