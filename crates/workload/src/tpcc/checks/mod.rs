//! Consistency: the twelve conditions of clause 3.3.2, and tenbin's own for what they do not cover.
//!
//! All checks read one snapshot, over several connections, in set-based SQL:
//! warehouses are dealt out in groups, and every table is read once for all the
//! conditions that it takes part in.

use super::load::{self, Existing, Meta};
use super::population::{items, stock_quantities};
use super::rules::Rules;
use crate::check::{CheckError, CheckResult, Verdict, server, stoppable};
use crate::load::quoted;
use postgres::types::ToSql;
use postgres::{Client, Row, Statement};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const ORDERS: &str = include_str!("orders.sql");
const PRICES: &str = include_str!("prices.sql");
const ITEMS: &str = include_str!("items.sql");
const COUNTERS: &str = include_str!("counters.sql");
const QUANTITIES: &str = include_str!("quantities.sql");

/// Warehouses checked by one statement: enough to make its fixed cost (which
/// contains reading all of `history`) small, few enough to do it in memory.
const GROUP: u32 = 16;

/// Memory for each sort or hash table of a statement.
const WORK_MEM: &str = "64MB";

/// Condition, title and clause of every check, in the order of their numbers in the statements.
const CHECKS: [(&str, &str, &str); 20] = [
    ("1", "W_YTD = sum(D_YTD)", "3.3.2.1"),
    ("2", "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)", "3.3.2.2"),
    (
        "3",
        "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
        "3.3.2.3",
    ),
    ("4", "sum(O_OL_CNT) = rows of ORDER-LINE", "3.3.2.4"),
    (
        "5",
        "O_CARRIER_ID is null if and only if the order is in NEW-ORDER",
        "3.3.2.5",
    ),
    ("6", "O_OL_CNT = order lines of the order", "3.3.2.6"),
    (
        "7",
        "OL_DELIVERY_D is null if and only if O_CARRIER_ID is",
        "3.3.2.7",
    ),
    ("8", "W_YTD = sum(H_AMOUNT)", "3.3.2.8"),
    ("9", "D_YTD = sum(H_AMOUNT)", "3.3.2.9"),
    (
        "10",
        "C_BALANCE = sum(OL_AMOUNT) delivered - sum(H_AMOUNT)",
        "3.3.2.10",
    ),
    ("11", "orders - new orders = 2100", "3.3.2.11"),
    (
        "12",
        "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) delivered",
        "3.3.2.12",
    ),
    ("A1", "OL_AMOUNT = OL_QUANTITY x I_PRICE", "2.4.2.2"),
    (
        "A2",
        "S_YTD, S_ORDER_CNT, S_REMOTE_CNT = order lines supplied",
        "2.4.2.2",
    ),
    (
        "A3",
        "S_QUANTITY follows from its first value and S_YTD",
        "2.4.2.2",
    ),
    ("A4", "C_PAYMENT_CNT = rows of HISTORY", "2.5.2.2"),
    (
        "A5",
        "C_DELIVERY_CNT = orders delivered since loading",
        "2.7.4.2",
    ),
    (
        "A6",
        "C_SINCE and loaded dates = the load's; later dates follow it",
        "4.3.3.1",
    ),
    ("A7", "ITEM = the rows loaded", "4.3.3.1"),
    (
        "A8",
        "O_ALL_LOCAL = 1 if and only if every order line is local",
        "2.4.2.2",
    ),
];

/// Position of condition 11 in [`CHECKS`].
const ELEVENTH: usize = 10;

/// A statement to run, and over which warehouses.
#[derive(Debug, Clone, Copy)]
enum Task {
    /// A2, over all warehouses.
    Counters,
    /// Conditions 1 to 12, A1, A4 to A6 and A8, over a group.
    Group(u32, u32),
    /// A7.
    Items,
    /// A3, over one warehouse.
    Quantities(u32),
}

