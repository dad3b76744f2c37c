//! `tenbin run`: a server, a load on it, a result. One file a workload.

mod mix;
mod script;
mod tpca;
mod tpcb;
mod tpcc;
mod tpch;

use crate::exit::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Run a workload and record what came out
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Tpcc(Box<tpcc::Args>),
    Tpcb(Box<tpcb::Args>),
    Tpca(Box<tpca::Args>),
    Tpch(Box<tpch::Args>),
    Mix(Box<mix::Args>),
    Script(Box<script::Args>),
    /// A script's file, and `script`'s arguments
    #[command(external_subcommand)]
    File(Vec<OsString>),
}

pub(crate) fn run(args: Args) -> Result {
    match args.workload {
        Workload::Tpcc(args) => tpcc::run(&args),
        Workload::Tpcb(args) => tpcb::run(&args),
        Workload::Tpca(args) => tpca::run(&args),
        Workload::Tpch(args) => tpch::run(&args),
        Workload::Mix(args) => mix::run(&args),
        Workload::Script(args) => script::run(&args),
        Workload::File(words) => script::run(&script::parse(words)?),
    }
}
