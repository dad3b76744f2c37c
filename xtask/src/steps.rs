//! The steps of `cargo xtask test`, in the order that fails soonest.

use anyhow::Result;
use std::time::Instant;
use xtask::run;

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
    let built = crate::timed::build()?;
    let tenbin = built.program("tenbin")?;
    let tasks = built.program("tasks")?;
    run(tasks, &["docs", "--check", "--tenbin", tenbin], &[])?;
    built.test()?;
    run(tasks, &["suites", "--quick", "--tenbin", tenbin], &[])?;
    eprintln!(
        "\nall checks passed in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
