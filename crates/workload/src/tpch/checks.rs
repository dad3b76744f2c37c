//! Whether the tables hold what dbgen makes, and the queries answer what the standard says.

use super::answers::{self, differences};
use super::rows::lines_by_key;
use super::{Existing, Meta, QUERIES, Query, Scale, Table, inspect};
use crate::check::{CheckError, CheckResult, Verdict, server, stoppable};
use crate::load::quoted;
use postgres::{Client, SimpleQueryMessage};
use std::fmt::Write as _;
use std::io::BufRead as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Checks TPC-H in `schema`: numbers of rows, the orders' totals, every row against dbgen's, and
/// at scale 1 the answers to the 22 queries. `step` is told what comes next.
///
/// # Errors
/// [`CheckError`].
pub fn check(
    schema: &str,
    mut client: Client,
    stop: &AtomicBool,
    step: &mut dyn FnMut(&str),
) -> Result<Vec<CheckResult>, CheckError> {
    let meta = loaded(&mut client, schema)?;
    client
        .batch_execute(&format!("SET search_path TO {}", quoted(schema)))
        .map_err(server("choosing the schema"))?;
    stoppable(&[client.cancel_token()], stop, || {
        all(&mut client, &meta, stop, step)
    })
}

fn loaded(client: &mut Client, schema: &str) -> Result<Meta, CheckError> {
    let existing = inspect(client, schema).map_err(server("looking what is there"))?;
    let (found, mend) = match existing {
        Existing::Complete(meta) => return Ok(meta),
        Existing::Nothing => (
            "there is no TPC-H".to_owned(),
            "load it with `tenbin load tpch`",
        ),
        Existing::Partial(_) => (
            "its load was interrupted".to_owned(),
            "reload with `tenbin load tpch --replace`",
        ),
        Existing::Foreign(relations) => {
            let found = format!("{} are not tenbin's", relations.join(", "));
            (found, "load into another database with `tenbin load tpch`")
        }
    };
    Err(CheckError::NotLoaded {
        schema: schema.to_owned(),
        found,
        mend: mend.into(),
    })
}

fn all(
    client: &mut Client,
    meta: &Meta,
    stop: &AtomicBool,
    step: &mut dyn FnMut(&str),
) -> Result<Vec<CheckResult>, CheckError> {
    step("numbers of rows");
    let mut results = vec![rows(client, meta)?];
    step("the orders' totals");
    results.push(totals(client)?);
    results.push(contents(client, meta, stop, step)?);
    for query in 1..=QUERIES {
        step(&format!("the answer to query {query}"));
        results.push(answer(client, meta, query)?);
    }
    Ok(results)
}

fn result(
    condition: &'static str,
    title: &'static str,
    clause: &'static str,
    offending: Vec<String>,
) -> CheckResult {
    CheckResult {
        condition,
        title,
        clause,
        verdict: if offending.is_empty() {
            Verdict::Pass
        } else {
            Verdict::Fail
        },
        offending_count: offending.len() as u64,
        offending,
    }
}

/// Numbers of rows; those of LINEITEM follow from the contents.
fn rows(client: &mut Client, meta: &Meta) -> Result<CheckResult, CheckError> {
    let mut offending = Vec::new();
    for table in Table::ALL
        .into_iter()
        .filter(|&table| table != Table::LineItem)
    {
        let count: i64 = client
            .query_one(&format!("SELECT count(*) FROM {table}"), &[])
            .map_err(server(format!("counting {table}")))?
            .get(0);
        let mut expected = meta.scale.rows(table);
        if table == Table::Orders {
            expected += meta.inserted.saturating_sub(meta.deleted) * meta.scale.refresh_orders();
        }
        if u64::try_from(count) != Ok(expected) {
            offending.push(format!("{table}: {count} rows, not {expected}"));
        }
    }
    let title = "Tables have the rows of the scale";
    Ok(result("rows", title, "clause 4.2.5.1", offending))
}

/// The consistency condition on orders and their lines (clause 3.3.2.1).
fn totals(client: &mut Client) -> Result<CheckResult, CheckError> {
    let rows = client
        .query(
            "SELECT format('o_orderkey %s: o_totalprice %s, of its lines %s', \
             coalesce(o_orderkey, l_orderkey), o_totalprice, total), count(*) OVER () \
             FROM orders FULL JOIN (SELECT l_orderkey, \
             sum(trunc(trunc(l_extendedprice * (1 - l_discount), 2) * (1 + l_tax), 2)) AS total \
             FROM lineitem GROUP BY l_orderkey) lines ON o_orderkey = l_orderkey \
             WHERE o_totalprice IS DISTINCT FROM total LIMIT 10",
            &[],
        )
        .map_err(server("adding up orders"))?;
    let offending = rows.iter().map(|row| row.get(0)).collect();
    let mut found = result(
        "totals",
        "Every order's total is that of its lines, and every line has its order",
        "clause 3.3.2.1",
        offending,
    );
    if let Some(row) = rows.first() {
        found.offending_count = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
    }
    Ok(found)
}

