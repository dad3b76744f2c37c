//! Settings of single users, and how passwords are looked up that no file lists.

use super::{Config, Database, Pooling};
use std::time::Duration;

/// Asks for a user who may log in and whose password holds. It needs a superuser, or stands in a function
/// that runs with such a one's rights.
const USUAL_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END \
     FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin";

/// What holds for one user in place of the general rules; `None`: nothing of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserRules {
    /// When server connections are passed on.
    pub pooling: Option<Pooling>,
    /// Server connections for each database.
    pub pool_size: Option<usize>,
    /// Server connections to all databases; 0 is no limit.
    pub max_server_connections: Option<usize>,
    /// Clients; 0 is no limit.
    pub max_clients: Option<usize>,
    /// Server connections beyond the size.
    pub reserve_pool_size: Option<usize>,
    /// Limits of time of its clients.
    pub limits: TimeLimits,
}

/// A limit of time; `None`: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<Duration>);

/// Limits of time in place of the general ones; `None`: nothing of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeLimits {
    /// How long a request may take.
    pub query: Option<Limit>,
    /// How long a transaction may take.
    pub transaction: Option<Limit>,
    /// How long a client may do nothing in an open transaction.
    pub idle_transaction: Option<Limit>,
    /// How long a client may do nothing outside of one.
    pub client_idle: Option<Limit>,
}

/// Clients that come before or behind others, and so many of whom may be at work at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Class {
    /// What it is called.
    pub name: String,
    /// Users whose clients belong to it; all when there are none.
    pub users: Vec<String>,
    /// Databases, as clients name them; all when there are none.
    pub databases: Vec<String>,
    /// Names that programs give of themselves when they log in; all when there are none.
    pub application_names: Vec<String>,
    /// Those of a higher priority are served before all others who wait; clients of no class have 0.
    pub priority: i32,
    /// Servers that its clients may have at once, in all pools; 0 is no limit.
    pub limit: usize,
}

impl Class {
    pub(crate) fn fits(&self, user: &str, database: &str, application_name: &str) -> bool {
        let among =
            |names: &[String], name| names.is_empty() || names.iter().any(|known| known == name);
        among(&self.users, user)
            && among(&self.databases, database)
            && among(&self.application_names, application_name)
    }
}

/// Where passwords are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lookup {
    /// The user that asks; without one nobody is asked.
    pub user: Option<String>,
    /// A query whose only parameter is a user's name, and whose row is that name and what the server
    /// keeps of the password; `pg_authid` by default.
    pub query: Option<String>,
    /// The database that is asked, as clients name it.
    pub database: Option<String>,
}

/// A server that is asked for passwords, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) database: Database,
    pub(crate) query: String,
}

impl Config {
    /// Who is asked for the password of somebody who wants this database, if anybody.
    pub(crate) fn source(&self, database: &str) -> Option<Source> {
        let own = self.database(database);
        let said = |of: fn(&Lookup) -> &Option<String>| {
            let general = of(&self.lookup).as_ref();
            own.and_then(|own| of(&own.lookup).as_ref()).or(general)
        };
        let user = said(|lookup| &lookup.user)?.clone();
        let (asked, name) = match said(|lookup| &lookup.database) {
            Some(name) => (self.database(name)?, name.as_str()),
            // Whoever is not in yet does not say what databases are connected to.
            None if database != "*" && self.databases.contains_key(database) => (own?, database),
            None => (own?, "postgres"),
        };
        let name = asked.name.clone().unwrap_or_else(|| name.to_owned());
        let own_password = asked.user.as_ref() == Some(&user);
        let query = said(|lookup| &lookup.query).map_or(USUAL_QUERY, String::as_str);
        Some(Source {
            database: Database {
                name: Some(name),
                password: asked.password.clone().filter(|_| own_password),
                user: Some(user),
                ..asked.clone()
            },
            query: query.to_owned(),
        })
    }

    /// Whether the databases that are to be asked for passwords are there.
    pub(crate) fn check_lookups(&self) -> Result<(), String> {
        let lookups = self.databases.values().map(|database| &database.lookup);
        let named = lookups.chain([&self.lookup]);
        match named
            .filter_map(|lookup| lookup.database.as_ref())
            .find(|name| self.database(name).is_none())
        {
            Some(name) => Err(format!(
                "auth_dbname = {name}: there is no such database; name one of [databases]"
            )),
            None => Ok(()),
        }
    }

    /// Whether each class can be told from the others.
    pub(crate) fn check_classes(&self) -> Result<(), String> {
        for (index, class) in self.classes.iter().enumerate() {
            if class.name.is_empty() {
                return Err("[[classes]]: name = \"\": expected a name".to_owned());
            }
            if self.classes[..index]
                .iter()
                .any(|other| other.name == class.name)
            {
                return Err(format!("[[classes]]: there are two named {}", class.name));
            }
        }
        Ok(())
    }

    /// The limits of time of a user's clients at a database.
    pub(crate) fn limits(&self, user: &str, database: &Database) -> TimeLimits {
        let own = self.rules_of(user).limits;
        let pick = |of: fn(&TimeLimits) -> Option<Limit>, general| {
            of(&own).or(of(&database.limits)).or(Some(Limit(general)))
        };
        TimeLimits {
            query: pick(|limits| limits.query, self.query_limit),
            transaction: pick(|limits| limits.transaction, self.transaction_limit),
            idle_transaction: pick(
                |limits| limits.idle_transaction,
                self.idle_transaction_limit,
            ),
            client_idle: pick(|limits| limits.client_idle, self.client_idle_limit),
        }
    }

    /// What is said of a user alone.
    pub(crate) fn rules_of(&self, user: &str) -> UserRules {
        self.user_rules.get(user).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let database = |name: &str, lookup: Lookup| Database {
            name: Some(name.to_owned()),
            lookup,
            ..Database::default()
        };
        let own = Lookup {
            user: Some("other".to_owned()),
            query: Some("SELECT own($1)".to_owned()),
            database: Some("people".to_owned()),
        };
        Config {
            databases: [
                ("plain".to_owned(), database("there", Lookup::default())),
                ("own".to_owned(), database("x", own)),
                ("people".to_owned(), database("register", Lookup::default())),
                ("*".to_owned(), Database::default()),
            ]
            .into(),
            ..Config::default()
        }
    }

    #[test]
    fn a_database_says_it_before_all() {
        let mut config = config();
        assert_eq!(config.source("plain"), None);
        config.lookup.user = Some("asker".to_owned());
        let asked = |name: &str| {
            let source = config.source(name).unwrap();
            let Database { name, user, .. } = source.database;
            (user.unwrap(), name.unwrap(), source.query)
        };
        let usual = |name: &str| ("asker".to_owned(), name.to_owned(), USUAL_QUERY.to_owned());
        assert_eq!(asked("plain"), usual("there"));
        // Names that clients make up are not connected to.
        assert_eq!(asked("anything"), usual("postgres"));
        let own = (
            "other".to_owned(),
            "register".to_owned(),
            "SELECT own($1)".to_owned(),
        );
        assert_eq!(asked("own"), own);
    }

    #[test]
    fn a_database_to_ask_has_to_be_there() {
        let mut config = config();
        config.lookup.database = Some("nowhere".to_owned());
        assert_eq!(config.check_lookups(), Ok(()));
        config.databases.remove("*");
        assert!(config.check_lookups().unwrap_err().contains("nowhere"));
    }
}
