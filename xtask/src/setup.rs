//! What the tests need beside Rust and a C compiler.

use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// A program that tests start, the path that shows it is there, and the Debian package that brings it.
struct Tool {
    path: &'static str,
    package: &'static str,
    why: &'static str,
    /// Without it something is skipped by name; else nothing goes on.
    skippable: bool,
}

const TOOLS: [Tool; 12] = [
    Tool {
        path: "/usr/lib/postgresql/15/bin/postgres",
        package: "postgresql-15",
        why: "a server that tenbin did not fetch, for --dsn and --pg-bin",
        skippable: false,
    },
    Tool {
        path: "/usr/lib/postgresql/15/bin/pgbench",
        package: "postgresql-15",
        why: "pgbench, which scripts and expressions are compared with",
        skippable: false,
    },
    Tool {
        path: "/usr/sbin/pgbouncer",
        package: "pgbouncer",
        why: "a pooler to run a load through",
        skippable: true,
    },
    Tool {
        path: "/usr/bin/python3",
        package: "python3",
        why: "plays a service manager",
        skippable: false,
    },
    Tool {
        path: "/usr/lib/python3/dist-packages/prometheus_client",
        package: "python3-prometheus-client",
        why: "reads the TP monitor's metrics",
        skippable: true,
    },
    Tool {
        path: "/usr/lib/python3/dist-packages/pip",
        package: "python3-pip",
        why: "gets asyncpg's own tests; pgx's need a go that is newer than this distribution's",
        skippable: true,
    },
    Tool {
        path: "/usr/bin/clang",
        package: "clang",
        why: "shows that the tracer's BPF object is what its source builds",
        skippable: true,
    },
    Tool {
        path: "/usr/bin/llvm-strip",
        package: "llvm",
        why: "the same",
        skippable: true,
    },
    Tool {
        path: "/usr/bin/fio",
        package: "fio",
        why: "I/O whose totals the tracer's are held against",
        skippable: true,
    },
    Tool {
        path: "/usr/bin/bpftrace",
        package: "bpftrace",
        why: "an independent tracer to be held against",
        skippable: true,
    },
    Tool {
        path: "/usr/sbin/mkfs.xfs",
        package: "xfsprogs",
        why: "a file system on which the tracer finds relations",
        skippable: true,
    },
    Tool {
        path: "/usr/sbin/mkfs.btrfs",
        package: "btrfs-progs",
        why: "another",
        skippable: true,
    },
];

/// Installs what is missing where that is possible, else names it.
pub(crate) fn install() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS
        .iter()
        .filter(|tool| !Path::new(tool.path).exists())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for tool in &missing {
        eprintln!("missing: {} ({})", tool.path, tool.why);
    }
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    let installable = Path::new("/usr/bin/apt-get").exists() && is_root();
    if !installable {
        if missing.iter().all(|tool| tool.skippable) {
            return Ok(());
        }
        bail!(
            "install these and try again (Debian): apt-get install {}",
            packages.join(" ")
        );
    }
    xtask::run("apt-get", &["update", "-qq"], &[])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&packages);
    xtask::run(
        "apt-get",
        &arguments,
        &[("DEBIAN_FRONTEND", "noninteractive")],
    )
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
