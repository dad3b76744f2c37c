//! Every way of proving who we are that the driver knows, and what it says of the others.

use crate::server::{Connection, Server};
use tenbin_wire::{Address, Error, Target};

fn target(server: &Server, user: &str, password: Option<&str>) -> Target {
    Target {
        user: user.to_owned(),
        password: password.map(ToOwned::to_owned),
        ..server.target()
    }
}

fn logged_in_as(target: &Target) -> String {
    let mut connection = Connection::open(target).expect("a session");
    let mut replies = connection.query("SELECT current_user").expect("an answer");
    replies
        .next()
        .expect("a reply")
        .row()
        .expect("a row")
        .text(0)
        .expect("a name")
        .to_owned()
}

#[test]
fn each_method_lets_in_who_knows_the_password() {
    let server = Server::shared();
    for (user, password) in [
        ("postgres", None),
        ("clear", Some("cle ar")),
        ("hashed", Some("ha shed")),
        ("salted", Some("sal ted")),
    ] {
        assert_eq!(logged_in_as(&target(&server, user, password)), user);
    }
    let tcp = Target {
        addresses: vec![server.tcp()],
        ..target(&server, "salted", Some("sal ted"))
    };
    assert_eq!(logged_in_as(&tcp), "salted");
}

#[test]
fn each_method_keeps_out_who_does_not() {
    let server = Server::shared();
    for user in ["clear", "hashed", "salted"] {
        let error = Connection::open(&target(&server, user, Some("wrong"))).expect_err("a refusal");
        assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
        let error = Connection::open(&target(&server, user, None)).expect_err("a refusal");
        let expected = format!(
            "connection lost: the server asks for a password for user \"{user}\" and none is known; put it into the DSN, PGPASSWORD or ~/.pgpass"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_refusal_is_the_servers_own_word() {
    let server = Server::shared();
    let target = Target {
        database: "nowhere".to_owned(),
        ..server.target()
    };
    let error = Connection::open(&target).expect_err("a refusal");
    assert_eq!(
        error.to_string(),
        "FATAL 3D000: database \"nowhere\" does not exist"
    );
}

#[test]
fn addresses_are_tried_in_order() {
    let server = Server::shared();
    let nowhere = Address::Unix(server.directory.path().join(".s.PGSQL.1"));
    let closed = Address::Tcp(([127, 0, 0, 1], 1).into());
    let some = vec![nowhere.clone(), closed.clone(), server.tcp()];
    let target = Target {
        addresses: some,
        ..server.target()
    };
    let connection = Connection::open(&target).expect("the third address");
    assert_eq!(*connection.session.address(), server.tcp());

    let none = Target {
        addresses: vec![nowhere.clone(), closed.clone()],
        ..server.target()
    };
    let Error::Lost(message) = Connection::open(&none).expect_err("no server") else {
        panic!("a server answered")
    };
    assert_eq!(
        message,
        format!(
            "connection lost: could not connect to {nowhere}: No such file or directory (os error 2); \
             connection lost: could not connect to {closed}: Connection refused (os error 111)"
        )
    );
}

#[test]
fn the_session_knows_what_the_server_told() {
    let server = Server::shared();
    let parameters = vec![
        ("application_name".to_owned(), "who else".to_owned()),
        ("work_mem".to_owned(), "123kB".to_owned()),
        ("DateStyle".to_owned(), "German, DMY".to_owned()),
    ];
    let target = Target {
        parameters,
        ..server.target()
    };
    let mut connection = Connection::open(&target).expect("a session");
    assert_eq!(
        connection.session.parameter("application_name"),
        Some("who else")
    );
    assert_eq!(
        connection.session.parameter("client_encoding"),
        Some("UTF8")
    );
    assert_eq!(connection.session.parameter("no such"), None);
    let pid = i64::from(connection.session.process_id());
    let mut replies = connection
        .query("SELECT pg_backend_pid(), current_setting('work_mem')")
        .expect("an answer");
    let row = replies
        .next()
        .and_then(|mut reply| reply.row())
        .expect("a row");
    assert_eq!((row.int(0), row.text(1)), (Ok(pid), Ok("123kB")));

    // The same by way of the administration's client, whose options must survive quoting.
    let mut admin = target.config().connect(postgres::NoTls).expect("a client");
    let row = admin
        .query_one("SELECT current_setting('work_mem'), current_setting('DateStyle'), current_setting('application_name')", &[])
        .expect("settings");
    assert_eq!(
        (row.get(0), row.get(1), row.get(2)),
        ("123kB", "German, DMY", "who else")
    );
}
