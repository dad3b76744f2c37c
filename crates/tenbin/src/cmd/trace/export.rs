//! `tenbin trace export`: a trace as other tools read it.

use super::open;
use crate::exit::{Answer, Failure, Result};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;

/// Export a trace for fio or in blkparse's format
#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("format").required(true),
    after_help = "Examples:\n  tenbin trace export t --fio --out t.log\n  tenbin trace export t --blkparse | less"
)]
pub(crate) struct Args {
    /// The trace
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// An I/O log for `fio --read_iolog` (3.31 and newer), in the order and at the moments of issue
    #[arg(long, group = "format")]
    fio: bool,
    /// The text of blkparse: a line for each issue and each completion
    #[arg(long, group = "format")]
    blkparse: bool,
    /// Where to write it [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result {
    let trace = open(&args.directory)?;
    let to: Box<dyn Write> = match &args.out {
        None => Box::new(std::io::stdout().lock()),
        Some(path) => Box::new(File::create_new(path).map_err(|error| {
            let shown = path.display();
            match error.kind() {
                ErrorKind::AlreadyExists => Failure::bad_input(format!(
                    "{shown} exists already and is left as it is: choose another --out, or remove it"
                )),
                _ => Failure::bad_input(format!("cannot write {shown}: {error}; give another --out")),
            }
        })?),
    };
    let mut to = BufWriter::new(to);
    let written = if args.fio {
        tenbin_iotrace::export::fio(&trace, &mut to)?.map(|left_out| {
            if left_out.wordless > 0 {
                eprintln!(
                    "{} I/Os are left out, for which fio's log has no word (write zeroes, drivers' commands)",
                    left_out.wordless
                );
            }
            if left_out.discards > 0 {
                eprintln!(
                    "{} discards are in the log as trim; fio 3.33 skips them and prints `bad ddir`",
                    left_out.discards
                );
            }
        })
    } else {
        tenbin_iotrace::export::blkparse(&trace, &mut to)?
    };
    match written {
        // Whoever reads has had enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Answer::Yes),
        written => {
            written?;
            Ok(Answer::Yes)
        }
    }
}
