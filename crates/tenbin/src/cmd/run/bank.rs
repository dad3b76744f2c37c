//! `tenbin run tpcb`, `tpca` and `mix`, which share their tables and most of their options.

use crate::args::bank::{
    DriveArgs, MixDriveArgs, PgbenchArgs, SeedArgs, TpcaDriveArgs, TpcaLoadArgs, TpcbDriveArgs,
};
use crate::args::{EmbeddedArgs, OutputArgs, ViaArgs, WhichArgs};
use crate::exit::Result;
use tenbin_lab::Trial;

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
    pub(super) output: OutputArgs,
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

pub(super) fn trial<L, D>(args: &BankArgs<L, D>) -> Result<Trial>
where
    L: clap::Args,
    D: clap::Args + DriveArgs<L>,
{
    let (workload, load) = args.drive.spec(&args.load, args.seed.seed);
    let (watch, output) = args.output.spec();
    Ok(Trial {
        server: args.which.spec(&args.setup)?,
        workload,
        load,
        via: args.via.via,
        watch,
        output,
    })
}
