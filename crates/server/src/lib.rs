//! `PostgreSQL` on this machine: found or fetched, started, stopped, and nothing left behind.
//!
//! A server for a test or a run is one line, [`Embedded::start`], and gone when dropped:
//!
//! ```no_run
//! use tenbin_server::{Embedded, Options, Source};
//!
//! let newest = Embedded::start(Options::default())?;
//! let debian = Embedded::start(Options {
//!     source: Source::bin("/usr/lib/postgresql/15/bin"),
//!     settings: vec![("work_mem".into(), "64MB".into())],
//!     ..Options::default()
//! })?;
//! let one = newest.connect()?.query_one("SELECT 1", &[]);
//! # Ok::<(), tenbin_server::Error>(())
//! ```
//!
//! What holds:
//! - Whatever this crate makes is written down first, marked, and removed on
//!   every way out; what a killed process left is cleared by its [`guard`], if it has one, or by
//!   the next one. Nothing unmarked is
//!   ever removed, no process signalled that does not run a server's program in a data
//!   directory of ours.
//! - Durability is never weakened by a default.
//! - An existing server (`--dsn`) is queried, never changed.

mod account;
mod archive;
mod cache;
mod embedded;
mod error;
mod folder;
pub mod guard;
mod home;
mod installation;
pub mod kept;
mod machine;
mod manifest;
mod process;
mod progress;
mod registry;
mod server;
pub mod settings;
pub mod signals;
mod source;
pub mod space;
mod stop;
mod template;
pub mod version;

pub use account::Account;
pub use cache::Cache;
pub use embedded::{Embedded, Options};
pub use error::{Class, Error};
pub use folder::Folder;
pub use installation::{Installation, Kind};
pub use machine::Machine;
pub use progress::Progress;
pub use server::{Build, Origin, Server, Value};
pub use source::{Found, Source, install, list};
