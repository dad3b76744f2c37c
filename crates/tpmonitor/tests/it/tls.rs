//! TLS on both sides of the monitor, with libpq and servers as they are.

use crate::support::raw::{Raw, query};
use crate::support::tls::{Authority, Secret, allow};
use crate::support::{Running, server};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tenbin_tpmonitor::{Auth, ClientTls, Config, Route, TlsMode, TlsVersions};

/// What `psql` prints for a query, or what it complains of.
fn psql(monitor: &Running, options: &str, sql: &str) -> Result<String, String> {
    let target = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=postgres dbname=postgres {options}",
        monitor.address.port()
    );
    let run = Command::new("psql")
        .args(["-XAtq", "-d", &target, "-c", sql])
        .env("HOME", "/proc/absent")
        .output()
        .expect("psql of the distribution");
    if run.status.success() {
        return Ok(String::from_utf8_lossy(&run.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&run.stderr).into_owned())
}

/// A monitor that speaks TLS with clients.
fn to_clients(authority: &Authority, mode: TlsMode, change: impl FnOnce(&mut Config)) -> Running {
    authority.sign("monitor", "a monitor", &["localhost"]);
    Running::before(server(), |config| {
        config.tls = ClientTls::read(
            mode,
            TlsVersions::default(),
            Some(&authority.path("monitor.crt")),
            Some(&authority.path("monitor.key")),
            Some(&authority.path("ca.crt")),
        )
        .unwrap();
        change(config);
    })
}

/// `sslmode`s and whether the connection becomes an encrypted one: libpq says so itself.
#[test]
fn clients_are_spoken_to_as_they_ask_and_as_they_must() {
    let _shared = server();
    let authority = Authority::new();
    let ca = authority.text("ca.crt");
    let encrypted = "\\conninfo";
    for (mode, options, expected) in [
        (TlsMode::Prefer, "sslmode=disable".to_owned(), Ok(false)),
        (TlsMode::Prefer, "sslmode=allow".to_owned(), Ok(false)),
        (TlsMode::Prefer, "sslmode=prefer".to_owned(), Ok(true)),
        (TlsMode::Allow, "sslmode=require".to_owned(), Ok(true)),
        (TlsMode::Disable, "sslmode=prefer".to_owned(), Ok(false)),
        (
            TlsMode::Disable,
            "sslmode=require".to_owned(),
            Err("does not support SSL"),
        ),
        (
            TlsMode::Require,
            "sslmode=disable".to_owned(),
            Err("takes encrypted connections only"),
        ),
        (TlsMode::Require, "sslmode=allow".to_owned(), Ok(true)),
        (
            TlsMode::Require,
            format!("sslmode=verify-ca sslrootcert={ca}"),
            Ok(true),
        ),
        (
            TlsMode::Require,
            format!("sslmode=verify-full sslrootcert={ca}"),
            Ok(true),
        ),
        (
            TlsMode::Require,
            format!("sslmode=verify-full sslrootcert={ca} host=other.example"),
            Err("does not match host name"),
        ),
    ] {
        let monitor = to_clients(&authority, mode, |_| ());
        let said = psql(&monitor, &options, encrypted);
        match (&said, expected) {
            (Ok(text), Ok(tls)) => {
                assert_eq!(text.contains("SSL connection"), tls, "{options}: {text}");
            }
            (Err(text), Err(part)) => assert!(text.contains(part), "{options}: {text}"),
            _ => panic!("{mode:?}, {options}: {said:?}"),
        }
    }
}

