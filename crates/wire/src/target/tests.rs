use super::*;
use std::os::unix::fs::PermissionsExt;

fn parse(dsn: &str, variables: &[(&str, &str)]) -> Result<Target, TargetError> {
    let lookup = |name: &str| {
        variables
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    };
    Target::parse_in(dsn, &Environment { lookup: &lookup })
}

fn refused(dsn: &str, variables: &[(&str, &str)]) -> String {
    parse(dsn, variables).expect_err("a refusal").to_string()
}

fn unix(path: &str) -> Address {
    Address::Unix(path.into())
}

fn tcp(text: &str) -> Address {
    Address::Tcp(text.parse().expect("an address"))
}

#[test]
fn the_string_comes_before_the_environment_and_that_before_the_usual() {
    let around = [
        ("PGHOST", "/a,127.0.0.9"),
        ("PGPORT", "1,2"),
        ("PGUSER", "u"),
        ("PGPASSWORD", "p"),
        ("PGDATABASE", "d"),
    ];
    let target = parse("", &around).expect("a target");
    assert_eq!(
        target.addresses,
        [unix("/a/.s.PGSQL.1"), tcp("127.0.0.9:2")]
    );
    assert_eq!(
        (
            target.user.as_str(),
            target.password.as_deref(),
            target.database.as_str()
        ),
        ("u", Some("p"), "d")
    );
    let own =
        "host=127.0.0.1 port=3 user=v password='q r' dbname=e application_name=n options='-c a=b'";
    let target = parse(own, &around).expect("a target");
    assert_eq!(target.addresses, [tcp("127.0.0.1:3")]);
    assert_eq!(
        (
            target.user.as_str(),
            target.password.as_deref(),
            target.database.as_str()
        ),
        ("v", Some("q r"), "e")
    );
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        target.parameters,
        [pair("application_name", "n"), pair("options", "-c a=b")]
    );
    let target = parse("host=/a user=me", &[("PGUSER", "")]).expect("a target");
    assert_eq!(
        (target.addresses, target.password, target.database),
        (vec![unix("/a/.s.PGSQL.5432")], None, "me".to_owned())
    );
    assert_eq!(target.parameters, [pair("application_name", "tenbin")]);
}

#[test]
fn both_spellings_and_several_hosts_are_understood() {
    for (dsn, expected) in [
        ("postgres://me@127.0.0.1/db", vec![tcp("127.0.0.1:5432")]),
        (
            "postgres://me:pw@[::1]:7,127.0.0.1:8/db",
            vec![tcp("[::1]:7"), tcp("127.0.0.1:8")],
        ),
        (
            "postgresql://me@%2Frun%2Fpg:9/db",
            vec![unix("/run/pg/.s.PGSQL.9")],
        ),
        (
            "postgres:///db?host=/run/pg&user=me",
            vec![unix("/run/pg/.s.PGSQL.5432")],
        ),
        (
            "host=/x,/y port=4 user=me",
            vec![unix("/x/.s.PGSQL.4"), unix("/y/.s.PGSQL.4")],
        ),
        (
            "host=ignored hostaddr=127.0.0.3 user=me",
            vec![tcp("127.0.0.3:5432")],
        ),
    ] {
        assert_eq!(
            parse(dsn, &[])
                .unwrap_or_else(|error| panic!("{dsn}: {error}"))
                .addresses,
            expected,
            "{dsn}"
        );
    }
}

#[test]
fn what_is_not_honoured_is_refused_with_the_reason() {
    for mode in ["require", "verify-ca", "verify-full"] {
        let expected = format!(
            "sslmode={mode} asks for TLS, which tenbin does not speak yet; use sslmode=disable, a Unix socket or an SSH tunnel"
        );
        assert_eq!(refused(&format!("host=/a sslmode={mode}"), &[]), expected);
        assert_eq!(
            refused(&format!("postgres://me@h/d?sslmode={mode}"), &[]),
            expected
        );
        assert_eq!(refused("host=/a", &[("PGSSLMODE", mode)]), expected);
        parse("host=/a sslmode=disable user=me", &[("PGSSLMODE", mode)]).expect("a target");
    }
    assert!(
        refused("host=/a target_session_attrs=read-write user=me", &[])
            .contains("target_session_attrs")
    );
    assert!(refused("host=/a,/b,/c port=1,2 user=me", &[]).contains("3 hosts but 2 ports"));
    assert!(refused("host=/a user=me", &[("PGPORT", "high")]).contains("PGPORT is \"high\""));
    assert!(refused("nonsense", &[]).starts_with("could not read the connection string: "));
    assert!(
        refused("host=no.such.invalid user=me", &[])
            .starts_with("could not find the address of host \"no.such.invalid\"")
    );
}

#[test]
fn passwords_come_from_the_file_that_only_its_owner_reads() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pass");
    let lines = "# comment\n/a:1:d:u:unix\nlocalhost:2:*:u:lo\\:cal\\\\\n127.0.0.1:*:d:*:tcp\n*:3:d:u:\n*:*:*:w:any\n";
    std::fs::write(&path, lines).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("permissions");
    let file = path.to_str().expect("text");
    let password = |dsn: &str, name| parse(dsn, &[(name, file)]).expect("a target").password;
    for (dsn, expected) in [
        ("host=/a port=1 dbname=d user=u", Some("unix")),
        ("host=/a port=1 dbname=e user=u", None),
        ("host=/b port=2 dbname=e user=u", Some("lo:cal\\")),
        ("host=/b,127.0.0.1 port=7,8 dbname=d user=x", Some("tcp")),
        ("host=/c port=3 dbname=d user=u", None),
        ("host=/c port=9 dbname=d user=w", Some("any")),
        ("host=/c port=9 dbname=d user=w password=own", Some("own")),
    ] {
        assert_eq!(password(dsn, "PGPASSFILE").as_deref(), expected, "{dsn}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("permissions");
    assert_eq!(
        password("host=/a port=1 dbname=d user=u", "PGPASSFILE"),
        None
    );
}

#[test]
fn nothing_that_is_printed_holds_the_password() {
    let target =
        parse("host=/a,127.0.0.1 user=me password=geheim dbname=db", &[]).expect("a target");
    assert!(!format!("{target:?} {target} {:?}", target.config()).contains("geheim"));
    assert_eq!(
        target.to_string(),
        "database \"db\" as \"me\" at /a/.s.PGSQL.5432, 127.0.0.1:5432"
    );
    assert_eq!(target.config().get_password(), Some(&b"geheim"[..]));
}

#[test]
fn addresses_keep_the_names_that_their_certificates_are_for() {
    let places = |dsn| Target::places_in(dsn, &Environment { lookup: &|_| None }).expect("places");
    let named = |host: &str, address| (host.to_owned(), address);
    assert_eq!(
        places("host=/a,127.0.0.2 port=1,2"),
        [
            named("", unix("/a/.s.PGSQL.1")),
            named("127.0.0.2", tcp("127.0.0.2:2"))
        ]
    );
    assert_eq!(
        places("host=one.example,two.example hostaddr=127.0.0.3,127.0.0.4"),
        [
            named("one.example", tcp("127.0.0.3:5432")),
            named("two.example", tcp("127.0.0.4:5432"))
        ]
    );
    assert_eq!(
        places("hostaddr=127.0.0.3"),
        [named("127.0.0.3", tcp("127.0.0.3:5432"))]
    );
}
