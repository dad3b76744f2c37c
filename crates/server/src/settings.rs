//! What a server is started with: defaults for a benchmark from the machine's size,
//! the user's own over them, and what must be so for tenbin to run it.

use crate::Error;
use crate::machine::Machine;
use crate::version::Version;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// One setting with the reason for its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// As in `postgresql.conf`.
    pub name: String,
    /// As in `postgresql.conf`, without quotes.
    pub value: String,
    /// Why this value; empty for one that the user gave.
    pub reason: String,
}

/// `random_page_cost`, `effective_io_concurrency` and why.
fn disk(machine: &Machine) -> (&'static str, &'static str, &'static str) {
    if machine.rotational {
        ("4", "2", "the data is on a rotating disk")
    } else {
        ("1.1", "16", "the data is not on a disk known to rotate")
    }
}

/// The defaults for a benchmark on this machine.
///
/// Durability is the server's own: `fsync`, `synchronous_commit` and `full_page_writes`
/// are written out as `on`, so that no default of a build can differ. What the server
/// versions differ in by default (`wal_level`, `checkpoint_completion_target`, …) is set
/// to one value, so that versions are compared and not their defaults. Data checksums are no
/// setting but a property of the cluster: they are as the release makes them (on from 18).
///
/// `connections` is how many the load will open.
#[must_use]
pub fn defaults(machine: &Machine, connections: u32, version: Version) -> Vec<Setting> {
    let memory = machine.memory_bytes;
    // A power of two, lest every run on a filling disk have another.
    let max_wal = 1 << (machine.free_bytes / 8).clamp(GIB, 64 * GIB).ilog2();
    let shared_buffers = (memory / 4).max(128 * MIB);
    let max_connections = (u64::from(connections) + 20).max(100);
    let workers = machine.cores.max(8).to_string();
    let (page_cost, io_concurrency, disk) = disk(machine);
    let mut settings = Vec::new();
    let mut set = |name: &str, value: &str, reason: &str| {
        settings.push(Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            reason: reason.to_owned(),
        });
    };
    set("fsync", "on", "durability is never weakened");
    set("synchronous_commit", "on", "durability is never weakened");
    set("full_page_writes", "on", "durability is never weakened");
    set(
        "shared_buffers",
        &mib(shared_buffers),
        "a quarter of memory, as the manual recommends",
    );
    set(
        "effective_cache_size",
        &mib(memory / 4 * 3),
        "memory left for the kernel's cache, for the planner's estimates",
    );
    set(
        "work_mem",
        &mib((memory / 4 / max_connections).clamp(4 * MIB, 64 * MIB)),
        "a quarter of memory if every connection sorts at once",
    );
    set(
        "maintenance_work_mem",
        &mib((memory / 16).clamp(64 * MIB, 2 * GIB)),
        "indexes are built in few passes",
    );
    set(
        "huge_pages",
        "try",
        "fewer page-table entries where the machine has huge pages set aside",
    );
    set(
        "max_connections",
        &max_connections.to_string(),
        "the connections of the load, and some for observation",
    );
    set(
        "max_wal_size",
        &mib(max_wal),
        "an eighth of the free disk: checkpoints start by time, not by volume",
    );
    set(
        "min_wal_size",
        &mib((max_wal / 8).clamp(80 * MIB, GIB)),
        "segments are reused instead of created",
    );
    set("wal_buffers", &mib(16 * MIB), "one WAL segment");
    set(
        "wal_level",
        "replica",
        "the same in every version; 9.6 has minimal by default",
    );
    set(
        "checkpoint_timeout",
        "15min",
        "long enough to even out the cost of full-page writes, short enough to bound recovery",
    );
    set(
        "checkpoint_completion_target",
        "0.9",
        "the same in every version; those before 14 have 0.5 by default",
    );
    set("random_page_cost", page_cost, disk);
    set("effective_io_concurrency", io_concurrency, disk);
    set(
        "max_worker_processes",
        &workers,
        "one for each core, at least 8",
    );
    if version.num() >= 100_000 {
        set(
            "max_parallel_workers",
            &workers,
            "one for each core, at least 8",
        );
    }
    set(
        "timezone",
        "UTC",
        "nothing depends on the machine's time zone",
    );
    set(
        "log_timezone",
        "UTC",
        "nothing depends on the machine's time zone",
    );
    settings
}

/// `name=value` as `--set` takes it.
pub fn parse(text: &str) -> Result<(String, String), Error> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(Error::ReservedSetting {
            name: text.to_owned(),
            reason: "it has no value; write it as name=value".to_owned(),
        }),
    }
}

/// Lays the user's settings over the defaults; the last of a name counts.
pub(crate) fn overlay(
    defaults: Vec<Setting>,
    given: &[(String, String)],
) -> Result<Vec<Setting>, Error> {
    let mut settings = defaults;
    for (name, value) in given {
        let name = name.to_ascii_lowercase();
        check_name(&name)?;
        if value.contains(['\n', '\r', '\0']) {
            return Err(Error::ReservedSetting {
                name,
                reason: "its value holds a line break, which no setting can".to_owned(),
            });
        }
        settings.retain(|setting| setting.name != name);
        settings.push(Setting {
            name,
            value: value.clone(),
            reason: String::new(),
        });
    }
    Ok(settings)
}

