//! The steps of `cargo xtask test`, in the order that fails soonest.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs one command in the root of the checkout, showing what it prints.
pub(crate) fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let started = Instant::now();
    eprintln!("\n── {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot run {program}: is it installed?"))?;
    if !status.success() {
        bail!("`{program} {}` failed: {status}", arguments.join(" "));
    }
    eprintln!("── done in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Every check there is.
pub(crate) fn test() -> Result<()> {
    let started = Instant::now();
    crate::setup::install()?;
    run("cargo", &["fmt", "--all", "--check"], &[])?;
    crate::tidy::check()?;
    crate::bpf::build(true)?;
    run(
        "cargo",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )?;
    run(
        "cargo",
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--locked",
            "--document-private-items",
        ],
        &[(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        )],
    )?;
    crate::docs::generate(true)?;
    crate::timed::tests()?;
    crate::suites::run(&[], true)?;
    eprintln!(
        "\nall checks passed in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
