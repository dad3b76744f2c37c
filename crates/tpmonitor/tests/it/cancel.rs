//! A cancel request meets the one it is meant for, and nobody else.

use crate::support::Running;
use crate::support::raw::{bind, execute, parse, query, sync};

#[test]
fn a_running_query_is_cancelled() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&query("BEGIN"));
    assert_eq!(one.tags(1), "CZ");
    let pid = one.value("SELECT pg_backend_pid()");
    one.send(&query("SELECT pg_sleep(60)"));
    other.send(&query("BEGIN; SELECT pg_sleep(0.3); COMMIT"));
    let mut direct = monitor.direct();
    loop {
        let row = direct
            .query_one(
                &format!("SELECT coalesce(wait_event, '') = 'PgSleep' FROM pg_stat_activity WHERE pid = {pid}"),
                &[],
            )
            .unwrap();
        if row.get(0) {
            break;
        }
    }
    one.cancel();
    let replies = one.until_ready();
    let error = replies.iter().find(|reply| reply.tag == 'E').unwrap();
    assert_eq!(error.field(b'C'), "57014");
    assert_eq!(other.tags(1), "CTDCCZ");
    one.send(&query("ROLLBACK"));
    assert_eq!(one.tags(1), "CZ");
}

#[test]
fn a_waiting_query_is_cancelled_without_a_server() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let (mut holder, mut simple, mut extended) = (monitor.raw(), monitor.raw(), monitor.raw());
    holder.send(&query("BEGIN"));
    assert_eq!(holder.tags(1), "CZ");
    simple.send(&query("SELECT 'simple'"));
    extended.send(
        &[
            parse("", "SELECT 'extended'"),
            bind("", ""),
            execute(""),
            sync(),
        ]
        .concat(),
    );
    // Both wait by the time that this has been answered.
    drop(monitor.raw());
    for client in [&mut simple, &mut extended] {
        client.cancel();
        let replies = client.until_ready();
        assert_eq!(replies[0].field(b'C'), "57014");
        assert_eq!(replies.len(), 2, "{replies:?}");
    }
    // The one who has the server has noticed nothing.
    assert_eq!(holder.value("SELECT 1"), "1");
    holder.send(&query("COMMIT"));
    assert_eq!(holder.tags(1), "CZ");
    assert_eq!(simple.value("SELECT 2"), "2");
    assert_eq!(extended.value("SELECT 3"), "3");
}

#[test]
fn idle_sessions_and_wrong_keys_cancel_nothing() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let (idle, mut busy) = (monitor.raw(), monitor.raw());
    busy.send(&query("SELECT pg_sleep(0.3)"));
    idle.cancel();
    let key = busy.key.clone();
    busy.key[7] ^= 1;
    busy.cancel();
    busy.key = vec![0, 0, 0, 0, 0, 0, 0, 0];
    busy.cancel();
    busy.key = key;
    assert_eq!(busy.tags(1), "TDCZ");
}
