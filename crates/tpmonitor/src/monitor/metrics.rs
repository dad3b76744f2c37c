//! What has been counted, as `OpenMetrics` 1.0.0 over HTTP ( names after those of Prometheus'
//! exporter for `PgBouncer`, with another front).

use super::Serving;
use super::checks::role_name;
use super::classes::Class;
use super::client::Stage;
use super::cluster::Role;
use super::pool::Pool;
use super::server::Server;
use crate::slab::Id;
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Longest request that is read, bytes.
const REQUEST_LIMIT_BYTES: usize = 8 << 10;
/// Bounds of a histogram: 2 to these powers, in microseconds, from 16 µs to 134 s.
const FIRST_POWER: u32 = 4;
const LAST_POWER: u32 = 27;
const BUCKETS: usize = (LAST_POWER - FIRST_POWER + 2) as usize;

/// How often something took how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Histogram {
    /// By the smallest bound that is not exceeded; the last is for what is beyond all.
    buckets: [u64; BUCKETS],
    sum: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [0; BUCKETS],
            sum: Duration::ZERO,
        }
    }
}

impl Histogram {
    #[inline]
    pub(super) fn observe(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // The power of two that is not exceeded.
        let power = u64::BITS - us.saturating_sub(1).leading_zeros();
        let index = power.clamp(FIRST_POWER, LAST_POWER + 1) - FIRST_POWER;
        self.buckets[index as usize] += 1;
        self.sum += took;
    }
}

/// What a pool's requests have taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Histograms {
    /// From the first bytes to a server until it has answered.
    pub(super) query: Histogram,
    /// As long as a server was lent.
    pub(super) transaction: Histogram,
    /// In the queue.
    pub(super) wait: Histogram,
}

/// What is counted for the monitor as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) connected: u64,
    pub(super) lost: u64,
    pub(super) not_reached: u64,
    pub(super) cancels: u64,
}

impl Serving {
    /// Answers a request for what has been counted.
    pub(super) fn scrape(&mut self, id: Id, input: &[u8]) {
        let Some(length) = input.windows(4).position(|end| end == b"\r\n\r\n") else {
            if input.len() > REQUEST_LIMIT_BYTES {
                let text = reply(
                    "431 Request Header Fields Too Large",
                    "text/plain",
                    "too long\n",
                );
                return self.dismiss(id, text.as_bytes());
            }
            if let Some(client) = self.clients.get_mut(id) {
                client.conn.keep(input);
            }
            return;
        };
        let text = match request(&input[..length]) {
            Some(("GET" | "HEAD", "/metrics" | "/")) => {
                let body = self.metrics();
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                let whole = reply("200 OK", kind, &body);
                if input.starts_with(b"HEAD") {
                    whole[..whole.len() - body.len()].to_owned()
                } else {
                    whole
                }
            }
            Some(("GET" | "HEAD", _)) => reply("404 Not Found", "text/plain", "try /metrics\n"),
            Some(_) => reply("405 Method Not Allowed", "text/plain", "try GET\n"),
            None => reply("400 Bad Request", "text/plain", "no request of HTTP/1\n"),
        };
        self.dismiss(id, text.as_bytes());
    }

    /// Everything, as text.
    fn metrics(&self) -> String {
        let mut out = Text::default();
        self.say_pools(&mut out);
        self.say_counters(&mut out);
        self.say_histograms(&mut out);
        self.say_totals(&mut out);
        self.say_classes(&mut out);
        self.say_hosts(&mut out);
        self.say_process(&mut out);
        out.0.push_str("# EOF\n");
        out.0
    }

