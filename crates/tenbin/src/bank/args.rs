//! What the command line says about the bank and those who move its money.

use crate::exit::{Failure, Result};
use crate::run::{ClientArgs, Pacing};
use clap::{Args, ValueEnum};
use tenbin_workload::bank::{PartitionMethod, Partitions, Size, Storage};
use tenbin_workload::tpcb::Form;

/// Scale loaded where none is asked for.
const SCALE: u32 = 10;
/// Terminals where none are asked for and no standard says how many.
const TERMINALS: u32 = 10;

/// How the tables are made; fixed by the data once they are there.
#[derive(Args, Debug, Clone)]
pub(crate) struct TableArgs {
    /// Connections used for loading [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) load_threads: Option<u32>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Drop and reload the tables that tenbin loaded earlier
    #[arg(long)]
    pub(crate) replace: bool,
}

/// What tables are like when they are made, in the words of `pgbench -i`.
#[derive(Args, Debug, Clone)]
pub(crate) struct FormArgs {
    /// Fill factor of the created tables, percent, 10 to 100
    #[arg(short = 'F', long, value_name = "PERCENT", default_value = "100", value_parser = clap::value_parser!(u8).range(10..=100))]
    pub(crate) fillfactor: u8,
    /// Create foreign keys
    #[arg(long)]
    pub(crate) foreign_keys: bool,
    /// Create unlogged tables: faster, and empty after a crash
    #[arg(long)]
    pub(crate) unlogged_tables: bool,
    /// Tablespace of the created tables; it must exist
    #[arg(long, value_name = "TABLESPACE")]
    pub(crate) tablespace: Option<String>,
    /// Tablespace of the primary keys; it must exist
    #[arg(long, value_name = "TABLESPACE")]
    pub(crate) index_tablespace: Option<String>,
    /// Number of partitions of the accounts (PostgreSQL 11 and newer); 0 for none
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<u32>,
    /// Method of partitioning
    #[arg(long, value_enum, requires = "partitions", default_value = "range")]
    pub(crate) partition_method: Method,
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
    /// Tables as `pgbench -i` makes them where nothing else is said.
    pub(crate) const PLAIN: Self = Self {
        fillfactor: 100,
        foreign_keys: false,
        unlogged_tables: false,
        tablespace: None,
        index_tablespace: None,
        partitions: None,
        partition_method: Method::Range,
    };

    pub(crate) fn storage(&self) -> Storage {
        let method = match self.partition_method {
            Method::Range => PartitionMethod::Range,
            Method::Hash => PartitionMethod::Hash,
        };
        let count = self.partitions.filter(|&count| count > 0);
        Storage {
            unlogged: self.unlogged_tables,
            tablespace: self.tablespace.clone(),
            index_tablespace: self.index_tablespace.clone(),
            partitions: count.map(|count| Partitions { count, method }),
        }
    }

    /// What is asked for beyond [`Self::PLAIN`], by the names under which a run tells of tables.
    pub(crate) fn asked(&self) -> Vec<(&'static str, String)> {
        let storage = self.storage();
        let partitions = storage.partitions.iter().flat_map(|partitions| {
            [
                ("partitions", partitions.count.to_string()),
                ("partition_method", partitions.method.name().to_owned()),
            ]
        });
        let fillfactor = Some(self.fillfactor).filter(|&percent| percent != Self::PLAIN.fillfactor);
        let set = |set: bool| set.then(|| true.to_string());
        let others = [
            ("fillfactor", fillfactor.map(|percent| percent.to_string())),
            ("foreign_keys", set(self.foreign_keys)),
            ("tablespace", storage.tablespace.clone()),
            ("index_tablespace", storage.index_tablespace.clone()),
            ("unlogged_tables", set(storage.unlogged)),
        ];
        partitions
            .chain(
                others
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .collect()
    }
}

/// pgbench's tables.
#[derive(Args, Debug, Clone)]
pub(crate) struct PgbenchArgs {
    /// pgbench's scale: a branch, 10 tellers, 100,000 accounts (16 MB) each [default: what is loaded already, else 10]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = scale)]
    pub(crate) scale: Option<u32>,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
}

/// TPC-A's tables.
#[derive(Args, Debug, Clone)]
pub(crate) struct TpcaLoadArgs {
    /// Transactions per second to scale to [default: what is loaded already, else 10]
    #[arg(short, long, value_name = "TPS", allow_negative_numbers = true, value_parser = scale)]
    pub(crate) scale: Option<u32>,
    /// Branches, tellers and accounts for each of them
    #[arg(long, value_name = "B:T:A", default_value = "1:10:100000")]
    pub(crate) tpca_ratio: Ratio,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
}

/// Where randomness starts.
#[derive(Args, Debug, Clone)]
pub(crate) struct SeedArgs {
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value = "42")]
    pub(crate) seed: u64,
}

