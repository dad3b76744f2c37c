//! The two poolers, set alike, in front of one server: for benches and for suites.

use crate::client;
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::PipeWriter;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use tenbin_server::{Account, Embedded};

/// Server connections of a pool.
pub(crate) const POOL: usize = 20;
pub(crate) const USERS: [&str; 3] = ["one", "two", "three"];
/// Start-up parameters that `PgBouncer` does not know, and that pgbench or a suite sends.
const IGNORED: &str = "extra_float_digits,options,search_path,statement_timeout,default_transaction_isolation,jit,intervalstyle,geqo,work_mem";

/// How a pooler is set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    /// `transaction` or `session`.
    pub(crate) pooling: &'a str,
    /// Server connections of a pool.
    pub(crate) size: usize,
    /// Server connections in all; 0: no limit.
    pub(crate) cap: usize,
    /// Where the monitor writes who waited; `PgBouncer` has nothing like it.
    pub(crate) queue_log: Option<&'a Path>,
    /// How long the monitor goes on looking before it sleeps; `PgBouncer` has nothing like it.
    pub(crate) busy_poll: &'a str,
    /// Who comes in and how, as in `pg_hba.conf`, with passwords asked from the server; empty: everybody
    /// whom the pooler knows, without a password.
    pub(crate) rules: &'a str,
}

/// Pooling by transaction, without further limits.
pub(crate) const USUAL: Setting<'_> = Setting {
    pooling: "transaction",
    size: POOL,
    cap: 0,
    queue_log: None,
    busy_poll: "off",
    rules: "",
};

/// A pooler, ended when dropped.
pub(crate) struct Pooler {
    child: Child,
    pub(crate) port: u16,
}

impl Pooler {
    pub(crate) fn target(&self) -> String {
        format!(
            "postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable",
            self.port
        )
    }

    /// CPU time, user and system, seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64> {
        let stat = procfs::process::Process::new(self.child.id().cast_signed())?.stat()?;
        Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
    }

    /// Resident memory, MiB.
    pub(crate) fn memory_mib(&self) -> Result<f64> {
        let status = procfs::process::Process::new(self.child.id().cast_signed())?.status()?;
        let kib = status.vmrss.context("no memory is told of the pooler")?;
        Ok(kib as f64 / 1024.0)
    }

    /// Open descriptors.
    pub(crate) fn descriptors(&self) -> Result<usize> {
        Ok(procfs::process::Process::new(self.child.id().cast_signed())?.fd_count()?)
    }

    /// Ends it in good order: what it writes is whole then.
    pub(crate) fn stop(mut self) -> Result<()> {
        let id = self.child.id().to_string();
        crate::bench::output(Path::new("kill"), &["-TERM", &id])?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn pgbouncer() -> Option<PathBuf> {
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
        .iter()
        .map(PathBuf::from)
        .find(|program| program.exists())
}

/// Where the server's Unix socket is.
pub(crate) fn socket_folder(server: &Embedded) -> Result<PathBuf> {
    match server.target().addresses.first() {
        Some(tenbin_wire::Address::Unix(path)) => {
            Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
        }
        _ => bail!("the embedded server has no Unix socket"),
    }
}

/// The monitor, of this build of tenbin.
pub(crate) fn ours(tenbin: &Path, server: &Embedded, setting: Setting<'_>) -> Result<Pooler> {
    let port = free_port()?;
    let file = crate::bench::folder()?.join(format!("tpmonitor-{port}.toml"));
    let Setting {
        pooling,
        size,
        cap,
        queue_log,
        busy_poll,
        rules,
    } = setting;
    let log = queue_log.map_or(String::new(), |path| {
        format!("queue_log = \"{}\"\n", path.display())
    });
    let auth = if rules.is_empty() {
        "auth = \"trust\"\n".to_owned()
    } else {
        let hba = file.with_extension("hba");
        std::fs::write(&hba, rules)?;
        format!(
            "hba_file = \"{}\"\nauth_user = \"postgres\"\n",
            hba.display()
        )
    };
    std::fs::write(
        &file,
        format!(
            "listen = [\"127.0.0.1:{port}\"]\nmode = \"{pooling}\"\n{auth}admin_users = [\"postgres\"]\npool_size = {size}\n\
             max_server_connections = {cap}\nmax_clients = 20000\nbusy_poll = \"{busy_poll}\"\n{log}\
             [databases.\"*\"]\nserver = \"postgres:///?host={}&port={}\"\n",
            socket_folder(server)?.display(),
            server.port()
        ),
    )?;
    let mut command = Command::new(tenbin);
    command.arg("tpmonitor").arg("--config").arg(file);
    started(command, port)
}

/// `PgBouncer`, set as ours; what it logs of each connection, which ours does not, is switched off.
pub(crate) fn theirs(program: &Path, server: &Embedded, setting: Setting<'_>) -> Result<Pooler> {
    let port = free_port()?;
    let folder = configured(port, server, setting)?;
    let pooler = started(theirs_in(&folder, program), port);
    std::fs::remove_dir_all(&folder)?;
    pooler
}

/// The command that starts `PgBouncer` with what [`configured`] wrote.
fn theirs_in(folder: &Path, program: &Path) -> Command {
    let mut command = Account::for_server().command(program);
    command.arg("-q").arg(folder.join("pgbouncer.ini"));
    command
}

/// Writes what `PgBouncer` reads, and gives the folder.
fn configured(port: u16, server: &Embedded, setting: Setting<'_>) -> Result<PathBuf> {
    // It gives up root's rights first: the file has to be where anybody can read it.
    let folder = std::env::temp_dir().join(format!("tenbin-bench-{port}"));
    std::fs::create_dir_all(&folder)?;
    let (file, users) = (folder.join("pgbouncer.ini"), folder.join("users.txt"));
    let names = USERS.iter().chain(&["postgres"]);
    let listed: Vec<String> = names.map(|name| format!("\"{name}\" \"\"\n")).collect();
    std::fs::write(&users, listed.concat())?;
    let cap = match setting.cap {
        0 => String::new(),
        cap => format!("max_db_connections = {cap}\n"),
    };
    let auth = if setting.rules.is_empty() {
        "auth_type = trust\n".to_owned()
    } else {
        let hba = folder.join("hba.conf");
        std::fs::write(&hba, setting.rules)?;
        format!(
            "auth_type = hba\nauth_hba_file = {}\nauth_user = postgres\n",
            hba.display()
        )
    };
    std::fs::write(
        &file,
        format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\n{auth}auth_file = {}\npool_mode = {}\n\
             default_pool_size = {}\n{cap}max_client_conn = 20000\n\
             log_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n\
             ignore_startup_parameters = {IGNORED}\n",
            socket_folder(server)?.display(),
            server.port(),
            users.display(),
            setting.pooling,
            setting.size,
        ),
    )?;
    Ok(folder)
}

