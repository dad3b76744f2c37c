//! A server for the tests that run at the same time, and a database for each.

use postgres::{Client, Config, NoTls};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tenbin_server::{Embedded, Options};
use tenbin_workload::check::{CheckResult, Verdict};
use tenbin_workload::load::Loaded;
use tenbin_workload::load::{LoadError, Progress};
use tenbin_workload::tpcc::checks;
use tenbin_workload::tpcc::load::{self, LoadOptions, Meta};
use tenbin_workload::tpcc::rules::Rules;

/// The server that all tests share; it is gone when the last of them is done.
static SHARED: Mutex<Weak<Embedded>> = Mutex::new(Weak::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A database of a test's own.
pub(crate) struct Database {
    pub(crate) server: Arc<Embedded>,
    pub(crate) name: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let server = shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Embedded::start(Options::default()).unwrap());
            *shared = Arc::downgrade(&server);
            server
        });
        drop(shared);
        Self::on(server, "template0")
    }

    /// On a server that no other test uses. `VACUUM` marks no row as visible to all that a backend
    /// just starting, in whichever database, may not see: other tests' connections can hold it back.
    pub(crate) fn alone() -> Self {
        let server = Embedded::start(Options::default()).unwrap();
        Self::on(Arc::new(server), "template0")
    }

    pub(crate) fn on(server: Arc<Embedded>, template: &str) -> Self {
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
        server.connect().unwrap().batch_execute(&statement).unwrap();
        Self { server, name }
    }

    /// Another database with the same contents. Nobody may be connected to this one.
    pub(crate) fn copy(&self) -> Self {
        Self::on(Arc::clone(&self.server), &self.name)
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = self.server.target().config();
        config.dbname(&self.name);
        config
    }

    pub(crate) fn client(&self) -> Client {
        self.config().connect(NoTls).unwrap()
    }

    pub(crate) fn run(&self, sql: &str) {
        self.client().batch_execute(sql).unwrap();
    }

    /// The first column of the first row, as text.
    pub(crate) fn ask(&self, sql: &str) -> String {
        let row = self
            .client()
            .query_one(&format!("SELECT ({sql})::text"), &[])
            .unwrap();
        row.get::<_, Option<String>>(0)
            .unwrap_or_else(|| "NULL".into())
    }

    pub(crate) fn load(&self, options: &LoadOptions) -> Result<Loaded<Meta>, LoadError> {
        self.load_watched(options, &AtomicBool::new(false), &mut |_| ())
    }

    pub(crate) fn load_watched(
        &self,
        options: &LoadOptions,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Loaded<Meta>, LoadError> {
        load::load(options, || self.config().connect(NoTls), stop, progress)
    }

    pub(crate) fn check(&self, rules: &Rules, threads: u32) -> Vec<CheckResult> {
        let stop = AtomicBool::new(false);
        checks::check(
            "public",
            rules,
            threads,
            || self.config().connect(NoTls),
            &stop,
        )
        .unwrap()
    }

    pub(crate) fn inspect(&self) -> load::Existing {
        load::inspect(&mut self.client(), "public").unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let dropped = self
            .server
            .connect()
            .map(|mut client| client.batch_execute(&format!("DROP DATABASE {}", self.name)));
        assert!(
            std::thread::panicking() || matches!(dropped, Ok(Ok(()))),
            "{dropped:?}"
        );
    }
}

/// Rules for a database that is loaded in a moment: 50 customers a district, 400 items.
pub(crate) fn small() -> Rules {
    Rules {
        customers_per_district: 50,
        open_orders_per_district: 15,
        items: 400,
        ..Rules::default()
    }
}

/// Options for loading such a database, without foreign keys.
pub(crate) fn small_options(warehouses: u32) -> LoadOptions {
    LoadOptions {
        warehouses,
        foreign_keys: false,
        rules: small(),
        ..LoadOptions::default()
    }
}

/// The conditions that failed.
pub(crate) fn failed(results: &[CheckResult]) -> Vec<&'static str> {
    results
        .iter()
        .filter(|result| result.verdict == Verdict::Fail)
        .map(|result| result.condition)
        .collect()
}
