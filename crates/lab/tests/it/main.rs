//! Measurements by function calls, on real servers.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the answer")]

mod system;
mod template;
mod trial;
