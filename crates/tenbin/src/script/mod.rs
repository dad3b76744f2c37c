//! pgbench's own output: its text, its progress and its log, for `tenbin bench --format pgbench`.

mod aggregate;
mod log;
mod progress;
mod text;

pub(crate) use log::{Log, LogOptions};
pub(crate) use progress::Lines;
pub(crate) use text::{Form, text};
