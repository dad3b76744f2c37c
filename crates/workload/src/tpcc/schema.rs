//! The nine tables (clause 1.3): columns, keys, indexes.
//!
//! Columns carry the standard's names in lower case. Numbers with decimals are
//! `numeric` of the standard's precision; whole numbers are `smallint` or
//! `integer`, whichever holds the range that the standard asks for. Columns
//! stand by falling alignment, so that rows carry no padding.
//!
//! No table has a `fillfactor`: how much room updates find on a page is a
//! factor of a study, not a default that one side of a comparison brings along.

use std::fmt;

/// A table of TPC-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// `warehouse`
    Warehouse,
    /// `district`
    District,
    /// `customer`
    Customer,
    /// `history`
    History,
    /// `new_order`
    NewOrder,
    /// `orders`
    Orders,
    /// `order_line`
    OrderLine,
    /// `item`
    Item,
    /// `stock`
    Stock,
}

/// An index: its name, and what stands between the parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// Name, unique in the schema.
    pub name: &'static str,
    /// Columns, separated by commas.
    pub columns: &'static str,
}

/// A foreign key (clause 1.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignKey {
    /// Name of the constraint.
    pub name: &'static str,
    /// The table that refers.
    pub from: Table,
    /// Its columns.
    pub columns: &'static str,
    /// The table referred to, by its primary key.
    pub to: Table,
}

impl Table {
    /// All nine, referred-to tables before those that refer to them.
    pub const ALL: [Self; 9] = [
        Self::Warehouse,
        Self::Item,
        Self::District,
        Self::Stock,
        Self::Customer,
        Self::History,
        Self::Orders,
        Self::NewOrder,
        Self::OrderLine,
    ];

