//! Consistency: nothing of what was moved got lost on the way.

use super::{Design, Existing, Meta, Size, Table, inspect};
use crate::check::{CheckError, CheckResult, Verdict, server, stoppable};
use crate::load::quoted;
use postgres::{Client, Transaction};
use std::sync::atomic::AtomicBool;

/// What the tables hold in sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Of the branches' balances.
    pub branches: i64,
    /// Of the tellers'.
    pub tellers: i64,
    /// Of the accounts'.
    pub accounts: i64,
    /// Of the amounts in the history.
    pub history: i64,
}

/// Reads the sums.
///
/// # Errors
/// What the server answers.
pub fn sums(
    client: &mut impl postgres::GenericClient,
    design: Design,
    schema: &str,
) -> Result<Sums, postgres::Error> {
    let schema = quoted(schema);
    let sum = |table| {
        let (name, balance) = (design.table(table), design.balance(table));
        format!("(SELECT coalesce(sum({balance}), 0)::bigint FROM {schema}.{name})")
    };
    let row = client.query_one(&format!("SELECT {}", Table::ALL.map(sum).join(", ")), &[])?;
    Ok(Sums {
        branches: row.get(0),
        tellers: row.get(1),
        accounts: row.get(2),
        history: row.get(3),
    })
}

/// A run whose effect on the sums is known.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// Before its first transaction.
    pub before: Sums,
    /// What the driver was told it moved.
    pub moved: Sums,
    /// Transactions whose end is not known, because a connection broke or patience ended.
    pub unknown: u64,
}

/// Checks the bank in `schema` in one snapshot: its rows, its sums, each row against the history,
/// and what a run has moved.
///
/// # Errors
/// [`CheckError`].
pub fn check(
    design: Design,
    schema: &str,
    mut client: Client,
    run: Option<Watch>,
    stop: &AtomicBool,
) -> Result<Vec<CheckResult>, CheckError> {
    let (size, meta) = loaded(&mut client, design, schema)?;
    let checker = Checker {
        design,
        schema,
        size,
        meta: meta.as_ref(),
    };
    stoppable(&[client.cancel_token()], stop, || {
        checker.all(&mut client, run)
    })
}

fn loaded(
    client: &mut Client,
    design: Design,
    schema: &str,
) -> Result<(Size, Option<Meta>), CheckError> {
    let workload = design.workload();
    let existing = inspect(client, design, schema).map_err(server("looking what is there"))?;
    let (found, mend) = match existing {
        Existing::Complete(meta) => return Ok((meta.size, Some(meta))),
        Existing::Foreign {
            size: Some(size), ..
        } => return Ok((size, None)),
        Existing::Nothing => (
            format!("it holds no tables of {workload}"),
            format!("load them with `tenbin load {workload}`"),
        ),
        Existing::Partial(_) => (
            "its load was interrupted, or tables are missing".to_owned(),
            format!("reload with `tenbin load {workload} --replace`"),
        ),
        Existing::Foreign { relations, .. } => (
            format!(
                "tenbin's {workload} did not create {}",
                relations.join(", ")
            ),
            "choose another database".to_owned(),
        ),
    };
    Err(CheckError::NotLoaded {
        schema: schema.to_owned(),
        found,
        mend,
    })
}

struct Checker<'a> {
    design: Design,
    schema: &'a str,
    size: Size,
    /// None for tables that pgbench made.
    meta: Option<&'a Meta>,
}

/// Why conditions cannot be asked for.
#[derive(Default)]
struct Exempt {
    /// Accounts may have moved without tellers and branches.
    apart: Option<String>,
    /// The history may not hold all that was moved on the accounts.
    history: Option<String>,
}