    fn say_pools(&self, out: &mut Text) {
        type Count<'a> = &'a dyn Fn(usize, &Pool) -> f64;
        let servers = |index: usize| {
            let servers = self.servers.iter().map(|(_, server)| server);
            servers.filter(move |server| server.pool.0 == index)
        };
        let count = |index: usize, of: &dyn Fn(&Server) -> bool| {
            servers(index).filter(|server| of(server)).count() as f64
        };
        let longest = |index: usize| {
            let waiting = self.clients.iter().filter(|(_, client)| {
                client.ticket.is_some() && client.pool.is_some_and(|pool| pool.0 == index)
            });
            let waited =
                waiting.map(|(_, client)| self.now.saturating_duration_since(client.since));
            waited.max().unwrap_or_default().as_secs_f64()
        };
        let gauges: [(&str, &str, Count<'_>); 8] = [
            (
                "pools_client_active_connections",
                "clients that do not wait",
                &|_, pool| (pool.clients - pool.waiting) as f64,
            ),
            (
                "pools_client_waiting_connections",
                "clients that wait for a server",
                &|_, pool| pool.waiting as f64,
            ),
            (
                "pools_client_maxwait_seconds",
                "how long the first has waited",
                &|index, _| longest(index),
            ),
            (
                "pools_server_active_connections",
                "servers lent to clients",
                &|index, _| count(index, &|server| server.client.is_some()),
            ),
            (
                "pools_server_idle_connections",
                "free servers",
                &|_, pool| pool.idle.len() as f64,
            ),
            (
                "pools_server_login_connections",
                "servers being connected",
                &|_, pool| pool.connecting as f64,
            ),
            (
                "pools_server_testing_connections",
                "servers being reset",
                &|index, _| {
                    count(index, &|server| {
                        server.client.is_none() && server.internal.is_some()
                    })
                },
            ),
            (
                "pools_server_limit_connections",
                "servers that there may be",
                &|_, pool| pool.size as f64,
            ),
        ];
        for (name, help, value) in gauges {
            out.family(name, "gauge", help);
            for (index, pool) in self.serving_pools() {
                out.sample(name, &labels(pool), value(index, pool));
            }
        }
    }

    fn say_histograms(&self, out: &mut Text) {
        type Of = fn(&Histograms) -> &Histogram;
        let histograms: [(&str, &str, Of); 3] = [
            (
                "query_duration_seconds",
                "from a request to a server until its answer",
                |all| &all.query,
            ),
            (
                "transaction_duration_seconds",
                "as long as a server was lent",
                |all| &all.transaction,
            ),
            (
                "wait_duration_seconds",
                "in the queue for a server",
                |all| &all.wait,
            ),
        ];
        for (name, help, of) in histograms {
            out.family(name, "histogram", help);
            for (_, pool) in self.serving_pools() {
                out.histogram(name, &labels(pool), of(&pool.histograms));
            }
        }
    }

    fn say_counters(&self, out: &mut Text) {
        type Total = fn(&super::pool::Totals) -> f64;
        let counters: [(&str, &str, Total); 7] = [
            ("stats_sql_transactions_pooled", "transactions", |all| {
                all.transactions as f64
            }),
            ("stats_queries_pooled", "queries", |all| all.queries as f64),
            ("stats_received_bytes", "from clients", |all| {
                all.received_bytes as f64
            }),
            ("stats_sent_bytes", "to clients", |all| {
                all.sent_bytes as f64
            }),
            (
                "stats_server_in_transaction_seconds",
                "servers were lent",
                |all| all.transaction_time.as_secs_f64(),
            ),
            (
                "stats_queries_duration_seconds",
                "servers were at queries",
                |all| all.query_time.as_secs_f64(),
            ),
            ("stats_client_wait_seconds", "clients have waited", |all| {
                all.wait.as_secs_f64()
            }),
        ];
        for (name, help, value) in counters {
            out.family(name, "counter", help);
            let total = format!("{name}_total");
            for (_, pool) in self.serving_pools() {
                out.sample(&total, &labels(pool), value(&pool.totals));
            }
        }
    }

    fn say_classes(&self, out: &mut Text) {
        let value = |name, help, of: &dyn Fn(&Class) -> f64, out: &mut Text, counts: bool| {
            let (kind, end) = if counts {
                ("counter", "_total")
            } else {
                ("gauge", "")
            };
            out.family(name, kind, help);
            for class in &self.classes {
                let labels = format!("class=\"{}\"", escaped(&class.rule.name));
                out.sample(&format!("{name}{end}"), &labels, of(class));
            }
        };
        if self.classes.is_empty() {
            return;
        }
        value(
            "classes_running",
            "servers that clients of a class have",
            &|class| class.running as f64,
            out,
            false,
        );
        value(
            "classes_served",
            "requests of a class that were given a server",
            &|class| class.served as f64,
            out,
            true,
        );
        value(
            "classes_wait_seconds",
            "what requests of a class have waited",
            &|class| class.wait.as_secs_f64(),
            out,
            true,
        );
    }

    fn serving_pools(&self) -> impl Iterator<Item = (usize, &Pool)> {
        let pools = self.pools.iter().enumerate();
        pools.filter(|(_, pool)| pool.serves())
    }

    fn say_totals(&self, out: &mut Text) {
        let counted = &self.counted;
        for (name, help, value) in [
            (
                "clients_accepted",
                "connections of clients",
                counted.accepted,
            ),
            (
                "clients_refused",
                "clients sent away with an error",
                counted.refused,
            ),
            ("servers_connected", "log-ins to servers", counted.connected),
            (
                "servers_lost",
                "server connections that ended unasked",
                counted.lost,
            ),
            (
                "servers_not_reached",
                "log-ins to servers that failed",
                counted.not_reached,
            ),
            (
                "cancel_requests",
                "requests to cancel something",
                counted.cancels,
            ),
        ] {
            out.family(name, "counter", help);
            out.sample(&format!("{name}_total"), "", value as f64);
        }
        let in_login = self.clients.iter().filter(|(_, client)| {
            matches!(
                client.stage,
                Stage::New | Stage::Sought(_) | Stage::Proving(_) | Stage::Joining(_)
            )
        });
        let looking = |server: &Server| !self.pools[server.pool.0].serves();
        let looked = self
            .servers
            .iter()
            .filter(|(_, server)| looking(server))
            .count();
        for (name, help, value) in [
            ("used_clients", "connections of clients", self.clients.len()),
            (
                "login_clients",
                "clients that are not in yet",
                in_login.count(),
            ),
            (
                "used_servers",
                "connections to servers",
                self.servers.len() - looked,
            ),
            (
                "config_max_client_connections",
                "clients that there may be",
                self.config.max_clients,
            ),
            (
                "paused",
                "whether requests wait by command",
                usize::from(self.stopped.all),
            ),
        ] {
            out.family(name, "gauge", help);
            out.sample(name, "", value as f64);
        }
    }

    fn say_hosts(&self, out: &mut Text) {
        let hosts = || {
            let clusters = self.clusters.iter().filter(|cluster| !cluster.retired);
            clusters.flat_map(|cluster| {
                let nodes = cluster.nodes.iter().enumerate();
                nodes.map(move |(index, node)| {
                    let address = node.place.address.to_string();
                    let label = format!(
                        "address=\"{}\",role=\"{}\"",
                        escaped(&address),
                        role_name(node.role)
                    );
                    (cluster, index, node.role, label)
                })
            })
        };
        out.family("host_up", "gauge", "whether a server answers");
        for (_, _, role, label) in hosts() {
            out.sample(
                "host_up",
                &label,
                f64::from(u8::from(!matches!(role, Role::Down | Role::Unknown))),
            );
        }
        out.family("host_takes_writes", "gauge", "whether writes go there");
        for (cluster, index, _, label) in hosts() {
            let here = cluster.writable == Some(index);
            out.sample("host_takes_writes", &label, f64::from(u8::from(here)));
        }
        out.family(
            "host_lag_seconds",
            "gauge",
            "how far a server is behind, where that is known",
        );
        for (cluster, index, _, label) in hosts() {
            if let Some(lag) = cluster.lag(index) {
                out.sample("host_lag_seconds", &label, lag.as_secs_f64());
            }
        }
    }

    /// What the system says of this process.
    fn say_process(&self, out: &mut Text) {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // What follows the name, which may have anything in it (proc(5): fields 14, 15 and 24).
        let fields: Vec<f64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| {
                rest.split_whitespace()
                    .map(|word| word.parse().unwrap_or(0.0))
                    .collect()
            })
            .unwrap_or_default();
        if let Some(&[user, system]) = fields.get(11..13) {
            let ticks = rustix::param::clock_ticks_per_second() as f64;
            out.plain_family("process_cpu_seconds", "counter", "user and system");
            out.plain_sample("process_cpu_seconds_total", (user + system) / ticks);
        }
        if let Some(pages) = fields.get(21) {
            let page_bytes = rustix::param::page_size() as f64;
            out.plain_family("process_resident_memory_bytes", "gauge", "in memory");
            out.plain_sample("process_resident_memory_bytes", pages * page_bytes);
        }
        let open = self.clients.len() + self.servers.len() + self.cancels.len();
        let open = open + self.listening.listeners.len() + 3;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        out.plain_family("process_open_fds", "gauge", "sockets and the like");
        out.plain_sample("process_open_fds", open as f64);
        if let Some(limit) = limit {
            out.plain_family("process_max_fds", "gauge", "that there may be");
            out.plain_sample("process_max_fds", limit as f64);
        }
    }
}