#[test]
fn protocols_may_be_chosen_on_both_sides() {
    let _shared = server();
    let authority = Authority::new();
    let spoken = [
        ("tlsv1.2", "TLSv1.2"),
        ("tlsv1.3", "TLSv1.3"),
        ("secure", "TLSv1.3"),
    ];
    for (protocols, expected) in spoken {
        let monitor = to_clients(&authority, TlsMode::Require, |config| {
            config.tls = ClientTls::read(
                TlsMode::Require,
                protocols.parse().unwrap(),
                Some(&authority.path("monitor.crt")),
                Some(&authority.path("monitor.key")),
                None,
            )
            .unwrap();
        });
        let said = psql(&monitor, "sslmode=require", "\\conninfo").unwrap();
        assert!(said.contains(expected), "{protocols}: {said}");
        let other = if protocols == "tlsv1.2" {
            "TLSv1.3"
        } else {
            "TLSv1.2"
        };
        let options = format!(
            "sslmode=require ssl_min_protocol_version={other} ssl_max_protocol_version={other}"
        );
        let found = psql(&monitor, &options, "SELECT 1");
        assert_eq!(
            found.is_ok(),
            protocols == "secure",
            "{protocols}: {found:?}"
        );
    }
    let with_tls = Arc::new(authority.server(&["localhost"], "host all all all scram-sha-256"));
    for (bound, expected) in [("max", "TLSv1.2"), ("min", "TLSv1.3")] {
        let options = format!("sslmode=require ssl_{bound}_protocol_version={expected}");
        let monitor = to_server(&with_tls, &options);
        let sql = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert_eq!(psql(&monitor, "", sql).unwrap(), expected);
    }
    for (options, part) in [
        ("ssl_max_protocol_version=TLSv1.1", "leave neither"),
        ("ssl_max_protocol_version=2", "expected TLSv1,"),
    ] {
        let error = Route::parse(&format!("host=127.0.0.1 user=x {options}"), Path::new("/"));
        assert!(error.unwrap_err().to_string().contains(part), "{options}");
    }
}

#[test]
fn clients_show_certificates() {
    let _shared = server();
    let authority = Authority::new();
    authority.sign("me", "postgres", &[]);
    authority.sign("other", "somebody", &[]);
    let foreign = Authority::new();
    foreign.sign("me", "postgres", &[]);
    for authority in [&authority, &foreign] {
        authority.sign("old", "postgres", &[]);
        authority.make_v1("old");
    }
    let with = |authority: &Authority, name: &str| {
        format!(
            "sslmode=require sslcert={} sslkey={}",
            authority.text(&format!("{name}.crt")),
            authority.text(&format!("{name}.key"))
        )
    };
    let none = "sslmode=require".to_owned();
    let mine = with(&authority, "me");
    let others = with(&authority, "other");
    for (mode, auth, options, refusal) in [
        (TlsMode::VerifyCa, Auth::Trust, &mine, None),
        (TlsMode::VerifyCa, Auth::Trust, &others, None),
        (
            TlsMode::VerifyFull,
            Auth::Cert,
            &with(&authority, "old"),
            None,
        ),
        (
            TlsMode::VerifyCa,
            Auth::Trust,
            &with(&foreign, "old"),
            Some("alert"),
        ),
        (
            TlsMode::VerifyCa,
            Auth::Trust,
            &none,
            Some("requires a valid client certificate"),
        ),
        (
            TlsMode::VerifyCa,
            Auth::Trust,
            &with(&foreign, "me"),
            Some("alert"),
        ),
        (TlsMode::VerifyFull, Auth::Trust, &mine, None),
        (
            TlsMode::VerifyFull,
            Auth::Trust,
            &others,
            Some("common name is another"),
        ),
        (TlsMode::Require, Auth::Cert, &mine, None),
        (
            TlsMode::Require,
            Auth::Cert,
            &others,
            Some("is for \"somebody\""),
        ),
        (
            TlsMode::Require,
            Auth::Cert,
            &none,
            Some("no certificate with a common name"),
        ),
        (
            TlsMode::Prefer,
            Auth::Cert,
            &"sslmode=disable".to_owned(),
            Some("certificate authentication failed"),
        ),
    ] {
        let monitor = to_clients(&authority, mode, |config| config.auth = auth);
        let said = psql(&monitor, options, "SELECT 1");
        match (&said, refusal) {
            (Ok(text), None) => assert_eq!(text, "1"),
            (Err(text), Some(part)) => assert!(text.contains(part), "{mode:?} {options}: {text}"),
            _ => panic!("{mode:?}, {options}: {said:?}"),
        }
    }
}

#[test]
fn passwords_are_bound_to_the_connection() {
    let authority = Authority::new();
    let monitor = to_clients(&authority, TlsMode::Prefer, |config| {
        config.auth = Auth::Scram;
        let secret = tenbin_tpmonitor::Secret::new("pencil");
        config.users.insert("postgres".into(), secret);
    });
    for (options, works) in [
        (
            "sslmode=require channel_binding=require password=pencil",
            true,
        ),
        (
            "sslmode=require channel_binding=disable password=pencil",
            true,
        ),
        ("sslmode=disable password=pencil", true),
        (
            "sslmode=disable channel_binding=require password=pencil",
            false,
        ),
        (
            "sslmode=require channel_binding=require password=pen",
            false,
        ),
    ] {
        let said = psql(&monitor, options, "SELECT 1");
        assert_eq!(said.is_ok(), works, "{options}: {said:?}");
    }
    // Somebody between who has another certificate of the same authority.
    authority.sign("between", "between", &["localhost"]);
    let between = between(&authority, monitor.address);
    let target = Command::new("psql")
        .args(["-XAtq", "-c", "SELECT 1", "-d"])
        .arg(format!(
            "host=localhost port={} user=postgres dbname=postgres password=pencil sslmode=verify-full sslrootcert={} channel_binding=require",
            between.port(),
            authority.text("ca.crt")
        ))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&target.stderr);
    assert!(said.contains("authentication failed"), "{said}");
}

