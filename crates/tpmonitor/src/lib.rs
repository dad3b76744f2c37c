//! The TP monitor: many clients, few servers, one transaction at a time.
//!
//! Clients connect to it as to `PostgreSQL`. It keeps a set number of connections to the server and
//! lends each to one client for one transaction; requests beyond them wait first come, first served.
//!
//! ```no_run
//! use tenbin_tpmonitor::{Config, Listen, Monitor};
//!
//! let target = tenbin_wire::Target::parse("postgres://bench@127.0.0.1/bench")?;
//! let listen = vec![Listen::Tcp("127.0.0.1:6432".parse()?)];
//! let monitor = Monitor::new(Config::in_front_of(&target, listen), None)?;
//! let handle = monitor.handle(); // to stop it from another thread
//! monitor.run()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod config;

mod auth;
mod error;
mod log;
mod messages;
mod monitor;
mod net;
mod parameters;
mod relay;
mod scan;
mod scram;
mod service;
mod slab;
mod sql;
mod startup;
mod statements;
mod tls;

pub use config::{
    Auth, ChannelBinding, Class, ClientTls, Config, ConfigError, Database, Limit, Listen, Lookup,
    Place, Pooling, ReadFrom, Route, RouteError, Rules, Secret, ServerTls, SessionState,
    TimeLimits, TlsMode, TlsVersions, UserRules, Wants,
};
pub use error::Error;
pub use monitor::{Handle, Monitor, Reread, Successor};
pub use tls::TlsError;
