//! `tenbin run tpcb`, `tpca` and `mix`, which share their tables and most of their options.

use crate::args::{EmbeddedArgs, ViaArgs, WhichArgs};
use crate::bank::args::{
    MixDriveArgs, PgbenchArgs, SeedArgs, TpcaDriveArgs, TpcaLoadArgs, TpcbDriveArgs,
};
use crate::bank::{prepare_mix, prepare_tpca, prepare_tpcb};
use crate::exit::Result;
use crate::run::{ClientArgs, Command, OutputArgs, Subject, measure, show};
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;

/// Where to run, what to load, how to drive it, what to keep of it.
#[derive(clap::Args)]
pub(super) struct BankArgs<L: clap::Args, D: clap::Args> {
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Data")]
    load: L,
    #[command(flatten, next_help_heading = "Load")]
    drive: D,
    #[command(flatten, next_help_heading = "Load")]
    seed: SeedArgs,
    #[command(flatten, next_help_heading = "Load")]
    via: ViaArgs,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

pub(super) type Tpcb = BankArgs<PgbenchArgs, TpcbDriveArgs>;
pub(super) type Tpca = BankArgs<TpcaLoadArgs, TpcaDriveArgs>;
pub(super) type Mix = BankArgs<PgbenchArgs, MixDriveArgs>;

pub(super) const TPCB_HELP: &str = "\
Examples:
  tenbin run tpcb                                 newest PostgreSQL, scale 10, 10 terminals
  tenbin run tpcb -s 100 -c 16 --form select      pgbench -s 100 -c 16 -S
  tenbin run tpcb --dsn postgres://me@host/bench  also uses tables that pgbench -i created

Exit status: 0 every audit rule and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) const TPCA_HELP: &str = "\
Examples:
  tenbin run tpca --scale 10                      100 terminals, 10 tps: tpsA
  tenbin run tpca --scale 10 --tpca-ratio 10:100:100000
                                                  ten times the branches and tellers
  tenbin run tpca --pacing none --terminals 16    as fast as the server answers

Exit status: 0 every audit rule and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) const MIX_HELP: &str = "\
Examples:
  tenbin run mix --update-share 0.2               2 of 10 statements update
  tenbin run mix --update-share 1 --contend --zipf 1.1 -c 32
                                                  terminals that want the same rows

Exit status: 0 every audit rule and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) fn tpcb(args: &Tpcb) -> Result {
    let drive = &args.drive;
    args.run("tpcb", &drive.client, drive.terminals, prepare_tpcb)
}

pub(super) fn tpca(args: &Tpca) -> Result {
    // What is wrong with the numbers is better known before a server is made.
    let tps = args.load.tps(&args.load.size()?.size)?;
    let drive = &args.drive;
    args.run("tpca", &drive.client, drive.terminals(tps), prepare_tpca)
}

pub(super) fn mix(args: &Mix) -> Result {
    let drive = &args.drive;
    args.run("mix", &drive.client, drive.terminals, prepare_mix)
}

/// Loads what is missing, and says what is to be driven and how: server, tables, load, seed, a flag that is
/// set to stop, whether to show no progress.
type Prepare<L, D, S> = fn(&System, &L, &D, u64, &AtomicBool, bool) -> Result<S>;

impl<L: clap::Args, D: clap::Args> BankArgs<L, D> {
    fn run<S: Subject>(
        &self,
        name: &'static str,
        client: &ClientArgs,
        terminals: u32,
        prepare: Prepare<L, D, S>,
    ) -> Result {
        let seed = self.seed.seed;
        let command = Command {
            name,
            seed,
            server: self.which.spec(&self.setup)?,
            output: &self.output,
            connections: client.connections(terminals)?,
            tablespaces: Vec::new(),
            via: self.via.via,
            isolation: Some(client.isolation()),
        };
        let mut ran = measure(command, |sut, stop| {
            prepare(sut, &self.load, &self.drive, seed, stop, self.output.json)
        })?;
        show(&mut ran, &self.output)
    }
}
