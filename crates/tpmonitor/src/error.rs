//! Why a monitor cannot start.

/// What went wrong before anybody was served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed that should not.
    #[error("could not {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A listening socket could not be opened.
    #[error("could not listen on {at}: {source}{}", hint(source))]
    Listen {
        /// The address or socket file.
        at: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A file of the configuration cannot be written.
    #[error("could not write {}: {source}; choose another `{setting}`", path.display())]
    File {
        /// What names it.
        setting: &'static str,
        /// The file.
        path: std::path::PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The log of the queue cannot be written.
    #[error("could not write the log of the queue to {}: {source}; choose another `queue_log`", path.display())]
    QueueLog {
        /// The file.
        path: std::path::PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// There is no address to listen on.
    #[error(
        "no address to listen on was given; give --listen 127.0.0.1:6432 or `listen` in the configuration"
    )]
    NowhereToListen,
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program listens there: stop it or choose another port"
        }
        std::io::ErrorKind::PermissionDenied => {
            "; ports below 1024 and this directory need more rights: choose another"
        }
        std::io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
        _ => "",
    }
}
