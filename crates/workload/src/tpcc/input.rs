//! What is keyed in for each transaction (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1).

use super::names::LastName;
use super::random::NuRandC;
use super::rules::Rules;
use super::terminal::{DELIVERY, NEW_ORDER, ORDER_STATUS, PAYMENT, Terminal};
use crate::random::Stream;

/// One transaction's input.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Clause 2.4.1.
    NewOrder(NewOrder),
    /// Clause 2.5.1.
    Payment(Payment),
    /// Clause 2.6.1.
    OrderStatus(OrderStatus),
    /// Clause 2.7.1.
    Delivery(Delivery),
    /// Clause 2.8.1.
    StockLevel(StockLevel),
}

/// An order. Lines stand in the order of their locks (supplying warehouse, item), so that
/// transactions never wait for each other in a circle; `numbers` has the order they were keyed in.
#[derive(Debug, Clone, PartialEq)]
pub struct NewOrder {
    /// `W_ID`.
    pub warehouse: i32,
    /// `D_ID`.
    pub district: i16,
    /// `C_ID`.
    pub customer: i32,
    /// `OL_I_ID`.
    pub items: Vec<i32>,
    /// `OL_SUPPLY_W_ID`.
    pub supplies: Vec<i32>,
    /// `OL_QUANTITY`.
    pub quantities: Vec<i16>,
    /// `OL_NUMBER`.
    pub numbers: Vec<i16>,
    /// Whether its last item is an unused number, so that it must be rolled back.
    pub rollback: bool,
}

/// How a customer is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Customer {
    /// By number.
    Id(i32),
    /// By last name: the middle one of those who bear it.
    LastName(LastName),
}

/// A payment.
#[derive(Debug, Clone, PartialEq)]
pub struct Payment {
    /// `W_ID` it is made through.
    pub warehouse: i32,
    /// `D_ID` it is made through.
    pub district: i16,
    /// `C_W_ID`.
    pub customer_warehouse: i32,
    /// `C_D_ID`.
    pub customer_district: i16,
    /// Who pays.
    pub customer: Customer,
    /// `H_AMOUNT`, cents.
    pub amount_cents: u32,
}

/// A customer's last order.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderStatus {
    /// `W_ID`.
    pub warehouse: i32,
    /// `D_ID`.
    pub district: i16,
    /// Whose.
    pub customer: Customer,
}

/// A delivery of a warehouse's ten oldest open orders.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// `W_ID`.
    pub warehouse: i32,
    /// `O_CARRIER_ID`.
    pub carrier: i16,
}

/// Items of a district's newest orders whose stock is low.
#[derive(Debug, Clone, PartialEq)]
pub struct StockLevel {
    /// `W_ID`.
    pub warehouse: i32,
    /// `D_ID`.
    pub district: i16,
    /// Stock below which an item counts.
    pub threshold: i16,
}

/// What inputs are drawn from.
#[derive(Debug, Clone)]
pub struct Draw<'a> {
    /// The constants of the standard.
    pub rules: &'a Rules,
    /// NURand's constants of this run.
    pub c: NuRandC,
    /// Warehouses loaded.
    pub warehouses: u32,
}

