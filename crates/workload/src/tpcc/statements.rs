//! The SQL of the five transactions.
//!
//! What belongs together is one statement, and statements that need no answer
//! in between are one round trip: order numbers and middle customers are found
//! by the server, where the rows are.

/// SQL texts by purpose. [`Statements::default`] is the workload; a test plants a fault by
/// changing one.
#[derive(Debug, Clone)]
pub struct Statements {
    /// Opens a transaction of more than one round trip.
    pub begin: String,
    /// Ends it.
    pub commit: String,
    /// Ends a New-Order with an unused item (clause 2.4.2.3).
    pub rollback: String,
    /// District, order and new order (clause 2.4.2.2). Warehouse, district, customer, lines, all local → tax, order.
    pub new_order: String,
    /// Customer and warehouse. Warehouse, district, customer → discount, last name, credit, tax.
    pub new_order_customer: String,
    /// Stock and order lines. Warehouse, district, items, supplying warehouses, quantities, numbers
    /// → number, name, stock, brand, price, amount of each valid line.
    pub new_order_lines: String,
    /// Customer by number and history (clause 2.5.2.2). Warehouse, district, customer's warehouse, district and number, amount.
    pub payment_by_id: String,
    /// The same by last name.
    pub payment_by_name: String,
    /// District's year to date. Warehouse, district, amount.
    pub payment_district: String,
    /// Warehouse's year to date. Warehouse, amount.
    pub payment_warehouse: String,
    /// Customer and last order (clause 2.6.2.2). Warehouse, district, customer.
    pub order_status_by_id: String,
    /// The same by last name.
    pub order_status_by_name: String,
    /// Lets one Delivery at a time work in a warehouse.
    pub delivery_lock: String,
    /// Delivers the oldest open order of every district that has one (clause 2.7.4.2).
    /// Warehouse, carrier → district, order.
    pub delivery: String,
    /// Clause 2.8.2.2. Warehouse, district, threshold → how many.
    pub stock_level: String,
}

/// Who is meant by `c_last`: of those who bear it, in order of first name, the one at n/2 rounded up (clause 2.5.2.2).
fn middle(warehouse: &str, district: &str, name: &str) -> String {
    format!(
        "(SELECT ids[(array_length(ids, 1) + 1) / 2] FROM (SELECT array_agg(c_id ORDER BY c_first) AS ids \
         FROM customer WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_last = {name}) AS named)"
    )
}

/// `who`: SQL expression of the customer's number.
fn payment(who: &str) -> String {
    format!(
        "WITH paid AS (UPDATE customer SET c_balance = c_balance - $6::numeric, \
         c_ytd_payment = c_ytd_payment + $6::numeric, c_payment_cnt = c_payment_cnt + 1, \
         c_data = CASE c_credit WHEN 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, $2::smallint, $1::integer, \
         to_char($6::numeric, 'FM9999990.00'), c_data), 500) ELSE c_data END \
         WHERE c_w_id = $3::integer AND c_d_id = $4::smallint AND c_id = {who} \
         RETURNING c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
         c_credit, c_credit_lim, c_discount, c_balance, CASE c_credit WHEN 'BC' THEN left(c_data, 200) END AS data), \
         noted AS (INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         SELECT c_id, $4, $3, $2, $1, now(), $6, w_name || '    ' || d_name FROM paid, warehouse, district \
         WHERE w_id = $1 AND d_w_id = $1 AND d_id = $2) SELECT * FROM paid"
    )
}

fn order_status(who: &str) -> String {
    format!(
        "WITH c AS (SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer \
         WHERE c_w_id = $1::integer AND c_d_id = $2::smallint AND c_id = {who}), \
         o AS (SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 \
         AND o_c_id = (SELECT c_id FROM c) ORDER BY o_id DESC LIMIT 1) \
         SELECT c.*, o.*, ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d \
         FROM c CROSS JOIN o JOIN order_line ON ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = (SELECT o_id FROM o) \
         ORDER BY ol_number"
    )
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            begin: "BEGIN".into(),
            commit: "COMMIT".into(),
            rollback: "ROLLBACK".into(),
            new_order: NEW_ORDER.into(),
            new_order_customer: NEW_ORDER_CUSTOMER.into(),
            new_order_lines: NEW_ORDER_LINES.into(),
            payment_by_id: payment("$5::integer"),
            payment_by_name: payment(&middle("$3::integer", "$4::smallint", "$5::varchar")),
            payment_district: "UPDATE district SET d_ytd = d_ytd + $3::numeric \
                WHERE d_w_id = $1::integer AND d_id = $2::smallint \
                RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip"
                .into(),
            payment_warehouse:
                "UPDATE warehouse SET w_ytd = w_ytd + $2::numeric WHERE w_id = $1::integer \
                RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip"
                    .into(),
            order_status_by_id: order_status("$3::integer"),
            order_status_by_name: order_status(&middle(
                "$1::integer",
                "$2::smallint",
                "$3::varchar",
            )),
            delivery_lock: "SELECT pg_advisory_xact_lock(7250, $1::integer)".into(),
            delivery: DELIVERY.into(),
            stock_level: STOCK_LEVEL.into(),
        }
    }
}