/// Checks the database in `schema`, over `threads` connections.
///
/// `connect` is called `threads` times. `rules` are those that the data were
/// loaded with. Changes nothing. Transactions may run meanwhile: all checks see
/// the same snapshot.
///
/// # Errors
/// [`CheckError`], when the checks could not be made; a failed check is a result.
pub fn check<C>(
    schema: &str,
    rules: &Rules,
    threads: u32,
    connect: C,
    stop: &AtomicBool,
) -> Result<Vec<CheckResult>, CheckError>
where
    C: Fn() -> Result<Client, postgres::Error>,
{
    if !(1..=256).contains(&threads) {
        return Err(CheckError::Threads(threads));
    }
    let mut first = connect().map_err(CheckError::Connect)?;
    let meta = loaded(&mut first, schema)?;
    let tasks = deal(&meta, threads);
    let snapshot = begin(&mut first, schema, None)?;
    let mut clients = vec![first];
    while clients.len() < tasks.len().min(threads as usize) {
        let mut client = connect().map_err(CheckError::Connect)?;
        begin(&mut client, schema, Some(&snapshot))?;
        clients.push(client);
    }
    let shared = Shared {
        rules,
        meta: &meta,
        tasks: &tasks,
        next: AtomicUsize::new(0),
        stop,
        outcome: Mutex::new(Outcome::default()),
    };
    let tokens: Vec<_> = clients.iter().map(Client::cancel_token).collect();
    stoppable(&tokens, stop, || {
        std::thread::scope(|scope| {
            for client in clients {
                scope.spawn(|| shared.work(client));
            }
        });
        let outcome = shared
            .outcome
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match outcome.error {
            Some(error) => Err(error),
            None => Ok(results(&meta, outcome.found)),
        }
    })
}

fn loaded(client: &mut Client, schema: &str) -> Result<Meta, CheckError> {
    let existing = load::inspect(client, schema).map_err(server("looking what is there"))?;
    let (found, mend) = match existing {
        Existing::Complete(meta) => return Ok(meta),
        Existing::Nothing => {
            let found = "it holds no TPC-C tables".to_owned();
            (found, "load them with `tenbin load tpcc`")
        }
        Existing::Partial(_) => {
            let found = "its load was interrupted, or tables are missing".to_owned();
            (found, "reload with `tenbin load tpcc --replace`")
        }
        Existing::Foreign(names) => {
            let found = format!("tenbin's TPC-C did not create {}", names.join(", "));
            (found, "choose another schema or database")
        }
    };
    Err(CheckError::NotLoaded {
        schema: schema.to_owned(),
        found,
        mend: mend.into(),
    })
}

/// Everything to do, the largest first.
fn deal(meta: &Meta, threads: u32) -> Vec<Task> {
    let size = meta.warehouses.div_ceil(threads).clamp(1, GROUP);
    let groups = (1..=meta.warehouses)
        .step_by(size as usize)
        .map(|first| Task::Group(first, meta.warehouses.min(first + size - 1)));
    std::iter::once(Task::Counters)
        .filter(|_| meta.ran)
        .chain(groups)
        .chain(std::iter::once(Task::Counters).filter(|_| !meta.ran))
        .chain(std::iter::once(Task::Items))
        .chain((1..=meta.warehouses).map(Task::Quantities))
        .collect()
}

/// Begins a transaction that reads one snapshot: its own, or the one given. Returns its name.
fn begin(client: &mut Client, schema: &str, snapshot: Option<&str>) -> Result<String, CheckError> {
    let import = snapshot.map_or(String::new(), |name| {
        format!("SET TRANSACTION SNAPSHOT '{name}';")
    });
    client
        .batch_execute(&format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {import} \
             SET LOCAL search_path TO {}; SET LOCAL statement_timeout = 0; \
             SET LOCAL lock_timeout = 0; SET LOCAL work_mem = '{WORK_MEM}'; \
             SET LOCAL max_parallel_workers_per_gather = 0; \
             SELECT set_config('jit', 'off', true) FROM pg_settings WHERE name = 'jit'",
            quoted(schema)
        ))
        .map_err(server("beginning"))?;
    if let Some(name) = snapshot {
        return Ok(name.to_owned());
    }
    let row = client
        .query_one("SELECT pg_export_snapshot()", &[])
        .map_err(server("exporting a snapshot"))?;
    Ok(row.get(0))
}

/// What the connections share.
struct Shared<'a> {
    rules: &'a Rules,
    meta: &'a Meta,
    tasks: &'a [Task],
    next: AtomicUsize,
    stop: &'a AtomicBool,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    /// By position in [`CHECKS`].
    found: [Found; CHECKS.len()],
    error: Option<CheckError>,
}

#[derive(Default)]
struct Found {
    count: u64,
    /// With the task that found them, so that they come out in the order of warehouses.
    says: Vec<(usize, String)>,
}

/// The statements, prepared on one connection.
struct Statements {
    orders: Statement,
    prices: Statement,
    items: Statement,
    counters: Statement,
    quantities: Statement,
}

