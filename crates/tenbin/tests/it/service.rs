//! The TP monitor under a service manager, and with few descriptors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tenbin_server::{Embedded, Options};

const TENBIN: &str = env!("CARGO_BIN_EXE_tenbin");

/// A manager in Python: it holds a listening socket, limits descriptors, and starts one monitor after
/// another on it, each when the one before has ended. It says the port, then each process's number.
const MANAGER: &str = r"
import os, resource, socket, sys
held = socket.create_server(('127.0.0.1', 0))
port = held.getsockname()[1]
print(port, flush=True)
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        if held.fileno() == 3:
            os.set_inheritable(3, True)
        else:
            os.dup2(held.fileno(), 3)
        limit = int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        os.environ['LISTEN_FDS'] = '1'
        os.environ['LISTEN_PID'] = str(os.getpid())
        os.execv(sys.argv[3], [sys.argv[3], 'tpmonitor', '--listen', f'127.0.0.1:{port}'] + sys.argv[4:])
    print(child, flush=True)
    os.waitpid(child, 0)
";

struct Manager {
    process: Child,
    said: BufReader<std::process::ChildStdout>,
    notices: UnixDatagram,
    address: SocketAddr,
    /// Numbers of the processes.
    monitors: Vec<String>,
    _folder: TempDir,
}

