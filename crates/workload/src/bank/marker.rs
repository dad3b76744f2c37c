//! The marker tables `tenbin_load_tpcb` and `tenbin_load_tpca`: what tenbin made, whether it is
//! whole, and what has run on it since.

use super::{Design, LoadOptions, Size, Table};
use crate::load::claim::{present, strangers};
use crate::load::job::is_ours;
use crate::load::{Failure, quoted};
use postgres::{Client, GenericClient};

/// Version of the tables' shape; a database of another version is not run against.
pub const SCHEMA_VERSION: i32 = 1;

/// Name of the marker table.
#[must_use]
pub fn marker(design: Design) -> &'static str {
    match design {
        Design::Pgbench => "tenbin_load_tpcb",
        Design::TpcA => "tenbin_load_tpca",
    }
}

/// What the marker says about a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// How many rows were loaded.
    pub size: Size,
    /// Fill factor asked for, percent.
    pub fillfactor: u8,
    /// Whether foreign keys were asked for.
    pub foreign_keys: bool,
    /// Version of tenbin that loaded.
    pub tenbin_version: String,
    /// What tenbin ran on the data since they were loaded.
    pub past: Past,
    /// Whether the history is still the table that was loaded: emptying it, as pgbench does before
    /// it runs, gives it another file.
    pub history_kept: bool,
}

/// What tenbin ran on data since they were loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Past {
    /// Whether some of them moved accounts without tellers and branches.
    pub simple_updates: bool,
    /// Whether some of them moved accounts alone, without writing history, or may have.
    pub mixed: bool,
}

/// What a schema holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// None of the names that the design needs.
    Nothing,
    /// A whole load.
    Complete(Meta),
    /// A load that was interrupted, or that has lost tables since.
    Partial(Meta),
    /// Relations with the design's names that tenbin did not make.
    Foreign {
        /// Their names.
        relations: Vec<String>,
        /// Their size, if they are pgbench's tables, all four.
        size: Option<Size>,
    },
}

/// Looks what `schema` holds. Changes nothing.
///
/// # Errors
/// What the server answers.
pub fn inspect(
    client: &mut Client,
    design: Design,
    schema: &str,
) -> Result<Existing, postgres::Error> {
    let tables = Table::ALL.map(|table| design.table(table));
    let marker = marker(design);
    let names: Vec<&str> = tables.into_iter().chain([marker]).collect();
    let mut relations = present(client, schema, &names)?;
    if relations.is_empty() {
        return Ok(Existing::Nothing);
    }
    let marked = relations.iter().any(|name| name == marker);
    let whole = relations.len() == tables.len() + usize::from(marked);
    let foreign = |client: &mut Client, relations| {
        let size = match design {
            Design::Pgbench if whole => pgbench_size(client, schema)?,
            _ => None,
        };
        Ok(Existing::Foreign { relations, size })
    };
    if !marked {
        return foreign(client, relations);
    }
    if !is_ours(client, marker, schema, SCHEMA_VERSION)? {
        relations.retain(|name| name != marker);
        relations.push(format!("{marker} (not made by this version of tenbin)"));
        return Ok(Existing::Foreign {
            relations,
            size: None,
        });
    }
    // pgbench -i makes its tables anew and leaves the marker where it is.
    let strangers = strangers(client, schema, marker, &tables)?;
    if !strangers.is_empty() {
        return foreign(client, strangers);
    }
    let complete: bool = client
        .query_one(
            &format!("SELECT state = 'complete' FROM {}.{marker}", quoted(schema)),
            &[],
        )?
        .get(0);
    if !whole {
        // The history's file cannot be asked for where there is none.
        let meta = read_kept(client, design, schema, "false")?;
        return Ok(Existing::Partial(meta));
    }
    let meta = read(client, design, schema)?;
    Ok(if complete {
        Existing::Complete(meta)
    } else {
        Existing::Partial(meta)
    })
}

