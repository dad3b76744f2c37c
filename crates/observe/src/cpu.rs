//! CPU time of the driver and of the server's processes, by kind of process.

use procfs::process::{Process, Stat};
use std::collections::{BTreeMap, HashMap};
use tenbin_record::observation::Cpu;

/// Time used between two looks.
pub(crate) fn minus(later: Cpu, earlier: Cpu) -> Cpu {
    Cpu {
        user_s: later.user_s - earlier.user_s,
        system_s: later.system_s - earlier.system_s,
    }
}

pub(crate) fn add(sum: &mut Cpu, other: Cpu) {
    // Counted in ticks of 10 ms by the kernel, parts of a difference may come out below zero.
    sum.user_s += other.user_s.max(0.0);
    sum.system_s += other.system_s.max(0.0);
}

/// Kinds of process that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// tenbin itself.
    Driver,
    /// The postmaster.
    Postmaster,
    /// Serves a client.
    Backend,
    /// Helps a backend with a query.
    ParallelWorker,
    /// Writes checkpoints.
    Checkpointer,
    /// Writes dirty pages ahead of need.
    BackgroundWriter,
    /// Writes and flushes the log.
    WalWriter,
    /// Sends the log to a standby.
    WalSender,
    /// Receives the log from a primary.
    WalReceiver,
    /// Autovacuum's launcher and workers.
    Autovacuum,
    /// Performs I/O for others (18 and newer).
    IoWorker,
    /// Everything else that the postmaster started.
    Other,
    /// Ended between two samples, before its last CPU time could be read.
    Exited,
}

impl Kind {
    /// Name in every record.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Postmaster => "postmaster",
            Self::Backend => "client_backend",
            Self::ParallelWorker => "parallel_worker",
            Self::Checkpointer => "checkpointer",
            Self::BackgroundWriter => "background_writer",
            Self::WalWriter => "wal_writer",
            Self::WalSender => "wal_sender",
            Self::WalReceiver => "wal_receiver",
            Self::Autovacuum => "autovacuum",
            Self::IoWorker => "io_worker",
            Self::Other => "other",
            Self::Exited => "exited",
        }
    }

    /// From the title that a server process gives itself. What stands there has changed
    /// little: up to version 9.6 `wal writer process`, later `walwriter`; a cluster's name may
    /// come first. A backend's title starts with the user's name, so a user called
    /// `checkpointer` is told from the process by what follows.
    pub(crate) fn of_title(title: &str) -> Self {
        const TITLES: [(&str, Kind); 20] = [
            ("checkpointer", Kind::Checkpointer),
            ("background writer", Kind::BackgroundWriter),
            ("writer process", Kind::BackgroundWriter),
            ("walwriter", Kind::WalWriter),
            ("wal writer", Kind::WalWriter),
            ("walsender", Kind::WalSender),
            ("wal sender", Kind::WalSender),
            ("walreceiver", Kind::WalReceiver),
            ("wal receiver", Kind::WalReceiver),
            ("autovacuum", Kind::Autovacuum),
            ("parallel worker", Kind::ParallelWorker),
            ("bgworker: parallel worker", Kind::ParallelWorker),
            ("io worker", Kind::IoWorker),
            ("startup", Kind::Other),
            ("archiver", Kind::Other),
            ("logger", Kind::Other),
            ("stats collector", Kind::Other),
            ("logical replication", Kind::Other),
            ("bgworker:", Kind::Other),
            ("slotsync worker", Kind::Other),
        ];
        let Some(rest) = title.strip_prefix("postgres:") else {
            return Self::Other; // a child that has not named itself yet
        };
        let rest = rest.trim_start();
        // With cluster_name set, `postgres: NAME: checkpointer`.
        let after_cluster = rest.split_once(": ").map_or("", |(_, after)| after);
        let named = TITLES
            .iter()
            .find(|(start, _)| rest.starts_with(start) || after_cluster.starts_with(start));
        match named {
            Some((_, kind)) if *kind == Self::WalSender => Self::WalSender,
            // A backend's title has a database and a host behind the user's name: `user db [local] idle`.
            Some(_) if rest.contains(" [local] ") || rest.contains("[local]") => Self::Backend,
            Some((_, kind)) => *kind,
            None => Self::Backend,
        }
    }
}

/// Kind of server process, from the title that it gives itself; none when it is not one of `PostgreSQL`'s.
#[must_use]
pub fn kind_of_title(title: &str) -> Option<&'static str> {
    title
        .starts_with("postgres:")
        .then(|| Kind::of_title(title).name())
}

/// One child of the postmaster, as last seen.
#[derive(Debug, Clone, Copy)]
struct Child {
    started: u64,
    kind: Kind,
    cpu: Cpu,
}

/// Follows the driver and a server's processes.
#[derive(Debug)]
pub(crate) struct CpuWatch {
    postmaster: Option<i32>,
    ticks_per_s: f64,
    children: HashMap<i32, Child>,
    /// Postmaster's own, and that of children it has waited for.
    own: Option<(Cpu, Cpu)>,
    driver: Option<Cpu>,
}

impl CpuWatch {
    pub(crate) fn new(postmaster: Option<u32>) -> Self {
        Self {
            postmaster: postmaster.and_then(|pid| i32::try_from(pid).ok()),
            ticks_per_s: procfs::ticks_per_second() as f64,
            children: HashMap::new(),
            own: None,
            driver: None,
        }
    }