/// Passes one connection on, with a certificate of its own: what channel binding is there to find out.
fn between(authority: &Authority, to: std::net::SocketAddr) -> std::net::SocketAddr {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let chain = CertificateDer::pem_file_iter(authority.path("between.crt")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(authority.path("between.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let ca = authority.path("ca.crt");
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.read_exact(&mut [0; 8]).unwrap();
        socket.write_all(b"S").unwrap();
        let tls = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut client = rustls::StreamOwned::new(tls, socket);
        let mut monitor = Secret::ask(to, &ca);
        let mut head = [0; 4];
        // A start-up packet, then question and answer until one of them has had enough.
        let mut typed = false;
        loop {
            let mut packet = Vec::new();
            if typed {
                packet.push(0);
                if client.read_exact(&mut packet).is_err() {
                    return;
                }
            }
            if client.read_exact(&mut head).is_err() {
                return;
            }
            let mut body = vec![0; u32::from_be_bytes(head) as usize - 4];
            client.read_exact(&mut body).unwrap();
            packet.extend_from_slice(&head);
            packet.extend_from_slice(&body);
            typed = true;
            monitor.send(&packet);
            let Some((tag, body)) = monitor.reply() else {
                return;
            };
            let said = crate::support::raw::message(tag, &body);
            if client.write_all(&said).is_err() {
                return;
            }
        }
    });
    address
}

#[test]
fn tls_may_come_first_if_the_protocol_inside_is_named() {
    let authority = Authority::new();
    let monitor = to_clients(&authority, TlsMode::Require, |_| ());
    let ca = authority.path("ca.crt");
    let mut client = Secret::direct(monitor.address, &ca, true);
    client.log_in();
    assert_eq!(client.value("SELECT 'direct'"), b"direct");
    let mut client = Secret::direct(monitor.address, &ca, false);
    client.send(&crate::support::raw::startup(
        0x0003_0000,
        &[("user", "postgres")],
    ));
    let (tag, body) = client.reply().unwrap();
    assert_eq!(tag, b'E');
    assert!(String::from_utf8_lossy(&body).contains("ALPN"));
    assert_eq!(client.reply(), None);
}

/// CVE-2021-23214: what is sent behind the request and before the keys is nobody's.
#[test]
fn nothing_may_stand_between_the_request_and_the_keys() {
    let authority = Authority::new();
    let monitor = to_clients(&authority, TlsMode::Prefer, |_| ());
    let mut raw = Raw::open(monitor.address);
    let request = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    raw.send(&[&request[..], &query("SELECT 'planted'")].concat());
    let refusal = raw.reply();
    assert!(
        refusal.field(b'M').contains("unencrypted data"),
        "{refusal:?}"
    );
    assert_eq!(raw.try_reply(), None);
    // And what comes in place of keys costs nobody else anything.
    let mut raw = Raw::open(monitor.address);
    raw.send(&request);
    raw.socket.read_exact(&mut [0]).unwrap();
    raw.send(b"this is no record of TLS, nor will it be one");
    let mut rest = Vec::new();
    let _ = raw.socket.read_to_end(&mut rest);
    assert_eq!(rest.first(), Some(&21), "an alert: {rest:?}");
    assert_eq!(monitor.raw().value("SELECT 1"), "1");
}

#[test]
fn much_goes_through_in_both_directions_and_ends_are_ends() {
    let authority = Authority::new();
    let monitor = to_clients(&authority, TlsMode::Require, |config| config.pool_size = 1);
    let ca = authority.path("ca.crt");
    let mut client = Secret::ask(monitor.address, &ca);
    client.log_in();
    let long = "x".repeat(3_000_000);
    assert_eq!(
        client.value(&format!("SELECT length('{long}')")),
        b"3000000"
    );
    assert_eq!(
        client.value("SELECT repeat('y', 5000000)"),
        vec![b'y'; 5_000_000]
    );
    // Sent ahead, and answered in order.
    let ahead: Vec<u8> = (0..500)
        .flat_map(|number| query(&format!("SELECT {number}")))
        .collect();
    client.send(&ahead);
    for number in 0..500 {
        let mut row = Vec::new();
        while let Some((tag, body)) = client.reply() {
            match tag {
                b'D' => row = body[6..].to_vec(),
                b'Z' => break,
                _ => {}
            }
        }
        assert_eq!(row, number.to_string().into_bytes());
    }
    // One that leaves in the middle of a result leaves nothing to the next.
    client.send(&query("SELECT repeat('z', 5000000)"));
    drop(client);
    let mut next = Secret::ask(monitor.address, &ca);
    next.log_in();
    assert_eq!(next.value("SELECT 'next'"), b"next");
}

#[test]
fn certificates_are_read_again() {
    let authority = Authority::new();
    authority.sign("monitor", "a monitor", &["localhost"]);
    let file = authority.path("tp.toml");
    let shared = server();
    let target = shared.target();
    let at = match &target.addresses[0] {
        tenbin_wire::Address::Unix(path) => path.clone(),
        tenbin_wire::Address::Tcp(_) => panic!("a Unix socket"),
    };
    let port = at.extension().unwrap().to_str().unwrap();
    std::fs::write(
        &file,
        format!(
            "listen = [\"127.0.0.1:0\"]\nauth = \"trust\"\nadmin_users = [\"postgres\"]\ntls = \"prefer\"\ntls_certificate = \"monitor.crt\"\ntls_key = \"monitor.key\"\n[databases.\"*\"]\nserver = \"host={} port={port}\"\n",
            at.parent().unwrap().display()
        ),
    )
    .unwrap();
    let read = move || tenbin_tpmonitor::config::read(&file).map(|(config, _)| config);
    let monitor = Running::configured(
        shared,
        read().unwrap(),
        Some(Box::new(move || read().map_err(|error| error.to_string()))),
    );
    let ca = format!(
        "sslmode=verify-full sslrootcert={}",
        authority.text("ca.crt")
    );
    assert_eq!(psql(&monitor, &ca, "SELECT 1").unwrap(), "1");
    let mut kept = Secret::ask(monitor.address, &authority.path("ca.crt"));
    kept.log_in();
    // From another authority now.
    let other = Authority::new();
    other.sign("monitor", "a monitor", &["localhost"]);
    for name in ["monitor.crt", "monitor.key"] {
        std::fs::copy(other.path(name), authority.path(name)).unwrap();
    }
    monitor.reload();
    assert!(
        psql(&monitor, &ca, "SELECT 1")
            .unwrap_err()
            .contains("certificate verify failed")
    );
    let new = format!("sslmode=verify-full sslrootcert={}", other.text("ca.crt"));
    assert_eq!(psql(&monitor, &new, "SELECT 1").unwrap(), "1");
    assert_eq!(kept.value("SELECT 'kept'"), b"kept");
    // What cannot be read leaves what was.
    std::fs::write(authority.path("monitor.key"), "nothing").unwrap();
    monitor.reload();
    assert_eq!(psql(&monitor, &new, "SELECT 1").unwrap(), "1");
}

/// A monitor that speaks to a server as a connection string says.
fn to_server(server: &Arc<tenbin_server::Embedded>, options: &str) -> Running {
    let target = server.tcp_target();
    let port = server.port();
    let host = if options.contains("host=") {
        ""
    } else {
        "host=localhost"
    };
    let dsn = format!(
        "{host} hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres password={} {options}",
        target.password.unwrap()
    );
    let route = Route::parse(&dsn, Path::new("/")).unwrap();
    Running::before(Arc::clone(server), |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config {
            auth: Auth::Trust,
            ..Config::in_front_of(route, listen)
        };
    })
}

