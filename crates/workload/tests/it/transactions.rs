//! The five transactions on real servers, as client SQL and as server functions.

use crate::support::{Database, failed};
use std::sync::{Arc, Barrier};
use tenbin_server::{Embedded, Options, Source};
use tenbin_wire::{Blocking, Session, Target};
use tenbin_workload::check::Verdict;
use tenbin_workload::tpcc::input::{
    Customer, Delivery, Input, NewOrder, OrderStatus, Payment, StockLevel,
};
use tenbin_workload::tpcc::load::{LoadOptions, mark_ran};
use tenbin_workload::tpcc::names::LastName;
use tenbin_workload::tpcc::random::NuRandC;
use tenbin_workload::tpcc::{Output, Rules, Tpcc, procedures};
use tenbin_workload::{Executed, Isolation, Workload};

const WAREHOUSES: u32 = 2;

/// So few items that every second order has one twice, so few names that each has several bearers.
fn rules() -> Rules {
    Rules {
        customers_per_district: 60,
        open_orders_per_district: 15,
        items: 80,
        last_names: 20,
        remote_line_share: 0.2,
        rollback_share: 0.1,
        ..Rules::default()
    }
}

fn load(database: &Database) -> Tpcc {
    let options = LoadOptions {
        warehouses: WAREHOUSES,
        rules: rules(),
        ..LoadOptions::default()
    };
    let c_load = database.load(&options).unwrap().meta.c;
    mark_ran(&mut database.client(), "public").unwrap();
    Tpcc {
        rules: rules(),
        ..Tpcc::new(WAREHOUSES, 5, c_load)
    }
}

fn loaded() -> (Database, Tpcc) {
    let database = Database::new();
    let tpcc = load(&database);
    (database, tpcc)
}

/// The same workload as server functions, which are made.
fn as_procedures(database: &Database, tpcc: &Tpcc) -> Tpcc {
    for definition in procedures::definitions(&tpcc.statements) {
        database.run(&definition);
    }
    Tpcc {
        procedures: true,
        ..tpcc.clone()
    }
}

/// A session on which transactions run one after the other.
struct Line<'a> {
    tpcc: &'a Tpcc,
    blocking: Blocking,
    session: Session,
}

impl<'a> Line<'a> {
    fn new(database: &Database, tpcc: &'a Tpcc) -> Self {
        let target = Target {
            database: database.name.clone(),
            ..database.server.target()
        };
        let blocking = Blocking::new().unwrap();
        let session = blocking.run(async {
            let mut session = Session::connect(&target, blocking.register()).await?;
            tpcc.prepare(&mut session).await?;
            Ok::<_, tenbin_wire::Error>(session)
        });
        Self {
            tpcc,
            blocking,
            session: session.unwrap(),
        }
    }

    fn run(&mut self, input: &Input) -> Executed<Output> {
        self.blocking
            .run(self.tpcc.execute(&mut self.session, input))
            .unwrap()
    }
}

/// All rows of the nine tables as text, but for the time on the server's clock.
fn contents(database: &Database) -> Vec<String> {
    let tables = [
        ("warehouse", ""),
        ("district", ""),
        ("customer", "c_since"),
        ("history", "h_date"),
        ("new_order", ""),
        ("orders", "o_entry_d"),
        ("order_line", "ol_delivery_d"),
        ("item", ""),
        ("stock", ""),
    ];
    let mut client = database.client();
    let mut rows = Vec::new();
    for (table, clock) in tables {
        let masked = if clock.is_empty() {
            String::new()
        } else {
            format!(" || jsonb_build_object('{clock}', {clock} IS NULL)")
        };
        let sql =
            format!("SELECT '{table} ' || (to_jsonb(t){masked})::text FROM {table} t ORDER BY 1");
        let found = client.query(&sql, &[]).unwrap();
        assert!(!found.is_empty() || table == "new_order");
        rows.extend(found.iter().map(|row| row.get::<_, String>(0)));
    }
    rows
}

