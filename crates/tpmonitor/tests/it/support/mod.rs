//! A server shared by all tests, a monitor for each, and two kinds of client.

pub(crate) mod raw;
pub(crate) mod standby;
pub(crate) mod tls;

use postgres::{Client, NoTls};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use tenbin_server::{Embedded, Options};
use tenbin_tpmonitor::{Config, Handle, Listen, Monitor, Reread};

static SHARED: Mutex<Weak<Embedded>> = Mutex::new(Weak::new());

/// The server that tests share as long as any of them uses it.
pub(crate) fn server() -> Arc<Embedded> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let options = Options {
            connections: 300,
            ..Options::default()
        };
        let server = Arc::new(Embedded::start(options).expect("a server"));
        *shared = Arc::downgrade(&server);
        server
    })
}

/// A monitor in front of the shared server, stopped when dropped.
pub(crate) struct Running {
    pub(crate) server: Arc<Embedded>,
    pub(crate) address: SocketAddr,
    /// Where it tells what it has counted, if it does.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(change: impl FnOnce(&mut Config)) -> Self {
        Self::before(server(), change)
    }

    pub(crate) fn before(server: Arc<Embedded>, change: impl FnOnce(&mut Config)) -> Self {
        let listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
        let mut config = Config::in_front_of(&server.target(), listen);
        change(&mut config);
        Self::configured(server, config, None)
    }

    /// With a configuration that is read again at a reload.
    pub(crate) fn configured(
        server: Arc<Embedded>,
        config: Config,
        reread: Option<Reread>,
    ) -> Self {
        let monitor = Monitor::new(config, reread).expect("a monitor");
        let (address, handle) = (monitor.addresses()[0], monitor.handle());
        let metrics = monitor.metrics_addresses().first().copied();
        let thread = std::thread::spawn(move || monitor.run().expect("an orderly end"));
        Self {
            server,
            address,
            metrics,
            handle,
            thread: Some(thread),
        }
    }

    pub(crate) fn config(&self) -> postgres::Config {
        let mut config = postgres::Config::new();
        config
            .host("127.0.0.1")
            .port(self.address.port())
            .user("postgres")
            .dbname("postgres");
        config
    }

    pub(crate) fn connect(&self) -> Client {
        self.config().connect(NoTls).expect("a log-in")
    }

    /// A connection that does not go through the monitor.
    pub(crate) fn direct(&self) -> Client {
        self.server.connect().expect("a connection")
    }

    pub(crate) fn raw(&self) -> raw::Raw {
        raw::Raw::log_in(self.address, "postgres", &[])
    }

    /// Has the configuration read again; returns when it is in force, or was refused.
    pub(crate) fn reload(&self) {
        let mut admin = raw::Raw::log_in(self.address, "postgres", &[("database", "tenbin")]);
        admin.send(&raw::query("RELOAD"));
        admin.until_ready();
    }

    /// Waits for the end that was asked for.
    pub(crate) fn join(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.stop_now();
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}