const ENCRYPTED: &str = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

#[test]
fn servers_are_spoken_to_as_sslmode_says() {
    let authority = Authority::new();
    let foreign = Authority::new();
    let server = Arc::new(authority.server(&["localhost"], "host all all all scram-sha-256"));
    let ca = format!("sslrootcert={}", authority.text("ca.crt"));
    let other = format!("sslrootcert={}", foreign.text("ca.crt"));
    let only = |mode: &str| format!("sslmode={mode}");
    for (options, expected) in [
        (only("disable"), Ok("f")),
        (only("allow"), Ok("f")),
        (only("prefer"), Ok("t")),
        (String::new(), Ok("t")),
        (only("require"), Ok("t")),
        (format!("sslmode=verify-ca {ca}"), Ok("t")),
        (format!("sslmode=verify-full {ca}"), Ok("t")),
        (
            format!("sslmode=verify-full {ca} channel_binding=require"),
            Ok("t"),
        ),
        (
            format!("sslmode=verify-full sslnegotiation=direct {ca}"),
            Ok("t"),
        ),
        (
            format!("sslmode=verify-ca {ca} host=other.example"),
            Ok("t"),
        ),
        (
            format!("sslmode=verify-full {ca} host=other.example"),
            Err("not valid for name"),
        ),
        (format!("sslmode=verify-ca {other}"), Err("UnknownIssuer")),
        (format!("sslmode=require {other}"), Err("UnknownIssuer")),
        (format!("sslmode=prefer {other}"), Ok("f")),
        (
            "sslmode=disable channel_binding=require".to_owned(),
            Err("does not bind"),
        ),
    ] {
        let monitor = to_server(&server, &options);
        let said = psql(&monitor, "sslmode=disable", ENCRYPTED);
        match (&said, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{options}"),
            (Err(text), Err(part)) => assert!(text.contains(part), "{options}: {text}"),
            _ => panic!("{options}: {said:?}"),
        }
    }
    // What the server insists on is found out where the mode lets it be.
    authority.sign("me", "postgres", &[]);
    let own = format!(
        "sslmode=require sslcert={} sslkey={}",
        authority.text("me.crt"),
        authority.text("me.key")
    );
    for (hba, options, expected) in [
        (
            "hostssl all all all scram-sha-256",
            only("allow"),
            Some("t"),
        ),
        (
            "hostnossl all all all scram-sha-256",
            only("prefer"),
            Some("f"),
        ),
        ("hostnossl all all all scram-sha-256", only("require"), None),
        ("hostssl all all all cert", own, Some("t")),
        ("hostssl all all all cert", only("require"), None),
    ] {
        allow(&server, hba);
        let monitor = to_server(&server, &options);
        let said = psql(&monitor, "sslmode=disable", ENCRYPTED);
        assert_eq!(said.as_deref().ok(), expected, "{hba}, {options}: {said:?}");
    }
}

