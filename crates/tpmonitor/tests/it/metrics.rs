//! What the monitor tells of itself over HTTP.

use crate::support::Running;
use crate::support::raw::query;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

/// The whole answer to a request.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn metrics(address: SocketAddr) -> String {
    let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    body.to_owned()
}

fn value(text: &str, name: &str, label: &str) -> f64 {
    said(text, name, label).parse().unwrap()
}

/// The value of the one sample of this name and with these labels, as it stands there.
fn said<'t>(text: &'t str, name: &str, label: &str) -> &'t str {
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(label))
        .filter(|line| line[name.len()..].starts_with(['{', ' ']))
        .collect();
    assert_eq!(found.len(), 1, "{name} {label}: {found:?}");
    found[0].rsplit(' ').next().unwrap()
}

#[test]
fn what_has_happened_is_counted() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.metrics = vec!["127.0.0.1:0".parse().unwrap()];
    });
    let at = monitor.metrics.unwrap();
    let mut client = monitor.raw();
    for _ in 0..5 {
        assert_eq!(client.value("SELECT 1"), "1");
    }
    let mut holder = monitor.raw();
    holder.send(&query("BEGIN"));
    assert_eq!(holder.tags(1), "CZ");
    client.send(&query("SELECT 2"));
    let pool = "database=\"postgres\",user=\"postgres\"";
    // It is in the queue once the monitor has read it, which nothing says but this.
    while value(
        &metrics(at),
        "tenbin_pools_client_waiting_connections",
        pool,
    ) < 1.0
    {
        std::thread::yield_now();
    }
    let text = metrics(at);
    assert!(value(&text, "tenbin_pools_server_active_connections", pool) >= 1.0);
    assert!(value(&text, "tenbin_pools_client_maxwait_seconds", pool) >= 0.0);
    holder.send(&query("COMMIT"));
    assert_eq!(holder.tags(1), "CZ");
    assert_eq!(client.tags(1), "TDCZ");
    let text = metrics(at);
    assert!(text.ends_with("# EOF\n"));
    let of = |name: &str| value(&text, name, pool);
    assert!(of("tenbin_stats_queries_pooled_total") >= 8.0);
    assert!(of("tenbin_stats_sql_transactions_pooled_total") >= 7.0);
    assert!(of("tenbin_wait_duration_seconds_count") >= 1.0);
    assert!(of("tenbin_wait_duration_seconds_sum") > 0.0);
    let last = format!("{pool},reads=\"primary\",parameters=\"\",le=\"+Inf\"");
    assert_eq!(
        said(&text, "tenbin_query_duration_seconds_bucket", &last),
        said(&text, "tenbin_query_duration_seconds_count", pool)
    );
    let waiting = "tenbin_pools_client_waiting_connections";
    assert_eq!(said(&text, waiting, pool), "0");
    assert_eq!(said(&text, "tenbin_servers_connected_total", ""), "1");
    assert!(value(&text, "process_resident_memory_bytes", "") > 1e6);
    assert!(value(&text, "process_max_fds", "") >= value(&text, "process_open_fds", ""));
    read_by_others(&text);
}

/// Prometheus' own reader of the format, where Python has it: it is strict.
fn read_by_others(text: &str) {
    let program = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as read; print(len(list(read(sys.stdin.read()))))";
    let started = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut python) = started else {
        eprintln!("skipped: reading the metrics with Prometheus' parser needs python3");
        return;
    };
    let written = python.stdin.take().unwrap().write_all(text.as_bytes());
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("ModuleNotFoundError") {
        eprintln!(
            "skipped: reading the metrics with Prometheus' parser needs prometheus-client of PyPI"
        );
        return;
    }
    written.unwrap();
    assert!(output.status.success(), "{said}\n{text}");
    let families: usize = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap();
    assert!(families > 25, "{families}");
}

#[test]
fn what_is_no_request_is_answered_and_nobody_waits_for_it() {
    let monitor = Running::start(|config| {
        config.metrics = vec!["127.0.0.1:0".parse().unwrap()];
    });
    let at = monitor.metrics.unwrap();
    for (request, status) in [
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
        (&"x".repeat(9000), "431"),
    ] {
        let answer = ask(at, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
    let head = ask(at, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    // A client of PostgreSQL has nothing to look for there, nor one of HTTP elsewhere.
    let answer = ask(monitor.address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(
        answer.contains("invalid length of startup packet"),
        "{answer}"
    );
    let _slow = TcpStream::connect(at).unwrap();
    assert_eq!(monitor.raw().value("SELECT 1"), "1");
}
