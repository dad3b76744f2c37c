//! Who is let in, and by what: rules, certificates, users of this machine, and how many of each kind.

use super::Serving;
use super::door::written;
use crate::config::{Asked, Auth, Comer};
use crate::slab::Id;
use crate::startup::Startup;
use std::os::fd::OwnedFd;

impl Serving {
    /// What a client has to do to come in, as far as that is still open; or why it may not.
    pub(super) fn method(&self, id: Id, startup: &Startup) -> Result<Auth, String> {
        let (user, database) = (&startup.user, &startup.database);
        let Some(client) = self.clients.get(id) else {
            return Ok(Auth::Reject);
        };
        let tls = client.conn.tls();
        let mut asked = Asked {
            method: self.config.auth,
            certificate: None,
        };
        if let Some(rules) = &self.config.hba {
            let comer = Comer {
                origin: client.origin,
                encrypted: tls.is_some(),
                user,
                database,
                replication: startup.replicates(),
            };
            asked = rules.asked(comer).ok_or_else(|| {
                let from = written(client.origin);
                let way = if tls.is_some() { "SSL encryption" } else { "no encryption" };
                format!("no entry in hba_file for host \"{from}\", user \"{user}\", database \"{database}\", {way}")
            })?;
        }
        if asked.certificate.is_some() && !tls.is_some_and(crate::tls::Session::has_certificate) {
            return Err("connection requires a valid client certificate".to_owned());
        }
        let name = tls.and_then(crate::tls::Session::common_name);
        if (asked.method == Auth::Cert || asked.certificate == Some(true))
            && name.as_ref() != Some(user)
        {
            let shown = match name {
                Some(name) => format!("the certificate is for \"{name}\""),
                None => "no certificate with a common name was shown".to_owned(),
            };
            return Err(format!(
                "certificate authentication failed for user \"{user}\": {shown}"
            ));
        }
        let peer = || {
            client
                .origin
                .is_none()
                .then(|| peer_name(client.conn.fd()))
                .flatten()
        };
        match asked.method {
            Auth::Reject => Err(format!(
                "hba_file rejects the connection of user \"{user}\" to database \"{database}\""
            )),
            Auth::Peer if peer().as_ref() != Some(user) => {
                Err(format!("peer authentication failed for user \"{user}\""))
            }
            method => Ok(method),
        }
    }

    /// Clients that came in as this user.
    pub(super) fn clients_of(&self, user: &str) -> usize {
        let in_pools = self.clients.iter().filter_map(|(_, client)| {
            let pool = &self.pools[client.pool?.0];
            Some(client.user(pool))
        });
        in_pools.filter(|name| *name == user).count()
    }

    /// Whether there may be one more of this user, of this database, from this address; if not, why.
    pub(super) fn has_room(&self, id: Id, startup: &Startup) -> Result<(), String> {
        let config = &self.config;
        let here = |count: usize, limit: usize| limit == 0 || count < limit;
        let of = |same: &dyn Fn(&super::pool::Key) -> bool| {
            let pools = self.pools.iter().filter(|pool| same(&pool.key));
            pools.map(|pool| pool.clients).sum::<usize>()
        };
        let refusal = |what: &str, limit: usize, name: &str| {
            Err(format!(
                "too many connections {what}: the TP monitor takes {limit} ({name})"
            ))
        };
        let own = config.rules_of(&startup.user).max_clients;
        let limit = own.unwrap_or(config.max_clients_per_user);
        if limit > 0 && !here(self.clients_of(&startup.user), limit) {
            let what = format!("of user \"{}\"", startup.user);
            return refusal(&what, limit, "max_clients_per_user");
        }
        let own = config.database(&startup.database);
        let own = own.and_then(|database| database.max_clients);
        let limit = own.unwrap_or(config.max_clients_per_database);
        if limit > 0 && !here(of(&|key| key.database == startup.database), limit) {
            let what = format!("to database \"{}\"", startup.database);
            return refusal(&what, limit, "max_clients_per_database");
        }
        let limit = config.max_clients_per_address;
        let origin = self.clients.get(id).and_then(|client| client.origin);
        if limit > 0
            && let Some(origin) = origin
        {
            let all = self.clients.iter().map(|(_, client)| client.origin);
            // Itself is among them.
            let others = all.filter(|other| *other == Some(origin)).count() - 1;
            if !here(others, limit) {
                return refusal(&format!("from {origin}"), limit, "max_clients_per_address");
            }
        }
        Ok(())
    }
}

/// The name of the user who is at the other end of a Unix socket, where this machine has one.
fn peer_name(fd: &OwnedFd) -> Option<String> {
    let uid = rustix::net::sockopt::socket_peercred(fd).ok()?.uid.as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    name_of(&accounts, uid)
}

/// A name in `/etc/passwd` (passwd(5): name, password, number).
fn name_of(accounts: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        let accounts = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/:/bin/sh\nodd\n";
        assert_eq!(name_of(accounts, 0).as_deref(), Some("root"));
        assert_eq!(name_of(accounts, 1000).as_deref(), Some("me"));
        assert_eq!(name_of(accounts, 1), None);
    }
}
