//! What the command line says about the bank and those who move its money.

use super::load::ClientArgs;
use super::{DriveArgs, Driven, ViaArgs};
use clap::{Args, ValueEnum};
use tenbin_lab::bank::{MixSpec, PgbenchData, Ratio, TableSpec, TpcaData, TpcaSpec, TpcbSpec};
use tenbin_lab::{Pacing, WorkloadSpec};
use tenbin_workload::bank::PartitionMethod;
use tenbin_workload::tpcb::Form;

/// Terminals where none are asked for and no standard says how many.
const TERMINALS: u32 = 10;

/// How the tables are made; fixed by the data once they are there.
#[derive(Args, Debug, Clone)]
pub(crate) struct TableArgs {
    /// Connections used for loading [default: one per core]
    #[arg(long, value_name = "N")]
    load_threads: Option<u32>,
    #[command(flatten)]
    form: FormArgs,
    /// Drop and reload the tables that tenbin loaded earlier
    #[arg(long)]
    replace: bool,
}

/// What tables are like when they are made, in the words of `pgbench -i`.
#[derive(Args, Debug, Clone)]
pub(crate) struct FormArgs {
    /// Fill factor of the created tables, percent, 10 to 100
    #[arg(short = 'F', long, value_name = "PERCENT", default_value = "100", value_parser = clap::value_parser!(u8).range(10..=100))]
    fillfactor: u8,
    /// Create foreign keys
    #[arg(long)]
    foreign_keys: bool,
    /// Create unlogged tables: faster, and empty after a crash
    #[arg(long)]
    unlogged_tables: bool,
    /// Tablespace of the created tables; it must exist
    #[arg(long, value_name = "TABLESPACE")]
    tablespace: Option<String>,
    /// Tablespace of the primary keys; it must exist
    #[arg(long, value_name = "TABLESPACE")]
    index_tablespace: Option<String>,
    /// Number of partitions of the accounts (PostgreSQL 11 and newer); 0 for none
    #[arg(long, value_name = "N")]
    partitions: Option<u32>,
    /// Method of partitioning
    #[arg(long, value_enum, requires = "partitions", default_value = "range")]
    partition_method: Method,
}

/// Method of partitioning.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Method {
    /// Accounts that follow each other
    Range,
    /// A hash of the account's number
    Hash,
}

impl FormArgs {
    /// How tables are created.
    pub(crate) fn spec(&self) -> TableSpec {
        TableSpec {
            load_threads: None,
            fillfactor: self.fillfactor,
            foreign_keys: self.foreign_keys,
            unlogged_tables: self.unlogged_tables,
            tablespace: self.tablespace.clone(),
            index_tablespace: self.index_tablespace.clone(),
            partitions: self.partitions,
            partition_method: match self.partition_method {
                Method::Range => PartitionMethod::Range,
                Method::Hash => PartitionMethod::Hash,
            },
            replace: false,
        }
    }
}

impl TableArgs {
    fn spec(&self) -> TableSpec {
        TableSpec {
            load_threads: self.load_threads,
            replace: self.replace,
            ..self.form.spec()
        }
    }
}

/// pgbench's tables.
#[derive(Args, Debug, Clone)]
pub(crate) struct PgbenchArgs {
    /// pgbench's scale: a branch, 10 tellers, 100,000 accounts (16 MB) each [default: what is loaded already, else 10]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = scale)]
    scale: Option<u32>,
    #[command(flatten)]
    tables: TableArgs,
}

/// TPC-A's tables.
#[derive(Args, Debug, Clone)]
pub(crate) struct TpcaLoadArgs {
    /// Transactions per second to scale to [default: what is loaded already, else 10]
    #[arg(short, long, value_name = "TPS", allow_negative_numbers = true, value_parser = scale)]
    scale: Option<u32>,
    /// Branches, tellers and accounts for each of them
    #[arg(long, value_name = "B:T:A", default_value = "1:10:100000")]
    tpca_ratio: Ratio,
    #[command(flatten)]
    tables: TableArgs,
}

/// Where randomness starts.
#[derive(Args, Debug, Clone)]
struct SeedArgs {
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value = "42")]
    seed: u64,
}

/// How TPC-B is driven.
#[derive(Args, Debug, Clone)]
pub(crate) struct TpcbDriveArgs {
    /// Terminals: pgbench's clients
    #[arg(short = 'c', long, value_name = "N", default_value_t = TERMINALS, value_parser = clap::value_parser!(u32).range(1..))]
    terminals: u32,
    /// Built-in script of pgbench
    #[arg(long, value_enum, default_value = "tpcb")]
    form: FormArg,
    /// Send the statements of a transaction together, not one by one as pgbench does
    #[arg(long)]
    pipeline: bool,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    seed: SeedArgs,
    #[command(flatten)]
    via: ViaArgs,
}

