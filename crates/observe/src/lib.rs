//! What the machine and `PostgreSQL` did while a load ran.

mod counters;
mod cpu;
mod host;
mod observer;
mod via;

pub use cpu::kind_of_title;
pub use host::describe;
pub use observer::{Error, Observer, Options, Sink};
pub use via::Via;
