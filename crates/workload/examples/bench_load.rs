//! The load against the raw time of the same rows from ready files.
//!
//! `bench_load DSN DIRECTORY WAREHOUSES [REPETITIONS]` writes the rows of
//! WAREHOUSES warehouses into files in DIRECTORY, which the server must be able
//! to read, and then takes turns: a load (two connections, keys, no foreign
//! keys, ANALYZE), and the raw work (two connections, `COPY … FREEZE` from the
//! files, the same keys). It prints the times and their ratio, and the time
//! that all checks of the loaded data take over two connections. The schema is `tenbin_bench`; it is dropped at the end.

use postgres::{Client, NoTls};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tenbin_workload::check::Verdict;
use tenbin_workload::load::{Batch, HEADER, TRAILER};
use tenbin_workload::tpcc::checks::check;
use tenbin_workload::tpcc::load::{LoadOptions, load};
use tenbin_workload::tpcc::population::Population;
use tenbin_workload::tpcc::rules::Rules;
use tenbin_workload::tpcc::schema::Table;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SCHEMA: &str = "tenbin_bench";

/// What either of two connections copies, balanced by size.
const STREAMS: [&[Table]; 2] = [
    &[
        Table::Stock,
        Table::Item,
        Table::Orders,
        Table::Warehouse,
        Table::District,
    ],
    &[
        Table::OrderLine,
        Table::Customer,
        Table::History,
        Table::NewOrder,
    ],
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dsn, directory, warehouses, rest @ ..] = arguments.as_slice() else {
        return Err("usage: bench_load DSN DIRECTORY WAREHOUSES [REPETITIONS]".into());
    };
    let warehouses: u32 = warehouses.parse()?;
    let repetitions: u32 = rest.first().map_or(Ok(3), |text| text.parse())?;
    let directory = Path::new(directory);
    generate(warehouses);
    let files = write_files(directory, warehouses)?;
    let mut ratios = Vec::new();
    for _ in 0..repetitions {
        let raw_s = raw(dsn, &files)?;
        let load_s = loaded(dsn, warehouses)?;
        let check_s = checked(dsn)? / f64::from(warehouses);
        println!(
            "raw {raw_s:.2} s, load {load_s:.2} s, ratio {:.2}; checks {check_s:.3} s a warehouse",
            load_s / raw_s
        );
        ratios.push(load_s / raw_s);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "median ratio {:.2} of {repetitions}",
        ratios[ratios.len() / 2]
    );
    Client::connect(dsn, NoTls)?.batch_execute(&format!("DROP SCHEMA {SCHEMA} CASCADE"))?;
    for (_, path) in files {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// How fast one thread writes rows.
fn generate(warehouses: u32) {
    let population = Population::new(Rules::default(), 1, 0);
    let (mut total, begun) = (0, Instant::now());
    let mut batch = Batch::new(|bytes: &[u8], _| {
        total += bytes.len();
        Ok::<_, std::convert::Infallible>(())
    });
    for table in Table::ALL {
        let started = Instant::now();
        for warehouse in 1..=if table == Table::Item { 1 } else { warehouses } {
            let Ok(()) = population.write(table, warehouse, &mut batch);
        }
        println!("{table}: {:.3} s", started.elapsed().as_secs_f64());
    }
    let Ok(()) = batch.flush();
    drop(batch);
    let rate = total as f64 / begun.elapsed().as_secs_f64() / 1e6;
    println!("writing rows: {total} bytes, {rate:.0} MB/s");
}

fn write_files(directory: &Path, warehouses: u32) -> Outcome<Vec<(Table, PathBuf)>> {
    let population = Population::new(Rules::default(), 1, 0);
    let mut files = Vec::new();
    for table in Table::ALL {
        let path = directory.join(format!("{table}.bin"));
        let mut file = BufWriter::new(File::create(&path)?);
        file.write_all(&HEADER)?;
        let mut batch = Batch::new(|bytes: &[u8], _| file.write_all(bytes));
        for warehouse in 1..=if table == Table::Item { 1 } else { warehouses } {
            population.write(table, warehouse, &mut batch)?;
        }
        batch.flush()?;
        drop(batch);
        file.write_all(&TRAILER)?;
        file.flush()?;
        files.push((table, path));
    }
    Ok(files)
}

/// Two connections, each copying its tables and then building their keys.
fn raw(dsn: &str, files: &[(Table, PathBuf)]) -> Outcome<f64> {
    let mut client = Client::connect(dsn, NoTls)?;
    client.batch_execute(&format!(
        "DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}; CHECKPOINT"
    ))?;
    let started = Instant::now();
    let stream = |tables: &[Table]| -> Outcome<()> {
        let mut client = Client::connect(dsn, NoTls)?;
        client.batch_execute(&format!(
            "SET search_path TO {SCHEMA}; SET maintenance_work_mem = '256MB'; \
             SET synchronous_commit = local"
        ))?;
        for table in tables {
            let path = &files.iter().find(|(of, _)| of == table).ok_or("no file")?.1;
            client.batch_execute(&format!(
                "BEGIN; CREATE TABLE {table} ({}); \
                 COPY {table} FROM '{}' (FORMAT binary, FREEZE); COMMIT",
                table.columns(),
                path.display()
            ))?;
        }
        for table in tables {
            if let Some(key) = table.primary_key() {
                client.batch_execute(&format!(
                    "ALTER TABLE {table} ADD CONSTRAINT {} PRIMARY KEY ({})",
                    key.name, key.columns
                ))?;
            }
            if let Some(index) = table.secondary_index() {
                client.batch_execute(&format!(
                    "CREATE INDEX {} ON {table} ({})",
                    index.name, index.columns
                ))?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| stream(STREAMS[1]));
        stream(STREAMS[0])?;
        other.join().map_err(|_| "the other stream panicked")?
    })?;
    Ok(started.elapsed().as_secs_f64())
}

fn loaded(dsn: &str, warehouses: u32) -> Outcome<f64> {
    let mut client = Client::connect(dsn, NoTls)?;
    client.batch_execute(&format!(
        "DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CHECKPOINT"
    ))?;
    let options = LoadOptions {
        warehouses,
        foreign_keys: false,
        schema: SCHEMA.into(),
        ..LoadOptions::default()
    };
    let started = Instant::now();
    let connect = || Client::connect(dsn, NoTls);
    load(&options, connect, &AtomicBool::new(false), &mut |_| ())?;
    Ok(started.elapsed().as_secs_f64())
}

fn checked(dsn: &str) -> Outcome<f64> {
    let started = Instant::now();
    let connect = || Client::connect(dsn, NoTls);
    let results = check(
        SCHEMA,
        &Rules::default(),
        2,
        connect,
        &AtomicBool::new(false),
    )?;
    match results
        .iter()
        .find(|result| result.verdict != Verdict::Pass)
    {
        Some(result) => Err(format!("condition {} does not hold", result.condition).into()),
        None => Ok(started.elapsed().as_secs_f64()),
    }
}
