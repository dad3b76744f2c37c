//! Every condition is broken in turn, and the checks name it: it and no other.

use crate::support::{Database, failed, small, small_options};
use std::sync::atomic::AtomicBool;
use tenbin_workload::check::CheckError;
use tenbin_workload::check::Verdict;
use tenbin_workload::tpcc::checks::check;
use tenbin_workload::tpcc::load::mark_ran;

/// One New-Order as the standard wants it (clause 2.4.2.2): order 51 of district (1, 1), two lines,
/// the second supplied by warehouse 2. With 50 customers a district, orders from 51 on are runs'.
const NEW_ORDER: &str = "\
    UPDATE district SET d_next_o_id = 52 WHERE (d_w_id, d_id) = (1, 1);
    INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
        VALUES (1, 1, 51, 7, now(), 2, 0);
    INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (1, 1, 51);
    INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
                            ol_quantity, ol_amount, ol_dist_info)
        SELECT 1, 1, 51, n, i_id, s_w_id, q, q * i_price, s_dist_01
        FROM (VALUES (1, 11, 1, 3), (2, 12, 2, 10)) AS line (n, i, w, q)
        JOIN item ON i_id = i JOIN stock ON (s_w_id, s_i_id) = (w, i);
    UPDATE stock SET s_ytd = s_ytd + ol_quantity, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (ol_supply_w_id <> ol_w_id)::int,
            s_quantity = CASE WHEN s_quantity >= ol_quantity + 10 THEN s_quantity - ol_quantity
                              ELSE s_quantity - ol_quantity + 91 END
        FROM order_line
        WHERE ol_o_id = 51 AND (s_w_id, s_i_id) = (ol_supply_w_id, ol_i_id);";

/// A Payment of customer (1, 1, 7).
const PAYMENT: &str = "\
    UPDATE warehouse SET w_ytd = w_ytd + 5 WHERE w_id = 1;
    UPDATE district SET d_ytd = d_ytd + 5 WHERE (d_w_id, d_id) = (1, 1);
    INSERT INTO history SELECT now(), 7, 1, 1, 1, 1, 5, 'paid';
    UPDATE customer SET c_balance = c_balance - 5, c_ytd_payment = c_ytd_payment + 5,
            c_payment_cnt = c_payment_cnt + 1 WHERE (c_w_id, c_d_id, c_id) = (1, 1, 7);";

/// The Delivery of order 36, the oldest that is open after loading.
const DELIVERY: &str = "\
    DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) = (1, 1, 36);
    UPDATE orders SET o_carrier_id = 1 WHERE (o_w_id, o_d_id, o_id) = (1, 1, 36);
    UPDATE order_line SET ol_delivery_d = now() WHERE (ol_w_id, ol_d_id, ol_o_id) = (1, 1, 36);
    UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1 FROM (
            SELECT o_c_id, sum(ol_amount) AS amount FROM orders
            JOIN order_line ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id)
            WHERE (o_w_id, o_d_id, o_id) = (1, 1, 36) GROUP BY 1) AS delivered
        WHERE (c_w_id, c_d_id, c_id) = (1, 1, o_c_id);";

/// What is done to the data, which conditions then fail, and what the first of them says.
struct Corruption {
    sql: &'static str,
    fails: &'static [&'static str],
    says: &'static str,
}

