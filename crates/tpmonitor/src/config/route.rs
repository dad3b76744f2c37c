//! Connection strings to servers: the part that every program of tenbin reads, and what only the
//! monitor heeds.

use super::tls::OPTIONS;
use super::{Environment, Place, ServerTls, Wants};
use std::path::Path;
use tenbin_wire::conninfo::{take_options, with_option, with_service};
use tenbin_wire::{Target, TargetError};

const ATTRIBUTES: &str = "target_session_attrs";

/// Where servers are, who the monitor is to them, and how it speaks with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// User, password and database.
    pub(crate) target: Target,
    /// Servers, tried in order.
    pub(crate) places: Vec<Place>,
    pub(crate) tls: ServerTls,
    pub(crate) wants: Wants,
}

/// A connection string that leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// Its place, user or database.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What it says of TLS, or of which server is wanted.
    #[error("{0}")]
    Option(String),
    /// It cannot be taken apart.
    #[error(
        "could not read the connection string: {0}; it looks like postgres://user@host:5432/database or like host=/tmp user=me dbname=db"
    )]
    Syntax(&'static str),
}

impl From<&Target> for Route {
    /// Without TLS, as all of tenbin's own sessions.
    fn from(target: &Target) -> Self {
        let places = target.addresses.iter().map(|address| Place {
            host: String::new(),
            address: address.clone(),
        });
        Self {
            places: places.collect(),
            target: target.clone(),
            tls: ServerTls::default(),
            wants: Wants::default(),
        }
    }
}

impl Route {
    /// Reads a connection string, `postgres://…` or `key=value …`, as libpq does, with `sslmode` and its
    /// like, and the files that these name, looked for in `folder` when they are relative.
    ///
    /// # Errors
    /// When it cannot be read, a host has no address, or a file cannot be used.
    pub fn parse(dsn: &str, folder: &Path) -> Result<Self, RouteError> {
        Self::parse_in(dsn, folder, &|name| std::env::var(name).ok())
    }

    fn parse_in(
        dsn: &str,
        folder: &Path,
        environment: Environment<'_>,
    ) -> Result<Self, RouteError> {
        let dsn = with_service(dsn, environment)?;
        let (mut rest, options) = take_options(&dsn, is_ours).map_err(RouteError::Syntax)?;
        // What the environment says of them is heeded here.
        for (name, value) in [
            ("sslmode", "disable"),
            ("sslnegotiation", "postgres"),
            ("channel_binding", "disable"),
            (ATTRIBUTES, "any"),
        ] {
            rest = with_option(&rest, name, value);
        }
        let wants = match options.get(ATTRIBUTES) {
            Some(text) => text.parse().map_err(RouteError::Option)?,
            None => environment("PGTARGETSESSIONATTRS")
                .map_or(Ok(Wants::default()), |text| text.parse())
                .map_err(RouteError::Option)?,
        };
        let tls =
            ServerTls::of_options(&options, environment, folder).map_err(RouteError::Option)?;
        let places = Target::places(&rest)?;
        Ok(Self {
            target: Target::parse(&rest)?,
            places: places
                .into_iter()
                .map(|(host, address)| Place { host, address })
                .collect(),
            tls,
            wants,
        })
    }
}

fn is_ours(name: &str) -> bool {
    name == ATTRIBUTES || OPTIONS.iter().any(|(known, _)| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsMode;

    fn route(dsn: &str) -> Result<Route, String> {
        Route::parse_in(dsn, Path::new("/etc"), &|_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_said_of_tls_is_taken_out() {
        for dsn in [
            "postgres://me@127.0.0.1:77/db?application_name=x&sslmode=require&channel_binding=require",
            "host=127.0.0.1 port=77 user=me dbname=db sslmode = 'require' channel_binding=require",
        ] {
            let route = route(dsn).unwrap();
            assert_eq!(route.tls.mode, TlsMode::Require);
            assert_eq!(route.target.user, "me");
            assert_eq!(route.target.database, "db");
            assert_eq!(route.places[0].host, "127.0.0.1");
            assert_eq!(route.places[0].address.to_string(), "127.0.0.1:77");
        }
        assert_eq!(
            route("postgres://me@127.0.0.1").unwrap().tls.mode,
            TlsMode::Prefer
        );
    }

    #[test]
    fn the_environment_stands_in() {
        let environment = |name: &str| (name == "PGSSLMODE").then(|| "require".to_owned());
        let read = |dsn| Route::parse_in(dsn, Path::new("/"), &environment).unwrap();
        assert_eq!(read("postgres://me@127.0.0.1").tls.mode, TlsMode::Require);
        let given = read("postgres://me@127.0.0.1/?sslmode=disable");
        assert_eq!(given.tls.mode, TlsMode::Disable);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("services");
        std::fs::write(&file, "[s]\nuser=you\nsslmode=require\n").unwrap();
        let environment =
            |name: &str| (name == "PGSERVICEFILE").then(|| file.to_str().unwrap().to_owned());
        let dsn = "host=127.0.0.1 service=s target_session_attrs=read-write";
        let route = Route::parse_in(dsn, Path::new("/"), &environment).unwrap();
        assert_eq!(
            (route.tls.mode, route.target.user.as_str()),
            (TlsMode::Require, "you")
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (dsn, expected) in [
            (
                "postgres://me@127.0.0.1/?sslmode=yes",
                "sslmode=yes: expected disable, allow",
            ),
            (
                "postgres://me@127.0.0.1/?sslmode=verify-full",
                "need sslrootcert",
            ),
            (
                "postgres://me@127.0.0.1/?sslrootcert=nothing%20here",
                "/etc/nothing here",
            ),
            (
                "postgres://me@127.0.0.1/?sslcert=x",
                "sslcert and sslkey go together",
            ),
            (
                "postgres://me@127.0.0.1/?sslnegotiation=direct",
                "needs sslmode=require",
            ),
            (
                "postgres://me@127.0.0.1/?channel_binding=x",
                "expected disable, prefer or require",
            ),
            (
                "postgres://me@127.0.0.1/?target_session_attrs=best",
                "expected any, read-write",
            ),
            ("postgres://me@127.0.0.1/?sslmode=%g", "hexadecimal"),
            ("host=127.0.0.1 user=me sslmode='x", "a quote is not closed"),
        ] {
            let error = route(dsn).unwrap_err();
            assert!(error.contains(expected), "{dsn}: {error}");
        }
    }
}
