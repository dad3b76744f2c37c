//! Kinds of process.

use tenbin_record::samples;

/// Kinds of process that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// tenbin itself.
    Driver,
    /// The pooler between driver and server.
    TpMonitor,
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
    /// Ended between two samples, before what it used last could be read.
    Exited,
    /// Threads of the kernel.
    KernelThreads,
    /// Every other program.
    Elsewhere,
}

impl Kind {
    /// Name in every record.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => samples::DRIVER,
            Self::TpMonitor => samples::TP_MONITOR,
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
            Self::KernelThreads => samples::KERNEL_THREADS,
            Self::Elsewhere => samples::ELSEWHERE,
        }
    }

    /// Whether it is one of the server's.
    pub(crate) fn is_server(self) -> bool {
        !matches!(
            self,
            Self::Driver | Self::TpMonitor | Self::KernelThreads | Self::Elsewhere
        )
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
}
