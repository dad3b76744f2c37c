//! The TP monitor under a service manager, and with few descriptors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
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
