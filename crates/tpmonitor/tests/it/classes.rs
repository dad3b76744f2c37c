//! Classes of clients: who comes first, and how many may be at work.

use crate::support::raw::{Raw, query};
use crate::support::{Running, server};
use postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};
use tenbin_tpmonitor::{Class, Config, Listen};

fn class(name: &str, priority: i32, limit: usize) -> Class {
    Class {
        name: name.to_owned(),
        application_names: vec![name.to_owned()],
        priority,
        limit,
        ..Class::default()
    }
}

fn admin(monitor: &Running) -> postgres::Client {
    monitor.config().dbname("tenbin").connect(NoTls).unwrap()
}

fn rows(admin: &mut postgres::Client, sql: &str) -> Vec<SimpleQueryRow> {
    let messages = admin.simple_query(sql).unwrap();
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.collect()
}

/// How many wait in all pools.
fn waiting(admin: &mut postgres::Client) -> usize {
    let pools = rows(admin, "SHOW POOLS");
    let waiting = pools.iter().map(|pool| pool.get("cl_waiting").unwrap());
    waiting.map(|count| count.parse::<usize>().unwrap()).sum()
}

/// `running` and `waiting` of a class.
fn at_work(admin: &mut postgres::Client, name: &str) -> (usize, usize) {
    let classes = rows(admin, "SHOW CLASSES");
    let class = classes
        .iter()
        .find(|class| class.get("name") == Some(name))
        .unwrap();
    let number = |column: &str| class.get(column).unwrap().parse().unwrap();
    (number("running"), number("waiting"))
}

fn named(monitor: &Running, user: &str, name: &str) -> Raw {
    Raw::log_in(monitor.address, user, &[("application_name", name)])
}

fn begin(raw: &mut Raw) {
    raw.send(&query("BEGIN"));
    assert_eq!(raw.tags(1), "CZ");
}

fn commit(raw: &mut Raw) {
    raw.send(&query("COMMIT"));
    assert_eq!(raw.tags(1), "CZ");
}

/// Lets clients ask one after another, each when the one before waits; then ends what they wait for. Gives
/// the turn that each had.
fn turns(monitor: &Running, sequence: &str, holder: &mut Raw, clients: &mut [Raw]) -> Vec<u64> {
    monitor
        .direct()
        .batch_execute(&format!(
            "CREATE SEQUENCE {sequence}; GRANT ALL ON SEQUENCE {sequence} TO PUBLIC"
        ))
        .unwrap();
    let mut admin = admin(monitor);
    for (before, client) in clients.iter_mut().enumerate() {
        client.send(&query(&format!("SELECT nextval('{sequence}')")));
        while waiting(&mut admin) <= before {}
    }
    commit(holder);
    let turn = |client: &mut Raw| {
        let replies = client.until_ready();
        let row = replies
            .iter()
            .find(|reply| reply.tag == 'D')
            .expect("a row");
        String::from_utf8_lossy(&row.body[6..]).parse().unwrap()
    };
    clients.iter_mut().map(turn).collect()
}

#[test]
fn the_highest_priority_comes_first_and_within_it_the_first() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.classes = vec![class("urgent", 10, 0), class("report", -5, 0)];
    });
    let names = ["report", "", "urgent", "report", "urgent", "psql"];
    let mut clients: Vec<Raw> = names
        .iter()
        .map(|name| named(&monitor, "postgres", name))
        .collect();
    let mut holder = monitor.raw();
    begin(&mut holder);
    let turns = turns(&monitor, "turns_by_priority", &mut holder, &mut clients);
    assert_eq!(turns, [5, 3, 1, 6, 2, 4]);
}

