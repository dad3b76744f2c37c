//! Every major version, whose views differ.

use crate::{Watching, start};
use tenbin_server::Source;

#[test]
fn every_major_is_read_and_what_it_lacks_is_named() {
    for release in ["9.6", "10", "11", "12", "13", "14", "15", "16", "17", "18"] {
        let server = start(Source::release(release).unwrap(), &[]);
        let mut client = server.connect().unwrap();
        let watching = Watching::start(&server, &[]);
        client
            .batch_execute("CREATE TABLE t AS SELECT 1; CHECKPOINT")
            .unwrap();
        watching.wait_for_looks(2);
        let seen = watching.end();
        let major = release.parse::<f64>().unwrap();
        for (view, since) in [
            ("pg_stat_wal", 14.0),
            ("pg_stat_io", 16.0),
            ("pg_stat_checkpointer", 17.0),
        ] {
            assert_eq!(
                seen.absent.contains_key(view),
                major < since,
                "{release}: {:?}",
                seen.absent
            );
        }
        let requested = if major < 17.0 {
            "pg_stat_bgwriter.checkpoints_req"
        } else {
            "pg_stat_checkpointer.num_requested"
        };
        assert_eq!(
            seen.counters.get(requested),
            Some(&1.0),
            "{release}: {:?}",
            seen.counters
        );
        let idle = seen.waits.as_ref().unwrap().backends["idle"];
        assert!(idle > 0.5, "{release}: {:?}", seen.waits);
        assert!(
            seen.cost.unwrap().statements > 5 && seen.gaps.is_empty(),
            "{:?}",
            seen.gaps
        );
    }
}