const CORRUPTIONS: [Corruption; 27] = [
    Corruption {
        sql: "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2",
        fails: &["1", "8"],
        says: "warehouse 2: w_ytd 5001.00, sum of d_ytd 5000.00",
    },
    Corruption {
        sql: "DELETE FROM warehouse WHERE w_id = 2",
        fails: &["1", "8"],
        says: "warehouse 2: w_ytd , sum of d_ytd 5000.00",
    },
    Corruption {
        sql: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE (d_w_id, d_id) = (2, 10)",
        fails: &["2"],
        says: "district (2, 10): d_next_o_id 52, max(o_id) 50, max(no_o_id) 50",
    },
    Corruption {
        sql: "DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) = (1, 3, 40)",
        fails: &["3", "5", "11"],
        says: "district (1, 3): no_o_id from 36 to 50, but 14 rows",
    },
    Corruption {
        sql: "INSERT INTO order_line SELECT ol_delivery_d, ol_w_id, 0, ol_i_id, ol_supply_w_id, \
              ol_d_id, ol_number, ol_quantity, ol_amount, ol_dist_info FROM order_line \
              WHERE (ol_w_id, ol_d_id, ol_o_id, ol_number) = (2, 5, 1, 1)",
        fails: &["4"],
        says: "district (2, 5): sum of o_ol_cnt ",
    },
    Corruption {
        sql: "UPDATE orders SET o_carrier_id = 4 WHERE (o_w_id, o_d_id, o_id) = (2, 1, 50)",
        fails: &["5", "7", "A5"],
        says: "order (2, 1, 50): o_carrier_id 4, a new_order row",
    },
    Corruption {
        sql: "UPDATE new_order SET no_o_id = 0 WHERE (no_w_id, no_d_id, no_o_id) = (2, 1, 36)",
        fails: &["3", "5"],
        says: "district (2, 1): no_o_id from 0 to 50, but 15 rows",
    },
    Corruption {
        sql: "UPDATE orders SET o_ol_cnt = o_ol_cnt + CASE o_id WHEN 7 THEN 1 ELSE -1 END \
              WHERE (o_w_id, o_d_id) = (1, 2) AND o_id IN (7, 8)",
        fails: &["6"],
        says: "order (1, 2, 7): o_ol_cnt ",
    },
    Corruption {
        sql: "UPDATE order_line SET ol_delivery_d = NULL \
              WHERE (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 4, 9, 2)",
        fails: &["7"],
        says: "order (1, 4, 9): o_carrier_id ",
    },
    Corruption {
        sql: "INSERT INTO history SELECT h_date, h_c_id, 99, h_w_id, h_c_d_id, 99, h_amount, h_data \
              FROM history WHERE (h_w_id, h_d_id, h_c_id) = (2, 1, 1)",
        fails: &["8"],
        says: "warehouse 2: w_ytd 5000.00, sum of h_amount 5010.00",
    },
    Corruption {
        sql: "UPDATE district SET d_ytd = d_ytd + CASE d_id WHEN 1 THEN 5 ELSE -5 END \
              WHERE d_w_id = 1 AND d_id IN (1, 2)",
        fails: &["9"],
        says: "district (1, 1): d_ytd 510.00, sum of h_amount 505.00",
    },
    Corruption {
        sql: "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 \
              WHERE (c_w_id, c_d_id, c_id) = (2, 3, 50)",
        fails: &["10"],
        says: "customer (2, 3, 50): c_balance -9.00, delivered 0",
    },
    Corruption {
        sql: "DELETE FROM orders WHERE (o_w_id, o_d_id, o_id) = (1, 10, 1); \
              DELETE FROM order_line WHERE (ol_w_id, ol_d_id, ol_o_id) = (1, 10, 1)",
        fails: &["11"],
        says: "district (1, 10): 49 orders, 15 new_order rows",
    },
    Corruption {
        sql: "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 \
              WHERE (c_w_id, c_d_id, c_id) = (1, 1, 1)",
        fails: &["12"],
        says: "customer (1, 1, 1): c_balance -10.00, c_ytd_payment 11.00, delivered 0",
    },
    // Tax in OL_AMOUNT.
    Corruption {
        sql: "UPDATE order_line SET ol_amount = ol_amount * 1.1 \
              WHERE (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 1, 51, 2)",
        fails: &["A1"],
        says: "order_line (1, 1, 51, 2): ol_amount ",
    },
    // The home warehouse's stock updated for a line that another warehouse supplies.
    Corruption {
        sql: "UPDATE stock AS other SET s_ytd = home.s_ytd, s_order_cnt = home.s_order_cnt, \
              s_remote_cnt = home.s_remote_cnt FROM stock AS home WHERE other.s_i_id = 12 \
              AND home.s_i_id = 12 AND other.s_w_id <> home.s_w_id",
        fails: &["A2", "A3"],
        says: "stock (1, 12): s_ytd 10, s_order_cnt 1, s_remote_cnt 1, but order lines give 0, 0, 0",
    },
    Corruption {
        sql: "UPDATE stock SET s_remote_cnt = 0 WHERE (s_w_id, s_i_id) = (2, 12)",
        fails: &["A2"],
        says: "stock (2, 12): s_ytd 10, s_order_cnt 1, s_remote_cnt 0, but order lines give 10, 1, 1",
    },
    Corruption {
        sql: "UPDATE stock SET s_order_cnt = 1 WHERE (s_w_id, s_i_id) = (2, 400)",
        fails: &["A2"],
        says: "stock (2, 400): s_ytd 0, s_order_cnt 1, s_remote_cnt 0, but order lines give 0, 0, 0",
    },
    Corruption {
        sql: "UPDATE stock SET s_quantity = s_quantity - 1 WHERE (s_w_id, s_i_id) = (2, 400)",
        fails: &["A3"],
        says: "stock (2, 400): s_quantity ",
    },
    Corruption {
        sql: "UPDATE customer SET c_payment_cnt = c_payment_cnt + 1 \
              WHERE (c_w_id, c_d_id, c_id) = (1, 3, 8)",
        fails: &["A4"],
        says: "customer (1, 3, 8): c_payment_cnt 2, rows of history 1",
    },
    Corruption {
        sql: "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 \
              WHERE (c_w_id, c_d_id, c_id) = (1, 3, 8)",
        fails: &["A5"],
        says: "customer (1, 3, 8): c_delivery_cnt 1, orders delivered since loading 0",
    },
    Corruption {
        sql: "UPDATE customer SET c_since = c_since + interval '1 us' \
              WHERE (c_w_id, c_d_id, c_id) = (2, 3, 8)",
        fails: &["A6"],
        says: "customer (2, 3, 8): c_since ",
    },
    Corruption {
        sql: "UPDATE history SET h_date = h_date + interval '1 us' WHERE (h_w_id, h_d_id, h_c_id) = (2, 3, 8)",
        fails: &["A6"],
        says: "customer (2, 3, 8): c_since ",
    },
    Corruption {
        sql: "UPDATE orders SET o_entry_d = o_entry_d + interval '1 us' WHERE (o_w_id, o_d_id, o_id) = (2, 3, 8)",
        fails: &["A6"],
        says: "order (2, 3, 8): o_entry_d ",
    },
    // Of what runs enter, only the ends are known.
    Corruption {
        sql: "UPDATE orders SET o_entry_d = o_entry_d + interval '1 day' WHERE (o_w_id, o_d_id, o_id) = (1, 1, 51)",
        fails: &["A6"],
        says: "order (1, 1, 51): o_entry_d ",
    },
    Corruption {
        sql: "UPDATE item SET i_price = i_price + 0.01 WHERE i_id = 301",
        fails: &["A7"],
        says: "item 301: (i_im_id, i_price, i_name, i_data) (",
    },
    Corruption {
        sql: "UPDATE orders SET o_all_local = 1 WHERE (o_w_id, o_d_id, o_id) = (1, 1, 51)",
        fails: &["A8"],
        says: "order (1, 1, 51): o_all_local 1, but 1 of 2 order lines from another warehouse",
    },
];

