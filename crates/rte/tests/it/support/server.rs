//! A `PostgreSQL` of the tests' own.

use postgres::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tenbin_server::{Embedded, Options};
use tenbin_wire::Target;

/// A running server, stopped and removed when dropped.
pub(crate) struct Server(Embedded);

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Server {
    /// The one that tests share as long as any of them uses it.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub(crate) fn start() -> Self {
        let options = Options {
            connections: 300,
            ..Options::default()
        };
        Self(Embedded::start(options).expect("a server"))
    }

    pub(crate) fn target(&self) -> Target {
        let mut target = self.0.target();
        let name = ("application_name".to_owned(), "rte".to_owned());
        target.parameters.push(name);
        target
    }

    pub(crate) fn connect(&self) -> Client {
        self.0.connect().expect("a connection")
    }

    pub(crate) fn postmaster_pid(&self) -> u32 {
        self.0.postmaster_pid()
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    Ok(kill_process(pid, signal)?)
}
