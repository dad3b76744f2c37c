//! What can go wrong while loading.

/// What became of what a failed load had made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aftermath {
    /// The load had not begun: everything is as it was.
    Unchanged,
    /// Everything that this load made is gone again.
    Removed,
    /// Some of it is still there, marked as a partial load.
    Partial,
}

impl std::fmt::Display for Aftermath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unchanged => "nothing was changed",
            Self::Removed => "what this load had made has been removed",
            Self::Partial => {
                "what this load had made could not be removed and is marked as partial; \
                 remove it by reloading with `--replace`"
            }
        })
    }
}

/// A load that did not happen, or did not finish.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// The server cannot do what the options ask for.
    #[error("{what} needs PostgreSQL {needs} or newer, but the server is {has}; {instead}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// First version that can.
        needs: &'static str,
        /// `server_version` of the server.
        has: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// There is too little room on the disk.
    #[error(
        "{what} would need about {:.1} GB of disk while loading, but only {:.1} GB are free; make room, \
         or load at most {fitting}",
        *needed_bytes as f64 / 1e9,
        *available_bytes as f64 / 1e9
    )]
    Space {
        /// What was asked for: `20 warehouses`.
        what: String,
        /// Bytes they need.
        needed_bytes: u64,
        /// Bytes there are.
        available_bytes: u64,
        /// What would fit: `7`, `scale 0.5`.
        fitting: String,
    },
    /// There is a whole database of the workload already.
    #[error(
        "schema {schema} already holds {what}, loaded by tenbin {tenbin_version}; use it, or \
         reload with `tenbin load {workload} --replace`"
    )]
    Complete {
        /// Schema looked into.
        schema: String,
        /// What it holds: `TPC-C with 2 warehouses`.
        what: String,
        /// The workload, as on the command line.
        workload: &'static str,
        /// Version of tenbin that loaded it.
        tenbin_version: String,
    },
    /// A load was interrupted here.
    #[error(
        "schema {schema} holds a load of {workload} that was interrupted; reload with \
         `tenbin load {workload} --replace`"
    )]
    Partial {
        /// Schema looked into.
        schema: String,
        /// The workload, as on the command line.
        workload: &'static str,
    },
    /// The names that the workload needs are taken by something that tenbin did not make.
    #[error(
        "schema {schema} holds {} that tenbin's {workload} did not create; {mend}",
        relations.join(", ")
    )]
    Foreign {
        /// Schema looked into.
        schema: String,
        /// The workload, in words.
        workload: &'static str,
        /// Names taken.
        relations: Vec<String>,
        /// What to do about it.
        mend: &'static str,
    },
    /// Another tenbin uses the same tables, and not in a way that can be shared.
    #[error(
        "the tables in schema {schema} are in use by {}; wait for it, or stop it",
        if holders.is_empty() { "another tenbin".to_owned() } else { holders.join(" and ") }
    )]
    Busy {
        /// Schema of the tables.
        schema: String,
        /// Who uses them: `tenbin run tpcb (server process 4711)`.
        holders: Vec<String>,
    },
    /// No connection could be had.
    #[error("cannot connect to load: {}", server_message(.0))]
    Connect(postgres::Error),
    /// The server's disk is full.
    #[error(
        "the server's disk is full ({during}: {}); {aftermath}; make room or load less",
        server_message(answer)
    )]
    DiskFull {
        /// What was being done.
        during: String,
        /// What the server said.
        answer: postgres::Error,
        /// What became of the tables.
        aftermath: Aftermath,
    },
    /// Stopped by the stop flag.
    #[error("stopped; {0}")]
    Stopped(Aftermath),
    /// The server refused something else, or the connection was lost.
    #[error("cannot load ({during}: {}); {aftermath}", server_message(answer))]
    Server {
        /// What was being done.
        during: String,
        /// What the server said.
        answer: postgres::Error,
        /// What became of the tables.
        aftermath: Aftermath,
    },
}

/// A failed statement, before it is known what became of the tables.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) during: String,
    /// `None` when the load was asked to stop.
    pub(crate) answer: Option<postgres::Error>,
}

impl Failure {
    pub(crate) fn of(during: impl Into<String>) -> impl FnOnce(postgres::Error) -> Self {
        let during = during.into();
        move |answer| Self {
            during,
            answer: Some(answer),
        }
    }

    pub(crate) fn stopped() -> Self {
        Self {
            during: String::new(),
            answer: None,
        }
    }

    pub(crate) fn into_error(self, aftermath: Aftermath) -> LoadError {
        let during = self.during;
        match self.answer {
            None => LoadError::Stopped(aftermath),
            Some(answer) if is_disk_full(&answer) => LoadError::DiskFull {
                during,
                answer,
                aftermath,
            },
            Some(answer) => LoadError::Server {
                during,
                answer,
                aftermath,
            },
        }
    }
}

/// 53100 `disk_full`, also where a write-ahead log without room took the server down.
fn is_disk_full(error: &postgres::Error) -> bool {
    error.code() == Some(&postgres::error::SqlState::DISK_FULL)
        || server_message(error).contains("No space left on device")
}

/// The server's own words where there are any.
pub(crate) fn server_message(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => {
            let detail = db
                .detail()
                .map(|detail| format!(" ({detail})"))
                .unwrap_or_default();
            format!(
                "{} {}: {}{detail}",
                db.severity(),
                db.code().code(),
                db.message()
            )
        }
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