#[test]
fn every_corruption_is_named_by_the_checks_that_cover_it() {
    let database = Database::new();
    database.load(&small_options(2)).unwrap();
    assert!(failed(&database.check(&small(), 2)).is_empty());
    database.run(NEW_ORDER);
    database.run(PAYMENT);
    let clean = database.check(&small(), 2);
    assert!(failed(&clean).is_empty(), "{clean:#?}");

    for Corruption { sql, fails, says } in CORRUPTIONS {
        let corrupt = database.copy();
        corrupt.run(sql);
        let results = corrupt.check(&small(), 3);
        assert_eq!(failed(&results), fails, "{sql}");
        let first = results
            .iter()
            .find(|result| result.verdict == Verdict::Fail)
            .unwrap();
        assert!(
            first.offending[0].starts_with(says),
            "{sql}: {:?}",
            first.offending
        );
        assert_eq!(first.offending.len() as u64, first.offending_count);
    }
    let covered: std::collections::BTreeSet<_> = CORRUPTIONS
        .iter()
        .flat_map(|corruption| corruption.fails)
        .collect();
    assert_eq!(
        covered.len(),
        clean.len(),
        "every check has been seen to fail"
    );
}

/// A table, one of its rows, and the columns of which no check sees a change there.
const UNSEEN: [(&str, &str, &str); 14] = [
    (
        "warehouse",
        "w_id = 1",
        "w_tax w_name w_street_1 w_street_2 w_city w_state w_zip",
    ),
    (
        "district",
        "(d_w_id, d_id) = (1, 1)",
        "d_tax d_name d_street_1 d_street_2 d_city d_state d_zip",
    ),
    (
        "customer",
        "(c_w_id, c_d_id, c_id) = (1, 1, 7)",
        "c_discount c_credit_lim c_credit c_last c_first c_middle c_street_1 c_street_2 c_city c_state c_zip c_phone c_data",
    ),
    (
        "history",
        "(h_w_id, h_d_id, h_c_id) = (1, 1, 7) AND h_data <> 'paid'",
        "h_data",
    ),
    ("history", "h_data = 'paid'", "h_date h_data"),
    ("new_order", "(no_w_id, no_d_id, no_o_id) = (1, 1, 51)", ""),
    (
        "orders",
        "(o_w_id, o_d_id, o_id) = (1, 1, 1)",
        "o_carrier_id",
    ),
    (
        "orders",
        "(o_w_id, o_d_id, o_id) = (1, 1, 36)",
        "o_carrier_id",
    ),
    ("orders", "(o_w_id, o_d_id, o_id) = (1, 1, 51)", "o_entry_d"),
    (
        "order_line",
        "(ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 1, 1, 1)",
        "ol_i_id ol_number ol_quantity ol_dist_info",
    ),
    (
        "order_line",
        "(ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 1, 36, 1)",
        "ol_i_id ol_number ol_quantity ol_dist_info",
    ),
    (
        "order_line",
        "(ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 1, 51, 2)",
        "ol_number ol_dist_info",
    ),
    ("item", "i_id = 11", ""),
    (
        "stock",
        "(s_w_id, s_i_id) = (2, 12)",
        "s_dist_01 s_dist_02 s_dist_03 s_dist_04 s_dist_05 s_dist_06 s_dist_07 s_dist_08 s_dist_09 s_dist_10 s_data",
    ),
];

