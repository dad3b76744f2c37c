//! All of TPC-H's queries: whose reads they are, beside what the server counted itself.

use crate::attribution::{attributed, debian, drop_caches, dsn, everything_of, server, trace};
use crate::may_trace;
use postgres::{Client, NoTls};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use tenbin_disk::Disk;
use tenbin_iotrace::Finished;
use tenbin_record::IoRow;
use tenbin_server::Source;
use tenbin_workload::tpch::{LoadOptions, QUERIES, Query, load, output};

/// Bytes that the server read of each table and index since it was told to forget, by its own account.
fn counted(client: &mut Client) -> BTreeMap<String, u64> {
    let told = client
        .query(
            "SELECT schemaname || '.' || relname, heap_blks_read * current_setting('block_size')::bigint \
             FROM pg_statio_user_tables UNION ALL \
             SELECT schemaname || '.' || indexrelname, idx_blks_read * current_setting('block_size')::bigint \
             FROM pg_statio_user_indexes",
            &[],
        )
        .unwrap();
    let one = |row: &postgres::Row| {
        let read: i64 = row.get(1);
        (
            format!("postgres.{}", row.get::<_, String>(0)),
            read.unsigned_abs(),
        )
    };
    told.iter().map(one).filter(|(_, read)| *read > 0).collect()
}

/// A trace of the 22 queries on rows that are in no cache, and what the server counted meanwhile.
fn queried(
    source: Source,
    settings: &[(&str, &str)],
) -> (Finished, Vec<IoRow>, BTreeMap<String, u64>) {
    let mut disk = Disk::new(1024);
    let small = [
        ("shared_buffers", "8MB"),
        ("max_parallel_workers_per_gather", "0"),
    ];
    let server = server(&mut disk, "ext4", source, &[&small, settings].concat());
    let stop = AtomicBool::new(false);
    let options = LoadOptions::new("0.02".parse().unwrap());
    let connect = || dsn(&server).parse::<postgres::Config>()?.connect(NoTls);
    load(&options, connect, &stop, &mut |_| ()).unwrap();
    let mut client = server.connect().unwrap();
    client.batch_execute("CHECKPOINT").unwrap();
    client
        .query_one("SELECT pg_stat_reset()::text", &[])
        .unwrap();
    drop_caches();
    let (finished, rows) = trace(&everything_of(&server, &disk), || {
        let mut client = server.connect().unwrap();
        for number in 1..=QUERIES {
            let query = Query::validation(number, options.scale).unwrap();
            output(&mut client, &query).unwrap();
        }
    });
    // A session tells what it has counted before it is no more.
    let others = "SELECT count(*) FROM pg_stat_activity \
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    while client.query_one(others, &[]).unwrap().get::<_, i64>(0) > 0 {
        std::thread::yield_now();
    }
    let told = counted(&mut client);
    server.stop().unwrap();
    (finished, rows, told)
}

/// Past the page cache the server asks the disk for just the pages that it counts.
#[test]
fn reads_of_all_queries_are_those_that_the_server_counted() {
    if !may_trace("reads_of_all_queries_are_those_that_the_server_counted") {
        return;
    }
    let (finished, rows, told) = queried(Source::default(), &[("debug_io_direct", "data")]);
    assert!(attributed(&rows) > 20 << 20);
    assert!(told.len() >= 14, "{told:?}");
    for (relation, counted) in told {
        let traced = finished.totals.relations.get(&relation);
        let traced = traced.map_or(0, |flows| flows.reads.bytes);
        assert!(
            traced.abs_diff(counted) as f64 <= counted as f64 * 0.001,
            "{relation}: {traced} bytes traced, {counted} counted by the server"
        );
    }
}

/// Through the page cache the disk is asked for less, as pages stay there, and for a little more, as the
/// kernel reads ahead.
#[test]
fn reads_of_all_queries_through_the_page_cache_have_names() {
    if !may_trace("reads_of_all_queries_through_the_page_cache_have_names") {
        return;
    }
    let (finished, rows, told) = queried(debian(), &[]);
    assert!(attributed(&rows) > 20 << 20);
    for (relation, counted) in told {
        let traced = finished.totals.relations.get(&relation);
        let traced = traced.map_or(0, |flows| flows.reads.bytes);
        assert!(
            traced > 0 && traced <= counted + (1 << 20),
            "{relation}: {traced} bytes traced, {counted} counted by the server"
        );
    }
}
