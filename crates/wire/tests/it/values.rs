//! Every kind of parameter and column, there and back.

use crate::server::{Connection, Server};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use tenbin_wire::{Param, Row};

/// Executes `sql` with one parameter and hands the only row to `read`.
fn echo<T>(
    connection: &mut Connection,
    sql: &str,
    param: Param<'_>,
    read: impl FnOnce(Row<'_>) -> T,
) -> T {
    connection.session.parse("", sql, &[]);
    connection.session.execute("", &[param]);
    let mut replies = connection.sync().expect("an answer");
    read(
        replies
            .next()
            .and_then(|mut reply| reply.row())
            .expect("a row"),
    )
}

fn runner() -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

#[test]
fn integers_and_floats_come_back() {
    let server = Server::shared();
    let shared = RefCell::new(server.session());
    runner()
        .run(
            &(any::<i16>(), any::<i32>(), any::<i64>(), any::<f64>()),
            |(small, int, big, float)| {
                let connection = &mut *shared.borrow_mut();
                let int_of = |row: Row<'_>| row.int(0);
                prop_assert_eq!(
                    echo(connection, "SELECT $1::int2", Param::I16(small), int_of),
                    Ok(small.into())
                );
                prop_assert_eq!(
                    echo(connection, "SELECT $1::int4", Param::I32(int), int_of),
                    Ok(int.into())
                );
                prop_assert_eq!(
                    echo(connection, "SELECT $1::int8", Param::I64(big), int_of),
                    Ok(big)
                );
                let back = echo(connection, "SELECT $1::float8", Param::F64(float), |row| {
                    row.float(0)
                });
                prop_assert_eq!(back.map(f64::to_bits), Ok(float.to_bits()));
                let as_text = echo(
                    connection,
                    "SELECT $1::int8::text",
                    Param::I64(big),
                    |row| row.text(0).map(ToOwned::to_owned),
                );
                prop_assert_eq!(as_text, Ok(big.to_string()));
                Ok(())
            },
        )
        .expect("all values");
    let connection = &mut *shared.borrow_mut();
    assert_eq!(
        echo(connection, "SELECT $1::float4", Param::Text("1.5"), |row| {
            row.float(0)
        }),
        Ok(1.5)
    );
}

#[test]
fn text_and_null_come_back() {
    let server = Server::shared();
    let shared = RefCell::new(server.session());
    runner()
        .run(&"[^\0]{0,200}", |text| {
            let connection = &mut *shared.borrow_mut();
            let back = echo(connection, "SELECT $1::text", Param::Text(&text), |row| {
                row.text(0).map(ToOwned::to_owned)
            });
            prop_assert_eq!(back, Ok(text));
            Ok(())
        })
        .expect("all texts");
    let connection = &mut *shared.borrow_mut();
    assert_eq!(
        echo(connection, "SELECT $1::text", Param::Null, |row| row
            .raw(0)
            .map(|raw| raw.is_none())),
        Ok(true)
    );
}

#[test]
fn arrays_arrive_element_by_element() {
    let server = Server::shared();
    let shared = RefCell::new(server.session());
    let spelled = |row: Row<'_>| row.text(0).map(ToOwned::to_owned);
    let spell = |values: &mut dyn Iterator<Item = String>| {
        format!("{{{}}}", values.collect::<Vec<_>>().join(","))
    };
    runner()
        .run(
            &(
                prop::collection::vec(any::<i32>(), 0..40),
                prop::collection::vec(any::<i16>(), 0..40),
            ),
            |(ints, smalls)| {
                let connection = &mut *shared.borrow_mut();
                let back = echo(
                    connection,
                    "SELECT $1::int4[]::text",
                    Param::I32Array(&ints),
                    spelled,
                );
                prop_assert_eq!(back, Ok(spell(&mut ints.iter().map(ToString::to_string))));
                let back = echo(
                    connection,
                    "SELECT $1::int2[]::text",
                    Param::I16Array(&smalls),
                    spelled,
                );
                prop_assert_eq!(back, Ok(spell(&mut smalls.iter().map(ToString::to_string))));
                Ok(())
            },
        )
        .expect("all arrays");
    let connection = &mut *shared.borrow_mut();
    let unnested = echo(
        connection,
        "SELECT sum(x)::int4 FROM unnest($1::int4[]) x",
        Param::I32Array(&[1, 2, 39]),
        |row| row.int(0),
    );
    assert_eq!(unnested, Ok(42));
}

#[test]
fn numerics_are_exact() {
    let server = Server::shared();
    let shared = RefCell::new(server.session());
    // The server divides by a power of ten on its own side: an independent way to the same value.
    runner()
        .run(&(any::<i64>(), 0_u32..=18), |(value, scale)| {
            let connection = &mut *shared.borrow_mut();
            let text = format!("SELECT ($1::numeric * 1e-{scale}::numeric)::numeric(60,{scale})");
            let read = |row: Row<'_>| row.numeric(0, scale);
            let back = echo(connection, &text, Param::Text(&value.to_string()), read);
            prop_assert_eq!(back, Ok(value));
            connection
                .session
                .query(&text.replace("$1", &format!("'{value}'")));
            let mut replies = connection.sync().expect("an answer");
            let row = replies
                .next()
                .and_then(|mut reply| reply.row())
                .expect("a row");
            prop_assert_eq!(row.numeric(0, scale), Ok(value), "in text form");
            Ok(())
        })
        .expect("all numerics");
    let connection = &mut *shared.borrow_mut();
    let read = |connection: &mut Connection, text: &str, scale| {
        echo(connection, "SELECT $1::numeric", Param::Text(text), |row| {
            row.numeric(0, scale)
        })
        .ok()
    };
    for (text, scale, expected) in [
        ("0", 2, Some(0)),
        ("0.00", 0, Some(0)),
        ("-12.50", 2, Some(-1250)),
        ("12.5", 0, None),
        ("12.50", 1, Some(125)),
        ("0.0001", 4, Some(1)),
        ("0.00005", 4, None),
        ("1e18", 0, Some(1_000_000_000_000_000_000)),
        ("9223372036854775807", 0, Some(i64::MAX)),
        ("-9223372036854775808", 0, Some(i64::MIN)),
        ("9223372036854775808", 0, None),
        ("-92233720368547758.09", 2, None),
        ("1e30", 0, None),
        ("1e-30", 2, None),
        ("NaN", 2, None),
        ("Infinity", 2, None),
        ("-Infinity", 2, None),
    ] {
        assert_eq!(
            read(connection, text, scale),
            expected,
            "{text} with {scale} decimals"
        );
    }
}

#[test]
fn a_reader_at_odds_with_its_statement_is_told() {
    let server = Server::shared();
    let mut connection = server.session();
    let message = |what: &str| {
        Some(format!(
            "connection lost: unexpected value in column {what}; the statement and the code that reads it disagree"
        ))
    };
    connection.session.parse(
        "",
        "SELECT 'abc'::text, NULL::int4, true, '\\xff'::bytea, 1.5::numeric",
        &[],
    );
    connection.session.execute("", &[]);
    let mut replies = connection.sync().expect("an answer");
    let row = replies
        .next()
        .and_then(|mut reply| reply.row())
        .expect("a row");
    assert_eq!(
        row.int(0).err().map(|e| e.to_string()),
        message("0: not the width of an integer")
    );
    assert_eq!(row.int(1).err().map(|e| e.to_string()), message("1: NULL"));
    assert_eq!(
        row.int(2).err().map(|e| e.to_string()),
        message("2: not the width of an integer")
    );
    assert_eq!(
        row.float(2).err().map(|e| e.to_string()),
        message("2: not the width of a floating-point number")
    );
    assert_eq!(
        row.text(3).err().map(|e| e.to_string()),
        message("3: not text in UTF-8")
    );
    let inexact = "4: no numeric that is exact in 64 bits with 0 decimals";
    assert_eq!(
        row.numeric(4, 0).err().map(|e| e.to_string()),
        message(inexact)
    );
    assert_eq!(
        row.text(5).err().map(|e| e.to_string()),
        message("5: there is no such column")
    );
}
