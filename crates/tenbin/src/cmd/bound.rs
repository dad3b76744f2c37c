//! `tenbin bound PARENT PROGRAM …`: runs a program that ends when its parent does.
//!
//! Not for people: it is how a pooler is started.

use crate::exit::Result;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a program that ends with its parent
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Process id of the parent
    parent: i32,
    /// The program
    program: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result {
    Err(tenbin_lab::via::become_bound(args.parent, &args.program, &args.arguments).into())
}

/// This program, whatever became of its file and whoever may not enter its directory.
pub(crate) fn itself() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}
