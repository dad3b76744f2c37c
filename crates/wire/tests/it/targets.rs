//! Connection strings that lead to a live server.

use crate::server::{Connection, Server};
use tenbin_wire::{Address, Target};

#[test]
fn connection_strings_lead_to_the_server() {
    let server = Server::shared();
    let (port, directory) = (server.port, server.directory.path().display());
    let encoded = directory.to_string().replace('/', "%2F");
    for (dsn, address) in [
        (
            format!("host={directory} port={port} user=postgres dbname=postgres"),
            server.unix(),
        ),
        (
            format!("postgres://postgres@{encoded}:{port}/postgres"),
            server.unix(),
        ),
        (
            format!("postgresql://postgres@/postgres?host={directory}&port={port}"),
            server.unix(),
        ),
        (
            format!("postgres://postgres@127.0.0.1:{port}/postgres?application_name=me"),
            server.tcp(),
        ),
        (
            format!("host=127.0.0.1,{directory} port=1,{port} user=postgres dbname=postgres"),
            server.unix(),
        ),
    ] {
        let target = Target::parse(&dsn).unwrap_or_else(|error| panic!("{dsn}: {error}"));
        let connection = Connection::open(&target).unwrap_or_else(|error| panic!("{dsn}: {error}"));
        assert_eq!(*connection.session.address(), address, "{dsn}");
        let mut client = target
            .config()
            .connect(postgres::NoTls)
            .unwrap_or_else(|error| panic!("{dsn}: {error}"));
        let name: String = client
            .query_one("SELECT current_setting('application_name')", &[])
            .expect("a setting")
            .get(0);
        assert_eq!(name, if dsn.contains("=me") { "me" } else { "tenbin" });
    }
}

#[test]
fn a_host_name_is_looked_up_once() {
    let target = Target::parse("host=localhost port=5 user=me").expect("a target");
    assert!(!target.addresses.is_empty());
    for address in &target.addresses {
        let Address::Tcp(name) = address else {
            panic!("{address}")
        };
        assert!(name.ip().is_loopback() && name.port() == 5);
    }
}
