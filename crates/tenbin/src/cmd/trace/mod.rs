//! `tenbin trace`: block I/O, from the recording to the picture.

mod record;

use crate::exit::{Class, Failure, Result};
use clap::Subcommand;
use tenbin_iotrace::Error;

/// Block I/O: which relation, how scattered, how long
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
}

pub(crate) fn run(args: &Args) -> Result {
    match &args.action {
        Action::Record(args) => record::run(args),
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
            | Error::Cluster(_) => Self::new(Class::BadInput, error),
            _ => Self::new(Class::Environment, error),
        }
    }
}
