//! Tables, their names and columns.

/// Whose tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// Those of `pgbench -i`, from which they cannot be told apart.
    Pgbench,
    /// TPC-A's: records of 100 bytes, 50 in the history.
    TpcA,
}

/// One of the four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Branches.
    Branches,
    /// Tellers, each of a branch.
    Tellers,
    /// Accounts, each of a branch.
    Accounts,
    /// What was moved.
    History,
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Branches, 1 or more.
    pub branches: u32,
    /// Tellers of each branch, 1 or more.
    pub tellers_per_branch: u32,
    /// Accounts of each branch, 1 or more.
    pub accounts_per_branch: u32,
}

impl Size {
    /// `10 branches with 10 tellers and 100000 accounts each`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "{} branches with {} tellers and {} accounts each",
            self.branches, self.tellers_per_branch, self.accounts_per_branch
        )
    }

    /// pgbench's: a branch, 10 tellers and 100,000 accounts for each of `scale`.
    #[must_use]
    pub fn pgbench(scale: u32) -> Self {
        Self {
            branches: scale,
            tellers_per_branch: 10,
            accounts_per_branch: 100_000,
        }
    }

    /// Tellers of all branches.
    #[must_use]
    pub fn tellers(&self) -> u64 {
        u64::from(self.branches) * u64::from(self.tellers_per_branch)
    }

    /// Accounts of all branches.
    #[must_use]
    pub fn accounts(&self) -> u64 {
        u64::from(self.branches) * u64::from(self.accounts_per_branch)
    }

    /// Rows of `table` after loading.
    #[must_use]
    pub fn rows(&self, table: Table) -> u64 {
        match table {
            Table::Branches => u64::from(self.branches),
            Table::Tellers => self.tellers(),
            Table::Accounts => self.accounts(),
            Table::History => 0,
        }
    }

    /// Rows of `table` for each branch.
    pub(crate) fn per_branch(&self, table: Table) -> u64 {
        match table {
            Table::Tellers => self.tellers_per_branch.into(),
            Table::Accounts => self.accounts_per_branch.into(),
            Table::Branches | Table::History => 1,
        }
    }

    /// Whether account numbers need a `bigint`: pgbench's `SCALE_32BIT_THRESHOLD` is scale 20,000.
    pub(crate) fn is_wide(&self) -> bool {
        self.accounts() >= 20_000 * 100_000
    }
}

impl Table {
    /// All, those referred to first.
    pub const ALL: [Self; 4] = [Self::Branches, Self::Tellers, Self::Accounts, Self::History];
    /// Those with a balance.
    pub(crate) const KEYED: [Self; 3] = [Self::Branches, Self::Tellers, Self::Accounts];
}

impl Design {
    /// The workload's name on the command line.
    #[must_use]
    pub fn workload(self) -> &'static str {
        match self {
            Self::Pgbench => "tpcb",
            Self::TpcA => "tpca",
        }
    }

    /// Name of a table.
    #[must_use]
    pub fn table(self, table: Table) -> &'static str {
        match (self, table) {
            (Self::Pgbench, Table::Branches) => "pgbench_branches",
            (Self::Pgbench, Table::Tellers) => "pgbench_tellers",
            (Self::Pgbench, Table::Accounts) => "pgbench_accounts",
            (Self::Pgbench, Table::History) => "pgbench_history",
            (Self::TpcA, Table::Branches) => "tpca_branch",
            (Self::TpcA, Table::Tellers) => "tpca_teller",
            (Self::TpcA, Table::Accounts) => "tpca_account",
            (Self::TpcA, Table::History) => "tpca_history",
        }
    }

    /// Number of a branch, teller or account, in its own table and in those that refer to it.
    pub(crate) fn key(self, table: Table) -> &'static str {
        match (self, table) {
            (Self::Pgbench, Table::Tellers) => "tid",
            (Self::Pgbench, Table::Accounts) => "aid",
            (Self::Pgbench, _) => "bid",
            (Self::TpcA, Table::Tellers) => "teller_id",
            (Self::TpcA, Table::Accounts) => "account_id",
            (Self::TpcA, _) => "branch_id",
        }
    }

    /// Column with the balance; in the history, the amount moved.
    pub(crate) fn balance(self, table: Table) -> &'static str {
        match (self, table) {
            (Self::Pgbench, Table::Branches) => "bbalance",
            (Self::Pgbench, Table::Tellers) => "tbalance",
            (Self::Pgbench, Table::Accounts) => "abalance",
            (Self::Pgbench, Table::History) => "delta",
            (Self::TpcA, Table::Branches) => "branch_balance",
            (Self::TpcA, Table::Tellers) => "teller_balance",
            (Self::TpcA, Table::Accounts) => "account_balance",
            (Self::TpcA, Table::History) => "amount",
        }
    }

    /// Columns as `CREATE TABLE` has them.
    pub(crate) fn columns(self, table: Table, size: &Size) -> String {
        let aid = if size.is_wide() { "bigint" } else { "int" };
        match (self, table) {
            (Self::Pgbench, Table::Branches) => {
                "bid int not null, bbalance int, filler char(88)".into()
            }
            (Self::Pgbench, Table::Tellers) => {
                "tid int not null, bid int, tbalance int, filler char(84)".into()
            }
            (Self::Pgbench, Table::Accounts) => {
                format!("aid {aid} not null, bid int, abalance int, filler char(84)")
            }
            (Self::Pgbench, Table::History) => {
                format!("tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22)")
            }
            (Self::TpcA, Table::Branches) => {
                "branch_id int not null, branch_balance bigint not null, filler char(88) not null"
                    .into()
            }
            (Self::TpcA, Table::Tellers) => "teller_id int not null, branch_id int not null, \
                 teller_balance bigint not null, filler char(84) not null"
                .into(),
            (Self::TpcA, Table::Accounts) => "account_id bigint not null, branch_id int not null, \
                 account_balance bigint not null, filler char(80) not null"
                .into(),
            (Self::TpcA, Table::History) => "account_id bigint not null, teller_id int not null, \
                 branch_id int not null, amount int not null, time_stamp timestamptz not null, \
                 filler char(22) not null"
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the columns of a table, by PostgreSQL's types.
    fn bytes(columns: &str) -> u32 {
        columns
            .split(", ")
            .map(|column| match column.split_whitespace().nth(1) {
                Some("int") => 4,
                Some("bigint" | "timestamptz") => 8,
                Some(char) => char
                    .trim_matches(|c: char| !c.is_ascii_digit())
                    .parse()
                    .unwrap(),
                None => 0,
            })
            .sum()
    }

    #[test]
    fn tpc_a_records_hold_100_bytes_and_history_50() {
        let size = Size::pgbench(1);
        for table in Table::KEYED {
            assert_eq!(bytes(&Design::TpcA.columns(table, &size)), 100, "{table:?}");
        }
        assert_eq!(bytes(&Design::TpcA.columns(Table::History, &size)), 50);
    }

    #[test]
    fn sizes_multiply() {
        let size = Size::pgbench(30_000);
        assert_eq!((size.tellers(), size.accounts()), (300_000, 3_000_000_000));
        assert!(size.is_wide() && !Size::pgbench(19_999).is_wide());
    }
}