fn same(left: &[String], right: &[String]) {
    let differing = left.iter().zip(right).find(|(left, right)| left != right);
    assert_eq!(differing, None);
    assert_eq!(left.len(), right.len());
}

/// All conditions hold but the eleventh, which is asked right after loading only.
fn assert_consistent(database: &Database) {
    let results = database.check(&rules(), 2);
    assert_eq!(failed(&results), [""; 0], "{results:#?}");
    assert!(
        results
            .iter()
            .filter(|r| r.verdict == Verdict::Pass)
            .count()
            >= 14
    );
}

/// Runs the same `count` inputs on two copies, one in each mode.
fn both_modes_agree(client_side: &Database, count: usize) {
    let tpcc = load(client_side);
    let before = contents(client_side);
    let server_side = client_side.copy();
    let as_functions = as_procedures(&server_side, &tpcc);
    let mut client = Line::new(client_side, &tpcc);
    let mut functions = Line::new(&server_side, &as_functions);
    let mut terminals: Vec<_> = (0..20).map(|id| tpcc.terminal(id)).collect();
    let (mut rolled_back, mut repeated, mut low) = (0, 0, 0);
    for turn in 0..count {
        let terminal = &mut terminals[turn % 20];
        let cycle = tpcc.choose(terminal);
        let input = tpcc.input(terminal, cycle.kind);
        let (left, right) = (client.run(&input), functions.run(&input));
        if let Input::NewOrder(order) = &input {
            assert_eq!(left.committed, !order.rollback, "{order:?}");
            let mut stocks: Vec<_> = order.supplies.iter().zip(&order.items).collect();
            stocks.dedup();
            repeated += usize::from(stocks.len() < order.items.len());
        }
        assert_eq!(left.committed, right.committed, "{input:?}");
        if left.committed {
            assert_eq!(left.output, right.output, "{input:?}");
        }
        rolled_back += usize::from(!left.committed);
        if let Output::StockLevel { low: items } = left.output {
            low += items;
        }
    }
    assert!(
        rolled_back > 0 && repeated > 0 && low > 0,
        "{rolled_back} {repeated} {low}"
    );
    let after = contents(client_side);
    assert_ne!(before, after);
    same(&after, &contents(&server_side));
    assert_consistent(client_side);
    assert_consistent(&server_side);
    drop((client, functions));
}

#[test]
fn client_sql_and_server_functions_leave_the_same_rows() {
    both_modes_agree(&Database::new(), 1_500);
}

fn both_modes_agree_on(major: &str) {
    let server = Embedded::start(Options {
        source: Source::release(major).unwrap(),
        ..Options::default()
    });
    both_modes_agree(&Database::on(Arc::new(server.unwrap()), "template0"), 400);
}

#[test]
fn the_oldest_server_runs_the_same_transactions() {
    both_modes_agree_on("9.6");
}

#[test]
fn the_newest_server_runs_the_same_transactions() {
    both_modes_agree_on("18");
}

fn order_of(lines: &[(i32, i32, i16)], rollback: bool) -> Input {
    Input::NewOrder(NewOrder {
        warehouse: 1,
        district: 4,
        customer: 9,
        supplies: lines.iter().map(|line| line.0).collect(),
        items: lines.iter().map(|line| line.1).collect(),
        quantities: lines.iter().map(|line| line.2).collect(),
        numbers: (1..).take(lines.len()).collect(),
        rollback,
    })
}

