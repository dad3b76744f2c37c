//! What the command line takes (clap), and the only place where it becomes the laboratory's values.

pub(crate) mod bank;
mod command_line;
mod load;
mod script;
mod server;
pub(crate) mod tpcc;
pub(crate) mod tpch;
mod via;

pub(crate) use command_line::{command_line, without_passwords};
pub(crate) use load::OutputArgs;
pub(crate) use script::ScriptArgs;
pub(crate) use server::{EmbeddedArgs, SetupArgs, SourceArgs, WhichArgs};
pub(crate) use via::ViaArgs;

use tenbin_lab::{LoadSpec, ViaSpec, WorkloadSpec};

/// A workload, its load, and the pooler before it.
pub(crate) type Driven = (WorkloadSpec, LoadSpec, Option<ViaSpec>);

/// How a workload is driven on the data that `L` says.
pub(crate) trait DriveArgs<L> {
    fn spec(&self, load: &L) -> Driven;
}