impl Manager {
    fn start(server: &Embedded, monitors: u32, descriptors: u32, pool_size: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("notify");
        let notices = UnixDatagram::bind(&path).unwrap();
        notices
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let socket = match &server.target().addresses[0] {
            tenbin_wire::Address::Unix(path) => path.clone(),
            tenbin_wire::Address::Tcp(_) => unreachable!("an embedded server has a Unix socket"),
        };
        let dsn = format!(
            "host={} port={} user=postgres dbname=postgres",
            socket.parent().unwrap().display(),
            server.port()
        );
        let mut process = Command::new("python3")
            .args(["-c", MANAGER])
            .args([monitors.to_string(), descriptors.to_string()])
            .args([TENBIN, "--server", &dsn])
            .args(["--pool-size", &pool_size.to_string()])
            .env("NOTIFY_SOCKET", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let mut manager = Self {
            process,
            said,
            notices,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            monitors: Vec::new(),
            _folder: folder,
        };
        let port = manager.number();
        manager.address.set_port(u16::try_from(port).unwrap());
        manager
    }

    /// The next number that it says.
    fn number(&mut self) -> i32 {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    /// The process of the next monitor.
    fn monitor(&mut self) -> i32 {
        let pid = self.number();
        self.monitors.push(pid.to_string());
        pid
    }

    /// The next notice of a monitor.
    fn notice(&self) -> String {
        let mut notice = [0; 200];
        let size = self.notices.recv(&mut notice).unwrap();
        String::from_utf8(notice[..size].to_vec()).unwrap()
    }

    fn end(&self, pid: i32) {
        let kill = Command::new("kill").arg(pid.to_string()).status().unwrap();
        assert!(kill.success(), "{:?}", self.monitors);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new("kill").args(&self.monitors).status();
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// Asks to log in.
fn come(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    socket.write_all(&[&length[..], body].concat()).unwrap();
    socket
}

/// Whether the answer is that it is in.
fn is_in(socket: &mut TcpStream) -> bool {
    let mut first = [0; 9];
    socket.read_exact(&mut first).is_ok() && first == *b"R\0\0\0\x08\0\0\0\0"
}

#[test]
fn nobody_is_refused_while_one_monitor_ends_and_the_next_begins() {
    let server = Embedded::start(Options::default()).unwrap();
    let mut manager = Manager::start(&server, 2, 1000, 5);
    let first = manager.monitor();
    assert_eq!(manager.notice(), "READY=1");
    assert!(is_in(&mut come(manager.address)));
    manager.end(first);
    assert_eq!(manager.notice(), "STOPPING=1");
    // Nobody accepts them now; the socket does.
    let mut waiting: Vec<TcpStream> = (0..20).map(|_| come(manager.address)).collect();
    let second = manager.monitor();
    assert_eq!(manager.notice(), "READY=1");
    for socket in &mut waiting {
        assert!(is_in(socket));
    }
    manager.end(second);
}

#[test]
fn running_out_of_descriptors_makes_clients_wait_and_ends_nobody() {
    let server = Embedded::start(Options::default()).unwrap();
    let mut manager = Manager::start(&server, 1, 40, 5);
    let monitor = manager.monitor();
    assert_eq!(manager.notice(), "READY=1");
    let mut clients: Vec<TcpStream> = (0..80).map(|_| come(manager.address)).collect();
    let mut later = clients.split_off(20);
    for client in &mut clients {
        assert!(is_in(client));
    }
    // Those at the end have to wait until others leave.
    let last = later.last_mut().unwrap();
    last.set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    assert!(!is_in(last));
    last.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let (mut kept, left) = (clients.split_off(19), clients);
    drop(left);
    let mut rest = later.split_off(later.len() - 1);
    drop(later);
    assert!(is_in(&mut rest[0]));
    // Who was in before is served still.
    let query = b"Q\0\0\0\x0dSELECT 1\0";
    kept[0].write_all(query).unwrap();
    let mut seen = Vec::new();
    let mut byte = [0; 1000];
    while !seen
        .windows(6)
        .any(|end| end == b"Z\0\0\0\x05I" && seen.contains(&b'D'))
    {
        let size = kept[0].read(&mut byte).unwrap();
        assert!(size > 0);
        seen.extend_from_slice(&byte[..size]);
    }
    manager.end(monitor);
}

#[test]
fn too_few_descriptors_for_all_servers_refuse_nobody() {
    let server = Embedded::start(Options::default()).unwrap();
    let mut manager = Manager::start(&server, 1, 40, 30);
    let monitor = manager.monitor();
    assert_eq!(manager.notice(), "READY=1");
    // Each asks for a server of its own at once. Of 40 descriptors the monitor takes 11 for itself: all
    // 15 clients find one, however many servers were quicker, and then there is none for the last server.
    let mut clients: Vec<TcpStream> = (0..15).map(|_| come(manager.address)).collect();
    for client in &mut clients {
        assert!(is_in(client));
    }
    manager.end(monitor);
}

/// A monitor by itself: it hands over to the next on a signal.
struct Alone {
    process: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // It and the one that it has started; nobody else listens where these do.
            let id = self.process.id().to_string();
            let _ = Command::new("pkill").args(["-KILL", "-P", &id]).status();
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

impl Alone {
    fn start(server: &Embedded, listen: &[String]) -> Self {
        let tenbin_wire::Address::Unix(socket) = &server.target().addresses[0] else {
            unreachable!("an embedded server has a Unix socket")
        };
        let folder = socket.parent().unwrap().display();
        let dsn = format!(
            "host={folder} port={} user=postgres dbname=postgres",
            server.port()
        );
        let mut command = Command::new(TENBIN);
        command
            .args(["tpmonitor", "--pool-size", "3", "--server", &dsn])
            .args(listen.iter().flat_map(|at| ["--listen", at]));
        Self::running(command)
    }

    fn configured(file: &Path) -> Self {
        let mut command = Command::new(TENBIN);
        command.args(["tpmonitor", "--config"]).arg(file);
        Self::running(command)
    }

    fn running(mut command: Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        let mut alone = Self { process, said };
        alone.hear("listening on");
        alone
    }

    /// Reads what it and those that it starts say, up to a line with this.
    fn hear(&mut self, what: &str) -> String {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            let size = self.said.read_line(&mut line).unwrap();
            assert!(size > 0, "ended before it said {what:?}");
        }
        line
    }

    fn signal(pid: u32, name: &str) {
        let signal = format!("-{name}");
        let kill = Command::new("kill")
            .args([&signal, &pid.to_string()])
            .status();
        assert!(kill.unwrap().success());
    }
}

/// The number behind `pid=` of a line.
fn pid_in(line: &str) -> u32 {
    let (_, rest) = line.split_once("pid=").unwrap();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

struct Session {
    socket: TcpStream,
    key: [u8; 8],
}

impl Session {
    fn begin(address: SocketAddr) -> Self {
        let mut socket = come(address);
        let mut seen = Vec::new();
        while !seen.ends_with(b"Z\0\0\0\x05I") {
            read_more(&mut socket, &mut seen);
        }
        let head = b"K\0\0\0\x0c";
        let at = seen.windows(5).position(|part| part == head).unwrap() + 5;
        let key = seen[at..at + 8].try_into().unwrap();
        Self { socket, key }
    }

    fn send(&mut self, sql: &str) {
        let length = u32::try_from(sql.len() + 5).unwrap().to_be_bytes();
        let message = [b"Q", &length[..], sql.as_bytes(), b"\0"].concat();
        self.socket.write_all(&message).unwrap();
    }

    /// All up to and with the next `ReadyForQuery`.
    fn answer(&mut self) -> String {
        let mut seen = Vec::new();
        while seen.len() < 6 || seen[seen.len() - 6..seen.len() - 1] != *b"Z\0\0\0\x05" {
            read_more(&mut self.socket, &mut seen);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    fn ask(&mut self, sql: &str) -> String {
        self.send(sql);
        self.answer()
    }

    /// Cancels what it does; returns when that has been taken.
    fn cancel(&self, address: SocketAddr) {
        let mut other = TcpStream::connect(address).unwrap();
        let packet = [
            &16_u32.to_be_bytes()[..],
            &80_877_102_u32.to_be_bytes(),
            &self.key,
        ]
        .concat();
        other.write_all(&packet).unwrap();
        assert_eq!(other.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}

fn read_more(socket: &mut TcpStream, seen: &mut Vec<u8>) {
    let mut part = [0; 4096];
    let size = socket.read(&mut part).unwrap();
    assert!(size > 0, "the connection was closed after {seen:?}");
    seen.extend_from_slice(&part[..size]);
}

/// Those who are in stay, in whatever they are; those who come meanwhile get in; what is cancelled by the
/// new one's door reaches a session of the old one; the old one ends with its last client, and leaves the
/// sockets to the new one.
#[test]
fn one_monitor_hands_over_to_the_next_and_harms_nobody() {
    let server = Embedded::start(Options::default()).unwrap();
    let folder = TempDir::new().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let listen = [port.to_string(), folder.path().display().to_string()];
    let mut first = Alone::start(&server, &listen);
    let mut idle = Session::begin(port);
    let mut busy = Session::begin(port);
    assert!(
        busy.ask("BEGIN; CREATE TABLE handed (n int)")
            .ends_with('T')
    );
    let (done, stop) = (
        std::sync::mpsc::channel::<()>(),
        std::sync::mpsc::channel::<()>(),
    );
    let comer = std::thread::spawn(move || {
        let mut count = 0;
        while stop.1.try_recv().is_err() {
            assert!(Session::begin(port).ask("SELECT 1").contains("SELECT 1"));
            count += 1;
            let _ = done.0.send(());
        }
        count
    });
    done.1.recv().unwrap();
    Alone::signal(first.process.id(), "USR2");
    let second = pid_in(&first.hear("the next TP monitor listens"));
    for _ in 0..20 {
        done.1.recv().unwrap();
    }
    stop.0.send(()).unwrap();
    assert!(comer.join().unwrap() > 20);
    assert!(idle.ask("SELECT 'still here'").contains("still here"));
    assert!(
        busy.ask("INSERT INTO handed VALUES (1); COMMIT")
            .ends_with('I')
    );
    // Only the new one takes connections.
    idle.send("SELECT pg_sleep(100)");
    let mut fresh = Session::begin(port);
    while !fresh.ask("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'").contains("\0\x011") {}
    idle.cancel(port);
    assert!(idle.answer().contains("57014"));
    assert!(
        idle.ask("SELECT 'and after that'")
            .contains("and after that")
    );
    // By the old one's own door, so to speak: it is the same.
    fresh.send("SELECT pg_sleep(100)");
    while !busy.ask("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'").contains("\0\x011") {}
    fresh.cancel(port);
    assert!(fresh.answer().contains("57014"));
    drop((idle, busy));
    assert!(first.process.wait().unwrap().success());
    assert!(folder.path().join(".s.PGSQL.6432").exists());
    assert!(fresh.ask("SELECT count(*) FROM handed").contains("\0\x011"));
    Alone::signal(second, "TERM");
    // Its end closes what it has of the first one's standard error.
    let mut rest = String::new();
    first.said.read_to_string(&mut rest).unwrap();
    assert!(!folder.path().join(".s.PGSQL.6432").exists());
}

#[test]
fn a_next_one_that_cannot_serve_changes_nothing() {
    let server = Embedded::start(Options::default()).unwrap();
    let folder = TempDir::new().unwrap();
    let tenbin_wire::Address::Unix(socket) = &server.target().addresses[0] else {
        unreachable!("an embedded server has a Unix socket")
    };
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let file = folder.path().join("tpmonitor.toml");
    let good = format!(
        "listen = [\"{port}\"]\nauth = \"trust\"\nadmin_users = [\"postgres\"]\n[databases.\"*\"]\nserver = \"host={} port={}\"\n",
        socket.parent().unwrap().display(),
        server.port()
    );
    std::fs::write(&file, good).unwrap();
    let mut alone = Alone::configured(&file);
    let mut session = Session::begin(port);
    std::fs::write(&file, "listen = 7").unwrap();
    Alone::signal(alone.process.id(), "USR2");
    alone.hear("this one goes on");
    assert!(session.ask("SELECT 1").contains("SELECT 1"));
    assert!(Session::begin(port).ask("SELECT 1").contains("SELECT 1"));
    drop(session);
    Alone::signal(alone.process.id(), "TERM");
    assert!(alone.process.wait().unwrap().success());
}

/// What a process is at, `S` while it sleeps, and the ticks of processor time that it has had, a hundredth of
/// a second each.
fn state(pid: u32) -> (String, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    // Fields 3, 14 and 15 of proc(5).
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = fields[11..13].iter();
    let ticks = ticks.map(|field| field.parse::<u64>().unwrap()).sum();
    (fields[0].to_owned(), ticks)
}

#[test]
fn a_monitor_goes_on_looking_for_as_long_as_it_is_told_to() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tpmonitor.toml");
    for (limit, looks) in [("10min", true), ("off", false)] {
        // Nobody comes, so that there need not be a server.
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nauth = \"trust\"\nbusy_poll = \"{limit}\"\n[databases.\"*\"]\nserver = \"host=/nowhere\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut alone = Alone::configured(&file);
        let pid = alone.process.id();
        let (_, before) = state(pid);
        // Nothing tells of the time that a process has had but a look at it.
        while (looks && state(pid).1 < before + 20) || (!looks && state(pid).0 != "S") {
            std::thread::yield_now();
        }
        // It hears what it is asked to do all the same.
        Alone::signal(pid, "TERM");
        assert!(alone.process.wait().unwrap().success());
    }
}
