//! One server with its directories: made, started, stopped and removed.

use crate::account::Account;
use crate::cache::Cache;
use crate::embedded::Options;
use crate::installation::Installation;
use crate::machine::Machine;
use crate::process::Process;
use crate::progress::Progress;
use crate::registry::{self, Claim, Record, Registry};
use crate::settings::{self, Setting};
use crate::template::{self, Template};
use crate::{Error, server, signals, space, stop};
use std::fs::{self, DirBuilder, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tenbin_wire::Target;

/// What a fresh cluster takes with its first log segments.
const CLUSTER_BYTES: u64 = 200_000_000;
/// Longest wait for a server to come up; only recovery of a large log takes anything like it.
const READY_LIMIT: Duration = Duration::from_mins(10);
/// Between two looks at a server that is coming up.
const READY_POLL: Duration = Duration::from_millis(10);
/// How long the last checkpoint may take before the server is stopped without it.
const STOP_PATIENCE: Duration = Duration::from_mins(1);
/// The longest path of a Unix socket is 107 bytes; `/socket/.s.PGSQL.65535` is 22 of them.
const ROOT_LENGTH: usize = 85;
/// `f_type` of tmpfs (linux/magic.h).
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Ports tried when a free one is taken by another process just before the server binds it.
const PORT_ATTEMPTS: usize = 5;

/// What to make.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) installation: Installation,
    pub(crate) account: Account,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) connections: u32,
    pub(crate) port: Option<u16>,
    pub(crate) wal_parent: Option<PathBuf>,
    pub(crate) tablespaces: Vec<(String, PathBuf)>,
    pub(crate) template: Option<PathBuf>,
    pub(crate) progress: Progress,
}

impl Plan {
    /// Finds the programs for `options`, and says what is to be known about them.
    pub(crate) fn of(options: Options) -> Result<(Self, Vec<String>), Error> {
        let account = Account::for_server();
        let found = options
            .source
            .find(&Cache::for_user()?, &account, &options.progress)?;
        let plan = Self {
            installation: found.installation,
            account,
            settings: options.settings,
            connections: options.connections,
            port: options.port,
            wal_parent: options.wal_parent,
            tablespaces: options.tablespaces,
            template: options.template,
            progress: options.progress,
        };
        Ok((plan, found.notes))
    }
}

/// A server and all that was made for it.
#[derive(Debug)]
pub(crate) struct Home {
    claim: Claim,
    plan: Plan,
    settings: Vec<Setting>,
    password: String,
    child: Option<Child>,
}

impl Home {
    /// Makes a server in a fresh private directory and starts it.
    pub(crate) fn make(
        plan: Plan,
        parent: Option<&Path>,
        registry: &Registry,
    ) -> Result<Self, Error> {
        let parent = match parent {
            Some(parent) => fs::canonicalize(parent).map_err(Error::io("use", parent))?,
            None => default_parent(&plan.account)?,
        };
        let id = registry::random_hex()?;
        let root = parent.join(format!("tenbin-{id}"));
        Self::make_at(plan, Record::new(root, id), registry)
    }

    /// Makes a server where `record` says, and starts it.
    pub(crate) fn make_at(plan: Plan, record: Record, registry: &Registry) -> Result<Self, Error> {
        let parent = record.root.parent().unwrap_or(Path::new("/"));
        plan.account.check_reach(parent)?;
        check_length(&record.root)?;
        space::check(parent, "a new database cluster", CLUSTER_BYTES)?;
        let mut home = Self::claim(plan, record, registry)?;
        home.make_cluster()?;
        home.launch()?;
        home.set_password()?;
        home.create_tablespaces()?;
        Ok(home)
    }

    /// Starts a server again on the cluster that is there.
    pub(crate) fn restart(plan: Plan, record: Record, registry: &Registry) -> Result<Self, Error> {
        let mut home = Self::claim(plan, record, registry)?;
        home.launch()?;
        Ok(home)
    }