/// 2.4.2.2: each line takes from the stock that the line before it left.
#[test]
fn an_item_that_comes_thrice_changes_its_stock_thrice() {
    let (database, tpcc) = loaded();
    let functions = as_procedures(&database, &tpcc);
    for tpcc in [&tpcc, &functions] {
        database.run("UPDATE stock SET s_quantity = 25, s_ytd = 0, s_order_cnt = 0, s_remote_cnt = 0 WHERE s_i_id = 7");
        let input = order_of(
            &[(1, 7, 10), (1, 7, 8), (1, 7, 9), (2, 7, 5), (2, 7, 6)],
            false,
        );
        let mut line = Line::new(&database, tpcc);
        let Output::NewOrder { order, total_cents } = line.run(&input).output else {
            panic!("not an order")
        };
        let stock = |w: u32| {
            database.ask(&format!(
                "SELECT concat_ws(' ', s_quantity, s_ytd, s_order_cnt, s_remote_cnt) FROM stock WHERE s_i_id = 7 AND s_w_id = {w}"
            ))
        };
        // 25 - 10 = 15; 15 - 8 is below 10, so 7 + 91 = 98; 98 - 9 = 89.
        assert_eq!(stock(1), "89 27 3 0");
        assert_eq!(stock(2), "14 11 2 2");
        let lines = database.ask(&format!(
            "SELECT string_agg(concat_ws(' ', ol_number, ol_supply_w_id, ol_quantity, ol_amount / i_price, \
             ol_dist_info = s_dist_04), ', ' ORDER BY ol_number) FROM order_line \
             JOIN item ON i_id = ol_i_id JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_supply_w_id \
             WHERE ol_w_id = 1 AND ol_d_id = 4 AND ol_o_id = {order}"
        ));
        let whole = |text: &str| text.replace(".0000000000000000", "");
        assert_eq!(
            whole(&lines),
            "1 1 10 10 t, 2 1 8 8 t, 3 1 9 9 t, 4 2 5 5 t, 5 2 6 6 t"
        );
        assert_eq!(
            database.ask(&format!("SELECT concat_ws(' ', o_ol_cnt, o_all_local, o_carrier_id IS NULL) FROM orders WHERE o_w_id = 1 AND o_d_id = 4 AND o_id = {order}")),
            "5 0 t"
        );
        let total = database.ask(&format!(
            "SELECT round(100 * sum(ol_amount) * (1 - min(c_discount)) * (1 + min(w_tax) + min(d_tax)))::bigint \
             FROM order_line, customer, warehouse, district WHERE ol_w_id = 1 AND ol_d_id = 4 AND ol_o_id = {order} \
             AND c_w_id = 1 AND c_d_id = 4 AND c_id = 9 AND w_id = 1 AND d_w_id = 1 AND d_id = 4"
        ));
        assert_eq!(total_cents.to_string(), total);
    }
}

#[test]
fn an_order_with_an_unused_item_leaves_nothing() {
    let (database, tpcc) = loaded();
    let functions = as_procedures(&database, &tpcc);
    let before = contents(&database);
    let unused = i32::try_from(rules().items + 1).unwrap();
    for tpcc in [&tpcc, &functions] {
        let mut line = Line::new(&database, tpcc);
        let order = order_of(&[(1, 3, 1), (1, 5, 2), (1, unused, 3)], true);
        assert!(!line.run(&order).committed);
        // The session is free for the next transaction.
        let level = Input::StockLevel(StockLevel {
            warehouse: 1,
            district: 4,
            threshold: 20,
        });
        assert!(line.run(&level).committed);
        same(&before, &contents(&database));
    }
}

