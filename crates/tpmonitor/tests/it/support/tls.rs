//! Certificates made for a test, a server that speaks TLS, and a client that does.

use super::raw::{query, startup};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SigningKey as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tenbin_server::{Account, Embedded, Options};

/// An authority and what it has signed, in a folder of their own.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Servers that run as another user look into it, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let names = &mut parameters.distinguished_name;
        // No two have the same, as they would be taken for one.
        names.push(DnType::CommonName, folder.path().display().to_string());
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(parameters, key),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Signs a certificate for a common name and hosts: `name.crt` and `name.key`.
    pub(crate) fn sign(&self, name: &str, common_name: &str, hosts: &[&str]) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut parameters = CertificateParams::new(hosts).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        let names = &mut parameters.distinguished_name;
        names.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{name}.crt")), certificate.pem()).unwrap();
        let file = self.path(&format!("{name}.key"));
        fs::write(&file, key.serialize_pem()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Makes a certificate one of version 1, as `openssl x509 -req` does: without version and extensions.
    pub(crate) fn make_v1(&self, name: &str) {
        let file = self.path(&format!("{name}.crt"));
        let certificate = CertificateDer::from_pem_file(&file).unwrap();
        let (whole, _) = element(&certificate);
        let (signed, rest) = element(content(whole));
        let (algorithm, _) = element(rest);
        let mut fields = content(signed);
        let mut kept = Vec::new();
        while !fields.is_empty() {
            let (field, rest) = element(fields);
            if field[0] & 0xe0 != 0xa0 {
                kept.extend_from_slice(field);
            }
            fields = rest;
        }
        let signed = wrap(0x30, &kept);
        let signature = self.issuer.key().sign(&signed).unwrap();
        let signature = wrap(3, &[&[0], &signature[..]].concat());
        let whole = wrap(0x30, &[&signed[..], algorithm, &signature].concat());
        let text = STANDARD.encode(whole);
        let text = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        fs::write(file, text).unwrap();
    }

    /// A server that speaks TLS with a certificate for these hosts, and takes from TCP what `hba` says.
    pub(crate) fn server(&self, hosts: &[&str], hba: &str) -> Embedded {
        self.sign("server", "a server", hosts);
        let account = Account::for_server();
        chown(
            self.path("server.key"),
            Some(account.uid),
            Some(account.gid),
        )
        .unwrap();
        let setting = |name: &str, value: String| (name.to_owned(), value);
        let server = Embedded::start(Options {
            connections: 100,
            settings: vec![
                setting("ssl", "on".to_owned()),
                setting("ssl_cert_file", self.text("server.crt")),
                setting("ssl_key_file", self.text("server.key")),
                setting("ssl_ca_file", self.text("ca.crt")),
            ],
            ..Options::default()
        })
        .expect("a server with TLS");
        allow(&server, hba);
        server
    }
}

/// An element of DER with its header, and what follows.
fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(header(bytes) + content(bytes).len())
}

/// Bytes of a header: a tag, and a length of one byte or of as many as the first says.
fn header(bytes: &[u8]) -> usize {
    if bytes[1] < 0x80 {
        2
    } else {
        2 + usize::from(bytes[1] & 0x7f)
    }
}

fn content(bytes: &[u8]) -> &[u8] {
    let start = header(bytes);
    let digits = if start == 2 {
        &bytes[1..2]
    } else {
        &bytes[2..start]
    };
    let length = digits
        .iter()
        .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
    &bytes[start..start + length]
}

fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let header = match length {
        [0, short @ 0..=0x7f] => vec![tag, short],
        [0, long] => vec![tag, 0x81, long],
        [high, low] => vec![tag, 0x82, high, low],
    };
    [&header, content].concat()
}

/// Puts rules in place of those for TCP; what comes through the Unix socket is trusted.
pub(crate) fn allow(server: &Embedded, hba: &str) {
    let file = server.data_directory().join("pg_hba.conf");
    fs::write(file, format!("local all all trust\n{hba}\n")).unwrap();
    let mut direct = server.connect().unwrap();
    // The rules are read by the postmaster; sessions begun later have them once it has done so.
    let loaded = "SELECT pg_conf_load_time()";
    let before: std::time::SystemTime = direct.query_one(loaded, &[]).unwrap().get(0);
    direct.batch_execute("SELECT pg_reload_conf()").unwrap();
    let reread = || {
        let mut other = server.connect().unwrap();
        let at: std::time::SystemTime = other.query_one(loaded, &[]).unwrap().get(0);
        at > before
    };
    while !reread() {
        std::thread::yield_now();
    }
}

/// A client that speaks TLS by itself.
pub(crate) struct Secret {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Secret {
    /// Begins with TLS at once, with or without naming the protocol inside.
    pub(crate) fn direct(address: SocketAddr, ca: &Path, protocol: bool) -> Self {
        Self::over(TcpStream::connect(address).unwrap(), ca, protocol)
    }

    /// Asks for TLS first.
    pub(crate) fn ask(address: SocketAddr, ca: &Path) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket
            .write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
            .unwrap();
        let mut answer = [0];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"S");
        Self::over(socket, ca, false)
    }

    fn over(socket: TcpStream, ca: &Path, protocol: bool) -> Self {
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        if protocol {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        Self {
            stream: StreamOwned::new(tls, socket),
        }
    }

    pub(crate) fn log_in(&mut self) {
        self.send(&startup(
            0x0003_0000,
            &[("user", "postgres"), ("database", "postgres")],
        ));
        assert!(self.until_ready().contains(&b'K'));
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    /// Type and body of the next message, or nothing at the end.
    pub(crate) fn reply(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// Types of the replies up to and with `ReadyForQuery`, or to the end.
    pub(crate) fn until_ready(&mut self) -> Vec<u8> {
        let mut tags = Vec::new();
        while let Some((tag, _)) = self.reply() {
            tags.push(tag);
            if tag == b'Z' {
                break;
            }
        }
        tags
    }

    /// The first value of the first row that a query answers.
    pub(crate) fn value(&mut self, sql: &str) -> Vec<u8> {
        self.send(&query(sql));
        let mut found = None;
        while let Some((tag, body)) = self.reply() {
            match tag {
                b'D' => found = found.or(Some(body[6..].to_vec())),
                b'Z' => break,
                _ => {}
            }
        }
        found.expect("a row")
    }
}
