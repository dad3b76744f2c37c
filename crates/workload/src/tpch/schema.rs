//! The eight tables (clause 1.4.1), their keys (clause 1.4.2) and indexes.
//!
//! Identifiers are `integer`, but those of orders `bigint`: they are sparse (clause 4.2.3) and
//! leave the range of an `integer` at scale 358. Decimals are `numeric(15,2)`, fixed text is
//! `char`, variable text `varchar`, as the clause says.

use std::fmt;

/// A table of TPC-H.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// `region`
    Region,
    /// `nation`
    Nation,
    /// `part`
    Part,
    /// `supplier`
    Supplier,
    /// `partsupp`
    PartSupp,
    /// `customer`
    Customer,
    /// `orders`
    Orders,
    /// `lineitem`
    LineItem,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Table {
    /// All eight, referred-to tables before those that refer to them.
    pub const ALL: [Self; 8] = [
        Self::Region,
        Self::Nation,
        Self::Part,
        Self::Supplier,
        Self::PartSupp,
        Self::Customer,
        Self::Orders,
        Self::LineItem,
    ];

    /// Its name in the database.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Nation => "nation",
            Self::Part => "part",
            Self::Supplier => "supplier",
            Self::PartSupp => "partsupp",
            Self::Customer => "customer",
            Self::Orders => "orders",
            Self::LineItem => "lineitem",
        }
    }

    /// Columns and their types (clause 1.4.1), all of them NOT NULL.
    pub(crate) fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Region => &[
                ("r_regionkey", "integer"),
                ("r_name", "char(25)"),
                ("r_comment", "varchar(152)"),
            ],
            Self::Nation => &[
                ("n_nationkey", "integer"),
                ("n_name", "char(25)"),
                ("n_regionkey", "integer"),
                ("n_comment", "varchar(152)"),
            ],
            Self::Part => &[
                ("p_partkey", "integer"),
                ("p_name", "varchar(55)"),
                ("p_mfgr", "char(25)"),
                ("p_brand", "char(10)"),
                ("p_type", "varchar(25)"),
                ("p_size", "integer"),
                ("p_container", "char(10)"),
                ("p_retailprice", "numeric(15,2)"),
                ("p_comment", "varchar(23)"),
            ],
            Self::Supplier => &[
                ("s_suppkey", "integer"),
                ("s_name", "char(25)"),
                ("s_address", "varchar(40)"),
                ("s_nationkey", "integer"),
                ("s_phone", "char(15)"),
                ("s_acctbal", "numeric(15,2)"),
                ("s_comment", "varchar(101)"),
            ],
            Self::PartSupp => &[
                ("ps_partkey", "integer"),
                ("ps_suppkey", "integer"),
                ("ps_availqty", "integer"),
                ("ps_supplycost", "numeric(15,2)"),
                ("ps_comment", "varchar(199)"),
            ],
            Self::Customer => &[
                ("c_custkey", "integer"),
                ("c_name", "varchar(25)"),
                ("c_address", "varchar(40)"),
                ("c_nationkey", "integer"),
                ("c_phone", "char(15)"),
                ("c_acctbal", "numeric(15,2)"),
                ("c_mktsegment", "char(10)"),
                ("c_comment", "varchar(117)"),
            ],
            Self::Orders => &[
                ("o_orderkey", "bigint"),
                ("o_custkey", "integer"),
                ("o_orderstatus", "char(1)"),
                ("o_totalprice", "numeric(15,2)"),
                ("o_orderdate", "date"),
                ("o_orderpriority", "char(15)"),
                ("o_clerk", "char(15)"),
                ("o_shippriority", "integer"),
                ("o_comment", "varchar(79)"),
            ],
            Self::LineItem => &[
                ("l_orderkey", "bigint"),
                ("l_partkey", "integer"),
                ("l_suppkey", "integer"),
                ("l_linenumber", "integer"),
                ("l_quantity", "numeric(15,2)"),
                ("l_extendedprice", "numeric(15,2)"),
                ("l_discount", "numeric(15,2)"),
                ("l_tax", "numeric(15,2)"),
                ("l_returnflag", "char(1)"),
                ("l_linestatus", "char(1)"),
                ("l_shipdate", "date"),
                ("l_commitdate", "date"),
                ("l_receiptdate", "date"),
                ("l_shipinstruct", "char(25)"),
                ("l_shipmode", "char(10)"),
                ("l_comment", "varchar(44)"),
            ],
        }
    }

    /// Columns of the primary key (clause 1.4.2.2), in the order in which rows are loaded.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Region => "r_regionkey",
            Self::Nation => "n_nationkey",
            Self::Part => "p_partkey",
            Self::Supplier => "s_suppkey",
            Self::PartSupp => "ps_partkey, ps_suppkey",
            Self::Customer => "c_custkey",
            Self::Orders => "o_orderkey",
            Self::LineItem => "l_orderkey, l_linenumber",
        }
    }

    /// Foreign keys (clause 1.4.2.3): columns, and the table referred to by its primary key.
    pub(crate) fn foreign_keys(self) -> &'static [(&'static str, Self)] {
        match self {
            Self::Region | Self::Part => &[],
            Self::Nation => &[("n_regionkey", Self::Region)],
            Self::Supplier => &[("s_nationkey", Self::Nation)],
            Self::PartSupp => &[("ps_partkey", Self::Part), ("ps_suppkey", Self::Supplier)],
            Self::Customer => &[("c_nationkey", Self::Nation)],
            Self::Orders => &[("o_custkey", Self::Customer)],
            Self::LineItem => &[
                ("l_orderkey", Self::Orders),
                ("l_partkey, l_suppkey", Self::PartSupp),
            ],
        }
    }

    /// Columns of the table's index beside its primary key: those of the foreign key that the
    /// primary key does not begin with. Without LINEITEM's, queries 17 and 20 take hours.
    pub(crate) fn index(self) -> Option<&'static str> {
        match self {
            Self::Region | Self::Part => None,
            Self::Nation => Some("n_regionkey"),
            Self::Supplier => Some("s_nationkey"),
            Self::PartSupp => Some("ps_suppkey"),
            Self::Customer => Some("c_nationkey"),
            Self::Orders => Some("o_custkey"),
            Self::LineItem => Some("l_partkey, l_suppkey"),
        }
    }

    /// Makes the table, empty and without keys.
    pub(super) fn create(self) -> String {
        let column = |(name, of): &(&str, &str)| format!("{name} {of} NOT NULL");
        let columns: Vec<String> = self.columns().iter().map(column).collect();
        format!("CREATE TABLE {self} ({})", columns.join(", "))
    }

    /// Builds the primary key and the index.
    pub(super) fn create_indexes(self) -> Vec<String> {
        let index = self.index().map(|columns| {
            let first = columns.split(',').next().unwrap_or(columns);
            format!("CREATE INDEX {self}_{first}_idx ON {self} ({columns})")
        });
        let key = format!("ALTER TABLE {self} ADD PRIMARY KEY ({})", self.key());
        std::iter::once(key).chain(index).collect()
    }

    /// Adds the foreign keys.
    pub(super) fn add_foreign_keys(self) -> Vec<String> {
        let add = |(columns, to): &(&str, Self)| {
            format!("ALTER TABLE {self} ADD FOREIGN KEY ({columns}) REFERENCES {to}")
        };
        self.foreign_keys().iter().map(add).collect()
    }
}
