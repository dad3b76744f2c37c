//! Real servers, and the same values read independently from kernel and server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_cmp,
    reason = "a test that fails says where"
)]

mod machine;
mod profile;
mod server;
mod syscalls;
mod versions;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tenbin_observe::{Observer, Options};
use tenbin_record::{Observation, SampleRow};
use tenbin_server::{Embedded, Options as ServerOptions, Source};

fn debian() -> Source {
    Source::bin("/usr/lib/postgresql/15/bin")
}

fn start(source: Source, settings: &[(&str, &str)]) -> Embedded {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Embedded::start(ServerOptions {
        source,
        settings: settings.iter().map(own).collect(),
        ..ServerOptions::default()
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

/// What is observed of a server by default, without its disks.
fn options(server: &Embedded) -> Options {
    Options {
        target: server.server().unwrap().target,
        postmaster_pid: Some(server.postmaster_pid()),
        via: None,
        used: Vec::new(),
        syscalls: None,
        profile: None,
    }
}

/// Whether a test can do what it is to, which takes root.
fn may_trace(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: {test} needs root");
    }
    root
}

/// Somebody who watches a server, and what is seen.
struct Watching {
    observer: Observer,
    rows: Receiver<SampleRow>,
}

impl Watching {
    /// The interval begins when this returns.
    fn start(server: &Embedded, used: &[(&str, PathBuf)]) -> Self {
        Self::start_with(Options {
            used: used
                .iter()
                .map(|(what, path)| ((*what).to_owned(), path.clone()))
                .collect(),
            ..options(server)
        })
    }

    /// Likewise, with all options.
    fn start_with(options: Options) -> Self {
        let (sender, rows) = channel();
        let observer = Observer::start(
            options,
            Box::new(move |rows| {
                for row in rows {
                    let _ = sender.send(row.clone());
                }
            }),
        )
        .unwrap();
        observer.expect_interval(Instant::now(), None);
        let watching = Self { observer, rows };
        // The look that begins the interval; one of before may just be under way.
        while watching.rows.try_recv().is_ok() {}
        watching.wait_for_looks(2);
        watching
    }

    /// Waits until a row is seen.
    fn wait_for(&self, wanted: impl Fn(&SampleRow) -> bool) -> SampleRow {
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let row = self.rows.recv_timeout(left).expect("no such row");
            if wanted(&row) {
                return row;
            }
        }
    }

    /// Waits for another whole look, and then some.
    fn wait_for_looks(&self, looks: u32) {
        for _ in 0..looks {
            let row = self.wait_for(|row| row.name == "dirty_bytes");
            assert_eq!(row.source, "machine");
        }
    }

    fn end(self) -> Observation {
        self.observer.end_interval();
        self.observer.finish()
    }
}