/// `PgBouncer` that is started again whenever it ends, as by a service manager: 1.18 gives up with *bad client
/// state* over some requests to cancel (`disconnect_client` in its `objects.c`), which would cost all that
/// comes after.
pub(crate) struct Revived {
    pub(crate) port: u16,
    /// Closed when it is enough.
    open: Option<PipeWriter>,
    keeper: Option<thread::JoinHandle<Result<usize>>>,
}

impl Revived {
    pub(crate) fn start(program: &Path, server: &Embedded, setting: Setting<'_>) -> Result<Self> {
        let port = free_port()?;
        let folder = configured(port, server, setting)?;
        let mut pooler = started(theirs_in(&folder, program), port)?;
        let (enough, open) = std::io::pipe()?;
        let program = program.to_owned();
        let keeper = thread::spawn(move || {
            let mut ends = 0;
            loop {
                let life = pidfd_open(Pid::from_child(&pooler.child), PidfdFlags::empty())?;
                let mut either = [
                    PollFd::new(&life, PollFlags::IN),
                    PollFd::new(&enough, PollFlags::IN),
                ];
                rustix::io::retry_on_intr(|| poll(&mut either, None))?;
                if !either[1].revents().is_empty() {
                    break;
                }
                ends += 1;
                drop(pooler);
                pooler = started(theirs_in(&folder, &program), port)?;
            }
            drop(pooler);
            std::fs::remove_dir_all(&folder)?;
            Ok(ends)
        });
        Ok(Self {
            port,
            open: Some(open),
            keeper: Some(keeper),
        })
    }
}

impl Drop for Revived {
    fn drop(&mut self) {
        drop(self.open.take());
        match self.keeper.take().map(thread::JoinHandle::join) {
            Some(Ok(Ok(0))) | None => {}
            Some(Ok(Ok(ends))) => eprintln!("PgBouncer ended by itself, times: {ends}"),
            Some(Ok(Err(why))) => eprintln!("PgBouncer could not be started again: {why:#}"),
            Some(Err(_)) => eprintln!("PgBouncer is no longer looked after: a panic"),
        }
    }
}

/// Starts a pooler and waits until it serves.
fn started(mut command: Command, port: u16) -> Result<Pooler> {
    let child = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut pooler = Pooler { child, port };
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = pooler.child.try_wait()? {
            bail!("{} ended: {status}", command.get_program().display());
        }
        thread::yield_now();
    }
    client::log_in(port)?;
    Ok(pooler)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
