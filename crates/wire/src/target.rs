//! Where a server is and who we are to it.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A resolved address: name look-ups happen once, before any load is driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The socket file itself (`…/.s.PGSQL.5432`).
    Unix(PathBuf),
    /// Host and port.
    Tcp(SocketAddr),
}

/// Everything needed to open sessions.
#[derive(Clone)]
pub struct Target {
    /// Tried in order.
    pub addresses: Vec<Address>,
    /// Role to log in as.
    pub user: String,
    /// Password, if one is known.
    pub password: Option<String>,
    /// Database to connect to.
    pub database: String,
    /// Run-time parameters sent in the start-up packet (`application_name`, `options`, …).
    pub parameters: Vec<(String, String)>,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(name) => name.fmt(f),
        }
    }
}