/// Another value of a column, whatever its type.
fn other(column: &str, kind: &str) -> String {
    match kind {
        "timestamp with time zone" => format!("coalesce({column}, now()) - interval '1 us'"),
        "character" | "character varying" => format!("overlay({column} placing '!' from 1)"),
        "numeric" => format!("{column} + 0.01"),
        _ => format!("coalesce({column}, 0) + 1000"),
    }
}

/// One row is changed at a time: in one column that a check sees, or in all that none sees.
#[test]
fn the_columns_that_no_check_sees_are_those_of_the_documentation() {
    let page = include_str!("../../../../docs/tpcc.md");
    let database = Database::new();
    database.load(&small_options(2)).unwrap();
    for sql in [NEW_ORDER, PAYMENT, DELIVERY] {
        database.run(sql);
    }
    let mut client = database.client();
    mark_ran(&mut client, "public").unwrap();
    let found = || failed(&database.check(&small(), 1));
    assert_eq!(found(), [""; 0]);
    for (table, row, unseen) in UNSEEN {
        let unseen: Vec<&str> = unseen.split_whitespace().collect();
        for column in &unseen {
            assert!(
                page.contains(&format!("`{column}`")),
                "{column} is missing in docs/tpcc.md"
            );
        }
        let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns \
                   WHERE table_schema = 'public' AND table_name = $1";
        let columns: Vec<(String, String)> = client
            .query(sql, &[&table])
            .unwrap()
            .iter()
            .map(|column| (column.get(0), column.get(1)))
            .collect();
        let (hidden, covered): (Vec<_>, Vec<_>) = columns
            .iter()
            .partition(|(column, _)| unseen.contains(&&**column));
        assert_eq!(hidden.len(), unseen.len(), "{table}");
        client
            .batch_execute(&format!(
                "CREATE TEMP TABLE kept AS SELECT * FROM {table} WHERE {row}"
            ))
            .unwrap();
        let together = Some((hidden, false)).filter(|(hidden, _)| !hidden.is_empty());
        let alone = covered.into_iter().map(|column| (vec![column], true));
        for (columns, seen) in together.into_iter().chain(alone) {
            let names: Vec<&str> = columns.iter().map(|(column, _)| &**column).collect();
            let to: Vec<String> = columns
                .iter()
                .map(|(column, kind)| other(column, kind))
                .collect();
            let (names, to) = (names.join(", "), to.join(", "));
            let sql = format!(
                "UPDATE {table} SET ({names}) = ROW({to}) WHERE {row} RETURNING ctid::text"
            );
            let place: String = client.query_one(&sql, &[]).unwrap().get(0);
            assert_eq!(!found().is_empty(), seen, "{sql}");
            client
                .batch_execute(&format!(
                    "DELETE FROM {table} WHERE ctid = '{place}'; \
                     INSERT INTO {table} SELECT * FROM kept"
                ))
                .unwrap();
        }
        client.batch_execute("DROP TABLE kept").unwrap();
    }
}

