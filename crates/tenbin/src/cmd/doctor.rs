//! `tenbin doctor`: what works on this machine, and how to fix what does not.

use crate::exit::{Answer, Result};
use serde::Serialize;
use std::path::Path;
use tenbin_server::{Account, Cache, Progress, Source};

/// Check what works on this machine, and show how to fix what does not
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin doctor\n  tenbin doctor --json | jq '.[] | select(.verdict != \"ok\")'\n\nExit status: 0 a run is possible, 1 it is not."
)]
pub(crate) struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Ok,
    /// A run works, but with a limit.
    Limit,
    /// A run does not work.
    No,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do about it; empty when nothing.
    mend: String,
}

pub(crate) fn run(args: &Args) -> Result {
    let findings = [
        postgresql(),
        account(),
        space(),
        files(),
        memory(),
        clock(),
        tracing(),
        toolbox(),
    ];
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        print(&findings);
    }
    let stopped = findings
        .iter()
        .any(|finding| finding.verdict == Verdict::No);
    Ok(if stopped { Answer::No } else { Answer::Yes })
}

fn print(findings: &[Finding]) {
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok   ",
            Verdict::Limit => "limit",
            Verdict::No => "NO   ",
        };
        println!("{mark}  {:<12} {}", finding.what, finding.found);
        if !finding.mend.is_empty() {
            println!("{:>21}{}", "→ ", finding.mend);
        }
    }
}

fn finding(
    what: &'static str,
    verdict: Verdict,
    found: impl Into<String>,
    mend: impl Into<String>,
) -> Finding {
    Finding {
        what,
        verdict,
        found: found.into(),
        mend: mend.into(),
    }
}

fn postgresql() -> Finding {
    let found = Cache::for_user().and_then(|cache| {
        Source::default().find(&cache, &Account::for_server(), &Progress::silent())
    });
    match found {
        Ok(found) => {
            let at = format!(
                "{} in {}",
                found.installation.version,
                found.installation.bin.display()
            );
            let verdict = if found.notes.is_empty() {
                Verdict::Ok
            } else {
                Verdict::Limit
            };
            finding("PostgreSQL", verdict, at, found.notes.join("; "))
        }
        Err(error) => finding(
            "PostgreSQL",
            Verdict::No,
            "not available",
            error.to_string(),
        ),
    }
}

fn account() -> Finding {
    let account = Account::for_server();
    finding(
        "account",
        Verdict::Ok,
        format!("servers run as {}", account.name),
        "",
    )
}

fn space() -> Finding {
    let folder = std::env::temp_dir();
    match tenbin_server::space::available_bytes(&folder) {
        Ok(bytes) => {
            // Data, log and their growth over a run.
            let warehouses = bytes / (400 << 20);
            let found = format!(
                "{} free in {}: about {warehouses} TPC-C warehouses",
                crate::units::bytes(bytes),
                folder.display()
            );
            let small = warehouses < 2;
            let mend = if small {
                "set TMPDIR or give --data-dir with more room"
            } else {
                ""
            };
            finding(
                "disk",
                if small { Verdict::No } else { Verdict::Ok },
                found,
                mend,
            )
        }
        Err(error) => finding("disk", Verdict::No, "cannot be measured", error.to_string()),
    }
}

fn files() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(u64::MAX);
    let found = format!("{limit} open files: as many connections, less a few");
    let few = limit < 1024;
    finding(
        "files",
        if few { Verdict::Limit } else { Verdict::Ok },
        found,
        if few { "ulimit -n 65536" } else { "" },
    )
}

fn memory() -> Finding {
    let host = tenbin_observe::describe(&[]);
    let found = format!(
        "{} cores, {} memory, kernel {}{}",
        host.cores,
        crate::units::bytes(host.memory_bytes),
        host.kernel,
        host.virtualized
            .map_or(String::new(), |how| format!(", {how}"))
    );
    let alone = host.cores < 2;
    let mend = if alone {
        "driver and server share one core: results are not representative; use two or more"
    } else {
        ""
    };
    finding(
        "machine",
        if alone { Verdict::Limit } else { Verdict::Ok },
        found,
        mend,
    )
}

fn clock() -> Finding {
    let path = Path::new("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = std::fs::read_to_string(path)
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    let slow = matches!(source.as_str(), "hpet" | "acpi_pm" | "jiffies");
    let mend = if slow {
        "reading the time is slow here; boot with clocksource=tsc if the machine allows"
    } else {
        ""
    };
    finding(
        "clock",
        if slow { Verdict::Limit } else { Verdict::Ok },
        source,
        mend,
    )
}

/// Whether `tenbin trace` and the studies that use it will work; runs do not need it.
fn tracing() -> Finding {
    match tenbin_iotrace::probe() {
        Ok(()) => finding(
            "tracing",
            Verdict::Ok,
            "the kernel loads the block I/O tracer",
            "",
        ),
        Err(error) => finding(
            "tracing",
            Verdict::Limit,
            "tenbin trace and tenbin study run S2-aging do not work here",
            error.to_string(),
        ),
    }
}

fn toolbox() -> Finding {
    match tenbin_server::list() {
        Ok(at_hand) => {
            let versions: Vec<String> = at_hand.iter().map(|one| one.version.to_string()).collect();
            let found = if versions.is_empty() {
                "no release yet; tenbin fetches one when a run needs it".to_owned()
            } else {
                versions.join(", ")
            };
            finding("releases", Verdict::Ok, found, "")
        }
        Err(error) => finding(
            "releases",
            Verdict::No,
            "the cache cannot be read",
            error.to_string(),
        ),
    }
}
