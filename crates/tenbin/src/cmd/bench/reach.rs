//! Which server `tenbin bench` runs on, in libpq's words.

use crate::args::WhichArgs;
use crate::exit::{Failure, Result};
use tenbin_wire::conninfo::with_open;

/// An existing server, in libpq's words.
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
    /// The server that is asked for: an existing one where any of libpq's words say so, in
    /// options or, unless `which` names one, in the environment.
    pub(super) fn which(&self, which: &WhichArgs) -> Result<WhichArgs> {
        let WhichArgs { source, dsn } = which;
        let named = dsn.is_some() || source.pg.is_some() || source.pg_bin.is_some();
        let told = || PLACE.iter().any(|name| std::env::var_os(name).is_some());
        let reached = self.dsn()?.or_else(|| (!named && told()).then(String::new));
        Ok(WhichArgs {
            source: source.clone(),
            dsn: reached.or_else(|| dsn.clone()),
        })
    }

    /// The connection string that the options make, if there are any. As in libpq, a database that is
    /// a connection string itself has the last word, and options fill in what it leaves open.
    fn dsn(&self) -> Result<Option<String>> {
        let given = self.dbname.as_ref().or(self.database.as_ref());
        let (whole, name) = match given {
            Some(text) if text.contains("://") || text.contains('=') => (text.as_str(), None),
            name => ("", name.cloned()),
        };
        let parts = [
            ("dbname", name),
            ("host", self.host.clone()),
            ("port", self.port.map(|port| port.to_string())),
            ("user", self.username.clone()),
        ];
        let parts = parts
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let dsn = with_open(whole, parts).map_err(|error| Failure::bad_input(error.to_string()))?;
        Ok(Some(dsn).filter(|dsn| !dsn.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_wire::Target;

    #[test]
    fn options_fill_in_what_a_connection_string_leaves_open() {
        let (told, open) = ("127.0.0.3", "127.0.0.2:5433");
        for (database, addresses, user) in [
            ("d", open.to_owned(), "o'me&"),
            (
                &*format!("host={told} dbname=d"),
                format!("{told}:5433"),
                "o'me&",
            ),
            ("user=u port=1 dbname='d'", "127.0.0.2:1".to_owned(), "u"),
            (
                &*format!("hostaddr={told} port=1 dbname=d"),
                format!("{told}:1"),
                "o'me&",
            ),
            ("postgres:///d", open.to_owned(), "o'me&"),
            ("postgres://u@/d?port=1", "127.0.0.2:1".to_owned(), "u"),
            (
                &*format!("postgresql://{told}/d"),
                format!("{told}:5433"),
                "o'me&",
            ),
            (
                &*format!("postgres://u:p%2F@[::1],{told}/d?application_name=a"),
                format!("[::1]:5433 {told}:5433"),
                "u",
            ),
        ] {
            let reach = ReachArgs {
                host: Some("127.0.0.2".to_owned()),
                port: Some(5433),
                username: Some("o'me&".to_owned()),
                dbname: Some(database.to_owned()),
                database: None,
            };
            let dsn = reach.dsn().unwrap().unwrap();
            let target = Target::parse(&dsn).unwrap();
            let found: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
            assert_eq!(
                (
                    found.join(" "),
                    target.user.as_str(),
                    target.database.as_str()
                ),
                (addresses, user, "d"),
                "{dsn}"
            );
        }
    }
}
