//! pgbench's built-in scripts: the same statements and the same draws in the same order.

use crate::error::Error;

/// A built-in script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// What `-b` calls it.
    pub name: &'static str,
    /// What results call it.
    pub description: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All of them, in pgbench's order.
pub const BUILTINS: [Builtin; 3] = [
    Builtin {
        name: "tpcb-like",
        description: "<builtin: TPC-B (sort of)>",
        text: r"\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "simple-update",
        description: "<builtin: simple update>",
        text: r"\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "select-only",
        description: "<builtin: select only>",
        text: r"\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
",
    },
];

/// The built-in script whose name, or an unambiguous beginning of it, is `name`.
///
/// # Errors
/// No script or several of that name.
pub fn builtin(name: &str) -> Result<&'static Builtin, Error> {
    let mut found = BUILTINS
        .iter()
        .filter(|builtin| builtin.name.starts_with(name));
    match (found.next(), found.count()) {
        (Some(builtin), 0) => Ok(builtin),
        (None, _) => Err(Error::NoBuiltin(name.to_owned())),
        (Some(_), others) => Err(Error::AmbiguousBuiltin {
            name: name.to_owned(),
            count: others + 1,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_beginnings() {
        for (name, found) in [
            ("t", 0),
            ("tpcb-like", 0),
            ("si", 1),
            ("se", 2),
            ("select-only", 2),
        ] {
            assert_eq!(builtin(name).unwrap(), &BUILTINS[found], "{name}");
        }
        assert!(matches!(builtin("x"), Err(Error::NoBuiltin(_))));
        assert!(matches!(
            builtin("s"),
            Err(Error::AmbiguousBuiltin { count: 2, .. })
        ));
        assert!(matches!(
            builtin(""),
            Err(Error::AmbiguousBuiltin { count: 3, .. })
        ));
    }
}
