//! Parts of `PostgreSQL` and of the kernel, by names of functions.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Beginnings of names, and the part of the server they stand for.
static TABLE: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| parse(include_str!("modules.txt")));

/// Lines are a part and a colon, then beginnings of names, which go on on indented lines.
fn parse(text: &str) -> HashMap<&str, &str> {
    let mut table = HashMap::new();
    let mut part = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let rest = match line.split_once(": ") {
            Some((named, rest)) => {
                part = named;
                rest
            }
            None => line,
        };
        table.extend(rest.split_ascii_whitespace().map(|start| (start, part)));
    }
    table
}

/// The part of the server that a function belongs to, by the longest beginning of its name in the table.
pub(crate) fn of_server(function: &str) -> Option<&'static str> {
    // What a compiler made of it: `func.isra.0`, `func.cold`.
    let name = function.split('.').next()?;
    let starts = (1..=name.len()).rev().filter_map(|end| name.get(..end));
    starts
        .into_iter()
        .find_map(|start| TABLE.get(start).copied())
}

/// Time in the kernel, by what the program asked it for.
pub(crate) const KERNEL_OTHER: &str = "kernel_other";

/// System calls, by the beginning of their names.
const CALLS: [(&str, &[&str]); 4] = [
    (
        "kernel_network",
        &[
            "send",
            "recv",
            "accept",
            "connect",
            "socket",
            "shutdown",
            "getsockopt",
            "setsockopt",
            "bind",
            "listen",
        ],
    ),
    (
        "kernel_waiting",
        &[
            "epoll_",
            "poll",
            "ppoll",
            "select",
            "pselect",
            "futex",
            "nanosleep",
            "clock_nanosleep",
            "sem",
            "sched_yield",
            "wait",
            "pause",
            "rt_sig",
            // Processes of the server wake each other by signals.
            "kill",
            "tgkill",
        ],
    ),
    (
        "kernel_memory",
        &[
            "mmap",
            "munmap",
            "brk",
            "madvise",
            "mremap",
            "mprotect",
            "shm",
            "process_madvise",
        ],
    ),
    (
        "kernel_processes",
        &[
            "clone",
            "fork",
            "vfork",
            "exec",
            "exit",
            "set_robust_list",
            "prctl",
            "gettid",
            "getppid",
        ],
    ),
];

/// Beginnings of the names of the functions that begin a system call.
const ENTRIES: [&str; 3] = ["__x64_sys_", "__arm64_sys_", "__se_sys_"];
/// Parts of the names of those that handle a page fault.
const FAULTS: [&str; 3] = ["asm_exc_page_fault", "do_user_addr_fault", "do_page_fault"];