impl Statements {
    fn prepare(client: &mut Client) -> Result<Self, postgres::Error> {
        use postgres::types::Type;
        const INT: Type = Type::INT4;
        Ok(Self {
            orders: client.prepare_typed(ORDERS, &[INT, INT, INT, Type::INT8, INT, INT])?,
            prices: client.prepare_typed(PRICES, &[INT, INT, INT])?,
            items: client.prepare(ITEMS)?,
            counters: client.prepare_typed(COUNTERS, &[INT])?,
            quantities: client.prepare_typed(QUANTITIES, &[INT, Type::INT2_ARRAY, INT, INT])?,
        })
    }
}

impl Shared<'_> {
    fn work(&self, mut client: Client) {
        if let Err(error) = self.go_through(&mut client) {
            let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.error.get_or_insert(error);
            self.next.store(self.tasks.len(), Ordering::Relaxed);
        }
    }

    fn go_through(&self, client: &mut Client) -> Result<(), CheckError> {
        let statements = Statements::prepare(client).map_err(server("preparing"))?;
        loop {
            let position = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&task) = self.tasks.get(position) else {
                return Ok(());
            };
            if self.stop.load(Ordering::Relaxed) {
                return Err(CheckError::Stopped);
            }
            let rows = self
                .execute(client, &statements, task)
                .map_err(server(format!("{task:?}")))?;
            let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            for row in rows {
                outcome.add(position, &row);
            }
        }
    }

    fn execute(
        &self,
        client: &mut Client,
        statements: &Statements,
        task: Task,
    ) -> Result<Vec<Row>, postgres::Error> {
        let rules = self.rules;
        let first_order = int(rules.first_run_order());
        match task {
            Task::Counters => client.query(&statements.counters, &[&first_order]),
            Task::Group(first, last) => {
                let (first, last) = (int(first), int(last));
                let districts = i32::from(rules.districts_per_warehouse);
                let eleventh = (!self.meta.ran).then(|| i64::from(rules.first_open_order()) - 1);
                let first_open = int(rules.first_open_order());
                let parameters: [&(dyn ToSql + Sync); 6] = [
                    &first,
                    &last,
                    &districts,
                    &eleventh,
                    &first_open,
                    &first_order,
                ];
                let mut rows = client.query(&statements.orders, &parameters)?;
                rows.extend(client.query(&statements.prices, &[&first, &last, &first_order])?);
                Ok(rows)
            }
            Task::Items => {
                let loaded: Vec<_> = items(rules, self.meta.seed).collect();
                let images: Vec<i32> = loaded.iter().map(|item| int(item.image)).collect();
                let cents: Vec<i32> = loaded.iter().map(|item| item.price_cents).collect();
                let names: Vec<&str> = loaded.iter().map(|item| &*item.name).collect();
                let data: Vec<&str> = loaded.iter().map(|item| &*item.data).collect();
                client.query(&statements.items, &[&images, &cents, &names, &data])
            }
            Task::Quantities(warehouse) => {
                let loaded: Vec<i16> = stock_quantities(rules, self.meta.seed, warehouse)
                    .map(|quantity| i16::try_from(quantity).unwrap_or(i16::MAX))
                    .collect();
                let (low, width) = (
                    int(rules.stock_reorder_below),
                    int(rules.stock_replenishment),
                );
                client.query(
                    &statements.quantities,
                    &[&int(warehouse), &loaded, &low, &width],
                )
            }
        }
    }
}

/// Numbers of warehouses, orders and items lie far below 2³¹.
fn int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

impl Outcome {
    /// Adds a row of (number of the check from 1, how many offend, what the first ten say).
    fn add(&mut self, task: usize, row: &Row) {
        let number = usize::try_from(row.get::<_, i32>(0)).unwrap_or(0);
        if let Some(found) = self.found.get_mut(number.wrapping_sub(1)) {
            found.count += u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
            let says: Vec<String> = row.get(2);
            found.says.extend(says.into_iter().map(|says| (task, says)));
        }
    }
}

fn results(meta: &Meta, found: [Found; CHECKS.len()]) -> Vec<CheckResult> {
    CHECKS
        .into_iter()
        .zip(found)
        .enumerate()
        .map(|(position, ((condition, title, clause), mut found))| {
            // The sort is stable: what one task says stays in its order.
            found.says.sort_by_key(|&(task, _)| task);
            CheckResult {
                condition,
                title,
                clause,
                verdict: if position == ELEVENTH && meta.ran {
                    Verdict::Skip(
                        "holds only right after loading, and transactions have run".into(),
                    )
                } else if found.count > 0 {
                    Verdict::Fail
                } else {
                    Verdict::Pass
                },
                offending: found
                    .says
                    .into_iter()
                    .take(10)
                    .map(|(_, says)| says)
                    .collect(),
                offending_count: found.count,
            }
        })
        .collect()
}
