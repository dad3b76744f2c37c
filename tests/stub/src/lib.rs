//! A server that speaks enough of `PostgreSQL`'s protocol to answer at once: what a driver costs
//! without a database behind it, and what a driver does when a server misbehaves.
//!
//! It stores nothing and computes nothing: a [`Table`] says what each statement answers. One thread
//! serves every connection, in this process ([`Stub`]) or in one of its own ([`StubProcess`]), so
//! that its CPU time is not the driver's.

mod commands;
mod connection;
mod messages;
mod process;
mod server;
mod table;

pub use messages::error_response;
pub use process::{StubProcess, serve};
pub use table::{Answer, Table};

use commands::{Command, Commands};
use rustix::net::SocketAddrUnix;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

/// What a stub is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// What statements answer.
    pub table: Table,
    /// How long each answer is held back; nothing waits when it is zero.
    pub delay: Duration,
}

/// Counters that the stub's thread keeps and anyone reads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    statements: AtomicU64,
    accepted: AtomicU64,
    open: AtomicU64,
    cancels: AtomicU64,
}

/// A running stub; dropping it closes every connection and removes its socket.
#[derive(Debug)]
pub struct Stub {
    commands: Arc<Commands>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
    place: Place,
}

/// Where a stub listens.
#[derive(Debug)]
struct Place {
    directory: PathBuf,
    port: u16,
}

impl Stub {
    /// Listens on 127.0.0.1 and on a Unix socket in a directory of its own, both under one port number.
    ///
    /// # Errors
    /// When a socket or the directory cannot be made.
    pub fn start(options: Options) -> io::Result<Self> {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let place = Place::make(tcp.local_addr()?)?;
        let unix = listen_unix(&place.socket())?;
        tcp.set_nonblocking(true)?;
        // The standard library's backlog is 128; a driver may open thousands at once.
        rustix::net::listen(&tcp, 4096)?;
        let commands = Arc::new(Commands::new()?);
        let counts = Arc::new(Counts::default());
        let mut server = server::Server::new(
            options,
            unix,
            tcp,
            Arc::clone(&commands),
            Arc::clone(&counts),
        )?;
        let thread = std::thread::Builder::new()
            .name("tenbin-stub".to_owned())
            .spawn(move || server.run())?;
        Ok(Self {
            commands,
            counts,
            thread: Some(thread),
            place,
        })
    }

    /// The Unix socket's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.place.directory
    }

    /// The port, of the Unix socket's name and of TCP on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.place.port
    }

    /// A connection string that leads here through the Unix socket.
    #[must_use]
    pub fn dsn(&self) -> String {
        dsn(&self.place.directory, self.place.port)
    }

    /// Statements executed so far, those of simple queries included.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.counts.statements.load(Ordering::Relaxed)
    }

    /// Connections accepted so far, and how many of them are open now.
    #[must_use]
    pub fn connections(&self) -> (u64, u64) {
        (
            self.counts.accepted.load(Ordering::Relaxed),
            self.counts.open.load(Ordering::Relaxed),
        )
    }

    /// Cancel requests received so far.
    #[must_use]
    pub fn cancels(&self) -> u64 {
        self.counts.cancels.load(Ordering::Relaxed)
    }

    /// Stops answering, accepting and reading, as a server does that was sent SIGSTOP. Returns once
    /// nothing more will be answered.
    pub fn pause(&self) {
        self.command(Command::Pause);
    }

    /// Goes on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.command(Command::Resume);
    }

    /// From now on `statement` answers so.
    pub fn answer(&self, statement: &str, answer: Answer) {
        self.command(Command::Answer(statement.to_owned(), answer));
    }

    /// Sends `bytes` to every open connection, whatever it is doing.
    pub fn send(&self, bytes: &[u8]) {
        self.command(Command::Send(bytes.to_owned()));
    }

    /// Closes every open connection without a word.
    pub fn drop_connections(&self) {
        self.command(Command::Drop);
    }

    /// Hands a command to the thread and waits until it is done.
    fn command(&self, command: Command) {
        let (done, wait) = mpsc::channel();
        self.commands.push(command, done);
        // The thread drops the sender once the command has taken effect.
        let _ = wait.recv();
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.command(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed; there is nobody to pass it on to.
            let _ = thread.join();
        }
    }
}

impl Place {
    fn make(tcp: SocketAddr) -> io::Result<Self> {
        let port = tcp.port();
        let directory =
            std::env::temp_dir().join(format!("tenbin-stub-{}-{port}", std::process::id()));
        fs::create_dir(&directory)?;
        Ok(Self { directory, port })
    }

    fn socket(&self) -> PathBuf {
        self.directory.join(format!(".s.PGSQL.{}", self.port))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A directory that another process has removed is gone as well.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 4096)?;
    Ok(socket.into())
}

fn dsn(directory: &Path, port: u16) -> String {
    format!(
        "host={} port={port} user=stub dbname=stub",
        directory.display()
    )
}