/// 2.5.2.2, case 2: sorted by first name, the one at n/2 rounded up.
#[test]
fn the_middle_bearer_of_a_name_pays_and_asks() {
    let (database, tpcc) = loaded();
    let mut line = Line::new(&database, &tpcc);
    let mut client = database.client();
    let mut bearers_seen = std::collections::BTreeSet::new();
    for number in 0..rules().last_names {
        let name = LastName::new(number);
        let bearers: Vec<i32> = client
            .query(
                "SELECT c_id FROM customer WHERE c_w_id = 2 AND c_d_id = 3 AND c_last = $1 ORDER BY c_first",
                &[&name.as_str()],
            )
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        bearers_seen.insert(bearers.len() % 2);
        let middle = i64::from(bearers[bearers.len().div_ceil(2) - 1]);
        let payment = Input::Payment(Payment {
            warehouse: 1,
            district: 8,
            customer_warehouse: 2,
            customer_district: 3,
            customer: Customer::LastName(name),
            amount_cents: 123_405,
        });
        let paid = line.run(&payment).output;
        assert_eq!(paid, Output::Payment { customer: middle });
        let status = Input::OrderStatus(OrderStatus {
            warehouse: 2,
            district: 3,
            customer: Customer::LastName(name),
        });
        let last = client
            .query_one(
                "SELECT o_id::bigint, o_ol_cnt FROM orders WHERE o_w_id = 2 AND o_d_id = 3 AND o_c_id = $1 ORDER BY o_id DESC LIMIT 1",
                &[&i32::try_from(middle).unwrap()],
            )
            .unwrap();
        let expected = Output::OrderStatus {
            customer: middle,
            order: last.get(0),
            lines: u8::try_from(last.get::<_, i16>(1)).unwrap(),
        };
        assert_eq!(line.run(&status).output, expected);
    }
    assert_eq!(
        bearers_seen.len(),
        2,
        "names with odd and with even numbers of bearers"
    );
}

/// 2.5.2.2: what a payment changes, to the cent, and what it notes.
#[test]
fn a_payment_is_exact_and_noted() {
    let (database, tpcc) = loaded();
    let functions = as_procedures(&database, &tpcc);
    database.run("UPDATE customer SET c_credit = CASE c_id WHEN 5 THEN 'BC' ELSE 'GC' END, c_data = repeat('x', 495) WHERE c_w_id = 2 AND c_d_id = 3");
    for tpcc in [&tpcc, &functions] {
        for id in [5, 6] {
            let ask = |sql: &str| database.ask(sql);
            let money = "SELECT concat_ws(' ', c_balance + 1234.05, c_ytd_payment - 1234.05, c_payment_cnt - 1, \
                (SELECT w_ytd - 1234.05 FROM warehouse WHERE w_id = 1), (SELECT w_ytd FROM warehouse WHERE w_id = 2), \
                (SELECT d_ytd - 1234.05 FROM district WHERE d_w_id = 1 AND d_id = 8)) FROM customer WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = ";
            let plain = money
                .replace("+ 1234.05", "")
                .replace("- 1234.05", "")
                .replace("c_payment_cnt - 1", "c_payment_cnt");
            let before = ask(&format!("{plain}{id}"));
            let payment = Input::Payment(Payment {
                warehouse: 1,
                district: 8,
                customer_warehouse: 2,
                customer_district: 3,
                customer: Customer::Id(id),
                amount_cents: 123_405,
            });
            Line::new(&database, tpcc).run(&payment);
            assert_eq!(ask(&format!("{money}{id}")), before);
            let noted = ask(&format!(
                "SELECT concat_ws(' ', h_c_w_id, h_c_d_id, h_w_id, h_d_id, h_amount, h_data = w_name || '    ' || d_name, h_date > now() - interval '1 hour') \
                 FROM history, warehouse, district WHERE w_id = 1 AND d_w_id = 1 AND d_id = 8 AND h_w_id = 1 AND h_d_id = 8 AND h_c_id = {id} AND h_amount = 1234.05 LIMIT 1"
            ));
            assert_eq!(noted, "2 3 1 8 1234.05 t t");
            let data = ask(&format!(
                "SELECT c_data FROM customer WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = {id}"
            ));
            if id == 5 {
                assert!(
                    data.starts_with("5 3 2 8 1 1234.05 ") && data.len() == 500,
                    "{data}"
                );
            } else {
                assert_eq!(data, "x".repeat(495));
            }
        }
    }
}