/// Refuses names that cannot be a setting's, and those by which tenbin keeps hold of the server.
fn check_name(name: &str) -> Result<(), Error> {
    let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
        && !name.starts_with("include");
    let reason = match name {
        "port" => "tenbin chooses it; use --port",
        "data_directory" | "config_file" | "hba_file" | "ident_file" | "external_pid_file" => {
            "tenbin makes the server's files and must know where they are"
        }
        "listen_addresses"
        | "unix_socket_directories"
        | "unix_socket_permissions"
        | "unix_socket_group" => {
            "tenbin's servers listen on a private Unix socket and on 127.0.0.1 only; for another, start it yourself and give --dsn"
        }
        "logging_collector" | "log_destination" => "tenbin reads the log where it puts it",
        _ if !well_formed => "that is not the name of a setting",
        _ => return Ok(()),
    };
    Err(Error::ReservedSetting {
        name: name.to_owned(),
        reason: reason.to_owned(),
    })
}

/// The whole configuration file.
pub(crate) fn render(
    settings: &[Setting],
    data: &Path,
    socket: &Path,
    port: u16,
    cluster: &str,
) -> String {
    let mut text = String::from("# Written by tenbin.\n");
    let data_conf = data.join("postgresql.conf");
    // `initdb` leaves the locale settings there.
    let _ = writeln!(text, "include {}", quote(&data_conf.to_string_lossy()));
    for setting in settings {
        let _ = writeln!(text, "{} = {}", setting.name, quote(&setting.value));
    }
    let socket = socket.to_string_lossy();
    for (name, value) in [
        ("listen_addresses", "127.0.0.1"),
        ("port", &port.to_string()),
        ("unix_socket_directories", &socket),
        ("unix_socket_permissions", "0700"),
        ("cluster_name", cluster),
        ("log_destination", "stderr"),
        ("logging_collector", "off"),
    ] {
        let _ = writeln!(text, "{name} = {}", quote(value));
    }
    text
}

fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// Whole MiB, with the unit the server takes.
fn mib(bytes: u64) -> String {
    format!("{}MB", bytes / MIB)
}

/// Reads from the log of a server that did not come up why it did not.
pub(crate) fn refusal(log: &str, given: &[(String, String)], port: u16, data: &Path) -> Error {
    let entries = entries(log);
    let named = |entry: &&String| given.iter().any(|(name, _)| mentions(entry, name));
    let about: Vec<String> = entries.iter().filter(named).cloned().collect();
    if !about.is_empty() {
        let concerned: Vec<String> = given
            .iter()
            .filter(|(name, _)| about.iter().any(|entry| mentions(entry, name)))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        return Error::Setting {
            given: concerned.join(" "),
            message: about.join("; "),
        };
    }
    let said = |words: &str| entries.iter().any(|entry| entry.contains(words));
    if said("could not bind IPv4") || said("could not create any TCP/IP sockets") {
        return Error::PortInUse { port };
    }
    if let Some(pid) = entries.iter().find_map(|entry| other_postmaster(entry)) {
        let path = data.to_owned();
        return Error::DataDirectoryInUse { path, pid };
    }
    let message = entries
        .iter()
        .rev()
        .find(|entry| entry.starts_with("FATAL") || entry.starts_with("PANIC"))
        .cloned()
        .unwrap_or_else(|| {
            log.trim()
                .lines()
                .last()
                .unwrap_or("it said nothing")
                .to_owned()
        });
    let hint = if said("Cannot allocate memory")
        || said("No space left on device") && said("shared memory")
    {
        "; give it less memory with --set shared_buffers=…"
    } else if said("No space left on device") {
        "; free some space or name another place"
    } else {
        ""
    };
    Error::Start {
        message: format!("{message}{hint}"),
    }
}

/// `lock file "postmaster.pid" already exists (Is another postmaster (PID 4711) running in …?)`
fn other_postmaster(entry: &str) -> Option<u32> {
    let (_, rest) = entry.split_once("lock file \"postmaster.pid\" already exists")?;
    let (_, rest) = rest.split_once("(PID ")?;
    rest.split_once(')')?.0.parse().ok()
}

/// What the server said, without time stamps and file names; details and hints with what they belong to.
fn entries(log: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in log.lines() {
        // What it says before it can log.
        let line = &line.replacen("postgres: ", "FATAL:  ", 1);
        let Some((severity, text)) = [
            "LOG", "WARNING", "ERROR", "FATAL", "PANIC", "DETAIL", "HINT",
        ]
        .iter()
        .find_map(|severity| {
            let (_, text) = line.split_once(&format!("{severity}:  "))?;
            Some((*severity, text.trim()))
        }) else {
            continue;
        };
        let text = text.split(" in file \"").next().unwrap_or(text);
        match found.last_mut() {
            Some(last) if matches!(severity, "DETAIL" | "HINT") => {
                let _ = write!(last, " ({text})");
            }
            _ => found.push(format!("{severity}: {text}")),
        }
    }
    found
}