impl Checker<'_> {
    fn all(&self, client: &mut Client, run: Option<Watch>) -> Result<Vec<CheckResult>, CheckError> {
        let mut transaction = client
            .build_transaction()
            .isolation_level(postgres::IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .map_err(server("beginning"))?;
        transaction
            .batch_execute(&format!(
                "SET LOCAL search_path TO {}; SET LOCAL statement_timeout = 0; \
                 SET LOCAL lock_timeout = 0; SET LOCAL work_mem = '64MB'",
                quoted(self.schema)
            ))
            .map_err(server("beginning"))?;
        let after = sums(&mut transaction, self.design, self.schema).map_err(server("the sums"))?;
        let exempt = self.exempt(&after);
        let mut results = vec![
            self.rows(&mut transaction)?,
            self.branches(&mut transaction, &after)?,
        ];
        results.push(equal(
            "3",
            "sum of tellers = sum of accounts",
            ("tellers", after.tellers),
            ("accounts", after.accounts),
            exempt.apart.clone(),
        ));
        let apart = exempt.apart.or_else(|| exempt.history.clone());
        let each = [
            (
                "4",
                "each account = sum of its history",
                Table::Accounts,
                exempt.history,
            ),
            (
                "5",
                "each teller = sum of its history",
                Table::Tellers,
                apart.clone(),
            ),
            (
                "6",
                "each branch = sum of its history",
                Table::Branches,
                apart,
            ),
        ];
        for (condition, title, table, why) in each {
            results.push(match why {
                Some(why) => result(condition, title, Verdict::Skip(why), Vec::new(), 0),
                None => self.each(&mut transaction, condition, title, table)?,
            });
        }
        results.extend(run.map(|run| moved(&run, &after)));
        Ok(results)
    }

    /// What is not known of these data, or known to have happened to them.
    fn exempt(&self, sums: &Sums) -> Exempt {
        let Some(meta) = self.meta else {
            let unknown = |what: &str, one: i64, other: i64, how: &str| {
                (one != other).then(|| format!(
                    "{what} ({one} and {other}), and nothing tells why: tenbin did not load these tables, and {how}"
                ))
            };
            return Exempt {
                apart: unknown(
                    "the sums differ",
                    sums.tellers,
                    sums.accounts,
                    "pgbench -N moves accounts only",
                ),
                history: unknown(
                    "accounts and history differ in sum",
                    sums.accounts,
                    sums.history,
                    "pgbench empties the history before it runs",
                ),
            };
        };
        let mixed = meta
            .past
            .mixed
            .then(|| "`tenbin run mix` has moved accounts alone, or a script may have".to_owned());
        let simple = meta
            .past
            .simple_updates
            .then(|| "simple updates have moved accounts without tellers and branches".to_owned());
        let emptied = (!meta.history_kept).then(|| {
            "the history was emptied or rewritten since the load (pgbench does so before it runs)"
                .to_owned()
        });
        Exempt {
            apart: mixed.clone().or(simple),
            history: mixed.or(emptied),
        }
    }

    /// Every table has its rows, numbered without a gap, each of its branch.
    fn rows(&self, transaction: &mut Transaction<'_>) -> Result<CheckResult, CheckError> {
        let mut offending = Vec::new();
        for table in Table::KEYED {
            let (name, key) = (self.design.table(table), self.design.key(table));
            let branch = self.design.key(Table::Branches);
            let (rows, per_branch) = (self.size.rows(table), self.size.per_branch(table));
            // Keys are unique, so that many of them between 1 and the last leave no gap.
            let row = transaction
                .query_one(
                    &format!(
                        "SELECT count(*), count(*) FILTER (WHERE {key} NOT BETWEEN 1 AND {rows}), \
                         count(*) FILTER (WHERE {branch} IS DISTINCT FROM \
                         ({key} - 1) / {per_branch} + 1) FROM {name}"
                    ),
                    &[],
                )
                .map_err(server("the numbers of rows"))?;
            let (count, beyond, strays): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            if u64::try_from(count) != Ok(rows) || beyond + strays > 0 {
                offending.push(format!(
                    "{name}: {count} rows, {beyond} with numbers beyond 1 to {rows}, {strays} of \
                     another branch; there should be {rows}, 0 and 0"
                ));
            }
        }
        let title = "branches, tellers and accounts are all there, each of its branch";
        Ok(failed_by("1", title, offending))
    }

    /// TPC-A draws a teller and takes its branch; pgbench draws both, so that only the sums agree.
    fn branches(
        &self,
        transaction: &mut Transaction<'_>,
        sums: &Sums,
    ) -> Result<CheckResult, CheckError> {
        if self.design == Design::Pgbench {
            let (branches, tellers) = (("branches", sums.branches), ("tellers", sums.tellers));
            let title = "sum of branches = sum of tellers";
            return Ok(equal("2", title, branches, tellers, None));
        }
        let (branches, tellers) = (
            self.design.table(Table::Branches),
            self.design.table(Table::Tellers),
        );
        let key = self.design.key(Table::Branches);
        let (of_branch, of_teller) = (
            self.design.balance(Table::Branches),
            self.design.balance(Table::Tellers),
        );
        let bad = format!(
            "SELECT {key} AS key, {of_branch} AS has, coalesce(t.sum, 0) AS should \
             FROM {branches} LEFT JOIN (SELECT {key}, sum({of_teller}) FROM {tellers} GROUP BY 1) t \
             USING ({key}) WHERE {of_branch} <> coalesce(t.sum, 0)"
        );
        let title = "each branch = sum of its tellers";
        listed(transaction, "2", title, branches, &bad)
    }

    fn each(
        &self,
        transaction: &mut Transaction<'_>,
        condition: &'static str,
        title: &'static str,
        table: Table,
    ) -> Result<CheckResult, CheckError> {
        let (name, key, balance) = (
            self.design.table(table),
            self.design.key(table),
            self.design.balance(table),
        );
        let (history, amount) = (
            self.design.table(Table::History),
            self.design.balance(Table::History),
        );
        let bad = format!(
            "SELECT key, has, should FROM (SELECT {key} AS key, {balance} AS has FROM {name}) b \
             FULL JOIN (SELECT {key} AS key, sum({amount}) AS should FROM {history} GROUP BY 1) h \
             USING (key) WHERE has IS NULL OR has <> coalesce(should, 0)"
        );
        listed(transaction, condition, title, name, &bad)
    }
}