    /// Refuses what cannot be, then writes down what will be made.
    fn claim(mut plan: Plan, mut record: Record, registry: &Registry) -> Result<Self, Error> {
        if let Some(port) = plan.port {
            drop(reserve_port(port)?);
        }
        let named = plan.tablespaces.iter_mut().map(|(_, parent)| parent);
        for parent in plan.wal_parent.iter_mut().chain(named) {
            *parent = fs::canonicalize(&parent).map_err(Error::io("use", parent))?;
            plan.account.check_reach(parent)?;
            let place = parent.join(format!("tenbin-{}", record.id));
            if place != record.root && !record.places.contains(&place) {
                record.places.push(place);
            }
        }
        let parent = record.root.parent().unwrap_or(Path::new("/"));
        let machine = Machine::look(parent)?;
        let defaults = settings::defaults(&machine, plan.connections, plan.installation.version);
        let settings = settings::overlay(defaults, &plan.settings)?;
        record.version = plan.installation.version.to_string();
        record.bin.clone_from(&plan.installation.bin);
        record.kind = plan.installation.kind;
        let password = match fs::read_to_string(record.password()) {
            Ok(password) => password,
            Err(_) => registry::random_hex()? + &registry::random_hex()?,
        };
        Ok(Self {
            claim: registry.claim(record)?,
            plan,
            settings,
            password,
            child: None,
        })
    }

    /// Makes the directories and the database cluster in them, from a template if there is one.
    fn make_cluster(&self) -> Result<(), Error> {
        let gate = signals::gate();
        let record = self.claim.record();
        for place in record.places.iter().chain([&record.root]) {
            registry::make_place(place, &record.id)?;
        }
        self.make_private(&record.socket())?;
        write_private(&record.password(), &self.password)?;
        if let Some(from) = &self.plan.template {
            let version = self.plan.installation.version;
            return template::copy_data(from, &record.data(), &self.plan.account, version);
        }
        // A template has its log inside.
        let template = match self.plan.wal_parent {
            None => Template::of(&self.plan.installation),
            Some(_) => None,
        };
        if let Some(template) = &template
            && template.copy_to(&record.data(), &self.plan.account)
        {
            return Ok(());
        }
        self.make_private(&record.data())?;
        drop(gate);
        self.initdb()?;
        if let Some(template) = template {
            template.keep(&record.data());
        }
        Ok(())
    }

    fn initdb(&self) -> Result<(), Error> {
        let record = self.claim.record();
        let gate = signals::gate();
        let mut command = self.initdb_command()?;
        let child = command
            .spawn()
            .map_err(Error::io("run", Path::new(command.get_program())))?;
        drop(gate);
        let output = self
            .plan
            .progress
            .during("making a database cluster", READY_LIMIT, move || {
                child.wait_with_output()
            })
            .unwrap_or_else(|| Err(std::io::ErrorKind::TimedOut.into()))
            .map_err(Error::io("wait for initdb in", &record.root))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if said.contains("No space left on device") {
            space::check(&record.root, "a new database cluster", CLUSTER_BYTES)?;
        }
        Err(Error::Initdb { message: said })
    }

    /// Locale C, so that no index depends on the machine's collations; the superuser's name is
    /// the one that every `PostgreSQL` user expects.
    ///
    /// The files are not synchronized: a server that is to outlive this process does that in [`Home::keep`].
    fn initdb_command(&self) -> Result<Command, Error> {
        let installation = &self.plan.installation;
        let mut command = self.plan.account.command(&installation.bin.join("initdb"));
        command
            .args(["-U", "postgres", "-E", "UTF8", "--no-locale"])
            .args(["--auth-local=trust", self.host_auth(), "-N"])
            .arg("-D")
            .arg(self.claim.record().data());
        if let Some(parent) = &self.plan.wal_parent {
            let wal = self.place_in(parent).join("wal");
            self.make_private(&wal)?;
            command.arg("-X").arg(wal);
        }
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Ok(command)
    }