    /// The table's name, without schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::NewOrder => "new_order",
            Self::Orders => "orders",
            Self::OrderLine => "order_line",
            Self::Item => "item",
            Self::Stock => "stock",
        }
    }

    /// Column definitions, one a line, as they stand in `CREATE TABLE`.
    #[must_use]
    pub const fn columns(self) -> &'static str {
        match self {
            Self::Warehouse => WAREHOUSE,
            Self::District => DISTRICT,
            Self::Customer => CUSTOMER,
            Self::History => HISTORY,
            Self::NewOrder => NEW_ORDER,
            Self::Orders => ORDERS,
            Self::OrderLine => ORDER_LINE,
            Self::Item => ITEM,
            Self::Stock => STOCK,
        }
    }

    /// Number of columns.
    #[must_use]
    pub fn column_count(self) -> usize {
        self.columns().lines().count()
    }

    /// The primary key; `history` has none.
    #[must_use]
    pub const fn primary_key(self) -> Option<Index> {
        let (name, columns) = match self {
            Self::Warehouse => ("warehouse_pkey", "w_id"),
            Self::District => ("district_pkey", "d_w_id, d_id"),
            Self::Customer => ("customer_pkey", "c_w_id, c_d_id, c_id"),
            Self::History => return None,
            Self::NewOrder => ("new_order_pkey", "no_w_id, no_d_id, no_o_id"),
            Self::Orders => ("orders_pkey", "o_w_id, o_d_id, o_id"),
            Self::OrderLine => ("order_line_pkey", "ol_w_id, ol_d_id, ol_o_id, ol_number"),
            Self::Item => ("item_pkey", "i_id"),
            Self::Stock => ("stock_pkey", "s_w_id, s_i_id"),
        };
        Some(Index { name, columns })
    }

    /// The secondary index: customers by last name in order of first name
    /// (clauses 2.5.2.2 and 2.6.2.2), a customer's newest order (clause 2.6.2.2).
    #[must_use]
    pub const fn secondary_index(self) -> Option<Index> {
        let (name, columns) = match self {
            Self::Customer => ("customer_last", "c_w_id, c_d_id, c_last, c_first"),
            Self::Orders => ("orders_customer", "o_w_id, o_d_id, o_c_id, o_id"),
            _ => return None,
        };
        Some(Index { name, columns })
    }

    /// The column that says which warehouse a row belongs to, for the tables that may be
    /// partitioned: those that grow with more than a few rows a warehouse.
    #[must_use]
    pub const fn partition_column(self) -> Option<&'static str> {
        match self {
            Self::Warehouse | Self::District | Self::Item => None,
            Self::Customer => Some("c_w_id"),
            Self::History => Some("h_w_id"),
            Self::NewOrder => Some("no_w_id"),
            Self::Orders => Some("o_w_id"),
            Self::OrderLine => Some("ol_w_id"),
            Self::Stock => Some("s_w_id"),
        }
    }

    /// The name of partition `number`, from 0.
    #[must_use]
    pub fn partition_name(self, number: u32) -> String {
        format!("{}_p{number}", self.name())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All foreign keys of clause 1.3.1.
pub const FOREIGN_KEYS: [ForeignKey; 10] = {
    use Table::{Customer, District, History, Item, NewOrder, OrderLine, Orders, Stock, Warehouse};
    const fn key(name: &'static str, from: Table, columns: &'static str, to: Table) -> ForeignKey {
        ForeignKey {
            name,
            from,
            columns,
            to,
        }
    }
    [
        key("district_warehouse_fkey", District, "d_w_id", Warehouse),
        key("stock_warehouse_fkey", Stock, "s_w_id", Warehouse),
        key("stock_item_fkey", Stock, "s_i_id", Item),
        key(
            "customer_district_fkey",
            Customer,
            "c_w_id, c_d_id",
            District,
        ),
        key(
            "history_customer_fkey",
            History,
            "h_c_w_id, h_c_d_id, h_c_id",
            Customer,
        ),
        key("history_district_fkey", History, "h_w_id, h_d_id", District),
        key(
            "orders_customer_fkey",
            Orders,
            "o_w_id, o_d_id, o_c_id",
            Customer,
        ),
        key(
            "new_order_orders_fkey",
            NewOrder,
            "no_w_id, no_d_id, no_o_id",
            Orders,
        ),
        key(
            "order_line_orders_fkey",
            OrderLine,
            "ol_w_id, ol_d_id, ol_o_id",
            Orders,
        ),
        key(
            "order_line_stock_fkey",
            OrderLine,
            "ol_supply_w_id, ol_i_id",
            Stock,
        ),
    ]
};

const WAREHOUSE: &str = "\
w_id integer NOT NULL,
w_tax numeric(4,4) NOT NULL,
w_ytd numeric(12,2) NOT NULL,
w_name varchar(10) NOT NULL,
w_street_1 varchar(20) NOT NULL,
w_street_2 varchar(20) NOT NULL,
w_city varchar(20) NOT NULL,
w_state char(2) NOT NULL,
w_zip char(9) NOT NULL";

const DISTRICT: &str = "\
d_w_id integer NOT NULL,
d_next_o_id integer NOT NULL,
d_id smallint NOT NULL,
d_tax numeric(4,4) NOT NULL,
d_ytd numeric(12,2) NOT NULL,
d_name varchar(10) NOT NULL,
d_street_1 varchar(20) NOT NULL,
d_street_2 varchar(20) NOT NULL,
d_city varchar(20) NOT NULL,
d_state char(2) NOT NULL,
d_zip char(9) NOT NULL";

const CUSTOMER: &str = "\
c_since timestamptz NOT NULL,
c_w_id integer NOT NULL,
c_id integer NOT NULL,
c_payment_cnt integer NOT NULL,
c_delivery_cnt integer NOT NULL,
c_d_id smallint NOT NULL,
c_discount numeric(4,4) NOT NULL,
c_credit_lim numeric(12,2) NOT NULL,
c_balance numeric(12,2) NOT NULL,
c_ytd_payment numeric(12,2) NOT NULL,
c_credit char(2) NOT NULL,
c_last varchar(16) NOT NULL,
c_first varchar(16) NOT NULL,
c_middle char(2) NOT NULL,
c_street_1 varchar(20) NOT NULL,
c_street_2 varchar(20) NOT NULL,
c_city varchar(20) NOT NULL,
c_state char(2) NOT NULL,
c_zip char(9) NOT NULL,
c_phone char(16) NOT NULL,
c_data varchar(500) NOT NULL";

const HISTORY: &str = "\
h_date timestamptz NOT NULL,
h_c_id integer NOT NULL,
h_c_w_id integer NOT NULL,
h_w_id integer NOT NULL,
h_c_d_id smallint NOT NULL,
h_d_id smallint NOT NULL,
h_amount numeric(6,2) NOT NULL,
h_data varchar(24) NOT NULL";

const NEW_ORDER: &str = "\
no_w_id integer NOT NULL,
no_o_id integer NOT NULL,
no_d_id smallint NOT NULL";

const ORDERS: &str = "\
o_entry_d timestamptz NOT NULL,
o_w_id integer NOT NULL,
o_id integer NOT NULL,
o_c_id integer NOT NULL,
o_d_id smallint NOT NULL,
o_carrier_id smallint,
o_ol_cnt smallint NOT NULL,
o_all_local smallint NOT NULL";

const ORDER_LINE: &str = "\
ol_delivery_d timestamptz,
ol_w_id integer NOT NULL,
ol_o_id integer NOT NULL,
ol_i_id integer NOT NULL,
ol_supply_w_id integer NOT NULL,
ol_d_id smallint NOT NULL,
ol_number smallint NOT NULL,
ol_quantity smallint NOT NULL,
ol_amount numeric(6,2) NOT NULL,
ol_dist_info char(24) NOT NULL";

const ITEM: &str = "\
i_id integer NOT NULL,
i_im_id integer NOT NULL,
i_price numeric(5,2) NOT NULL,
i_name varchar(24) NOT NULL,
i_data varchar(50) NOT NULL";

const STOCK: &str = "\
s_w_id integer NOT NULL,
s_i_id integer NOT NULL,
s_ytd integer NOT NULL,
s_order_cnt integer NOT NULL,
s_remote_cnt integer NOT NULL,
s_quantity smallint NOT NULL,
s_dist_01 char(24) NOT NULL,
s_dist_02 char(24) NOT NULL,
s_dist_03 char(24) NOT NULL,
s_dist_04 char(24) NOT NULL,
s_dist_05 char(24) NOT NULL,
s_dist_06 char(24) NOT NULL,
s_dist_07 char(24) NOT NULL,
s_dist_08 char(24) NOT NULL,
s_dist_09 char(24) NOT NULL,
s_dist_10 char(24) NOT NULL,
s_data varchar(50) NOT NULL";