impl Draw<'_> {
    /// Keys in a transaction of `kind` at `terminal`.
    pub fn input(&self, terminal: &mut Terminal, kind: u8) -> Input {
        let (home, fixed) = (terminal.warehouse, terminal.district);
        let stream = &mut terminal.stream;
        match kind {
            NEW_ORDER => Input::NewOrder(self.new_order(stream, home)),
            PAYMENT => Input::Payment(self.payment(stream, home)),
            ORDER_STATUS => Input::OrderStatus(OrderStatus {
                warehouse: signed(home),
                district: self.district(stream),
                customer: self.customer(stream),
            }),
            DELIVERY => Input::Delivery(Delivery {
                warehouse: signed(home),
                carrier: i16::from(within(stream, &self.rules.carriers)),
            }),
            _ => Input::StockLevel(StockLevel {
                warehouse: signed(home),
                district: i16::from(fixed),
                threshold: i16::from(within(stream, &self.rules.stock_threshold)),
            }),
        }
    }

    fn new_order(&self, stream: &mut Stream, home: u32) -> NewOrder {
        let rules = self.rules;
        let district = self.district(stream);
        let customer = self.customer_id(stream);
        let count = within(stream, &rules.lines);
        let rollback = stream.chance(rules.rollback_share);
        let mut lines: Vec<(i32, i32, i16, i16)> = (1..=i16::from(count))
            .map(|number| {
                let item = if rollback && number == i16::from(count) {
                    signed(rules.items + 1)
                } else {
                    signed(stream.nurand(rules.nurand_a_item, 1, rules.items, self.c.item))
                };
                let remote = stream.chance(rules.remote_line_share);
                let supply = if remote {
                    self.other(stream, home)
                } else {
                    home
                };
                let quantity = i16::from(within(stream, &rules.quantity));
                (signed(supply), item, quantity, number)
            })
            .collect();
        // An item that comes twice keeps the order in which it was keyed in.
        lines.sort_unstable_by_key(|&(supply, item, _, number)| (supply, item, number));
        NewOrder {
            warehouse: signed(home),
            district,
            customer,
            supplies: lines.iter().map(|line| line.0).collect(),
            items: lines.iter().map(|line| line.1).collect(),
            quantities: lines.iter().map(|line| line.2).collect(),
            numbers: lines.iter().map(|line| line.3).collect(),
            rollback,
        }
    }

    fn payment(&self, stream: &mut Stream, home: u32) -> Payment {
        let rules = self.rules;
        let district = self.district(stream);
        let remote = self.warehouses > 1 && stream.chance(rules.remote_payment_share);
        let (customer_warehouse, customer_district) = if remote {
            (self.other(stream, home), self.district(stream))
        } else {
            (home, district)
        };
        Payment {
            warehouse: signed(home),
            district,
            customer_warehouse: signed(customer_warehouse),
            customer_district,
            customer: self.customer(stream),
            amount_cents: stream.uniform(*rules.payment_cents.start(), *rules.payment_cents.end()),
        }
    }

    fn district(&self, stream: &mut Stream) -> i16 {
        i16::try_from(stream.uniform(1, u32::from(self.rules.districts_per_warehouse))).unwrap_or(1)
    }

    fn customer(&self, stream: &mut Stream) -> Customer {
        let rules = self.rules;
        if stream.chance(rules.by_last_name_share) {
            let number = stream.nurand(rules.nurand_a_last, 0, rules.last_names - 1, self.c.last);
            Customer::LastName(LastName::new(number))
        } else {
            Customer::Id(self.customer_id(stream))
        }
    }

    fn customer_id(&self, stream: &mut Stream) -> i32 {
        let rules = self.rules;
        signed(stream.nurand(
            rules.nurand_a_customer,
            1,
            rules.customers_per_district,
            self.c.customer,
        ))
    }

    /// Any warehouse but `home`, all equally likely; `home` where there is no other.
    fn other(&self, stream: &mut Stream, home: u32) -> u32 {
        if self.warehouses < 2 {
            return home;
        }
        let drawn = stream.uniform(1, self.warehouses - 1);
        if drawn < home { drawn } else { drawn + 1 }
    }
}

fn within(stream: &mut Stream, range: &std::ops::RangeInclusive<u8>) -> u8 {
    u8::try_from(stream.uniform(u32::from(*range.start()), u32::from(*range.end())))
        .unwrap_or(*range.end())
}

