//! `tenbin trace`: block I/O, from the recording to the picture.

mod export;
mod plot;
mod record;
mod summary;

use crate::exit::{Class, Failure, Result};
use clap::Subcommand;
use std::path::Path;
use tenbin_iotrace::Error;
use tenbin_record::TraceDir;

/// Trace block I/O: relation, seek distance, latency
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin trace record --device sda --duration 30s\n  tenbin trace record --dsn postgres://me@localhost/shop -- psql shop -c 'SELECT count(*) FROM orders'"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Record(Box<record::Args>),
    Summary(summary::Args),
    Plot(plot::Args),
    Export(export::Args),
}

pub(crate) fn run(args: &Args) -> Result {
    match &args.action {
        Action::Record(args) => record::run(args),
        Action::Summary(args) => summary::run(args),
        Action::Plot(args) => plot::run(args),
        Action::Export(args) => export::run(args),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Directory(error) => error.into(),
            Error::NoDevice { .. }
            | Error::NoRequests { .. }
            | Error::TooManyDevices(_)
            | Error::RingTooSmall { .. }
            | Error::NoProcess(_)
            | Error::BeyondModel { .. }
            | Error::Cluster(_) => Self::new(Class::BadInput, error),
            _ => Self::new(Class::Environment, error),
        }
    }
}

/// Columns to fill: the terminal's, and where there is none enough for every figure.
fn width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).clamp(80, 160),
        _ => 120,
    }
}

fn open(path: &Path) -> Result<TraceDir> {
    TraceDir::open(path).map_err(|error| Failure::new(Class::BadInput, error))
}
