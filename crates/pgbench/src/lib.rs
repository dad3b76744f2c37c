//! The language of pgbench scripts, as pgbench 18 defines it, without a server.
//!
//! A [`ProgramBuilder`] gathers scripts (files, pgbench's built-in ones, texts) and `-D`
//! definitions and gives a [`Program`]: every script parsed and checked, every variable name
//! resolved to a [`Slot`]. What is left for a run is arithmetic: an [`Expr`] is evaluated
//! against a client's [`Variables`] and its [`Random`] stream, a [`Sql`] command is rendered
//! for one of the three protocols, a conditional gives the index of the next command.
//!
//! The rules come from pgbench's documentation and its sources (PostgreSQL 18,
//! `src/bin/pgbench`); the integration test holds this crate against real pgbench programs.
//! Same seed, same value: integers, hashes, `permute` and the four random distributions are
//! pgbench's own to the last bit, wherever the C library's `exp`, `log`, `pow` and `sin` are
//! the same.
//!
//! Deliberate differences, all of them errors told earlier or louder than by pgbench:
//!
//! - `abs` of the smallest integer and `abs` of a boolean are errors (pgbench returns the negative
//!   number and garbage);
//! - an unterminated quote or comment, an impossible variable name in `\set` and a function
//!   with more than 16 arguments are errors of the script, not of its execution;
//! - a pipeline that is opened twice, left open or closed unopened outside any `\if` is an
//!   error of the script ([`Program::check`]);
//! - `\sleep` does not overflow after 2,147 s;
//! - expressions nest at most 200 deep, where pgbench's nest some thousands;
//! - commands must be UTF-8, and scripts free of NUL.

mod builtin;
mod check;
mod error;
mod expr;
mod hash;
mod meta;
mod program;
mod random;
mod script;
mod sql;
mod value;
mod variables;

pub use builtin::{BUILTINS, Builtin, builtin};
pub use check::Protocol;
pub use error::{Error, Place, Problem, ScriptError};
pub use expr::{EvalError, Expr, Fault};
pub use hash::{fnv1a, murmur2, permute};
pub use meta::{ShellCommand, SleepTime, setshell_value};
pub use program::{MAX_SCRIPTS, Program, ProgramBuilder};
pub use random::{Random, Streams, ThreadStreams, Xoroshiro128};
pub use script::{Command, CommandKind, Script};
pub use sql::{Capture, CaptureKind, Piece, Sql};
pub use value::{Value, ValueType};
pub use variables::{Names, Slot, Variables, is_variable_name};
