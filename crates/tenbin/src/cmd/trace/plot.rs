//! `tenbin trace plot`: time by address, coloured by relation.

use super::open;
use crate::exit::{Answer, Failure, Result};
use std::path::{Path, PathBuf};

/// Draw a trace: address over time by relation, as one HTML page
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin trace plot t                 writes t/trace.html\n  tenbin trace plot t --out - > t.html"
)]
pub(crate) struct Args {
    /// The trace
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Where to write it, - for standard output [default: trace.html in DIR]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result {
    let trace = open(&args.directory)?;
    let page = tenbin_report::trace_html(&trace)?;
    let path = args
        .out
        .clone()
        .unwrap_or_else(|| args.directory.join("trace.html"));
    if path == Path::new("-") {
        print!("{page}");
        return Ok(Answer::Yes);
    }
    std::fs::write(&path, page).map_err(|error| {
        let shown = path.display();
        Failure::bad_input(format!("cannot write {shown}: {error}; give another --out"))
    })?;
    eprintln!("wrote {}", path.display());
    Ok(Answer::Yes)
}
