//! What the machine and `PostgreSQL` did while a load ran.

mod bpf;
mod bracket;
mod cost;
mod counters;
mod disks;
mod host;
mod kind;
mod ledger;
mod machine;
mod memory;
mod observer;
mod process;
mod processes;
mod profile;
mod server;
mod server_use;
mod syscalls;
mod via;
mod waits;

pub use host::describe;
pub use kind::kind_of_title;
pub use observer::{Error, Observer, Options, Sink};
pub use profile::Error as ProfileError;
pub use server_use::ServerUse;
pub use syscalls::{Counted, Error as SyscallError};
pub use via::Via;
