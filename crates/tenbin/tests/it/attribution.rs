//! What a trace of a TPC-C run says of its reads, held against what the server itself counts.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tenbin_disk::{Disk, run};
use tenbin_server::{Embedded, Options};

const TENBIN: &str = env!("CARGO_BIN_EXE_tenbin");
const BLOCK: u64 = 8192;

fn dsn(server: &Embedded) -> String {
    let target = server.tcp_target();
    let password = target.password.unwrap_or_default();
    format!(
        "postgres://postgres:{password}@127.0.0.1:{}/postgres",
        server.port()
    )
}

/// Blocks that the server asked its operating system for, by relation, as `pg_statio` has them.
fn asked_for(server: &Embedded) -> BTreeMap<String, u64> {
    let rows = server.connect().unwrap().query(
        "SELECT 'postgres.public.' || relname, heap_blks_read FROM pg_statio_user_tables \
         UNION ALL SELECT 'postgres.public.' || indexrelname, idx_blks_read FROM pg_statio_user_indexes",
        &[],
    );
    let blocks = |row: &postgres::Row| u64::try_from(row.get::<_, i64>(1)).unwrap();
    rows.unwrap()
        .iter()
        .map(|row| (row.get(0), blocks(row)))
        .collect()
}

fn trace(disk: &Disk, server: &Embedded, out: &Path) -> Value {
    let (dsn, out) = (dsn(server), out.to_str().unwrap());
    let words = [
        "trace",
        "record",
        "--device",
        &disk.device,
        "--dsn",
        &dsn,
        "--json",
        "--out",
        out,
    ];
    let load = [
        "run",
        "tpcc",
        "--dsn",
        &dsn,
        "--warmup",
        "0",
        "--duration",
        "10s",
        "--json",
    ];
    let result = disk.folder().join("r");
    let to = ["--out", result.to_str().unwrap()];
    let told = run(TENBIN, &[&words[..], &["--", TENBIN], &load, &to].concat());
    serde_json::from_str(told.lines().last().unwrap()).unwrap()
}

#[test]
fn the_reads_of_a_tpcc_run_are_those_that_the_server_counts() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: the_reads_of_a_tpcc_run_are_those_that_the_server_counts needs root");
        return;
    }
    let mut disk = Disk::new(4096);
    let mount = disk.mount("ext4");
    // What is read is what was asked for.
    run("blockdev", &["--setra", "0", &disk.device]);
    let mut server = Embedded::start(Options {
        run_root: Some(mount),
        // Room for all of it: a block is asked for once, and the kernel's cache answers nothing.
        settings: vec![
            ("shared_buffers".into(), "1GB".into()),
            ("autovacuum".into(), "off".into()),
            // A read of several blocks that is cut short, because another process reads one of them,
            // goes on as another read: blocks that came meanwhile count as read, though they were not.
            ("io_combine_limit".into(), "8kB".into()),
        ],
        ..Options::default()
    })
    .unwrap_or_else(|error| panic!("{error}"));
    run(
        TENBIN,
        &["load", "tpcc", "--dsn", &dsn(&server), "--warehouses", "2"],
    );
    // A load leaves pages that were never written at the end of its files: a server that reads
    // them counts a read, but no device is asked. Tables written anew have none.
    for statement in ["VACUUM FULL", "SELECT pg_stat_reset()"] {
        let mut session = server.connect().unwrap();
        session.batch_execute(statement).unwrap();
    }
    let drop_caches = || {
        rustix::fs::sync();
        let _alone = crate::page_cache();
        std::fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    };
    server.restart(drop_caches).unwrap();
    let before = asked_for(&server);
    let told = trace(&disk, &server, &disk.folder().join("t"));
    assert_eq!(told["lost"], 0);
    // A server that stops has counted everything.
    server.restart(|| ()).unwrap();
    let after = asked_for(&server);

    let bytes = |name: &str| {
        told["relations"][name]["reads"]["bytes"]
            .as_u64()
            .unwrap_or(0)
    };
    let (all, unknown) = (told["reads"]["bytes"].as_u64().unwrap(), bytes("[unknown]"));
    assert!(all > 100 << 20, "{all}");
    assert!(
        unknown * 200 <= all,
        "{unknown} of {all} read bytes are not attributed: {}",
        told["relations"]
    );
    let (mut asked, mut traced) = (0, 0);
    for (name, blocks) in &after {
        let blocks = blocks - before.get(name).unwrap_or(&0);
        asked += blocks * BLOCK;
        traced += bytes(name);
        // Two processes that want the same block at once are two reads of the server and one of
        // the device; nothing else sets the two apart.
        let missing = blocks.abs_diff(bytes(name) / BLOCK);
        assert!(
            missing <= 2 + blocks / 200,
            "{name}: {} bytes traced, {blocks} blocks asked for",
            bytes(name)
        );
    }
    let ratio = traced as f64 / asked as f64;
    eprintln!(
        "{unknown} of {all} read bytes unknown; of relations {traced} traced, {asked} asked for"
    );
    assert!(
        (0.998..=1.002).contains(&ratio),
        "{traced} traced of {asked} asked for"
    );
    server.stop().unwrap();
}
