//! The bank's tables and loads as plain values.

use crate::workload::{Dataset, OnExisting};
use crate::{Lab, Refusal, Result, System};
use serde::{Deserialize, Serialize};
use tenbin_workload::bank::{Design, PartitionMethod, Partitions, Size, Storage};
use tenbin_workload::tpcb::Form;

/// Scale loaded where none is asked for.
const SCALE: u32 = 10;

/// TPC-B on pgbench's tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpcbSpec {
    /// What is loaded.
    pub data: PgbenchData,
    /// Which of pgbench's built-in scripts.
    pub form: Form,
    /// Whether the statements of a transaction are sent together.
    pub pipeline: bool,
}

impl Default for TpcbSpec {
    fn default() -> Self {
        Self {
            data: PgbenchData::default(),
            form: Form::Update,
            pipeline: false,
        }
    }
}

/// TPC-A on its tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpcaSpec {
    /// What is loaded.
    pub data: TpcaData,
}

/// Reads and updates of pgbench's accounts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MixSpec {
    /// What is loaded.
    pub data: PgbenchData,
    /// Statements of a transaction, each on one account, 1 to 10,000.
    pub statements: u16,
    /// Share of statements that are updates, 0 to 1; the others read.
    pub update_share: f64,
    /// Whether terminals update the same accounts, rather than each its own.
    pub contend: bool,
    /// Accounts are drawn in proportion to their rank to the power of minus this, above 0 and up to 100.
    pub zipf: Option<f64>,
    /// Whether the statements of a transaction are sent together.
    pub pipeline: bool,
}

impl Default for MixSpec {
    fn default() -> Self {
        Self {
            data: PgbenchData::default(),
            statements: 10,
            update_share: 0.5,
            contend: false,
            zipf: None,
            pipeline: false,
        }
    }
}

/// pgbench's tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PgbenchData {
    /// pgbench's scale; what is loaded already, else 10, when `None`.
    pub scale: Option<u32>,
    /// How they are created.
    pub tables: TableSpec,
}

/// TPC-A's tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpcaData {
    /// Transactions per second to scale to; what is loaded already, else 10, when `None`.
    pub scale: Option<u32>,
    /// Branches, tellers and accounts for each of them.
    #[serde(with = "crate::text")]
    pub ratio: Ratio,
    /// How they are created.
    pub tables: TableSpec,
}

/// How tables are created, in the words of `pgbench -i`; fixed by the data once they are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableSpec {
    /// Connections that load; one a core when `None`.
    pub load_threads: Option<u32>,
    /// Fill factor, percent, 10 to 100.
    pub fillfactor: u8,
    /// Whether there are foreign keys.
    pub foreign_keys: bool,
    /// Whether the tables are unlogged.
    pub unlogged_tables: bool,
    /// Tablespace of the tables.
    pub tablespace: Option<String>,
    /// Tablespace of the primary keys.
    pub index_tablespace: Option<String>,
    /// Partitions of the accounts; 0 for none.
    pub partitions: Option<u32>,
    /// Method of partitioning.
    pub partition_method: PartitionMethod,
    /// Whether tables that tenbin loaded earlier are dropped and loaded again.
    pub replace: bool,
}

impl Default for TableSpec {
    /// As `pgbench -i` creates them where nothing else is said.
    fn default() -> Self {
        Self {
            load_threads: None,
            fillfactor: 100,
            foreign_keys: false,
            unlogged_tables: false,
            tablespace: None,
            index_tablespace: None,
            partitions: None,
            partition_method: PartitionMethod::Range,
            replace: false,
        }
    }
}

impl TableSpec {
    pub(crate) fn storage(&self) -> Storage {
        let method = self.partition_method;
        let count = self.partitions.filter(|&count| count > 0);
        Storage {
            unlogged: self.unlogged_tables,
            tablespace: self.tablespace.clone(),
            index_tablespace: self.index_tablespace.clone(),
            partitions: count.map(|count| Partitions { count, method }),
        }
    }

    /// What is asked for beyond the default, by the names under which a run tells of tables.
    pub(crate) fn asked(&self) -> Vec<(&'static str, String)> {
        let storage = self.storage();
        let partitions = storage.partitions.iter().flat_map(|partitions| {
            [
                ("partitions", partitions.count.to_string()),
                ("partition_method", partitions.method.name().to_owned()),
            ]
        });
        let fillfactor =
            Some(self.fillfactor).filter(|&percent| percent != Self::default().fillfactor);
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

/// Branches, tellers and accounts for each transaction per second: `1:10:100000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    branches: u32,
    tellers_per_branch: u32,
    accounts_per_branch: u32,
}

impl Default for Ratio {
    /// The standard's.
    fn default() -> Self {
        Self {
            branches: 1,
            tellers_per_branch: 10,
            accounts_per_branch: 100_000,
        }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let branches = u64::from(self.branches);
        let tellers = branches * u64::from(self.tellers_per_branch);
        let accounts = branches * u64::from(self.accounts_per_branch);
        write!(f, "{branches}:{tellers}:{accounts}")
    }
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

impl PgbenchData {
    /// Loads the tables, or takes those that are there.
    pub(super) fn load(&self, lab: &Lab, sut: &System, existing: OnExisting) -> Result<Dataset> {
        let (size, design) = (self.size(), Design::Pgbench);
        super::load(lab, sut, design, size, &self.tables, existing).map(Dataset::new)
    }

    /// What is asked for, or would be loaded.
    #[must_use]
    pub fn size(&self) -> Asked {
        Asked {
            size: Size::pgbench(self.scale.unwrap_or(SCALE)),
            explicit: self.scale.is_some(),
        }
    }
}

impl TpcaData {
    /// What is asked for, or would be loaded.
    ///
    /// # Errors
    /// More branches than there can be.
    pub fn size(&self) -> Result<Asked> {
        let ratio = self.ratio;
        let tps = self.scale.unwrap_or(SCALE);
        let branches = tps.checked_mul(ratio.branches).ok_or(Refusal::Branches {
            tps,
            branches: ratio.branches,
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
        let ratio = self.ratio;
        let fits = size.tellers_per_branch == ratio.tellers_per_branch
            && size.accounts_per_branch == ratio.accounts_per_branch
            && size.branches.is_multiple_of(ratio.branches);
        if fits {
            return Ok(size.branches / ratio.branches);
        }
        Err(Refusal::Differs {
            holds: size.describe(),
            described: format!("of the ratio {ratio}"),
            setting: "ratio",
            own: true,
        })?
    }
}

/// A size, and whether it was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The size.
    pub size: Size,
    /// Whether data of another size will not do.
    pub explicit: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_ratios_are_refused() {
        for bad in ["1:10", "1:0:5", "0:1:1", "3:10:100000", "a:b:c", "1:2:3:4"] {
            assert!(bad.parse::<Ratio>().is_err(), "{bad}");
        }
        assert_eq!(Ratio::default().to_string(), "1:10:100000");
        assert_eq!(
            "10:100:100000".parse::<Ratio>().unwrap().to_string(),
            "10:100:100000"
        );
    }

    #[test]
    fn ratios_make_sizes_and_sizes_scales() {
        let args = |ratio: &str| TpcaData {
            scale: Some(7),
            ratio: ratio.parse().unwrap(),
            tables: TableSpec::default(),
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
