//! `tenbin age`: data replaced the way years of use would.

use crate::exit::{Answer, Result};
use crate::screen::open_dsn;
use crate::units::bytes;
use indicatif::HumanCount;
use tenbin_lab::tpch;
use tenbin_workload::tpch::age::{Aged, TableState};

/// Replace a share of TPC-H's orders by refresh pairs, vacuum, and show the effect
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenbin load tpch --dsn postgres://me@localhost/bench --scale 1\n  tenbin age --dsn postgres://me@localhost/bench --share 0.9\n\nExit status: 0 done; 1 the rows do not add up; 2 bad input; 3 the environment lacks something; 4 interrupted."
)]
pub(crate) struct Args {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    /// Share of the orders to replace, 0.001 to 0.999
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.9",
        allow_negative_numbers = true
    )]
    share: f64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let (lab, sut) = open_dsn(&args.dsn, args.json)?;
    let aged = tpch::age(&lab, &sut, args.share)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&aged)?);
    } else {
        print(&aged);
    }
    Ok(if aged.rows_as_expected {
        Answer::Yes
    } else {
        Answer::No
    })
}

fn print(aged: &Aged) {
    println!(
        "replaced {:.1} % of the orders by {} refresh pairs in {:.1} s, vacuumed in {:.1} s",
        aged.share * 100.0,
        aged.sets,
        aged.refresh_s,
        aged.vacuum_s
    );
    for table in &aged.tables {
        println!(
            "\n{}: {} rows inserted, {} deleted, {} autovacuums meanwhile",
            table.name,
            HumanCount(table.inserted),
            HumanCount(table.deleted),
            table.autovacuums
        );
        println!("  {:<12}{:>14}{:>14}", "", "before", "after");
        let line = |name: &str, value: &dyn Fn(&TableState) -> String| {
            let (before, after) = (value(&table.before), value(&table.after));
            println!("  {name:<12}{before:>14}{after:>14}");
        };
        let unknown = || "unknown".to_owned();
        line("rows", &|state| HumanCount(state.rows).to_string());
        line("table", &|state| bytes(state.heap_bytes));
        line("indexes", &|state| bytes(state.index_bytes));
        line("free", &|state| {
            state.free_bytes.map_or_else(unknown, bytes)
        });
        line("correlation", &|state| {
            state
                .correlation
                .map_or_else(unknown, |value| format!("{value:.4}"))
        });
    }
    match &aged.free_space_from {
        Some(extension) => println!("\nfree space is by {extension}"),
        None => println!(
            "\nfree space is unknown: the database has neither pg_freespacemap nor pgstattuple; \
             CREATE EXTENSION one of them to see it"
        ),
    }
    if !aged.rows_as_expected {
        println!("the rows do not add up: something else has changed the tables meanwhile");
    }
}