/// pgbench's built-in scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// Account, teller, branch and history, as pgbench without -N and -S
    Tpcb,
    /// Account and history: pgbench -N
    SimpleUpdate,
    /// One read of an account: pgbench -S
    Select,
}

impl From<FormArg> for Form {
    fn from(form: FormArg) -> Self {
        match form {
            FormArg::Tpcb => Self::Update,
            FormArg::SimpleUpdate => Self::SimpleUpdate,
            FormArg::Select => Self::Select,
        }
    }
}

/// How TPC-A is driven.
#[derive(Args, Debug, Clone)]
pub(crate) struct TpcaDriveArgs {
    /// Terminals [default: 10 for each transaction per second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    terminals: Option<u32>,
    /// Think times: spec, none, or a factor of the standard's
    #[arg(long, value_name = "spec|none|FACTOR", default_value = "spec")]
    pacing: Pacing,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    seed: SeedArgs,
    #[command(flatten)]
    via: ViaArgs,
}

/// How the mix is driven.
#[derive(Args, Debug, Clone)]
pub(crate) struct MixDriveArgs {
    /// Terminals
    #[arg(short = 'c', long, value_name = "N", default_value_t = TERMINALS, value_parser = clap::value_parser!(u32).range(1..))]
    terminals: u32,
    /// Statements of a transaction, each on one account
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    statements: u16,
    /// Share of statements that are updates, 0 to 1; the others read
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    update_share: f64,
    /// Let terminals update the same accounts, rather than each its own
    #[arg(long)]
    contend: bool,
    /// Prefer some accounts: the n-th in proportion to n to the power of -S
    #[arg(long, value_name = "S", value_parser = exponent)]
    zipf: Option<f64>,
    /// Send the statements of a transaction together, not one by one
    #[arg(long)]
    pipeline: bool,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    seed: SeedArgs,
    #[command(flatten)]
    via: ViaArgs,
}

impl PgbenchArgs {
    /// What is loaded.
    pub(crate) fn data(&self) -> PgbenchData {
        PgbenchData {
            scale: self.scale,
            tables: self.tables.spec(),
        }
    }
}

impl TpcaLoadArgs {
    /// What is loaded.
    pub(crate) fn data(&self) -> TpcaData {
        TpcaData {
            scale: self.scale,
            ratio: self.tpca_ratio,
            tables: self.tables.spec(),
        }
    }
}

impl DriveArgs<PgbenchArgs> for TpcbDriveArgs {
    fn spec(&self, load: &PgbenchArgs) -> Driven {
        let spec = TpcbSpec {
            data: load.data(),
            form: self.form.into(),
            pipeline: self.pipeline,
        };
        let load = self.client.spec(self.seed.seed, Some(self.terminals), None);
        (WorkloadSpec::Tpcb(spec), load, self.via.via)
    }
}

impl DriveArgs<TpcaLoadArgs> for TpcaDriveArgs {
    fn spec(&self, load: &TpcaLoadArgs) -> Driven {
        let spec = TpcaSpec { data: load.data() };
        let load = self
            .client
            .spec(self.seed.seed, self.terminals, Some(self.pacing));
        (WorkloadSpec::Tpca(spec), load, self.via.via)
    }
}

impl DriveArgs<PgbenchArgs> for MixDriveArgs {
    fn spec(&self, load: &PgbenchArgs) -> Driven {
        let spec = MixSpec {
            data: load.data(),
            statements: self.statements,
            update_share: self.update_share,
            contend: self.contend,
            zipf: self.zipf,
            pipeline: self.pipeline,
        };
        let load = self.client.spec(self.seed.seed, Some(self.terminals), None);
        (WorkloadSpec::Mix(spec), load, self.via.via)
    }
}

fn scale(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(scale @ 1..=1_000_000) => u32::try_from(scale).map_err(|error| error.to_string()),
        Ok(scale) if scale > 0 => Err(format!(
            "a scale of {scale} would need about {} TB; at most 1,000,000",
            scale / 62_500
        )),
        _ => Err("give a whole number, 1 or more".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "give a share from 0 (reads only) to 1 (updates only)".into())
}

fn exponent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|exponent| *exponent > 0.0 && *exponent <= 100.0)
        .ok_or_else(|| "give an exponent above 0 and up to 100; leave --zipf out for none".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_what_to_give_instead() {
        for bad in ["0", "-3", "two", "1.5", "99999999999999999999"] {
            assert!(scale(bad).is_err(), "{bad}");
        }
        assert!(scale("5000000").is_err_and(|message| message.contains("TB")));
        for bad in ["-0.1", "1.1", "nan", "half"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        for bad in ["0", "-1", "nan", "inf", "101"] {
            assert!(exponent(bad).is_err(), "{bad}");
        }
    }
}