    /// Passwords over TCP are never sent in clear; SCRAM came with 10.
    fn host_auth(&self) -> &'static str {
        if self.plan.installation.version.num() >= 100_000 {
            "--auth-host=scram-sha-256"
        } else {
            "--auth-host=md5"
        }
    }

    /// A directory of the server's own.
    fn make_private(&self, path: &Path) -> Result<(), Error> {
        DirBuilder::new()
            .mode(0o700)
            .create(path)
            .map_err(Error::io("make", path))?;
        self.plan.account.give(path)
    }

    /// The directory of ours in a parent that was named for placement.
    fn place_in(&self, parent: &Path) -> PathBuf {
        parent.join(format!("tenbin-{}", self.claim.record().id))
    }

    /// Starts the server and waits until it takes connections.
    fn launch(&mut self) -> Result<(), Error> {
        for _ in 1..PORT_ATTEMPTS {
            match self.launch_once() {
                // A port that was free a moment ago; with one that the user named there is no choice.
                Err(Error::PortInUse { .. }) if self.plan.port.is_none() => {}
                outcome => return outcome,
            }
        }
        self.launch_once()
    }

    fn launch_once(&mut self) -> Result<(), Error> {
        let reserved = reserve_port(self.plan.port.unwrap_or(0))?;
        let port = reserved
            .local_addr()
            .map_err(Error::io("name the port of", Path::new("127.0.0.1")))?
            .port();
        drop(reserved);
        self.claim.update(|record| record.port = port)?;
        let record = self.claim.record();
        let cluster = format!("tenbin-{}", record.id);
        let text = settings::render(
            &self.settings,
            &record.data(),
            &record.socket(),
            port,
            &cluster,
        );
        let path = record.configuration();
        let gate = signals::gate();
        fs::write(&path, text).map_err(Error::io("write", &path))?;
        let child = self.spawn()?;
        drop(gate);
        let pid = child.id();
        self.child = Some(child);
        self.wait_until_ready(pid)?;
        self.claim.update(|record| record.note_shared_memory(pid))
    }

    /// To be called with the gate held.
    fn spawn(&self) -> Result<Child, Error> {
        let record = self.claim.record();
        let program = self.plan.installation.bin.join("postgres");
        let path = record.log();
        let log = File::create(&path).map_err(Error::io("write", &path))?;
        let also = log.try_clone().map_err(Error::io("write", &path))?;
        self.plan
            .account
            .command(&program)
            .arg("-D")
            .arg(record.data())
            .arg("-c")
            .arg(format!("config_file={}", record.configuration().display()))
            // Out of the terminal's reach: Ctrl-C is for tenbin, which then stops the server.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(also)
            .spawn()
            .map_err(Error::io("run", &program))
    }

    /// Tries to connect until it works, looking between attempts whether the server still lives.
    fn wait_until_ready(&mut self, pid: u32) -> Result<(), Error> {
        let started = Instant::now();
        let config = self.target().config();
        let process = Process::open(pid);
        loop {
            let attempt = config.connect(postgres::NoTls);
            let Err(error) = attempt else {
                return Ok(());
            };
            let exited = process
                .as_ref()
                .is_none_or(|process| process.wait(READY_POLL));
            if exited {
                self.reap();
                let record = self.claim.record();
                let log = fs::read_to_string(record.log()).unwrap_or_default();
                return Err(settings::refusal(
                    &log,
                    &self.plan.settings,
                    self.port(),
                    &record.data(),
                ));
            }
            if started.elapsed() > READY_LIMIT {
                let message = format!(
                    "it has not taken connections for {} s: {error}",
                    READY_LIMIT.as_secs()
                );
                return Err(Error::Start { message });
            }
            self.plan.progress.tell(
                "waiting for PostgreSQL to take connections",
                started.elapsed(),
            );
        }
    }

    /// Over TCP nobody is let in before.
    fn set_password(&self) -> Result<(), Error> {
        let alter = format!(
            "ALTER ROLE postgres PASSWORD {}",
            server::quote_literal(&self.password)
        );
        // Whatever settings were given: neither read-only nor waiting for a standby.
        let statements = [
            "BEGIN READ WRITE",
            "SET LOCAL synchronous_commit = local",
            &alter,
            "COMMIT",
        ];
        server::connect(&self.target())?
            .batch_execute(&statements.join("; "))
            .map_err(|error| server::refused("ALTER ROLE postgres PASSWORD", &error))
    }

    fn create_tablespaces(&self) -> Result<(), Error> {
        if self.plan.tablespaces.is_empty() {
            return Ok(());
        }
        let mut client = server::connect(&self.target())?;
        for (number, (name, parent)) in self.plan.tablespaces.iter().enumerate() {
            let location = self.place_in(parent).join(format!("tablespace-{number}"));
            let gate = signals::gate();
            self.make_private(&location)?;
            drop(gate);
            let statement = format!(
                "CREATE TABLESPACE {} LOCATION {}",
                server::quote_identifier(name),
                server::quote_literal(&location.to_string_lossy())
            );
            client
                .batch_execute(&statement)
                .map_err(|error| server::refused(&statement, &error))?;
        }
        Ok(())
    }

    /// Over the Unix socket, as the superuser.
    pub(crate) fn target(&self) -> Target {
        self.claim.record().target()
    }

    /// Over TCP, with the password.
    pub(crate) fn tcp_target(&self) -> Target {
        self.claim.record().tcp_target(&self.password)
    }

    pub(crate) fn installation(&self) -> &Installation {
        &self.plan.installation
    }

    pub(crate) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    pub(crate) fn record(&self) -> &Record {
        self.claim.record()
    }

    pub(crate) fn port(&self) -> u16 {
        self.claim.record().port
    }

    /// 0 once it has been stopped.
    pub(crate) fn postmaster_pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// What the user should know about where the data is.
    pub(crate) fn note(&self) -> Option<String> {
        let data = self.claim.record().data();
        let in_memory = rustix::fs::statfs(&data).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC);
        in_memory.then(|| {
            format!(
                "{} is on a file system in memory: what is measured is not a disk's doing",
                data.display()
            )
        })
    }

    /// A fast shutdown, then everything is removed.
    pub(crate) fn stop_and_remove(&mut self) -> Result<(), Error> {
        let _gate = signals::gate();
        self.stop()?;
        self.claim.clear()
    }

    /// A fast shutdown, and a start on the same data after `meanwhile`.
    pub(crate) fn cycle<T>(&mut self, meanwhile: impl FnOnce() -> T) -> Result<T, Error> {
        self.stop()?;
        let done = meanwhile();
        self.launch()?;
        Ok(done)
    }

    fn stop(&mut self) -> Result<(), Error> {
        let postmaster = self.postmaster();
        let data = self.claim.record().data();
        stop::fast(
            &data,
            postmaster.as_ref(),
            STOP_PATIENCE,
            &self.plan.progress,
        )?;
        self.reap();
        Ok(())
    }

    /// Our child, unless it has been reaped.
    fn postmaster(&self) -> Option<Process> {
        self.child
            .as_ref()
            .and_then(|child| Process::open(child.id()))
    }

    /// Takes the exit status of a postmaster that has exited, so that it does not stay a zombie.
    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Leaves the server running, on record as the user's.
    pub(crate) fn keep(mut self) -> Result<Record, Error> {
        let data = self.claim.record().data();
        File::open(&data)
            .and_then(|data| Ok(rustix::fs::syncfs(data)?))
            .map_err(Error::io("synchronize", &data))?;
        self.claim.update(|record| record.kept = true)?;
        self.child = None;
        Ok(self.claim.release())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed now stays on record for the next tenbin.
        if !self.claim.held() {
            return;
        }
        // When a signal is already seeing to it, this waits for the end of the process: what its
        // doing looks like from here is no error to tell.
        let _gate = signals::gate();
        let postmaster = self.postmaster();
        let record = self.claim.record();
        let stopped = stop::at_once(&record.data(), postmaster.as_ref()).is_ok();
        let kept = record.kept;
        self.reap();
        if stopped && !kept {
            let _ = self.claim.clear();
        }
    }
}

