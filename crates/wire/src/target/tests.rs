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
fn variables_become_the_parameters_that_libpq_makes_of_them() {
    let around = [
        ("PGAPPNAME", "app"),
        ("PGOPTIONS", "-c jit=off"),
        ("PGTZ", "UTC"),
        ("PGDATESTYLE", "German"),
        ("PGGEQO", "DEFAULT"),
        ("PGCLIENTENCODING", "utf-8"),
        ("PGHOSTADDR", "127.0.0.7"),
        ("PGSSLMODE", "allow"),
        ("PGPORT", "8"),
    ];
    let target = parse("postgres://me@host.invalid/d", &around).expect("a target");
    assert_eq!(target.addresses, [tcp("127.0.0.7:8")]);
    let pairs = |pairs: &[(&str, &str)]| {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        pairs.iter().map(owned).collect::<Vec<_>>()
    };
    assert_eq!(
        target.parameters,
        pairs(&[
            ("application_name", "app"),
            ("options", "-c jit=off"),
            ("datestyle", "German"),
            ("timezone", "UTC"),
        ])
    );
    // The connections for administration have the same.
    let config = target.config();
    assert_eq!(config.get_application_name(), Some("app"));
    assert_eq!(
        config.get_options(),
        Some("-c jit=off -c datestyle=German -c timezone=UTC")
    );
    let own = "host=/a user=me options='-c a=b' application_name=own client_encoding=UTF8";
    let target = parse(own, &around[..2]).expect("a target");
    assert_eq!(
        target.parameters,
        pairs(&[("application_name", "own"), ("options", "-c a=b")])
    );
    let target = parse("host=/a user=me fallback_application_name=else", &[]).expect("a target");
    assert_eq!(target.parameters, pairs(&[("application_name", "else")]));
}

#[test]
fn a_service_stands_between_the_string_and_the_variables() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    let home = directory.path().to_str().expect("text").to_owned();
    write(
        ".pg_service.conf",
        "[s]\nhost=/s\nport=4\nuser=it's\ndbname=d s\n[t]\nsslmode=require\n",
    );
    write("pg_service.conf", "[system]\nhost=/y\n[s]\nhost=/z\n");
    let other = write("other", "[s]\nhost=/o\noptions=-c x=y\n[odd]\nhost\n");
    let all = [
        ("HOME", &*home),
        ("PGSYSCONFDIR", &*home),
        ("PGHOST", "/e"),
        ("PGUSER", "me"),
    ];
    let with = |more: &[(&'static str, &'static str)]| [&all[..], more].concat();
    let reached = |dsn: &str, variables: &[(&str, &str)]| {
        let target = parse(dsn, variables).unwrap_or_else(|error| panic!("{dsn}: {error}"));
        target.to_string()
    };
    let whole = "database \"d s\" as \"it's\" at /s/.s.PGSQL.4";
    assert_eq!(reached("service=s", &all), whole);
    assert_eq!(reached("", &with(&[("PGSERVICE", "s")])), whole);
    assert_eq!(reached("postgres:///?service=s", &all), whole);
    for own in ["service=s host=/a dbname=b", "postgres://%2Fa/b?service=s"] {
        let expected = "database \"b\" as \"it's\" at /a/.s.PGSQL.4";
        assert_eq!(reached(own, &all), expected, "{own}");
    }
    assert_eq!(
        reached("service=system", &all),
        "database \"me\" as \"me\" at /y/.s.PGSQL.5432"
    );
    let named = [&all[..], &[("PGSERVICEFILE", &*other)]].concat();
    let target = parse("service=s", &named).expect("a target");
    assert_eq!(target.addresses, [unix("/o/.s.PGSQL.5432")]);
    assert_eq!(target.parameters[1].1, "-c x=y");
    assert!(refused("service=t", &all).starts_with("sslmode=require asks for TLS"));
    assert!(refused("service=u", &all).contains("could not find the service \"u\""));
    assert!(refused("service=odd", &named).contains("line 5 sets no option"));
    let gone = with(&[("PGSERVICEFILE", "/proc/absent/file")]);
    assert!(refused("service=s", &gone).contains("service file /proc/absent/file"));
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
    for (name, variable, value) in [
        ("channel_binding", "PGCHANNELBINDING", "require"),
        ("gssencmode", "PGGSSENCMODE", "require"),
        ("load_balance_hosts", "PGLOADBALANCEHOSTS", "random"),
        ("min_protocol_version", "PGMINPROTOCOLVERSION", "3.2"),
        ("require_auth", "PGREQUIREAUTH", "md5"),
        ("requirepeer", "PGREQUIREPEER", "me"),
        ("sslcertmode", "PGSSLCERTMODE", "require"),
        ("sslnegotiation", "PGSSLNEGOTIATION", "direct"),
        ("target_session_attrs", "PGTARGETSESSIONATTRS", "read-write"),
    ] {
        let asks = |origin| {
            format!("{origin} asks for {name}={value}, which tenbin does not honour; leave it out")
        };
        assert_eq!(
            refused("host=/a user=me", &[(variable, value)]),
            asks(variable)
        );
        let set = format!("host=/a user=me {name}={value}");
        assert_eq!(
            refused(&set, &[]),
            asks("the connection string (or its service)")
        );
        // What the string says of it hides the variable, and an empty value is none.
        let set = format!("postgres://me@%2Fa?{name}=");
        parse(&set, &[(variable, value)]).expect("a target");
    }
    assert!(refused("host=/a sslrootcert=system", &[]).starts_with("sslmode=verify-full"));
    assert!(refused("host=/a sslmode=often", &[]).contains("sslmode=often is none of"));
    assert!(
        refused("host=/a", &[("PGCLIENTENCODING", "LATIN1")])
            .starts_with("client_encoding=LATIN1 is asked for")
    );
    assert!(refused("host=/a", &[("PGHOSTADDR", "localhost")]).contains("no list of IP addresses"));
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
