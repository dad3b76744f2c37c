//! tenbin as a whole, on real servers.

mod command;
mod faults;
