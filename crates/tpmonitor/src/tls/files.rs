//! Certificates and keys from files.

use super::der::{Hash, common_name, signature_hash};
use super::{ALPN, Session, v1};
use crate::config::{TlsMode, TlsVersions};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    InconsistentKeys, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Certificates or keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("could not read a {what} from {}: {reason}; expected PEM, readable to this user", path.display())]
    Read {
        /// What was to be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system or the file said.
        reason: String,
    },
    /// A file has nothing of what it should have.
    #[error("{} has no {what}; expected PEM", path.display())]
    Empty {
        /// What was to be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Files that were read do not serve their purpose.
    #[error("certificate {} cannot be used: {reason}; check that the key belongs to it", path.display())]
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Settings that do not go together.
    #[error("{0}")]
    Missing(String),
}

/// Speaks TLS with clients.
#[derive(Clone)]
pub(crate) struct Acceptor {
    config: Arc<ServerConfig>,
    binding: Option<Vec<u8>>,
    asks: bool,
}

/// Speaks TLS with servers.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// Equal when they are the same: what files say is not compared.
impl PartialEq for Acceptor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for Acceptor {}

impl PartialEq for Connector {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for Connector {}

const AUTHORITIES: &str = "certificate of an authority";
const CERTIFICATE: &str = "certificate";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn chain(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error: rustls::pki_types::pem::Error| TlsError::Read {
        what,
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let found = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(failed)?;
    if found.is_empty() {
        let path = path.to_owned();
        return Err(TlsError::Empty { what, path });
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::Read {
        what: "private key",
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in chain(AUTHORITIES, path)? {
        store.add(certificate).map_err(|error| TlsError::Unusable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(Arc::new(store))
}

/// A certificate with its key. rustls compares the two, but not for a certificate of version 1.
fn certified(certificate: &Path, key_file: &Path) -> Result<CertifiedKey, TlsError> {
    let unusable = |error: rustls::Error| TlsError::Unusable {
        path: certificate.to_owned(),
        reason: error.to_string(),
    };
    let shown = chain(CERTIFICATE, certificate)?;
    let key = provider().key_provider.load_private_key(key(key_file)?);
    let own = CertifiedKey::new(shown, key.map_err(unusable)?);
    let of_v1 = own.cert.first().and_then(|shown| v1::key_of_v1(shown));
    let fits = match (own.key.public_key(), of_v1) {
        (None, _) => Ok(()),
        (Some(public), Some(of_v1)) if public.as_ref() == of_v1 => Ok(()),
        (Some(_), Some(_)) => Err(InconsistentKeys::KeyMismatch.into()),
        (Some(_), None) => own.keys_match(),
    };
    fits.map_err(unusable)?;
    Ok(own)
}

impl Acceptor {
    /// Shows this certificate; asks clients for theirs where there is an authority to verify them by.
    pub(crate) fn read(
        versions: TlsVersions,
        certificate: &Path,
        key_file: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let unusable = |error: &dyn fmt::Display| TlsError::Unusable {
            path: certificate.to_owned(),
            reason: error.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions.0)
            .map_err(|error| unusable(&error))?;
        let builder = match client_ca {
            Some(path) => {
                let inner = WebPkiClientVerifier::builder_with_provider(roots(path)?, provider())
                    // Who has to have one is decided when it is known who comes; the refusal is
                    // an error that people can read.
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| unusable(&error))?;
                builder.with_client_cert_verifier(Arc::new(OfClients {
                    inner,
                    authorities: chain(AUTHORITIES, path)?,
                    provider: provider(),
                }))
            }
            None => builder.with_no_client_auth(),
        };
        let own = certified(certificate, key_file)?;
        let binding = own.cert.first().and_then(binding);
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self {
            config: Arc::new(config),
            binding,
            asks: client_ca.is_some(),
        })
    }

    /// Whether clients' certificates can be verified.
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// The monitor's side of a connection; `direct`: no request for TLS came before it.
    pub(crate) fn accept(&self, direct: bool) -> Result<Session, String> {
        let tls = ServerConnection::new(Arc::clone(&self.config));
        let tls = tls.map_err(|error| error.to_string())?;
        Ok(Session::new(tls.into(), direct, self.binding.clone()))
    }
}

impl Connector {
    /// What servers have to prove follows from the mode and from there being an authority; `own` is
    /// certificate and key to show them.
    pub(crate) fn read(
        mode: TlsMode,
        versions: TlsVersions,
        root: Option<&Path>,
        own: Option<(&Path, &Path)>,
    ) -> Result<Self, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions.0)
            .map_err(|error| TlsError::Missing(error.to_string()))?;
        let mut pinned = Vec::new();
        let inner = match root {
            Some(path) => {
                pinned = chain(AUTHORITIES, path)?;
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots(path)?, provider()).build();
                Some(verifier.map_err(|error| TlsError::Unusable {
                    path: path.to_owned(),
                    reason: error.to_string(),
                })?)
            }
            None if mode >= TlsMode::VerifyCa => {
                return Err(TlsError::Missing(
                    "sslmode=verify-ca and verify-full need sslrootcert, the file with the certificate of the authority"
                        .to_owned(),
                ));
            }
            None => None,
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier {
                inner,
                pinned,
                names: mode == TlsMode::VerifyFull,
                provider: provider(),
            }));
        let mut config = match own {
            Some((certificate, key_file)) => {
                let own = SingleCertAndKey::from(certified(certificate, key_file)?);
                builder.with_client_cert_resolver(Arc::new(own))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// The monitor's side of a connection to a server of this name; `direct`: it begins with TLS.
    pub(crate) fn connect(&self, host: &str, direct: bool) -> Result<Session, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is no name that a certificate could be for"))?;
        let tls = ClientConnection::new(Arc::clone(&self.config), name);
        let tls = tls.map_err(|error| error.to_string())?;
        Ok(Session::new(tls.into(), direct, None))
    }
}

/// What a certificate binds SCRAM by: its hash under the hash of its signature (RFC 5929, section 4.1).
pub(crate) fn binding(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    Some(match signature_hash(certificate)? {
        Hash::Sha224 => Sha224::digest(certificate).to_vec(),
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

/// Verifies clients' certificates, of version 1, too.
#[derive(Debug)]
struct OfClients {
    inner: Arc<dyn ClientCertVerifier>,
    authorities: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for OfClients {
    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .inner
            .verify_client_cert(end_entity, intermediates, now);
        match verified {
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string() == "UnsupportedCertVersion"
                    && v1::is_trusted(
                        end_entity,
                        &self.authorities,
                        now,
                        &self.provider.signature_verification_algorithms,
                    ) =>
            {
                Ok(ClientCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12(&self.provider, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13(&self.provider, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn verify_tls12(
    provider: &CryptoProvider,
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let known = &provider.signature_verification_algorithms;
    let mut schemes = known.mapping.iter();
    let by_v1 = schemes.any(|(scheme, algorithms)| {
        *scheme == signed.scheme
            && v1::has_signed(certificate, algorithms, message, signed.signature())
    });
    if by_v1 {
        return Ok(HandshakeSignatureValid::assertion());
    }
    rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
}

fn verify_tls13(
    provider: &CryptoProvider,
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let known = &provider.signature_verification_algorithms;
    if let Some(key) = v1::key_of_v1(certificate) {
        let key = SubjectPublicKeyInfoDer::from(key);
        return verify_tls13_signature_with_raw_key(message, &key, signed, known);
    }
    rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
}

/// Verifies as much of a server's certificate as its `sslmode` asks for.
#[derive(Debug)]
struct Verifier {
    /// By which authorities; none, and any certificate is taken.
    inner: Option<Arc<WebPkiServerVerifier>>,
    /// The same, as they stand in their file.
    pinned: Vec<CertificateDer<'static>>,
    /// Whether the name has to be right, too.
    names: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last: everything else was right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.names => Ok(ServerCertVerified::assertion()),
            // A certificate that says it is an authority and serves by itself, as `openssl req -x509`
            // makes it, and that is the one that was asked for; its time has been looked at by then.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string() == "CaUsedAsEndEntity"
                    && self.pinned.iter().any(|known| known == end_entity) =>
            {
                if self.names {
                    let parsed = ParsedCertificate::try_from(end_entity)?;
                    verify_server_name(&parsed, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string() == "UnsupportedCertVersion"
                    && v1::is_trusted(
                        end_entity,
                        &self.pinned,
                        now,
                        &self.provider.signature_verification_algorithms,
                    ) =>
            {
                let name = common_name(end_entity).unwrap_or_default();
                if self.names && !name.eq_ignore_ascii_case(&server_name.to_str()) {
                    return Err(CertificateError::NotValidForName.into());
                }
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12(&self.provider, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13(&self.provider, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