/// The size of pgbench's tables as pgbench itself tells it: by the number of branches. `None`
/// where the tables have not pgbench's columns.
fn pgbench_size(client: &mut Client, schema: &str) -> Result<Option<Size>, postgres::Error> {
    let columns: i64 = client
        .query_one(
            "SELECT count(*) FROM information_schema.columns WHERE table_schema = $1 \
             AND (table_name, column_name) IN (('pgbench_branches', 'bid'), \
             ('pgbench_branches', 'bbalance'), ('pgbench_tellers', 'tid'), \
             ('pgbench_tellers', 'tbalance'), ('pgbench_accounts', 'aid'), \
             ('pgbench_accounts', 'abalance'), ('pgbench_history', 'tid'), \
             ('pgbench_history', 'bid'), ('pgbench_history', 'aid'), ('pgbench_history', 'delta'), \
             ('pgbench_history', 'mtime'))",
            &[&schema],
        )?
        .get(0);
    if columns != 11 {
        return Ok(None);
    }
    let count = format!("SELECT count(*) FROM {}.pgbench_branches", quoted(schema));
    let branches: i64 = client.query_one(&count, &[])?.get(0);
    Ok(u32::try_from(branches)
        .ok()
        .filter(|&branches| branches > 0)
        .map(Size::pgbench))
}

/// What the marker says.
pub(super) fn read(
    client: &mut Client,
    design: Design,
    schema: &str,
) -> Result<Meta, postgres::Error> {
    let history = format!("{}.{}", quoted(schema), design.table(Table::History));
    let kept = format!("history_file IS NOT DISTINCT FROM pg_relation_filenode('{history}')");
    read_kept(client, design, schema, &kept)
}

fn read_kept(
    client: &mut Client,
    design: Design,
    schema: &str,
    kept: &str,
) -> Result<Meta, postgres::Error> {
    let row = client.query_one(
        &format!(
            "SELECT branches, tellers_per_branch, accounts_per_branch, fillfactor, foreign_keys, \
             tenbin_version, simple_updates, mixed, {kept} FROM {}.{}",
            quoted(schema),
            marker(design)
        ),
        &[],
    )?;
    let count = |column: usize| u32::try_from(row.get::<_, i32>(column)).unwrap_or(0);
    Ok(Meta {
        size: Size {
            branches: count(0),
            tellers_per_branch: count(1),
            accounts_per_branch: count(2),
        },
        fillfactor: u8::try_from(count(3)).unwrap_or(100),
        foreign_keys: row.get(4),
        tenbin_version: row.get(5),
        past: Past {
            simple_updates: row.get(6),
            mixed: row.get(7),
        },
        history_kept: row.get(8),
    })
}

/// What a run does to the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// Moves account, teller and branch, and writes history.
    Update,
    /// Moves accounts and writes history.
    SimpleUpdate,
    /// Moves accounts alone.
    Mix,
    /// Nobody knows: a script of the user's.
    Script,
    /// Changes nothing.
    Select,
}

/// Notes in the marker, where tenbin made one, what is about to run.
///
/// # Errors
/// What the server answers.
pub fn mark_ran(
    client: &mut Client,
    design: Design,
    schema: &str,
    what: Ran,
) -> Result<(), postgres::Error> {
    let set = match what {
        Ran::Update => "ran = true",
        Ran::SimpleUpdate => "ran = true, simple_updates = true",
        Ran::Mix | Ran::Script => "ran = true, mixed = true",
        Ran::Select => return Ok(()),
    };
    client.batch_execute(&format!(
        "UPDATE {}.{} SET {set}",
        quoted(schema),
        marker(design)
    ))
}

/// Makes the marker of a load that begins. The session's schema is the load's.
pub(super) fn begin(client: &mut impl GenericClient, options: &LoadOptions) -> Result<(), Failure> {
    let marker = marker(options.design);
    let during = format!("making the marker {marker}");
    let size = &options.size;
    client
        .batch_execute(&format!(
            "CREATE TABLE {marker} (\
             schema_version integer NOT NULL, \
             state text NOT NULL CHECK (state IN ('loading', 'complete')), \
             branches integer NOT NULL, tellers_per_branch integer NOT NULL, \
             accounts_per_branch integer NOT NULL, fillfactor integer NOT NULL, \
             foreign_keys boolean NOT NULL, tenbin_version text NOT NULL, \
             started_at timestamptz NOT NULL DEFAULT now(), completed_at timestamptz, \
             history_file oid, ran boolean NOT NULL DEFAULT false, \
             simple_updates boolean NOT NULL DEFAULT false, mixed boolean NOT NULL DEFAULT false); \
             INSERT INTO {marker} (schema_version, state, branches, tellers_per_branch, \
             accounts_per_branch, fillfactor, foreign_keys, tenbin_version) VALUES \
             ({SCHEMA_VERSION}, 'loading', {}, {}, {}, {}, {}, '{}')",
            size.branches,
            size.tellers_per_branch,
            size.accounts_per_branch,
            options.fillfactor,
            options.foreign_keys,
            env!("CARGO_PKG_VERSION")
        ))
        .map_err(Failure::of(during))
}
