//! The kernel's half of the block-I/O tracer: built from its C, and shown to be what its C builds.

use crate::steps::root;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The release of clang that the object in the repository is built with: Debian 12's.
const CLANG: u32 = 14;
const SOURCE: &str = "iotrace.bpf.c";
const OBJECT: &str = "iotrace.bpf.o";

/// Builds the object, or (`check`) says whether it is what its source builds.
pub(crate) fn build(check: bool) -> Result<()> {
    if let Err(reason) = compiler() {
        if check {
            eprintln!("\n── skipped: that {OBJECT} is what its source builds ({reason})");
            return Ok(());
        }
        bail!("{reason}; on Debian 12: apt-get install clang llvm");
    }
    let built = compile()?;
    let kept = folder().join(OBJECT);
    if std::fs::read(&kept).is_ok_and(|old| old == built) {
        eprintln!("{OBJECT} is what {SOURCE} builds");
        return Ok(());
    }
    if check {
        bail!("{OBJECT} is not what {SOURCE} builds; run `cargo xtask bpf` and commit");
    }
    std::fs::write(&kept, built).with_context(|| format!("cannot write {}", kept.display()))?;
    eprintln!("wrote {}", kept.display());
    Ok(())
}

fn folder() -> PathBuf {
    root().join("crates/iotrace/bpf")
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

fn compile() -> Result<Vec<u8>> {
    let target = crate::steps::target();
    std::fs::create_dir_all(&target)?;
    let built = target.canonicalize()?.join(OBJECT);
    let path = built.to_str().context("the build directory is UTF-8")?;
    let run = |program: &str, arguments: &[&str]| -> Result<()> {
        let status = Command::new(program)
            .args(arguments)
            .current_dir(folder())
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
            "-Wno-unused-variable",
            "-c",
            SOURCE,
            "-o",
            path,
        ],
    )?;
    // The type information stays, what only a debugger reads goes.
    run("llvm-strip", &["-g", path])?;
    std::fs::read(&built).context("clang wrote no object")
}
