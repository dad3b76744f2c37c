//! What the command line takes (clap), and the only place where it becomes the laboratory's values.

mod command_line;
mod server;
mod via;

pub(crate) use command_line::command_line;
pub(crate) use server::{EmbeddedArgs, SetupArgs, SourceArgs, WhichArgs};
pub(crate) use via::ViaArgs;