#[test]
fn a_servers_certificate_may_be_of_version_1() {
    let authority = Authority::new();
    let foreign = Authority::new();
    let hba = "host all all all scram-sha-256";
    let server = Arc::new(authority.server(&["localhost"], hba));
    authority.make_v1("server");
    allow(&server, hba);
    let ca = format!("sslrootcert={}", authority.text("ca.crt"));
    let other = format!("sslrootcert={}", foreign.text("ca.crt"));
    for (options, expected) in [
        ("sslmode=prefer".to_owned(), Ok("t")),
        ("sslmode=require".to_owned(), Ok("t")),
        (format!("sslmode=verify-ca {ca}"), Ok("t")),
        // It has no names of hosts, and its common name is another.
        (format!("sslmode=verify-full {ca}"), Err("NotValidForName")),
        (
            format!("sslmode=verify-ca {other}"),
            Err("UnsupportedCertVersion"),
        ),
    ] {
        let monitor = to_server(&server, &options);
        let said = psql(&monitor, "sslmode=disable", ENCRYPTED);
        match (&said, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{options}"),
            (Err(text), Err(part)) => assert!(text.contains(part), "{options}: {text}"),
            _ => panic!("{options}: {said:?}"),
        }
    }
}

#[test]
fn the_monitors_own_certificates_may_be_of_version_1() {
    let authority = Authority::new();
    let hba = "hostssl all all all cert";
    let server = Arc::new(authority.server(&["localhost"], hba));
    authority.sign("own", "postgres", &[]);
    authority.make_v1("own");
    let own = format!(
        "sslmode=require sslcert={} sslkey={}",
        authority.text("own.crt"),
        authority.text("own.key")
    );
    authority.sign("monitor", "localhost", &[]);
    authority.make_v1("monitor");
    let with_key = |key: &str| {
        ClientTls::read(
            TlsMode::Require,
            TlsVersions::default(),
            Some(&authority.path("monitor.crt")),
            Some(&authority.path(key)),
            None,
        )
    };
    let dsn = format!("host=localhost port={} user=postgres {own}", server.port());
    let monitor = Running::before(server, |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config::in_front_of(Route::parse(&dsn, Path::new("/")).unwrap(), listen);
        config.auth = Auth::Trust;
        config.tls = with_key("monitor.key").unwrap();
    });
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let options = format!(
            "sslmode=verify-full sslrootcert={} ssl_max_protocol_version={protocol}",
            authority.text("ca.crt")
        );
        assert_eq!(psql(&monitor, &options, ENCRYPTED).as_deref(), Ok("t"));
    }
    let error = with_key("own.key").unwrap_err().to_string();
    assert!(error.contains("KeyMismatch"), "{error}");
}

