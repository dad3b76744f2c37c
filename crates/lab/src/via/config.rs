//! The configuration of each pooler.

use crate::{Error, Result};
use std::net::SocketAddr;
use tenbin_wire::{Address, Target};

/// What every pooler is configured with.
pub(super) struct Settings<'a> {
    pub(super) listen: SocketAddr,
    /// What clients must know.
    pub(super) password: String,
    pub(super) pool_size: u32,
    pub(super) clients: u32,
    pub(super) server: &'a Target,
    /// Isolation level of every transaction, in SQL's words.
    pub(super) isolation: Option<&'static str>,
}

impl Settings<'_> {
    /// The server as `libpq` takes it, with values quoted as the pooler reads them.
    fn conninfo(&self, quoted: fn(&str) -> String) -> Result<String> {
        let (host, port) = match self.server.addresses.first() {
            Some(Address::Tcp(address)) => (address.ip().to_string(), address.port().to_string()),
            Some(Address::Unix(socket)) => {
                let port = socket.extension().unwrap_or_default().to_string_lossy();
                let directory = socket.parent().unwrap_or(socket);
                (directory.display().to_string(), port.into_owned())
            }
            None => return Err(Error::NoAddress),
        };
        let mut words = vec![
            format!("host={}", quoted(&host)),
            format!("port={port}"),
            format!("user={}", quoted(&self.server.user)),
        ];
        if let Some(password) = &self.server.password {
            words.push(format!("password={}", quoted(password)));
        }
        Ok(words.join(" "))
    }

    pub(super) fn tpmonitor(&self) -> Result<String> {
        let text = |text: &str| serde_json::Value::from(text).to_string(); // TOML's basic strings, too
        Ok(format!(
            "listen = [{}]\nmode = \"transaction\"\npool_size = {}\nmax_clients = {}\n\
             auth = \"scram-sha-256\"\nadmin_users = [{user}]\n\
             [databases.\"*\"]\nserver = {}\n[users]\n{user} = {}\n",
            text(&self.listen.to_string()),
            self.pool_size,
            self.clients,
            text(&self.conninfo(as_libpq)?),
            text(&self.password),
            user = text(&self.server.user),
        ))
    }

    /// The auth file of `PgBouncer`.
    pub(super) fn userlist(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        format!("{} {}\n", quoted(&self.server.user), quoted(&self.password))
    }

    /// `users`: the auth file; `prepares`: it knows prepared statements.
    pub(super) fn pgbouncer(&self, users: &str, prepares: bool) -> Result<String> {
        let mut parameters = self.server.parameters.iter().map(|(name, _)| name.as_str());
        if let Some(name) = parameters.find(|name| *name != "application_name") {
            return Err(Error::StartUpParameter(name.to_owned()));
        }
        // It hands no start-up parameter on, and a client's SET stays on whichever server that was.
        let isolation = self.isolation.map_or(String::new(), |level| {
            let set = format!("SET default_transaction_isolation = '{level}'");
            format!(" connect_query={}", as_pgbouncer(&set))
        });
        Ok(format!(
            "[databases]\n* = {}{isolation}\n[pgbouncer]\nlisten_addr = {}\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = scram-sha-256\nauth_file = {users}\nadmin_users = {user}\n\
             pool_mode = transaction\ndefault_pool_size = {}\nmax_client_conn = {}\n\
             log_connections = 0\nlog_disconnections = 0\n{}",
            self.conninfo(as_pgbouncer)?,
            self.listen.ip(),
            self.listen.port(),
            self.pool_size,
            self.clients,
            if prepares {
                "max_prepared_statements = 200\n"
            } else {
                ""
            },
            user = self.server.user,
        ))
    }
}

fn as_libpq(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn as_pgbouncer(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