/// Method and path of a request, if it is one of HTTP/1.
fn request(head: &[u8]) -> Option<(&str, &str)> {
    let line = head.split(|&byte| byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") || words.next().is_some() {
        return None;
    }
    Some((method, target.split('?').next()?))
}

fn reply(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// What tells a pool from others.
fn labels(pool: &Pool) -> String {
    let reads = if pool.key.reads {
        "standbys"
    } else {
        "primary"
    };
    // Pools that differ in further parameters only are told apart by those.
    let extras = pool
        .key
        .extras
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    format!(
        "database=\"{}\",user=\"{}\",reads=\"{reads}\",parameters=\"{}\"",
        escaped(&pool.key.database),
        escaped(&pool.key.user),
        escaped(&extras.collect::<Vec<_>>().join(" "))
    )
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Collects families of metrics.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.plain_family(&format!("tenbin_{name}"), kind, help);
    }

    fn plain_family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# TYPE {name} {kind}"));
        if name.ends_with("_seconds") {
            self.line(format_args!("# UNIT {name} seconds"));
        } else if name.ends_with("_bytes") {
            self.line(format_args!("# UNIT {name} bytes"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        if labels.is_empty() {
            self.line(format_args!("tenbin_{name} {value}"));
        } else {
            self.line(format_args!("tenbin_{name}{{{labels}}} {value}"));
        }
    }

    fn plain_sample(&mut self, name: &str, value: f64) {
        self.line(format_args!("{name} {value}"));
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let mut count = 0;
        for (power, bucket) in (FIRST_POWER..).zip(histogram.buckets) {
            count += bucket;
            let bound = if power > LAST_POWER {
                "+Inf".to_owned()
            } else {
                ((1_u64 << power) as f64 / 1e6).to_string()
            };
            self.sample(
                &format!("{name}_bucket"),
                &format!("{labels},le=\"{bound}\""),
                count as f64,
            );
        }
        self.sample(&format!("{name}_count"), labels, count as f64);
        self.sample(&format!("{name}_sum"), labels, histogram.sum.as_secs_f64());
    }

    fn line(&mut self, text: impl Display) {
        // A String takes everything.
        let _ = writeln!(self.0, "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_holds_what_does_not_exceed_its_bound() {
        let mut histogram = Histogram::default();
        for us in [0, 1, 16, 17, 32, 134_217_728, 134_217_729] {
            histogram.observe(Duration::from_micros(us));
        }
        assert_eq!(histogram.buckets[0], 3);
        assert_eq!(histogram.buckets[1], 2);
        assert_eq!(histogram.buckets[BUCKETS - 2..], [1, 1]);
        let mut text = Text::default();
        text.histogram("x", "a=\"b\"", &histogram);
        let lines: Vec<&str> = text.0.lines().collect();
        assert_eq!(lines[0], "tenbin_x_bucket{a=\"b\",le=\"0.000016\"} 3");
        assert_eq!(lines[BUCKETS - 1], "tenbin_x_bucket{a=\"b\",le=\"+Inf\"} 7");
        assert_eq!(lines[BUCKETS], "tenbin_x_count{a=\"b\"} 7");
    }

    #[test]
    fn requests_and_what_is_none() {
        assert_eq!(
            request(b"GET /metrics?x HTTP/1.1\r\nHost: x"),
            Some(("GET", "/metrics"))
        );
        for bad in [
            &b""[..],
            b"GET /metrics",
            b"GET / HTTP/2",
            b"GET  / HTTP/1.1",
            b"\xff / HTTP/1.1",
        ] {
            assert_eq!(request(bad), None, "{bad:?}");
        }
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    proptest! {
        #[test]
        fn any_head_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = request(&bytes);
        }
    }
}