/// How TPC-B is driven.
#[derive(Args, Debug, Clone)]
pub(crate) struct TpcbDriveArgs {
    /// Terminals: pgbench's clients
    #[arg(short = 'c', long, value_name = "N", default_value_t = TERMINALS, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) terminals: u32,
    /// Built-in script of pgbench
    #[arg(long, value_enum, default_value = "tpcb")]
    pub(crate) form: FormArg,
    /// Send the statements of a transaction together, not one by one as pgbench does
    #[arg(long)]
    pub(crate) pipeline: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
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
    pub(crate) terminals: Option<u32>,
    /// Think times: spec, none, or a factor of the standard's
    #[arg(long, value_name = "spec|none|FACTOR", default_value = "spec")]
    pub(crate) pacing: Pacing,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// How the mix is driven.
#[derive(Args, Debug, Clone)]
pub(crate) struct MixDriveArgs {
    /// Terminals
    #[arg(short = 'c', long, value_name = "N", default_value_t = TERMINALS, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) terminals: u32,
    /// Statements of a transaction, each on one account
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) statements: u16,
    /// Share of statements that are updates, 0 to 1; the others read
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    pub(crate) update_share: f64,
    /// Let terminals update the same accounts, rather than each its own
    #[arg(long)]
    pub(crate) contend: bool,
    /// Prefer some accounts: the n-th in proportion to n to the power of -S
    #[arg(long, value_name = "S", value_parser = exponent)]
    pub(crate) zipf: Option<f64>,
    /// Send the statements of a transaction together, not one by one
    #[arg(long)]
    pub(crate) pipeline: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Branches, tellers and accounts for each transaction per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ratio {
    branches: u32,
    tellers_per_branch: u32,
    accounts_per_branch: u32,
}

impl std::str::FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |part: &str| part.parse().ok().filter(|&number: &u32| number > 0);
        let numbers: Option<Vec<u32>> = text.split(':').map(number).collect();
        let Some(&[branches, tellers, accounts]) = numbers.as_deref() else {
            return Err(
                "give branches, tellers and accounts, each 1 or more: 1:10:100000".to_owned(),
            );
        };
        if tellers % branches != 0 || accounts % branches != 0 {
            return Err(format!(
                "{tellers} tellers and {accounts} accounts cannot be dealt out evenly to {branches} branches"
            ));
        }
        Ok(Self {
            branches,
            tellers_per_branch: tellers / branches,
            accounts_per_branch: accounts / branches,
        })
    }
}

impl PgbenchArgs {
    /// What the command line asks for, or would load.
    pub(crate) fn size(&self) -> Asked {
        Asked {
            size: Size::pgbench(self.scale.unwrap_or(SCALE)),
            explicit: self.scale.is_some(),
        }
    }
}

impl TpcaLoadArgs {
    /// What the command line asks for, or would load.
    pub(crate) fn size(&self) -> Result<Asked> {
        let ratio = self.tpca_ratio;
        let tps = self.scale.unwrap_or(SCALE);
        let branches = tps.checked_mul(ratio.branches).ok_or_else(|| {
            Failure::bad_input(format!(
                "{tps} times {} branches are too many",
                ratio.branches
            ))
        })?;
        Ok(Asked {
            size: Size {
                branches,
                tellers_per_branch: ratio.tellers_per_branch,
                accounts_per_branch: ratio.accounts_per_branch,
            },
            explicit: self.scale.is_some(),
        })
    }

    /// Transactions per second that a database of `size` is scaled to by this ratio.
    pub(crate) fn tps(&self, size: &Size) -> Result<u32> {
        let ratio = self.tpca_ratio;
        let fits = size.tellers_per_branch == ratio.tellers_per_branch
            && size.accounts_per_branch == ratio.accounts_per_branch
            && size.branches.is_multiple_of(ratio.branches);
        if fits {
            return Ok(size.branches / ratio.branches);
        }
        Err(Failure::bad_input(format!(
            "the database holds {} branches with {} tellers and {} accounts each, which is not of the ratio asked for; give the --tpca-ratio that it was loaded with, or reload with --replace",
            size.branches, size.tellers_per_branch, size.accounts_per_branch
        )))
    }
}

impl TpcaDriveArgs {
    /// Terminals for a database scaled to `tps`.
    pub(crate) fn terminals(&self, tps: u32) -> u32 {
        self.terminals.unwrap_or(tps.saturating_mul(10))
    }
}

/// A size, and whether it was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) size: Size,
    /// Whether data of another size will not do.
    pub(crate) explicit: bool,
}

fn scale(text: &str) -> std::result::Result<u32, String> {
    match text.parse::<i64>() {
        Ok(scale @ 1..=1_000_000) => u32::try_from(scale).map_err(|error| error.to_string()),
        Ok(scale) if scale > 0 => Err(format!(
            "a scale of {scale} would need about {} TB; at most 1,000,000",
            scale / 62_500
        )),
        _ => Err("give a whole number, 1 or more".into()),
    }
}

fn share(text: &str) -> std::result::Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "give a share from 0 (reads only) to 1 (updates only)".into())
}

fn exponent(text: &str) -> std::result::Result<f64, String> {
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
        for bad in ["1:10", "1:0:5", "0:1:1", "3:10:100000", "a:b:c", "1:2:3:4"] {
            assert!(bad.parse::<Ratio>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ratios_make_sizes_and_sizes_scales() {
        let args = |ratio: &str| TpcaLoadArgs {
            scale: Some(7),
            tpca_ratio: ratio.parse().unwrap(),
            tables: TableArgs {
                load_threads: None,
                form: FormArgs::PLAIN,
                replace: false,
            },
        };
        let size = args("10:100:100000").size().unwrap().size;
        assert_eq!(
            (size.branches, size.tellers(), size.accounts()),
            (70, 700, 700_000)
        );
        assert_eq!(args("10:100:100000").tps(&size).unwrap(), 7);
        assert!(args("1:10:100000").tps(&size).is_err());
    }
}