const NEW_ORDER: &str = "\
WITH d AS (UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1::integer AND d_id = $2::smallint \
RETURNING d_tax, d_next_o_id - 1 AS o_id), \
o AS (INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
SELECT o_id, $2, $1, $3::integer, now(), $4::smallint, $5::smallint FROM d), \
n AS (INSERT INTO new_order (no_o_id, no_d_id, no_w_id) SELECT o_id, $2, $1 FROM d) \
SELECT d_tax, o_id FROM d";

const NEW_ORDER_CUSTOMER: &str = "\
SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
WHERE w_id = $1::integer AND c_w_id = $1 AND c_d_id = $2::smallint AND c_id = $3::integer";

/// No line comes twice for the same stock here: [`super::transactions`] sees to that.
const NEW_ORDER_LINES: &str = "\
WITH line AS (SELECT * FROM unnest($3::integer[], $4::integer[], $5::smallint[], $6::smallint[]) \
AS keyed (item, supply, quantity, number)), \
stocked AS (UPDATE stock SET s_quantity = s_quantity - quantity + CASE WHEN s_quantity - quantity >= 10 THEN 0 ELSE 91 END, \
s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (supply <> $1::integer)::integer \
FROM line, item WHERE s_w_id = supply AND s_i_id = line.item AND i_id = line.item \
RETURNING number, line.item, supply, quantity, s_quantity, i_name, i_price, i_price * quantity AS amount, \
CASE WHEN i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%' THEN 'B' ELSE 'G' END AS brand, \
CASE $2::smallint WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04 \
WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 \
ELSE s_dist_10 END AS dist), \
lined AS (INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) \
SELECT d_next_o_id - 1, $2, $1, number, item, supply, quantity, amount, dist FROM stocked, district \
WHERE d_w_id = $1 AND d_id = $2) \
SELECT number, i_name, s_quantity, brand, i_price, amount FROM stocked";

/// What one part takes, the next parts mark: a part that changes rows runs once and to its end.
///
/// The ten districts are written out rather than read from `district`: between two vacuums its dead rows make the
/// planner expect hundreds of them in a warehouse, for which it would read all of `new_order` and `orders`.
const DELIVERY: &str = "\
WITH oldest AS (SELECT d_id, (SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1::integer AND no_d_id = d_id) AS o_id \
FROM (VALUES (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint), (6::smallint), (7::smallint), \
(8::smallint), (9::smallint), (10::smallint)) AS districts (d_id)), \
taken AS (DELETE FROM new_order USING oldest WHERE no_w_id = $1 AND no_d_id = oldest.d_id AND no_o_id = oldest.o_id \
RETURNING no_d_id, no_o_id), \
marked AS (UPDATE orders SET o_carrier_id = $2::smallint FROM taken \
WHERE o_w_id = $1 AND o_d_id = no_d_id AND o_id = no_o_id RETURNING o_d_id, o_c_id), \
dated AS (UPDATE order_line SET ol_delivery_d = now() FROM taken \
WHERE ol_w_id = $1 AND ol_d_id = no_d_id AND ol_o_id = no_o_id RETURNING ol_d_id, ol_amount), \
due AS (SELECT ol_d_id, sum(ol_amount) AS amount FROM dated GROUP BY ol_d_id), \
charged AS (UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1 \
FROM marked JOIN due ON ol_d_id = o_d_id WHERE c_w_id = $1 AND c_d_id = o_d_id AND c_id = o_c_id) \
SELECT no_d_id, no_o_id FROM taken";

const STOCK_LEVEL: &str = "\
SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = $1::integer AND s_i_id = ol_i_id \
AND s_quantity < $3::smallint WHERE ol_w_id = $1 AND ol_d_id = $2::smallint \
AND ol_o_id < (SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2) \
AND ol_o_id >= (SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2) - 20";
