//! The constants of the standard that the workload lives by.
//!
//! Every number is a plain field, so that a deliberately false workload (for
//! example one that never goes to another warehouse) is a [`Rules`] value and
//! needs no hook in the code. Audits judge against [`Rules::default`].

use crate::think::ThinkTime;
use std::ops::RangeInclusive;

/// The constants of TPC-C 5.11. [`Rules::default`] is the standard.
///
/// Arrays by kind of transaction hold New-Order, Payment, Order-Status,
/// Delivery and Stock-Level, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Districts of a warehouse (clause 1.2.1), at most 255.
    pub districts_per_warehouse: u8,
    /// Customers of a district, each with one history row and one order (clause 4.3.3.1).
    pub customers_per_district: u32,
    /// Newest orders of a district that are not delivered after loading (clause 4.3.3.1).
    pub open_orders_per_district: u32,
    /// Items, and stock rows of a warehouse (clause 4.3.3.1).
    pub items: u32,
    /// Numbers that last names are made of, from 0 (clause 4.3.2.3).
    pub last_names: u32,
    /// Share of items and of stock rows marked `ORIGINAL` (clause 4.3.3.1).
    pub original_share: f64,
    /// Share of customers with bad credit (clause 4.3.3.1).
    pub bad_credit_share: f64,

    /// NURand's A for `C_LAST` (clause 2.1.6); 0 makes the choice uniform.
    pub nurand_a_last: u32,
    /// NURand's A for `C_ID` (clause 2.1.6); 0 makes the choice uniform.
    pub nurand_a_customer: u32,
    /// NURand's A for `OL_I_ID` (clause 2.1.6); 0 makes the choice uniform.
    pub nurand_a_item: u32,
    /// What |C-Run − C-Load| may be (clause 2.1.6.1) …
    pub c_delta: RangeInclusive<u32>,
    /// … but for these.
    pub c_delta_excluded: [u32; 2],

    /// Terminals of a warehouse (clause 4.2.2).
    pub terminals_per_warehouse: u32,
    /// tpmC of a warehouse (clause 4.2.1).
    pub tpmc_per_warehouse: RangeInclusive<f64>,
    /// Cards of each kind in a deck (clause 5.2.4.2).
    pub deck: [u32; 5],
    /// Least share of each kind, 0 where there is no minimum (clause 5.2.3).
    pub least_share: [f64; 5],
    /// Keying times, seconds (clause 5.2.5.7).
    pub keying_s: [f64; 5],
    /// Means of the think times, seconds (clause 5.2.5.7).
    pub think_mean_s: [f64; 5],
    /// Their distribution (clause 5.2.5.4).
    pub think_time: ThinkTime,
    /// 90th percentiles of the response times, seconds (clause 5.2.5.7).
    pub response_p90_s: [f64; 5],
    /// 90th percentile of the menu's response time, seconds (clause 5.2.5.1).
    pub menu_p90_s: f64,
    /// Time in which 90 % of the deferred Deliveries complete, seconds (clause 2.7.2.2).
    pub deferred_delivery_s: f64,

    /// Order lines of an order (clauses 2.4.1.3 and 4.3.3.1), at most 99.
    pub lines: RangeInclusive<u8>,
    /// Quantity of an order line (clause 2.4.1.5).
    pub quantity: RangeInclusive<u8>,
    /// Share of order lines supplied by another warehouse (clause 2.4.1.5).
    pub remote_line_share: f64,
    /// Share of New-Orders with an unused item number, to be rolled back (clause 2.4.1.4).
    pub rollback_share: f64,
    /// Share of Payments through another warehouse than the customer's (clause 2.5.1.2).
    pub remote_payment_share: f64,
    /// Share of Payments and Order-Statuses that know the customer by last name
    /// (clauses 2.5.1.2 and 2.6.1.2).
    pub by_last_name_share: f64,
    /// Amount of a Payment, cents (clause 2.5.1.3).
    pub payment_cents: RangeInclusive<u32>,
    /// Carriers (clause 2.7.1.2).
    pub carriers: RangeInclusive<u8>,
    /// Threshold of a Stock-Level (clause 2.8.1.2).
    pub stock_threshold: RangeInclusive<u8>,
    /// Newest orders that a Stock-Level looks at (clause 2.8.2.2).
    pub stock_level_orders: u32,
    /// Stock left after an order line below which the stock is replenished (clause 2.4.2.2).
    pub stock_reorder_below: u32,
    /// Quantity by which it is replenished (clause 2.4.2.2).
    pub stock_replenishment: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            districts_per_warehouse: 10,
            customers_per_district: 3_000,
            open_orders_per_district: 900,
            items: 100_000,
            last_names: 1_000,
            original_share: 0.10,
            bad_credit_share: 0.10,
            nurand_a_last: 255,
            nurand_a_customer: 1_023,
            nurand_a_item: 8_191,
            c_delta: 65..=119,
            c_delta_excluded: [96, 112],
            terminals_per_warehouse: 10,
            tpmc_per_warehouse: 9.0..=12.86,
            deck: [10, 10, 1, 1, 1],
            least_share: [0.0, 0.43, 0.04, 0.04, 0.04],
            keying_s: [18.0, 3.0, 2.0, 2.0, 2.0],
            think_mean_s: [12.0, 12.0, 10.0, 5.0, 5.0],
            think_time: ThinkTime::NegativeExponential { cap: 10.0 },
            response_p90_s: [5.0, 5.0, 5.0, 5.0, 20.0],
            menu_p90_s: 2.0,
            deferred_delivery_s: 80.0,
            lines: 5..=15,
            quantity: 1..=10,
            remote_line_share: 0.01,
            rollback_share: 0.01,
            remote_payment_share: 0.15,
            by_last_name_share: 0.60,
            payment_cents: 100..=500_000,
            carriers: 1..=10,
            stock_threshold: 10..=20,
            stock_level_orders: 20,
            stock_reorder_below: 10,
            stock_replenishment: 91,
        }
    }
}

impl Rules {
    /// Number of the oldest order of a district that is not delivered after loading (2,101).
    #[must_use]
    pub fn first_open_order(&self) -> u32 {
        self.customers_per_district
            .saturating_sub(self.open_orders_per_district)
            + 1
    }

    /// Number of the first order that a run enters in a district (3,001).
    #[must_use]
    pub fn first_run_order(&self) -> u32 {
        self.customers_per_district + 1
    }
}
