//! The five transactions as server functions, one call each.
//!
//! The functions are made from the very texts that client SQL runs, with the parameters'
//! names in the place of `$1` …, so that both behave alike.

use super::input::{Customer, Delivery, NewOrder, OrderStatus, Payment, StockLevel};
use super::statements::Statements;
use super::transactions::{Decimal, Output, delivered, narrow, one, reply, rounds};
use tenbin_wire::{Error, Param, Session};

/// SQLSTATE with which `tenbin_tpcc_new_order` rolls back an order with an unused item.
pub const UNUSED_ITEM: &str = "TB001";

/// Statements that make (or make anew) the functions, in the first schema of the search path.
#[must_use]
pub fn definitions(statements: &Statements) -> Vec<String> {
    vec![
        new_order_sql(statements),
        payment_sql(statements),
        order_status_sql(statements),
        delivery_sql(statements),
        stock_level_sql(statements),
    ]
}

/// `sql` with `names[0]` for `$1` and so on.
fn bind(sql: &str, names: &[&str]) -> String {
    let mut parts = sql.split('$');
    let mut bound = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let name = part[..digits]
            .parse::<usize>()
            .ok()
            .and_then(|number| names.get(number.wrapping_sub(1)));
        bound.push_str(name.copied().unwrap_or("$"));
        bound.push_str(&part[digits..]);
    }
    bound
}

fn function(name: &str, parameters: &str, returns: &str, declare: &str, body: &str) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION tenbin_tpcc_{name}({parameters}) RETURNS {returns} LANGUAGE plpgsql AS $body$\n\
         #variable_conflict use_column\nDECLARE\n{declare}BEGIN\n{body}\nEND\n$body$"
    )
}

fn new_order_sql(statements: &Statements) -> String {
    let header = bind(
        &statements.new_order,
        &["p_w", "p_d", "p_c", "p_lines", "p_local"],
    );
    let customer = bind(&statements.new_order_customer, &["p_w", "p_d", "p_c"]);
    let lines = bind(
        &statements.new_order_lines,
        &[
            "p_w",
            "p_d",
            "v_items",
            "v_supplies",
            "v_quantities",
            "v_numbers",
        ],
    );
    let pick = |of: &str| {
        format!(
            "ARRAY(SELECT {of}[i] FROM generate_subscripts({of}, 1) AS i WHERE p_rounds[i] = v_round ORDER BY i)"
        )
    };
    let body = format!(
        "FOR v_header IN {header} LOOP END LOOP;\n\
         FOR v_customer IN {customer} LOOP END LOOP;\n\
         FOR v_round IN 0 .. (SELECT max(r) FROM unnest(p_rounds) AS r) LOOP\n\
         v_items := {};\nv_supplies := {};\nv_quantities := {};\nv_numbers := {};\n\
         FOR v_line IN {lines} LOOP v_valid := v_valid + 1; v_amount := v_amount + v_line.amount; END LOOP;\n\
         END LOOP;\n\
         IF v_valid < p_lines THEN RAISE EXCEPTION 'Item number is not valid' USING ERRCODE = '{UNUSED_ITEM}'; END IF;\n\
         RETURN QUERY SELECT v_header.o_id, \
         round(v_amount * (1 - v_customer.c_discount) * (1 + v_customer.w_tax + v_header.d_tax) * 100)::bigint;",
        pick("p_items"),
        pick("p_supplies"),
        pick("p_quantities"),
        pick("p_numbers")
    );
    function(
        "new_order",
        "p_w integer, p_d smallint, p_c integer, p_lines smallint, p_local smallint, p_items integer[], \
         p_supplies integer[], p_quantities smallint[], p_numbers smallint[], p_rounds smallint[]",
        "TABLE (order_number integer, total_cents bigint)",
        "v_header record; v_customer record; v_line record; v_valid integer := 0; v_amount numeric := 0;\n\
         v_items integer[]; v_supplies integer[]; v_quantities smallint[]; v_numbers smallint[];\n",
        &body,
    )
}