    /// CPU time used since the last call, by kind; the first call only sets the mark.
    pub(crate) fn sample(&mut self) -> BTreeMap<Kind, Cpu> {
        let mut used = BTreeMap::new();
        if let Ok(stat) = Process::myself().and_then(|process| process.stat()) {
            let now = own_time(&stat);
            if let Some(before) = self.driver.replace(now) {
                used.insert(Kind::Driver, minus(now, before));
            }
        }
        if let Some(pid) = self.postmaster {
            self.sample_server(pid, &mut used);
        }
        used
    }

    fn sample_server(&mut self, pid: i32, used: &mut BTreeMap<Kind, Cpu>) {
        let Ok(stat) = Process::new(pid).and_then(|process| process.stat()) else {
            return; // the server is gone; what it used until the last sample stands
        };
        let living = self.living(pid);
        let own = own_time(&stat);
        let waited = Cpu {
            user_s: stat.cutime.max(0) as f64 / self.ticks_per_s,
            system_s: stat.cstime.max(0) as f64 / self.ticks_per_s,
        };
        if let Some((own_before, waited_before)) = self.own.replace((own, waited)) {
            // What children brought home when they ended, less what was seen of them before.
            let mut exited = minus(waited, waited_before);
            for (pid, child) in &self.children {
                if living
                    .get(pid)
                    .is_none_or(|now| now.started != child.started)
                {
                    exited = minus(exited, child.cpu);
                }
            }
            for (pid, child) in &living {
                let before = self
                    .children
                    .get(pid)
                    .filter(|old| old.started == child.started);
                let delta = minus(child.cpu, before.map_or(Cpu::default(), |old| old.cpu));
                add(used.entry(child.kind).or_default(), delta);
            }
            add(
                used.entry(Kind::Postmaster).or_default(),
                minus(own, own_before),
            );
            add(used.entry(Kind::Exited).or_default(), exited);
        }
        self.children = living;
    }

    /// The postmaster's children. A process's kind is read when it is first seen and again
    /// while it has not named itself.
    fn living(&self, postmaster: i32) -> HashMap<i32, Child> {
        let Ok(processes) = procfs::process::all_processes() else {
            return HashMap::new();
        };
        processes
            .filter_map(Result::ok)
            .filter_map(|process| {
                let stat = process.stat().ok().filter(|stat| stat.ppid == postmaster)?;
                let known = self
                    .children
                    .get(&stat.pid)
                    .filter(|old| old.started == stat.starttime);
                let kind = match known {
                    Some(old) if old.kind != Kind::Other => old.kind,
                    _ => Kind::of_title(&process.cmdline().ok()?.join(" ")),
                };
                Some((
                    stat.pid,
                    Child {
                        started: stat.starttime,
                        kind,
                        cpu: own_time(&stat),
                    },
                ))
            })
            .collect()
    }
}

/// CPU time of a process since it began.
pub(crate) fn own_time(stat: &Stat) -> Cpu {
    let ticks_per_s = procfs::ticks_per_second() as f64;
    Cpu {
        user_s: stat.utime as f64 / ticks_per_s,
        system_s: stat.stime as f64 / ticks_per_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_old_and_new_servers() {
        let known = [
            ("postgres: checkpointer ", Kind::Checkpointer),
            ("postgres: checkpointer process   ", Kind::Checkpointer),
            ("postgres: writer process   ", Kind::BackgroundWriter),
            ("postgres: background writer ", Kind::BackgroundWriter),
            ("postgres: wal writer process   ", Kind::WalWriter),
            ("postgres: walwriter ", Kind::WalWriter),
            ("postgres: 15/main: walwriter ", Kind::WalWriter),
            ("postgres: autovacuum launcher ", Kind::Autovacuum),
            (
                "postgres: autovacuum worker process   tpcc",
                Kind::Autovacuum,
            ),
            (
                "postgres: parallel worker for PID 12 ",
                Kind::ParallelWorker,
            ),
            (
                "postgres: bgworker: parallel worker for PID 12   ",
                Kind::ParallelWorker,
            ),
            ("postgres: io worker 0", Kind::IoWorker),
            (
                "postgres: walsender repl 127.0.0.1(5) streaming 0/3",
                Kind::WalSender,
            ),
            ("postgres: walreceiver streaming 0/3", Kind::WalReceiver),
            ("postgres: stats collector process   ", Kind::Other),
            ("postgres: logical replication launcher ", Kind::Other),
            ("postgres: postgres tpcc [local] idle", Kind::Backend),
            (
                "postgres: postgres tpcc 127.0.0.1(51234) SELECT",
                Kind::Backend,
            ),
            ("postgres: main: postgres tpcc [local] idle", Kind::Backend),
            ("postgres: checkpointer tpcc [local] idle", Kind::Backend),
            ("/usr/lib/postgresql/15/bin/postgres -D /x", Kind::Other),
        ];
        for (title, kind) in known {
            assert_eq!(Kind::of_title(title), kind, "{title}");
        }
    }

    #[test]
    fn the_driver_is_seen_working() {
        let mut watch = CpuWatch::new(None);
        assert!(watch.sample().is_empty());
        let mut waste = 0_u64;
        let started = std::time::Instant::now();
        while started.elapsed() < std::time::Duration::from_millis(100) {
            waste = std::hint::black_box(waste.wrapping_add(1));
        }
        let used = watch.sample()[&Kind::Driver];
        assert!(used.user_s + used.system_s >= 0.03, "{used:?}");
    }
}
