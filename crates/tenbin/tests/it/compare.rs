//! `tenbin compare` on runs of the command itself.

use crate::command::{dsn, server, tenbin};
use tempfile::TempDir;

/// Naps of 50 ms take the same time on a busy machine: 1 client does a sixteenth of what 16 do.
#[test]
fn a_limit_is_kept_exceeded_or_not_decided_by_the_exit_status() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let dsn = dsn(&server);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let nap = path("nap.sql");
    std::fs::write(&nap, "SELECT pg_sleep(0.05);\n").unwrap();
    for (name, clients) in [("a1", "16"), ("b1", "1"), ("a2", "16"), ("b2", "1")] {
        let out = path(name);
        let run = ["run", "script", &nap, "--dsn", &dsn, "-c", clients];
        let ran = tenbin(&[&run[..], &["-d", "1s", "--warmup", "0s", "--out", &out]].concat());
        assert!(ran.status.success(), "{ran:?}");
    }
    let [a1, a2, b1, b2] = ["a1", "a2", "b1", "b2"].map(path);
    for (arguments, status, words) in [
        (vec![&*a1, &a2], 5, "Not decided"),
        (vec![&*a1, &a2, "--with", &b1, &b2], 1, "beyond the limit"),
        (vec![&*b1, &b2, "--with", &a1, &a2], 0, "within the limit"),
    ] {
        let limited = [&["compare"], &arguments[..], &["--max-loss", "3"]].concat();
        let judged = tenbin(&limited);
        let said = String::from_utf8_lossy(&judged.stdout).replace('\n', " ");
        assert_eq!(judged.status.code(), Some(status), "{said}");
        assert!(said.contains(words), "{said}");
        // Without a limit there is nothing to decide.
        let plain = tenbin(&[&["compare"], &arguments[..]].concat());
        assert_eq!(plain.status.code(), Some(0));
    }
}