#[test]
fn the_first_ten_offenders_are_named_and_all_are_counted() {
    let database = Database::new();
    database.load(&small_options(3)).unwrap();
    database.run("UPDATE customer SET c_ytd_payment = 0");
    for threads in [1, 2, 8] {
        let results = database.check(&small(), threads);
        assert_eq!(failed(&results), ["12"]);
        let twelfth = &results[11];
        assert_eq!(twelfth.offending_count, 3 * 10 * 50);
        let named: Vec<&str> = twelfth
            .offending
            .iter()
            .map(|says| says.split(':').next().unwrap())
            .collect();
        let first_ten: Vec<String> = (1..=10).map(|c| format!("customer (1, 1, {c})")).collect();
        assert_eq!(named, first_ten, "over {threads} connections");
    }
}

#[test]
fn condition_11_is_asked_only_before_transactions_run() {
    let database = Database::new();
    database.load(&small_options(1)).unwrap();
    assert_eq!(database.check(&small(), 1)[10].verdict, Verdict::Pass);
    mark_ran(&mut database.client(), "public").unwrap();
    // A Delivery takes an order out of new_order: 11 no longer holds, and need not.
    database.run(DELIVERY);
    let results = database.check(&small(), 2);
    assert!(
        matches!(&results[10].verdict, Verdict::Skip(why) if why.contains("right after loading"))
    );
    assert!(failed(&results).is_empty(), "{results:#?}");
    assert_eq!(
        results
            .iter()
            .filter(|result| result.verdict == Verdict::Pass)
            .count(),
        19
    );
}

#[test]
fn checking_changes_nothing_and_needs_a_whole_load() {
    let database = Database::new();
    let refused = |expected: &str| {
        let connect = || database.config().connect(postgres::NoTls);
        let stop = AtomicBool::new(false);
        let error = check("public", &small(), 2, connect, &stop).unwrap_err();
        assert!(matches!(error, CheckError::NotLoaded { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    refused("it holds no TPC-C tables; load them with `tenbin load tpcc`");
    database.run("CREATE TABLE stock (symbol text)");
    refused("tenbin's TPC-C did not create stock");
    database.run("DROP TABLE stock");
    database.load(&small_options(1)).unwrap();
    database.run("UPDATE tenbin_load SET state = 'loading'");
    refused(
        "its load was interrupted, or tables are missing; reload with `tenbin load tpcc --replace`",
    );
    database.run("UPDATE tenbin_load SET state = 'complete'; DROP TABLE history");
    refused("its load was interrupted");
}

#[test]
fn checking_stops_when_asked() {
    let database = Database::new();
    database.load(&small_options(1)).unwrap();
    let connect = || database.config().connect(postgres::NoTls);
    let stopped = check("public", &small(), 2, connect, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(CheckError::Stopped)));
    let connect = || database.config().connect(postgres::NoTls);
    let none = check("public", &small(), 0, connect, &AtomicBool::new(false));
    assert!(matches!(none, Err(CheckError::Threads(0))));
}