/// The first of `$TMPDIR`, `/var/tmp` and `/tmp` that both we and the server's user can use.
/// `/var/tmp` comes before `/tmp`, which on many machines is in memory.
pub(crate) fn default_parent(account: &Account) -> Result<PathBuf, Error> {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let usable = |parent: &PathBuf| {
        account.check_reach(parent).is_ok() && tempfile::tempfile_in(parent).is_ok()
    };
    named
        .into_iter()
        .chain([PathBuf::from("/var/tmp")])
        .filter_map(|parent| fs::canonicalize(parent).ok())
        .find(usable)
        .map_or_else(
            || fs::canonicalize("/tmp").map_err(Error::io("use", Path::new("/tmp"))),
            Ok,
        )
}

fn check_length(root: &Path) -> Result<(), Error> {
    if root.as_os_str().len() <= ROOT_LENGTH {
        return Ok(());
    }
    Err(Error::DataDirectory {
        path: root.to_owned(),
        reason: format!(
            "a path of more than {ROOT_LENGTH} bytes leaves no room for the server's Unix socket in it"
        ),
    })
}

/// Sees that a port is free on 127.0.0.1; 0 finds one that is.
fn reserve_port(port: u16) -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Error::PortInUse { port },
        _ => Error::io("listen on", Path::new("127.0.0.1"))(error),
    })
}

fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write as _;
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(Error::io("write", path))
}