#[test]
fn no_more_of_a_class_are_at_work_than_its_limit() {
    let monitor = Running::start(|config| {
        config.pool_size = 5;
        config.classes = vec![class("report", 3, 2)];
    });
    let mut admin = admin(&monitor);
    let mut reports: Vec<Raw> = (0..4)
        .map(|_| named(&monitor, "postgres", "report"))
        .collect();
    for report in &mut reports {
        report.send(&query("BEGIN"));
    }
    while at_work(&mut admin, "report") != (2, 2) {}
    // Servers are free, for all others.
    let mut other = monitor.raw();
    begin(&mut other);
    let (first, later) = reports.split_at_mut(2);
    for report in first.iter_mut() {
        assert_eq!(report.tags(1), "CZ");
    }
    // One that waits is cancelled, and waits anew; the other leaves.
    later[0].cancel();
    assert_eq!(later[0].tags(1), "EZ");
    assert_eq!(at_work(&mut admin, "report"), (2, 1));
    later[0].send(&query("BEGIN"));
    while at_work(&mut admin, "report") != (2, 2) {}
    drop(reports.pop());
    while at_work(&mut admin, "report") != (2, 1) {}
    commit(&mut reports[0]);
    assert_eq!(reports[2].tags(1), "CZ");
    assert_eq!(at_work(&mut admin, "report"), (2, 0));
    // Who leaves in the middle of a transaction is not at work any more.
    drop(reports);
    while at_work(&mut admin, "report") != (0, 0) {}
    commit(&mut other);
    let clients = rows(&mut admin, "SHOW CLIENTS");
    assert!(clients.iter().all(|client| client.get("class") == Some("")));
}

#[test]
fn of_pools_at_their_limit_the_one_with_the_higher_priority_is_served() {
    let monitor = Running::start(|config| {
        config.max_server_connections = 1;
        config.classes = vec![
            Class {
                name: "ladies".into(),
                users: vec!["classy".into()],
                priority: 1,
                ..Class::default()
            },
            class("report", -1, 0),
        ];
    });
    monitor
        .direct()
        .batch_execute("CREATE ROLE classy LOGIN")
        .unwrap();
    let mut clients = [
        ("postgres", "report"),
        ("postgres", ""),
        ("classy", "report"),
        ("postgres", ""),
        ("classy", ""),
    ]
    .map(|(user, name)| named(&monitor, user, name));
    let mut holder = monitor.raw();
    begin(&mut holder);
    let turns = turns(&monitor, "turns_of_pools", &mut holder, &mut clients);
    assert_eq!(turns[2..], [1, turns[3], 2], "{turns:?}");
    assert!(turns[1] < turns[3] && turns[3] < turns[0], "{turns:?}");
}

#[test]
fn a_reload_sorts_those_who_wait_anew() {
    let server = server();
    let target = server.target();
    let config = move |priority| {
        let listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
        Config {
            pool_size: 1,
            classes: vec![class("new", 1, 0), class("report", priority, 1)],
            ..Config::in_front_of(&target, listen)
        }
    };
    let first = Config {
        classes: vec![class("report", -1, 1)],
        ..config(-1)
    };
    let reread = Box::new(move || Ok(config(5)));
    let monitor = Running::configured(server, first, Some(reread));
    let mut admin = admin(&monitor);
    let mut holder = named(&monitor, "postgres", "report");
    begin(&mut holder);
    let mut clients = ["", "report"].map(|name| named(&monitor, "postgres", name));
    monitor
        .direct()
        .batch_execute("CREATE SEQUENCE turns_after_reload")
        .unwrap();
    for client in &mut clients {
        client.send(&query("SELECT nextval('turns_after_reload')"));
    }
    while waiting(&mut admin) < 2 {}
    assert_eq!(at_work(&mut admin, "report"), (1, 1));
    monitor.reload();
    assert_eq!(at_work(&mut admin, "report"), (1, 1));
    assert_eq!(at_work(&mut admin, "new"), (0, 0));
    commit(&mut holder);
    let value = |client: &mut Raw| {
        let replies = client.until_ready();
        let row = replies
            .iter()
            .find(|reply| reply.tag == 'D')
            .expect("a row");
        row.body[6..].to_vec()
    };
    assert_eq!(clients.each_mut().map(value), [b"2", b"1"]);
    assert_eq!(at_work(&mut admin, "report"), (0, 0));
}