/// Every row against dbgen's.
fn contents(
    client: &mut Client,
    meta: &Meta,
    stop: &AtomicBool,
    step: &mut dyn FnMut(&str),
) -> Result<CheckResult, CheckError> {
    let mut found = result(
        "contents",
        "Every row is dbgen's, byte for byte",
        "clause 4.2.1",
        Vec::new(),
    );
    if meta.inserted > 0 || meta.deleted > 0 {
        let why = "refresh functions have replaced some of them";
        found.verdict = Verdict::Skip(why.to_owned());
        return Ok(found);
    }
    for table in Table::ALL {
        step(&format!("every row of {table}"));
        if let Some(difference) = first_difference(client, table, meta.scale, stop)? {
            found.offending.push(difference);
        }
    }
    found.offending_count = found.offending.len() as u64;
    if found.offending_count > 0 {
        found.verdict = Verdict::Fail;
    }
    Ok(found)
}

/// Columns of a table as dbgen writes them: without the blanks that pad them, quantities without
/// decimals.
fn as_dbgen_writes(table: Table) -> String {
    let column = |(name, of): &(&str, &str)| match *of {
        _ if *name == "l_quantity" => format!("{name}::integer"),
        of if of.starts_with("char") => format!("{name}::text"),
        _ => (*name).to_owned(),
    };
    let columns: Vec<String> = table.columns().iter().map(column).collect();
    columns.join(", ")
}

/// The first row of a table that is not what dbgen makes there.
fn first_difference(
    client: &mut Client,
    table: Table,
    scale: Scale,
    stop: &AtomicBool,
) -> Result<Option<String>, CheckError> {
    let during = format!("reading {table}");
    let query = format!(
        "COPY (SELECT {} FROM {table} ORDER BY {}) TO STDOUT (DELIMITER '|')",
        as_dbgen_writes(table),
        table.key()
    );
    let mut reader = client.copy_out(&query).map_err(server(&*during))?;
    let (mut row, mut wanted) = (String::new(), String::new());
    let mut failure = None;
    let mut difference = None;
    let mut read = |row: &mut String| {
        row.clear();
        // The end of the table is an empty line, which no row is.
        if let Err(error) = reader.read_line(row) {
            failure = error.into_inner().and_then(|inner| inner.downcast().ok());
        }
        row.truncate(row.trim_end_matches('\n').len());
    };
    lines_by_key(scale, table, |line| {
        wanted.clear();
        // Writing into memory does not fail.
        let _ = write!(wanted, "{line}");
        read(&mut row);
        if Some(row.as_str()) != wanted.strip_suffix('|') {
            difference = Some(format!("{table}: {row:?}, not {wanted:?}"));
        }
        difference.is_none() && !stop.load(Ordering::Relaxed)
    });
    if difference.is_none() {
        read(&mut row);
        if !row.is_empty() {
            difference = Some(format!("{table}: {row:?} is one too many"));
        }
    }
    match failure {
        Some(answer) => Err(CheckError::Server {
            during,
            answer: *answer,
        }),
        None => Ok(difference),
    }
}

const CONDITIONS: [&str; QUERIES as usize] = [
    "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15",
    "Q16", "Q17", "Q18", "Q19", "Q20", "Q21", "Q22",
];

/// The answer to a query against the published one.
fn answer(client: &mut Client, meta: &Meta, number: u8) -> Result<CheckResult, CheckError> {
    let mut found = result(
        CONDITIONS
            .get(usize::from(number) - 1)
            .copied()
            .unwrap_or_default(),
        "The query's answer is the standard's",
        "clauses 2.3.1, 2.1.3.5",
        Vec::new(),
    );
    let why = if meta.scale != Scale::ONE {
        Some("the standard publishes answers for scale 1 alone")
    } else if meta.inserted > 0 || meta.deleted > 0 {
        Some("refresh functions have replaced some of the rows")
    } else {
        None
    };
    if let Some(why) = why {
        found.verdict = Verdict::Skip(why.to_owned());
        return Ok(found);
    }
    let Some(query) = Query::validation(number, meta.scale) else {
        return Ok(found);
    };
    let rows = output(client, &query).map_err(server(format!("running query {number}")))?;
    (found.offending, found.offending_count) =
        differences(number, &rows, &answers::published(number));
    if found.offending_count > 0 {
        found.verdict = Verdict::Fail;
    }
    Ok(found)
}

/// What a query puts out, as text without blanks around it.
///
/// # Errors
/// What the server answers.
pub fn output(client: &mut Client, query: &Query) -> Result<Vec<Vec<String>>, postgres::Error> {
    let messages = client.simple_query(&query.text())?;
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let cell = |column| row.get(column).unwrap_or("").trim().to_owned();
            Some((0..row.len()).map(cell).collect())
        }
        _ => None,
    };
    Ok(messages.iter().filter_map(row).collect())
}
