//! Which server `tenbin bench` runs on, in libpq's words.

use crate::place::WhichArgs;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use postgres::Config;

/// A server that someone else runs, in libpq's words.
#[derive(clap::Args)]
pub(super) struct ReachArgs {
    /// Host or directory of the socket
    #[arg(short = 'h', long, conflicts_with_all = ["pg", "pg_bin", "dsn"])]
    host: Option<String>,
    /// Port
    #[arg(short, long, conflicts_with_all = ["pg", "pg_bin", "dsn"])]
    port: Option<u16>,
    /// User
    #[arg(short = 'U', long, conflicts_with_all = ["pg", "pg_bin", "dsn"])]
    username: Option<String>,
    /// Database
    #[arg(
        short,
        long = "dbname",
        value_name = "DBNAME",
        conflicts_with_all = ["pg", "pg_bin", "dsn"]
    )]
    dbname: Option<String>,
    /// Database, as with -d
    #[arg(value_name = "DBNAME", conflicts_with_all = ["pg", "pg_bin", "dsn", "dbname"])]
    database: Option<String>,
}

/// Environment variables that name a server or a database to libpq.
const PLACE: [&str; 5] = ["PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE"];

impl ReachArgs {
    /// The server that is asked for: one that someone else runs where any of libpq's words say so, in
    /// options or, unless `which` names one, in the environment.
    pub(super) fn which(&self, which: &WhichArgs) -> WhichArgs {
        let WhichArgs { source, dsn } = which;
        let named = dsn.is_some() || source.pg.is_some() || source.pg_bin.is_some();
        let told = || PLACE.iter().any(|name| std::env::var_os(name).is_some());
        let reached = self.dsn().or_else(|| (!named && told()).then(String::new));
        WhichArgs {
            source: source.clone(),
            dsn: reached.or_else(|| dsn.clone()),
        }
    }

    /// The connection string that the options make, if there are any. As in libpq, a database that is
    /// a connection string itself has the last word, and options fill in what it leaves open.
    fn dsn(&self) -> Option<String> {
        let given = self.dbname.as_ref().or(self.database.as_ref());
        let (whole, name) = match given {
            Some(text) if text.contains("://") || text.contains('=') => (text.as_str(), None),
            name => ("", name),
        };
        let mut whole = whole.to_owned();
        if let Some(port) = self.port {
            whole = with_port(&whole, port);
        }
        // What cannot be read is left to whoever connects to complain of.
        let config: Config = whole.parse().unwrap_or_default();
        let placed = !config.get_hosts().is_empty() || !config.get_hostaddrs().is_empty();
        let parts = [
            ("dbname", name.cloned()),
            ("host", self.host.clone().filter(|_| !placed)),
            (
                "port",
                self.port
                    .filter(|_| config.get_ports().is_empty())
                    .map(|port| port.to_string()),
            ),
            (
                "user",
                self.username
                    .clone()
                    .filter(|_| config.get_user().is_none()),
            ),
        ];
        let parts = parts
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value)));
        if !whole.contains("://") {
            let quoted = |(key, value): (&str, String)| {
                format!(
                    " {key}='{}'",
                    value.replace('\\', "\\\\").replace('\'', "\\'")
                )
            };
            let dsn = whole + &parts.map(quoted).collect::<String>();
            return Some(dsn.trim_start().to_owned()).filter(|dsn| !dsn.is_empty());
        }
        let mut dsn = whole;
        for (key, value) in parts {
            let joint = if dsn.contains('?') { "&" } else { "?" };
            let value = utf8_percent_encode(&value, NON_ALPHANUMERIC);
            dsn.extend([joint, key, "=", &value.to_string()]);
        }
        Some(dsn)
    }
}

/// A URI with `port` for each of its hosts that has none: the hosts stand between `//`, or the `@` of
/// a user, and `/` or `?`, and an address in brackets has colons of its own. All else stays.
fn with_port(whole: &str, port: u16) -> String {
    let Some(begin) = whole.find("://").map(|at| at + 3) else {
        return whole.to_owned();
    };
    let end = whole[begin..]
        .find(['/', '?'])
        .map_or(whole.len(), |at| begin + at);
    let begin = whole[begin..end]
        .rfind('@')
        .map_or(begin, |at| begin + at + 1);
    if begin == end {
        return whole.to_owned();
    }
    let hosts = whole[begin..end].split(',').map(|host| {
        let name_end = host.rfind(']').unwrap_or(0);
        if host[name_end..].contains(':') {
            host.to_owned()
        } else {
            format!("{host}:{port}")
        }
    });
    let hosts: Vec<String> = hosts.collect();
    format!("{}{}{}", &whole[..begin], hosts.join(","), &whole[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_fill_in_what_a_connection_string_leaves_open() {
        let reach = |database: &str| ReachArgs {
            host: Some("there".to_owned()),
            port: Some(5433),
            username: Some("o'me&".to_owned()),
            dbname: Some(database.to_owned()),
            database: None,
        };
        for (database, wanted) in [
            (
                "bank",
                "dbname='bank' host='there' port='5433' user='o\\'me&'",
            ),
            ("host=here", "host=here port='5433' user='o\\'me&'"),
            ("user=u port=1", "user=u port=1 host='there'"),
            (
                "hostaddr=127.0.0.1 user=u port=1",
                "hostaddr=127.0.0.1 user=u port=1",
            ),
            (
                "postgres://",
                "postgres://?host=there&port=5433&user=o%27me%26",
            ),
            (
                "postgres://u@/bank?port=1",
                "postgres://u@/bank?port=1&host=there",
            ),
            (
                "postgresql://here/bank",
                "postgresql://here:5433/bank?user=o%27me%26",
            ),
            (
                "postgres://u:p%2F@[::1],here:1?application_name=a",
                "postgres://u:p%2F@[::1]:5433,here:1?application_name=a",
            ),
        ] {
            let dsn = reach(database).dsn().unwrap();
            assert_eq!(dsn, wanted);
            let config: Config = dsn.parse().unwrap();
            let user = config.get_user().unwrap();
            assert!(["u", "o'me&"].contains(&user), "{user}");
        }
    }
}