fn payment_sql(statements: &Statements) -> String {
    let by_id = bind(
        &statements.payment_by_id,
        &["p_w", "p_d", "p_cw", "p_cd", "p_c", "p_amount"],
    );
    let by_name = bind(
        &statements.payment_by_name,
        &["p_w", "p_d", "p_cw", "p_cd", "p_last", "p_amount"],
    );
    let district = bind(&statements.payment_district, &["p_w", "p_d", "p_amount"]);
    let warehouse = bind(&statements.payment_warehouse, &["p_w", "p_amount"]);
    let body = format!(
        "IF p_last IS NULL THEN\nFOR v_row IN {by_id} LOOP v_customer := v_row.c_id; END LOOP;\n\
         ELSE\nFOR v_row IN {by_name} LOOP v_customer := v_row.c_id; END LOOP;\nEND IF;\n\
         FOR v_row IN {district} LOOP END LOOP;\nFOR v_row IN {warehouse} LOOP END LOOP;\nRETURN v_customer;"
    );
    function(
        "payment",
        "p_w integer, p_d smallint, p_cw integer, p_cd smallint, p_c integer, p_last varchar, p_amount numeric",
        "integer",
        "v_row record; v_customer integer;\n",
        &body,
    )
}

fn order_status_sql(statements: &Statements) -> String {
    let by_id = bind(&statements.order_status_by_id, &["p_w", "p_d", "p_c"]);
    let by_name = bind(&statements.order_status_by_name, &["p_w", "p_d", "p_last"]);
    let count = "v_customer := v_row.c_id; v_order := v_row.o_id; v_lines := v_lines + 1;";
    let body = format!(
        "IF p_last IS NULL THEN\nFOR v_row IN {by_id} LOOP {count} END LOOP;\n\
         ELSE\nFOR v_row IN {by_name} LOOP {count} END LOOP;\nEND IF;\n\
         RETURN QUERY SELECT v_customer, v_order, v_lines;"
    );
    function(
        "order_status",
        "p_w integer, p_d smallint, p_c integer, p_last varchar",
        "TABLE (customer integer, order_number integer, lines integer)",
        "v_row record; v_customer integer; v_order integer; v_lines integer := 0;\n",
        &body,
    )
}

fn delivery_sql(statements: &Statements) -> String {
    let lock = bind(&statements.delivery_lock, &["p_w"]);
    let deliver = bind(&statements.delivery, &["p_w", "p_carrier"]);
    let body = format!("FOR v_row IN {lock} LOOP END LOOP;\nRETURN QUERY {deliver};");
    function(
        "delivery",
        "p_w integer, p_carrier smallint",
        "TABLE (district smallint, order_number integer)",
        "v_row record;\n",
        &body,
    )
}

fn stock_level_sql(statements: &Statements) -> String {
    let count = bind(&statements.stock_level, &["p_w", "p_d", "p_threshold"]);
    function(
        "stock_level",
        "p_w integer, p_d smallint, p_threshold smallint",
        "bigint",
        "",
        &format!("RETURN ({count});"),
    )
}

/// Prepares the calls.
pub(super) async fn prepare(session: &mut Session) -> Result<(), Error> {
    let calls = [
        (
            "no",
            "SELECT * FROM tenbin_tpcc_new_order($1::integer, $2::smallint, $3::integer, $4::smallint, $5::smallint, $6::integer[], $7::integer[], $8::smallint[], $9::smallint[], $10::smallint[])",
        ),
        (
            "pay",
            "SELECT tenbin_tpcc_payment($1::integer, $2::smallint, $3::integer, $4::smallint, $5::integer, $6::varchar, $7::numeric)",
        ),
        (
            "os",
            "SELECT * FROM tenbin_tpcc_order_status($1::integer, $2::smallint, $3::integer, $4::varchar)",
        ),
        (
            "dl",
            "SELECT * FROM tenbin_tpcc_delivery($1::integer, $2::smallint)",
        ),
        (
            "sl",
            "SELECT tenbin_tpcc_stock_level($1::integer, $2::smallint, $3::smallint)",
        ),
    ];
    for (name, sql) in calls {
        session.parse(name, sql, &[]);
    }
    session.sync().await.map(|_| ())
}