/// Rows of `bad` (key, has, should) are what offends.
fn listed(
    transaction: &mut Transaction<'_>,
    condition: &'static str,
    title: &'static str,
    table: &str,
    bad: &str,
) -> Result<CheckResult, CheckError> {
    let row = transaction
        .query_one(
            &format!(
                "WITH bad AS ({bad}) SELECT (SELECT count(*) FROM bad), ARRAY(SELECT \
                 format('{table} %s: %s, should be %s', key, coalesce(has::text, 'missing'), \
                 coalesce(should, 0)) FROM bad ORDER BY key LIMIT 10)"
            ),
            &[],
        )
        .map_err(server(title))?;
    let count = u64::try_from(row.get::<_, i64>(0)).unwrap_or(0);
    let verdict = if count == 0 {
        Verdict::Pass
    } else {
        Verdict::Fail
    };
    Ok(result(condition, title, verdict, row.get(1), count))
}

fn result(
    condition: &'static str,
    title: &'static str,
    verdict: Verdict,
    offending: Vec<String>,
    offending_count: u64,
) -> CheckResult {
    CheckResult {
        condition,
        title,
        clause: "",
        verdict,
        offending,
        offending_count,
    }
}

fn failed_by(condition: &'static str, title: &'static str, offending: Vec<String>) -> CheckResult {
    let verdict = if offending.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Fail
    };
    let count = offending.len() as u64;
    result(condition, title, verdict, offending, count)
}

fn equal(
    condition: &'static str,
    title: &'static str,
    one: (&str, i64),
    other: (&str, i64),
    exempt: Option<String>,
) -> CheckResult {
    if let Some(why) = exempt {
        return result(condition, title, Verdict::Skip(why), Vec::new(), 0);
    }
    let apart =
        (one.1 != other.1).then(|| format!("{}: {}, {}: {}", one.0, one.1, other.0, other.1));
    failed_by(condition, title, apart.into_iter().collect())
}

/// What a run moved is what the driver was told.
fn moved(run: &Watch, after: &Sums) -> CheckResult {
    let (condition, title) = ("7", "the run moved what the server confirmed");
    if run.unknown > 0 {
        let why = format!("how {} transactions ended is not known", run.unknown);
        return result(condition, title, Verdict::Skip(why), Vec::new(), 0);
    }
    let (before, told) = (&run.before, &run.moved);
    let parts = [
        ("branches", before.branches, after.branches, told.branches),
        ("tellers", before.tellers, after.tellers, told.tellers),
        ("accounts", before.accounts, after.accounts, told.accounts),
        ("history", before.history, after.history, told.history),
    ];
    let offending = parts
        .into_iter()
        .filter(|(_, before, after, told)| after - before != *told)
        .map(|(name, before, after, told)| {
            format!("{name} moved by {}, confirmed were {told}", after - before)
        });
    failed_by(condition, title, offending.collect())
}
