//! `tenbin bound PARENT PROGRAM …`: runs a program that ends when its parent does.
//!
//! Not for people: it is how a pooler is started, so that even a tenbin that was killed leaves none.

use crate::exit::{Class, Failure, Result};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

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
    // Kept across `exec`, since no user changes with it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    // A parent that ended before the line above has left this to another.
    if getppid() != Pid::from_raw(args.parent) {
        return Err(Failure::new(
            Class::Environment,
            anyhow::anyhow!("process {} has ended", args.parent),
        ));
    }
    let error = Command::new(&args.program).args(&args.arguments).exec();
    Err(Failure::new(
        Class::Environment,
        anyhow::Error::new(error).context(format!("cannot run {}", args.program.display())),
    ))
}
