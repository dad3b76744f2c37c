//! Whether connections are encrypted, on both sides.

use super::Environment;
use crate::tls::{Acceptor, Connector, TlsError};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Whether a connection is encrypted, and what the other side has to prove: libpq's `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Never.
    Disable,
    /// When the other side insists.
    Allow,
    /// When the other side can.
    #[default]
    Prefer,
    /// Always.
    Require,
    /// Always, and the certificate is signed by a known authority.
    VerifyCa,
    /// And it is for the name that was asked for: a server's host, a client's user.
    VerifyFull,
}

impl fmt::Display for TlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        })
    }
}

impl std::str::FromStr for TlsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(format!(
                    "{text}: expected disable, allow, prefer, require, verify-ca or verify-full"
                ));
            }
        })
    }
}

static BOTH: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// Versions of the protocol that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsVersions(pub(crate) &'static [&'static SupportedProtocolVersion]);

impl Default for TlsVersions {
    /// All that there are here: 1.2 and 1.3.
    fn default() -> Self {
        Self(&BOTH)
    }
}

impl TlsVersions {
    fn of(has: impl Fn(&str) -> bool) -> Option<Self> {
        match (has("tlsv1.2"), has("tlsv1.3")) {
            (true, true) => Some(Self::default()),
            (true, false) => Some(Self(&BOTH[..1])),
            (false, true) => Some(Self(&BOTH[1..])),
            (false, false) => None,
        }
    }
}

impl fmt::Display for TlsVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|version| match version.version {
            rustls::ProtocolVersion::TLSv1_2 => "tlsv1.2",
            _ => "tlsv1.3",
        });
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

impl std::str::FromStr for TlsVersions {
    type Err = String;

    /// `PgBouncer`'s list: `tlsv1.2`, `tlsv1.3`, or both as `secure`, `default`, `legacy` or `all`. Older versions, which
    /// there are not, may be in it, too.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        let words: Vec<&str> = text
            .split([',', ':', ' '])
            .filter(|word| !word.is_empty())
            .collect();
        let all = words
            .iter()
            .any(|word| matches!(*word, "secure" | "default" | "legacy" | "all"));
        let known = [
            "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3", "secure", "default", "legacy", "all",
        ];
        let known = words.iter().all(|word| known.contains(word));
        let found = Self::of(|version| all || words.contains(&version)).filter(|_| known);
        found.ok_or_else(|| format!("{text}: expected tlsv1.2, tlsv1.3, or both"))
    }
}

/// TLS with clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTls {
    pub(crate) mode: TlsMode,
    pub(crate) versions: TlsVersions,
    pub(crate) acceptor: Option<Acceptor>,
}

impl Default for ClientTls {
    /// None.
    fn default() -> Self {
        Self {
            mode: TlsMode::Disable,
            versions: TlsVersions::default(),
            acceptor: None,
        }
    }
}

impl ClientTls {
    /// Reads certificate, key, and the authorities that clients' certificates are verified by.
    ///
    /// # Errors
    /// When a file cannot be read or used, or one is missing that the mode needs.
    pub fn read(
        mode: TlsMode,
        versions: TlsVersions,
        certificate: Option<&Path>,
        key: Option<&Path>,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        if mode == TlsMode::Disable {
            return Ok(Self::default());
        }
        let missing = |what: &str| TlsError::Missing(format!("TLS with clients needs {what}"));
        let certificate = certificate.ok_or_else(|| missing("a certificate"))?;
        let key = key.ok_or_else(|| missing("the private key of the certificate"))?;
        if mode >= TlsMode::VerifyCa && client_ca.is_none() {
            return Err(missing(
                "the certificate of the authority that signs clients' certificates, to verify them",
            ));
        }
        Ok(Self {
            mode,
            versions,
            acceptor: Some(Acceptor::read(versions, certificate, key, client_ca)?),
        })
    }
}