/// Numbers of rows fit the columns' `integer`.
fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(rules: &Rules) -> (Draw<'_>, Terminal) {
        let c = NuRandC {
            last: 7,
            customer: 11,
            item: 13,
        };
        (
            Draw {
                rules,
                c,
                warehouses: 5,
            },
            Terminal::new(rules, 9, 3, 5),
        )
    }

    #[test]
    fn new_orders_keep_to_clause_2_4_1() {
        let rules = Rules::default();
        let (draw, mut terminal) = draw(&rules);
        let (mut lines, mut remote, mut rolled_back) = (0_usize, 0_usize, 0_usize);
        for _ in 0..20_000 {
            let Input::NewOrder(order) = draw.input(&mut terminal, NEW_ORDER) else {
                panic!("not a New-Order")
            };
            assert_eq!(order.warehouse, 4);
            assert!((1..=10).contains(&order.district) && (1..=3000).contains(&order.customer));
            assert!((5..=15).contains(&order.items.len()));
            assert!(order.supplies.iter().all(|w| (1..=5).contains(w)));
            assert!(order.quantities.iter().all(|q| (1..=10).contains(q)));
            let mut numbers = order.numbers.clone();
            numbers.sort_unstable();
            assert!(
                numbers
                    .into_iter()
                    .eq(1..=i16::try_from(order.items.len()).unwrap())
            );
            let stocks = order.supplies.iter().zip(&order.items);
            let locks: Vec<_> = stocks.zip(&order.numbers).collect();
            assert!(locks.is_sorted(), "by lock, then as keyed in: {order:?}");
            let unused = order.items.iter().filter(|&&item| item == 100_001).count();
            assert_eq!(unused, usize::from(order.rollback));
            lines += order.items.len();
            remote += order.supplies.iter().filter(|&&w| w != 4).count();
            rolled_back += unused;
        }
        let share = |part: usize, whole: usize| part as f64 / whole as f64;
        assert!((share(lines, 20_000) - 10.0).abs() < 0.1);
        assert!((share(remote, lines) - 0.01).abs() < 0.001);
        assert!((share(rolled_back, 20_000) - 0.01).abs() < 0.003);
    }

    #[test]
    fn payments_keep_to_clause_2_5_1() {
        let rules = Rules::default();
        let (draw, mut terminal) = draw(&rules);
        let (mut remote, mut by_name) = (0, 0);
        for _ in 0..20_000 {
            let Input::Payment(payment) = draw.input(&mut terminal, PAYMENT) else {
                panic!("not a Payment")
            };
            assert!((100..=500_000).contains(&payment.amount_cents));
            remote += u32::from(payment.customer_warehouse != payment.warehouse);
            if payment.customer_warehouse == payment.warehouse {
                assert_eq!(payment.customer_district, payment.district);
            }
            by_name += u32::from(matches!(payment.customer, Customer::LastName(_)));
        }
        assert!(
            remote.abs_diff(3_000) < 200 && by_name.abs_diff(12_000) < 300,
            "{remote} {by_name}"
        );
    }

    #[test]
    fn a_lone_warehouse_has_no_other() {
        let rules = Rules::default();
        let draw = Draw {
            rules: &rules,
            c: NuRandC {
                last: 0,
                customer: 0,
                item: 0,
            },
            warehouses: 1,
        };
        let mut terminal = Terminal::new(&rules, 1, 0, 1);
        for _ in 0..1_000 {
            let Input::NewOrder(order) = draw.input(&mut terminal, NEW_ORDER) else {
                panic!("not a New-Order")
            };
            assert!(order.supplies.iter().all(|&w| w == 1));
            let Input::Payment(payment) = draw.input(&mut terminal, PAYMENT) else {
                panic!("not a Payment")
            };
            assert_eq!(payment.customer_warehouse, 1);
        }
    }

    #[test]
    fn the_other_transactions_keep_their_ranges() {
        let rules = Rules::default();
        let (draw, mut terminal) = draw(&rules);
        for _ in 0..2_000 {
            let Input::Delivery(delivery) = draw.input(&mut terminal, DELIVERY) else {
                panic!("not a Delivery")
            };
            assert!(delivery.warehouse == 4 && (1..=10).contains(&delivery.carrier));
            let Input::StockLevel(level) = draw.input(&mut terminal, 4) else {
                panic!("not a Stock-Level")
            };
            assert!(level.district == 1 && (10..=20).contains(&level.threshold));
            let Input::OrderStatus(status) = draw.input(&mut terminal, ORDER_STATUS) else {
                panic!("no Order-Status")
            };
            assert!((1..=10).contains(&status.district));
        }
    }
}