/// Clause 2.4. Whether it was committed, and the order.
pub(super) async fn new_order(
    session: &mut Session,
    order: &NewOrder,
) -> Result<(bool, Output), Error> {
    let lines = i16::try_from(order.items.len()).unwrap_or(i16::MAX);
    let local = order
        .supplies
        .iter()
        .all(|&supply| supply == order.warehouse);
    let rounds = rounds(order);
    session.execute(
        "no",
        &[
            Param::I32(order.warehouse),
            Param::I16(order.district),
            Param::I32(order.customer),
            Param::I16(lines),
            Param::I16(i16::from(local)),
            Param::I32Array(&order.items),
            Param::I32Array(&order.supplies),
            Param::I16Array(&order.quantities),
            Param::I16Array(&order.numbers),
            Param::I16Array(&rounds),
        ],
    );
    match session.sync().await {
        Ok(mut replies) => {
            let row = one(&mut replies)?;
            Ok((
                true,
                Output::NewOrder {
                    order: row.int(0)?,
                    total_cents: row.int(1)?,
                },
            ))
        }
        Err(error) if error.sqlstate() == Some(UNUSED_ITEM) => Ok((
            false,
            Output::NewOrder {
                order: 0,
                total_cents: 0,
            },
        )),
        Err(error) => Err(error),
    }
}

/// A customer as two parameters, one of them NULL.
fn who(customer: &Customer) -> [Param<'_>; 2] {
    match customer {
        Customer::Id(id) => [Param::I32(*id), Param::Null],
        Customer::LastName(name) => [Param::Null, Param::Text(name.as_str())],
    }
}

/// Clause 2.5.
pub(super) async fn payment(session: &mut Session, payment: &Payment) -> Result<Output, Error> {
    let amount = Decimal::cents(payment.amount_cents);
    let [id, name] = who(&payment.customer);
    session.execute(
        "pay",
        &[
            Param::I32(payment.warehouse),
            Param::I16(payment.district),
            Param::I32(payment.customer_warehouse),
            Param::I16(payment.customer_district),
            id,
            name,
            Param::Text(amount.as_str()),
        ],
    );
    let mut replies = session.sync().await?;
    Ok(Output::Payment {
        customer: one(&mut replies)?.int(0)?,
    })
}

/// Clause 2.6.
pub(super) async fn order_status(
    session: &mut Session,
    status: &OrderStatus,
) -> Result<Output, Error> {
    let [id, name] = who(&status.customer);
    session.execute(
        "os",
        &[
            Param::I32(status.warehouse),
            Param::I16(status.district),
            id,
            name,
        ],
    );
    let mut replies = session.sync().await?;
    let row = one(&mut replies)?;
    Ok(Output::OrderStatus {
        customer: row.int(0)?,
        order: row.int(1)?,
        lines: narrow(row.int(2)?)?,
    })
}

/// Clause 2.7.4.
pub(super) async fn delivery(session: &mut Session, delivery: &Delivery) -> Result<Output, Error> {
    session.execute(
        "dl",
        &[Param::I32(delivery.warehouse), Param::I16(delivery.carrier)],
    );
    let mut replies = session.sync().await?;
    delivered(reply(&mut replies)?, delivery.carrier)
}

/// Clause 2.8.
pub(super) async fn stock_level(
    session: &mut Session,
    level: &StockLevel,
) -> Result<Output, Error> {
    let params = [
        Param::I32(level.warehouse),
        Param::I16(level.district),
        Param::I16(level.threshold),
    ];
    session.execute("sl", &params);
    let mut replies = session.sync().await?;
    Ok(Output::StockLevel {
        low: one(&mut replies)?.int(0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_take_the_place_of_numbers() {
        assert_eq!(
            bind("SELECT $1, $2::int, $1", &["a", "b"]),
            "SELECT a, b::int, a"
        );
        assert_eq!(bind("no parameters", &[]), "no parameters");
    }

    #[test]
    fn every_parameter_of_every_statement_is_bound() {
        for sql in definitions(&Statements::default()) {
            let body = sql.replace("$body$", "");
            assert!(!body.contains('$'), "{body}");
        }
    }
}