/// What a function of the kernel says of why the kernel is at work, if it does.
pub(crate) fn of_kernel(function: &str) -> Option<&'static str> {
    if FAULTS.contains(&function) {
        return Some("kernel_memory");
    }
    let call = ENTRIES
        .iter()
        .find_map(|entry| function.strip_prefix(entry))?;
    let named = CALLS
        .iter()
        .find(|(_, starts)| starts.iter().any(|start| call.starts_with(start)));
    Some(named.map_or("kernel_files", |(part, _)| part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::symbols::Symbols;
    use std::path::Path;

    /// Functions and where `PostgreSQL`'s source has them.
    const KNOWN: [(&str, &str); 40] = [
        ("raw_parser", "parse"),
        ("base_yyparse", "parse"),
        ("core_yylex", "parse"),
        ("transformStmt", "parse"),
        ("parse_analyze_fixedparams", "parse"),
        ("QueryRewrite", "parse"),
        ("standard_planner", "plan"),
        ("subquery_planner", "plan"),
        ("create_index_paths", "plan"),
        ("GetCachedPlan", "plan"),
        ("ExecInterpExpr", "execute"),
        ("ExecSeqScan", "execute"),
        ("ExecProcNodeFirst", "execute"),
        ("standard_ExecutorRun", "execute"),
        ("tuplesort_performsort", "execute"),
        ("heap_getnextslot", "access"),
        ("heap_update", "access"),
        ("_bt_search", "access"),
        ("index_getnext_tid", "access"),
        ("ReadBufferExtended", "buffer"),
        ("BufferSync", "buffer"),
        ("LWLockAcquire", "lock"),
        ("LockAcquireExtended", "lock"),
        ("ProcSleep", "lock"),
        ("XLogInsertRecord", "wal"),
        ("XLogFlush", "wal"),
        ("GetSnapshotData", "transaction"),
        ("CommitTransaction", "transaction"),
        ("pq_getbyte", "network"),
        ("internal_flush", "network"),
        ("printtup", "network"),
        ("AllocSetAlloc", "memory"),
        ("palloc", "memory"),
        ("SearchCatCache1", "catalog"),
        ("RelationIdGetRelation", "catalog"),
        ("mdread", "storage"),
        ("numeric_add", "functions"),
        ("PostgresMain", "session"),
        ("lazy_scan_heap", "vacuum"),
        ("pgstat_report_activity", "statistics"),
    ];

    #[test]
    fn functions_are_in_their_part_of_the_source() {
        for (function, part) in KNOWN {
            assert_eq!(of_server(function), Some(part), "{function}");
            let compiled = format!("{function}.constprop.0");
            assert_eq!(of_server(&compiled), Some(part), "{compiled}");
        }
        assert_eq!(of_server("qqqq"), None);
    }

    #[test]
    fn the_table_says_each_beginning_once() {
        let starts = include_str!("modules.txt")
            .lines()
            .filter(|line| !line.starts_with('#'));
        let words = starts.flat_map(str::split_ascii_whitespace);
        let count = words.filter(|word| !word.ends_with(':')).count();
        assert_eq!(count, TABLE.len());
    }

    /// Share of a server's functions that the table has a part for.
    fn covered(postgres: &Path) -> f64 {
        let symbols = Symbols::read(postgres).unwrap();
        let names: Vec<&str> = symbols.functions.names().collect();
        assert!(names.len() > 5_000, "{} functions", names.len());
        for (function, _) in KNOWN.iter().filter(|(name, _)| name.starts_with("XLog")) {
            assert!(names.contains(function), "{function}");
        }
        let known = names.iter().filter(|name| of_server(name).is_some());
        known.count() as f64 / names.len() as f64
    }

    #[test]
    fn functions_of_an_installed_server_have_a_part() {
        let covered = covered(Path::new("/usr/lib/postgresql/15/bin/postgres"));
        assert!(covered > 0.95, "{covered}");
    }

    #[test]
    fn functions_of_an_embedded_server_have_a_part() {
        let options = tenbin_server::Options::default();
        let server = tenbin_server::Embedded::start(options).unwrap();
        let exe = format!("/proc/{}/exe", server.postmaster_pid());
        let covered = covered(Path::new(&exe));
        assert!(covered > 0.95, "{covered}");
    }

    #[test]
    fn the_kernels_work_is_told_by_what_it_was_asked_for() {
        let told = [
            ("__x64_sys_sendto", Some("kernel_network")),
            ("__arm64_sys_recvfrom", Some("kernel_network")),
            ("__x64_sys_epoll_wait", Some("kernel_waiting")),
            ("__x64_sys_kill", Some("kernel_waiting")),
            ("__x64_sys_pread64", Some("kernel_files")),
            ("__x64_sys_fdatasync", Some("kernel_files")),
            ("__x64_sys_munmap", Some("kernel_memory")),
            ("asm_exc_page_fault", Some("kernel_memory")),
            ("__x64_sys_exit_group", Some("kernel_processes")),
            ("copy_user_generic", None),
        ];
        for (function, part) in told {
            assert_eq!(of_kernel(function), part, "{function}");
        }
    }
}