/// Whether `name` stands in `entry` as a word of its own.
fn mentions(entry: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    entry
        .to_ascii_lowercase()
        .split(|c: char| !(c.is_ascii_alphanumeric() || "_.".contains(c)))
        .any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(memory_gib: u64, free_gib: u64, rotational: bool) -> Machine {
        Machine {
            memory_bytes: memory_gib * GIB,
            cores: 2,
            free_bytes: free_gib * GIB,
            rotational,
        }
    }

    fn value<'a>(settings: &'a [Setting], name: &str) -> &'a str {
        let found: Vec<_> = settings.iter().filter(|s| s.name == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        &found[0].value
    }

    #[test]
    fn defaults_grow_with_the_machine_within_bounds() {
        let settings = defaults(&machine(24, 80, false), 10, Version::from_num(180_006));
        assert_eq!(value(&settings, "shared_buffers"), "6144MB");
        assert_eq!(value(&settings, "effective_cache_size"), "18432MB");
        assert_eq!(value(&settings, "max_wal_size"), "8192MB");
        assert_eq!(value(&settings, "random_page_cost"), "1.1");
        assert_eq!(value(&settings, "max_connections"), "100");
        let small = defaults(&machine(0, 0, true), 1000, Version::from_num(90_624));
        assert_eq!(value(&small, "shared_buffers"), "128MB");
        assert_eq!(value(&small, "max_wal_size"), "1024MB");
        assert_eq!(value(&small, "random_page_cost"), "4");
        assert_eq!(value(&small, "max_connections"), "1020");
        assert!(
            small.iter().all(|s| s.name != "max_parallel_workers"),
            "unknown to 9.6"
        );
        for name in ["fsync", "synchronous_commit", "full_page_writes"] {
            assert_eq!(value(&settings, name), "on");
        }
    }

    #[test]
    fn the_user_has_the_last_word_except_on_what_holds_the_server() {
        let given = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let base = defaults(&machine(24, 80, false), 10, Version::from_num(180_006));
        let settings =
            overlay(base, &[given("Work_Mem", "1MB"), given("work_mem", "2MB")]).unwrap();
        assert_eq!(value(&settings, "work_mem"), "2MB");
        for name in [
            "port",
            "listen_addresses",
            "data_directory",
            "include",
            "a b",
            "",
            "x'y",
            "1st",
        ] {
            assert!(overlay(Vec::new(), &[given(name, "1")]).is_err(), "{name}");
        }
        assert!(overlay(Vec::new(), &[given("work_mem", "1\nport = 1")]).is_err());
        assert!(parse("work_mem").is_err());
        assert_eq!(parse("a = b=c").unwrap(), given("a", "b=c"));
    }

    #[test]
    fn values_cannot_leave_their_quotes() {
        let settings = [Setting {
            name: "a".into(),
            value: r"it's \".into(),
            reason: String::new(),
        }];
        let text = render(&settings, Path::new("/d"), Path::new("/s"), 1, "c");
        assert!(text.contains("a = 'it''s \\\\'\n"), "{text}");
    }

    #[test]
    fn a_refusal_names_the_users_setting_in_the_servers_words() {
        let log = "2025-01-01 00:00:00.000 UTC [1] LOG:  unrecognized configuration parameter \"sharde_buffers\" in file \"/x/postgresql.conf\" line 9\n\
                   2025-01-01 00:00:00.000 UTC [1] LOG:  invalid value for parameter \"work_mem\": \"lots\"\n\
                   2025-01-01 00:00:00.000 UTC [1] HINT:  Valid units for this parameter are \"B\", \"kB\".\n\
                   2025-01-01 00:00:00.000 UTC [1] FATAL:  configuration file \"/x/postgresql.conf\" contains errors\n";
        let given = [
            ("work_mem".to_owned(), "lots".to_owned()),
            ("jit".to_owned(), "on".to_owned()),
        ];
        let data = Path::new("/d");
        match refusal(log, &given, 1, data) {
            Error::Setting { given, message } => {
                assert_eq!(given, "work_mem=lots");
                assert_eq!(
                    message,
                    "LOG: invalid value for parameter \"work_mem\": \"lots\" (Valid units for this parameter are \"B\", \"kB\".)"
                );
            }
            other => panic!("{other}"),
        }
        let bind = "[1] LOG:  could not bind IPv4 address \"127.0.0.1\": Address already in use\n[1] FATAL:  could not create any TCP/IP sockets\n";
        assert!(matches!(
            refusal(bind, &[], 5432, data),
            Error::PortInUse { port: 5432 }
        ));
        let twice = "[1] FATAL:  lock file \"postmaster.pid\" already exists\n[1] HINT:  Is another postmaster (PID 4711) running in data directory \"/d\"?\n";
        assert!(matches!(
            refusal(twice, &[], 1, data),
            Error::DataDirectoryInUse { pid: 4711, .. }
        ));
        let memory = "[1] FATAL:  could not map anonymous shared memory: Cannot allocate memory\n";
        assert!(
            refusal(memory, &[], 1, data)
                .to_string()
                .contains("shared_buffers")
        );
    }
}