impl ClientTls {
    /// Whether clients can show certificates, where they have to.
    pub(super) fn serves(&self, certificates_needed: bool) -> Result<(), String> {
        let asks = self.acceptor.as_ref().is_some_and(Acceptor::asks);
        if certificates_needed && !asks {
            return Err(
                "clients' certificates need TLS and the authority that signs their certificates: give tls_certificate, tls_key and tls_client_ca"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Whether SCRAM is bound to the encrypted connection: libpq's `channel_binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// When the server offers it.
    #[default]
    Prefer,
    /// Always.
    Require,
}

/// TLS with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    pub(crate) mode: TlsMode,
    /// It begins with TLS, without a question.
    pub(crate) direct: bool,
    pub(crate) binding: ChannelBinding,
    pub(crate) connector: Option<Connector>,
}

impl Default for ServerTls {
    /// None.
    fn default() -> Self {
        Self {
            mode: TlsMode::Disable,
            direct: false,
            binding: ChannelBinding::Prefer,
            connector: None,
        }
    }
}

/// Options of a connection string that this module reads, and the variables that stand in for them.
pub(super) const OPTIONS: [(&str, &str); 8] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION"),
];

impl ServerTls {
    /// Reads what the options of a connection string ask for. Relative files are in `folder`.
    pub(super) fn of_options(
        options: &BTreeMap<String, String>,
        environment: Environment<'_>,
        folder: &Path,
    ) -> Result<Self, String> {
        let given = |name: &str| {
            let variable = OPTIONS.iter().find(|(known, _)| *known == name)?.1;
            let given = options.get(name).cloned();
            given
                .or_else(|| environment(variable))
                .filter(|value| !value.is_empty())
        };
        let path = |name: &str| given(name).map(|text| folder.join(text));
        let mode = given("sslmode").map_or(Ok(TlsMode::Prefer), |text| {
            text.parse().map_err(|error| format!("sslmode={error}"))
        })?;
        let direct = match given("sslnegotiation").as_deref() {
            None | Some("postgres") => false,
            Some("direct") if mode >= TlsMode::Require => true,
            Some("direct") => {
                return Err("sslnegotiation=direct needs sslmode=require or more".to_owned());
            }
            Some(other) => {
                return Err(format!(
                    "sslnegotiation={other}: expected postgres or direct"
                ));
            }
        };
        let binding = match given("channel_binding").as_deref() {
            None | Some("prefer") => ChannelBinding::Prefer,
            Some("disable") => ChannelBinding::Disable,
            Some("require") => ChannelBinding::Require,
            Some(other) => {
                return Err(format!(
                    "channel_binding={other}: expected disable, prefer or require"
                ));
            }
        };
        let own = match (path("sslcert"), path("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("sslcert and sslkey go together: give both or neither".to_owned()),
        };
        let order = ["tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"];
        let bound = |name: &str, usual| match given(name).map(|text| text.to_ascii_lowercase()) {
            None => Ok(usual),
            Some(text) => order
                .iter()
                .position(|known| *known == text)
                .ok_or_else(|| {
                    format!("{name}={text}: expected TLSv1, TLSv1.1, TLSv1.2 or TLSv1.3")
                }),
        };
        let spoken = bound("ssl_min_protocol_version", 0)?..=bound("ssl_max_protocol_version", 3)?;
        let has = |version: &str| order.iter().position(|known| *known == version);
        let versions =
            TlsVersions::of(|version| has(version).is_some_and(|at| spoken.contains(&at)));
        let versions = versions.ok_or(
            "ssl_min_protocol_version and ssl_max_protocol_version leave neither TLSv1.2 nor TLSv1.3",
        )?;
        Self::read(mode, versions, path("sslrootcert").as_deref(), own.as_ref())
            .map(|tls| Self {
                direct,
                binding,
                ..tls
            })
            .map_err(|error| error.to_string())
    }

    /// Reads the files.
    pub(super) fn read(
        mode: TlsMode,
        versions: TlsVersions,
        root: Option<&Path>,
        own: Option<&(PathBuf, PathBuf)>,
    ) -> Result<Self, TlsError> {
        let own = own.map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        let connector =
            (mode != TlsMode::Disable).then(|| Connector::read(mode, versions, root, own));
        Ok(Self {
            mode,
            connector: connector.transpose()?,
            ..Self::default()
        })
    }
}