#[test]
fn a_server_without_tls_is_taken_or_refused() {
    let server = server();
    for (mode, works) in [("prefer", true), ("allow", true), ("require", false)] {
        let monitor = to_server(&server, &format!("sslmode={mode}"));
        let said = psql(&monitor, "sslmode=disable", "SELECT 1");
        assert_eq!(said.is_ok(), works, "{mode}: {said:?}");
        assert!(works || said.unwrap_err().contains("does not speak TLS"));
    }
}

/// CVE-2021-23222: a server's words before the keys are nobody's.
#[test]
fn a_server_that_says_more_than_yes_is_not_spoken_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let planted = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.read_exact(&mut [0; 8]).unwrap();
        socket.write_all(b"SR\0\0\0\x08\0\0\0\0").unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        rest
    });
    let dsn = format!("postgres://me:secret@127.0.0.1:{port}/db?sslmode=require");
    let route = Route::parse(&dsn, Path::new("/")).unwrap();
    let monitor = Running::before(server(), |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config {
            auth: Auth::Trust,
            ..Config::in_front_of(route, listen)
        };
    });
    let said = psql(&monitor, "sslmode=disable user=me", "SELECT 1").unwrap_err();
    assert!(said.contains("unencrypted data"), "{said}");
    assert_eq!(planted.join().unwrap(), b"");
}

/// With TLS on both sides: each client gets its own, under pipelines, cancels and departures.
#[test]
fn cancels_and_load_go_through_under_tls() {
    let authority = Authority::new();
    let server = Arc::new(authority.server(&["localhost"], "hostssl all all all scram-sha-256"));
    authority.sign("monitor", "a monitor", &["localhost"]);
    let target = server.tcp_target();
    let dsn = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=postgres dbname=postgres password={} sslmode=verify-full sslrootcert={}",
        server.port(),
        target.password.unwrap(),
        authority.text("ca.crt")
    );
    let route = Route::parse(&dsn, Path::new("/")).unwrap();
    let monitor = Running::before(Arc::clone(&server), |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config {
            auth: Auth::Trust,
            pool_size: 4,
            ..Config::in_front_of(route, listen)
        };
        config.tls = ClientTls::read(
            TlsMode::Require,
            TlsVersions::default(),
            Some(&authority.path("monitor.crt")),
            Some(&authority.path("monitor.key")),
            None,
        )
        .unwrap();
    });
    // psql's own statement_timeout is none: \watch and Ctrl-C are what people do; SIGINT makes libpq
    // send the cancel request.
    let mut sleeper = Command::new("psql")
        .args(["-XAtq", "-c", "SELECT pg_sleep(600)", "-d"])
        .arg(format!(
            "host=localhost hostaddr=127.0.0.1 port={} user=postgres dbname=postgres sslmode=require",
            monitor.address.port()
        ))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut direct = server.connect().unwrap();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'";
    while direct.query_one(sleeping, &[]).unwrap().get::<_, i64>(0) == 0 {
        std::thread::yield_now();
    }
    let pid = i32::try_from(sleeper.id()).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let mut said = String::new();
    sleeper
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    sleeper.wait().unwrap();
    assert!(
        said.contains("canceling statement due to user request"),
        "{said}"
    );
    // 20 clients on 4 servers, each asking for what nobody else asks for.
    let ca = authority.path("ca.crt");
    std::thread::scope(|scope| {
        for client in 0..20_u32 {
            let (ca, address) = (&ca, monitor.address);
            scope.spawn(move || {
                let mut secret = Secret::ask(address, ca);
                secret.log_in();
                for turn in 0..60 {
                    let tag = format!("{client}-{turn}-{}", "t".repeat((turn * 997) % 40_000));
                    assert_eq!(secret.value(&format!("SELECT '{tag}'")), tag.into_bytes());
                    if turn % 20 == 19 {
                        secret.send(&query("SELECT repeat('left', 100000)"));
                        secret = Secret::ask(address, ca);
                        secret.log_in();
                    }
                }
            });
        }
    });
}