/// 2.7.4.2: every open order is delivered once, the oldest first; a district without one is skipped.
#[test]
fn deliveries_at_the_same_time_share_out_the_orders() {
    let (database, tpcc) = loaded();
    let functions = as_procedures(&database, &tpcc);
    let start = Barrier::new(3);
    let deliver = |tpcc: &Tpcc| {
        let mut line = Line::new(&database, tpcc);
        start.wait();
        let one = |carrier| {
            let input = Input::Delivery(Delivery {
                warehouse: 1,
                carrier,
            });
            match line.run(&input).output {
                Output::Delivery { orders, .. } => orders,
                output => panic!("{output:?}"),
            }
        };
        (1..=6).map(one).collect::<Vec<_>>()
    };
    let delivered = std::thread::scope(|scope| {
        [&tpcc, &functions, &tpcc]
            .map(|tpcc| scope.spawn(|| deliver(tpcc)))
            .map(|thread| thread.join().unwrap())
    });
    let open: Vec<i32> = (46..=60).collect();
    for district in 0..10 {
        let of_line = |line: &Vec<[i32; 10]>| {
            line.iter()
                .map(|orders| orders[district])
                .collect::<Vec<_>>()
        };
        for line in &delivered {
            let taken: Vec<i32> = of_line(line)
                .into_iter()
                .filter(|&order| order > 0)
                .collect();
            assert!(taken.is_sorted(), "oldest first: {taken:?}");
        }
        let mut all: Vec<i32> = delivered.iter().flat_map(of_line).collect();
        all.sort_unstable();
        assert_eq!(all[..3], [0; 3], "18 deliveries of 15 orders");
        assert_eq!(all[3..], open);
    }
    assert_eq!(
        database.ask("SELECT count(*) FROM new_order WHERE no_w_id = 1"),
        "0"
    );
    assert_consistent(&database);
}

#[test]
fn the_isolation_level_is_the_one_chosen() {
    let (database, tpcc) = loaded();
    for isolation in [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ] {
        let tpcc = Tpcc {
            isolation,
            ..tpcc.clone()
        };
        let Line {
            blocking,
            mut session,
            ..
        } = Line::new(&database, &tpcc);
        let shown = blocking.run(async {
            session.query("SHOW transaction_isolation");
            let mut replies = session.sync().await.unwrap();
            let row = replies.next().unwrap().row().unwrap();
            row.text(0).unwrap().to_owned()
        });
        assert_eq!(shown, isolation.name());
    }
}

#[test]
fn a_delivery_reads_by_key_however_many_dead_rows_its_districts_have() {
    let database = Database::new();
    let options = LoadOptions {
        warehouses: WAREHOUSES,
        rules: rules(),
        foreign_keys: false,
        ..LoadOptions::default()
    };
    database.load(&options).unwrap();
    // As many open orders as the standard has, and districts as they are between two vacuums.
    database.run(
        "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) SELECT o, d, w
             FROM generate_series(10000, 10899) AS o, generate_series(1, 10) AS d, generate_series(1, 2) AS w;
         ANALYZE new_order;
         ALTER TABLE district SET (autovacuum_enabled = off);
         DO $$ BEGIN FOR i IN 1..300 LOOP UPDATE district SET d_ytd = d_ytd; END LOOP; END $$",
    );
    let statement = Tpcc::new(WAREHOUSES, 5, NuRandC::load(&rules(), 1))
        .statements
        .delivery;
    let mut client = database.client();
    client
        .batch_execute(&format!(
            "PREPARE delivery (integer, smallint) AS {statement}"
        ))
        .unwrap();
    let plan = client
        .query("EXPLAIN (COSTS off) EXECUTE delivery (1, 1)", &[])
        .unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let taken = plan
        .iter()
        .position(|line| line.contains("Delete on new_order"));
    let read = plan
        .iter()
        .find(|line| line.contains("Seq Scan on new_order"));
    assert!(taken.is_some() && read.is_none(), "{}", plan.join("\n"));
}
