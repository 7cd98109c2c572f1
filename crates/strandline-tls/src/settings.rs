//! Certificates, keys and trusted authorities, read from PEM files.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::verify::Verifier;

/// Maximum length of a file of certificates or keys, in bytes.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// An error in a file or its content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file can't be read, or holds no PEM of the required kind.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        message: String,
    },
    /// Certificate and key don't match, or can't be used.
    #[error("{path}: {cause}")]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// The cause.
        cause: rustls::Error,
    },
}

/// Files of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFiles {
    /// PEM file with the certificate and the intermediate certificates up to one that peers trust.
    pub certificate: PathBuf,
    /// PEM file with the key: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// The content of a PEM file.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The file's path, which errors report.
    pub path: PathBuf,
    /// The file's content.
    pub bytes: Vec<u8>,
}

impl core::fmt::Debug for Pem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The content may be a key, so it isn't shown.
        f.debug_tuple("Pem").field(&self.path).finish()
    }
}

impl Pem {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        let read = || {
            let mut bytes = Vec::new();
            std::fs::File::open(path)?.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = read().map_err(|error: std::io::Error| file(path, &error.to_string()))?;
        if bytes.len() as u64 > PEM_BYTES_MAX {
            return Err(file(path, "the file has more than 16 MiB: is it the right one?"));
        }
        Ok(Self { path: path.to_owned(), bytes })
    }
}

/// The contents of a certificate's and a key's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The certificate and the intermediate certificates up to one that peers trust.
    pub certificate: Pem,
    /// The key: PKCS #8, PKCS #1 or SEC 1.
    pub key: Pem,
}

impl Own {
    /// Returns the certificate itself, without intermediate certificates.
    ///
    /// # Errors
    /// If the file holds no certificate.
    pub fn leaf(&self) -> Result<CertificateDer<'static>, TlsError> {
        let none = || file(&self.certificate.path, "the file contains no PEM certificate");
        certificates(&self.certificate)?.into_iter().next().ok_or_else(none)
    }
}

impl OwnFiles {
    fn read(&self) -> Result<Own, TlsError> {
        Ok(Own { certificate: Pem::read(&self.certificate)?, key: Pem::read(&self.key)? })
    }
}

/// Whether a server asks clients for certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// Clients may present a certificate.
    Optional,
    /// Clients must present a certificate.
    Required,
}

/// TLS settings of a server. Clones share them.
#[derive(Debug, Clone)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

/// TLS settings of a client. Clones share them.
#[derive(Debug, Clone)]
pub struct ClientTls(pub(crate) Arc<ClientConfig>);

impl ServerTls {
    /// Creates the settings of a server with its certificate. Client certificates must chain to an authority
    /// in the file `ca`; without it none is requested.
    ///
    /// # Errors
    /// If a file can't be read or used.
    pub fn new(own: &OwnFiles, ca: Option<&Path>, clients: ClientCertificates) -> Result<Self, TlsError> {
        let ca = ca.map(Pem::read).transpose()?;
        Self::of(&own.read()?, ca.as_ref(), clients)
    }

    /// The settings of a server from certificates that were read already.
    ///
    /// # Errors
    /// If a content can't be used.
    pub fn of(own: &Own, ca: Option<&Pem>, clients: ClientCertificates) -> Result<Self, TlsError> {
        let certificate = |cause| TlsError::Certificate { path: own.certificate.path.clone(), cause };
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(certificate)?;
        let builder = match (ca, clients) {
            (None, _) | (_, ClientCertificates::None) => builder.with_no_client_auth(),
            (Some(ca), clients) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider());
                let verifier = match clients {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let built = verifier.build();
                let broken = |error: rustls::server::VerifierBuilderError| file(&ca.path, &error.to_string());
                builder.with_client_cert_verifier(built.map_err(broken)?)
            }
        };
        let (chain, key) = chain_and_key(own)?;
        let mut config = builder.with_single_cert(chain, key).map_err(certificate)?;
        // A ticket for each connection would cost more than the few phones that reconnect save.
        config.send_tls13_tickets = 1;
        Ok(Self(Arc::new(config)))
    }

    /// Offers these application protocols (ALPN, RFC 7301), the preferred one first. Default: none.
    #[must_use]
    pub fn with_alpn(mut self, protocols: &[&[u8]]) -> Self {
        Arc::make_mut(&mut self.0).alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        self
    }
}

impl ClientTls {
    /// Creates the settings of a client. Server certificates must chain to an authority in the file `ca` and
    /// prove the wanted SIP domain (RFC 5922 section 7.3). With a certificate of its own, the client presents
    /// it to servers that request one.
    ///
    /// # Errors
    /// If a file can't be read or used.
    pub fn new(ca: &Path, own: Option<&OwnFiles>) -> Result<Self, TlsError> {
        let own = own.map(OwnFiles::read).transpose()?;
        Self::of(&Pem::read(ca)?, own.as_ref())
    }

    /// Creates the settings of a client of HTTPS. Server certificates must chain to an authority in the file `ca`
    /// and be valid for the wanted host (RFC 9110 section 4.3.4, RFC 9525).
    ///
    /// # Errors
    /// If the file can't be read or used.
    pub fn web(ca: &Path) -> Result<Self, TlsError> {
        let ca = Pem::read(ca)?;
        let broken = |cause| TlsError::Certificate { path: ca.path.clone(), cause };
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(broken)?;
        Ok(Self(Arc::new(builder.with_root_certificates(roots(&ca)?).with_no_client_auth())))
    }

    /// Creates the settings of a client that accepts any certificate of a server: an attacker on the way can read and
    /// change everything.
    ///
    /// # Errors
    /// If no TLS version can be used.
    pub fn insecure() -> Result<Self, TlsError> {
        let broken = |cause| TlsError::Certificate { path: PathBuf::new(), cause };
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(broken)?;
        let verifier = Verifier::of_nothing(provider());
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        Ok(Self(Arc::new(builder.with_no_client_auth())))
    }

    /// The settings of a client from certificates that were read already.
    ///
    /// # Errors
    /// If a content can't be used.
    pub fn of(ca: &Pem, own: Option<&Own>) -> Result<Self, TlsError> {
        let certificate = |cause| TlsError::Certificate { path: ca.path.clone(), cause };
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(certificate)?;
        let broken = |error: rustls::client::VerifierBuilderError| file(&ca.path, &error.to_string());
        let verifier = Verifier::of_sip_identity(roots(ca)?, provider()).map_err(broken)?;
        // The verifier is as strict as the usual one, but checks names as RFC 5922 demands.
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = chain_and_key(own)?;
                let broken = |cause| TlsError::Certificate { path: own.certificate.path.clone(), cause };
                builder.with_client_auth_cert(chain, key).map_err(broken)?
            }
        };
        Ok(Self(Arc::new(config)))
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(crate) fn file(path: &Path, message: &str) -> TlsError {
    TlsError::File { path: path.to_owned(), message: message.to_owned() }
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.bytes).collect();
    let all = all.map_err(|error| file(&pem.path, &error.to_string()))?;
    if all.is_empty() { Err(file(&pem.path, "the file contains no PEM certificate")) } else { Ok(all) }
}

fn chain_and_key(own: &Own) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let key = PrivateKeyDer::from_pem_slice(&own.key.bytes);
    let key = key.map_err(|error| match error {
        pem::Error::NoItemsFound => file(&own.key.path, "the file contains no PEM private key"),
        error => file(&own.key.path, &error.to_string()),
    })?;
    Ok((certificates(&own.certificate)?, key))
}

/// Parses trusted authorities. Some of a system's many authorities may be of a kind that can't be parsed: one
/// usable authority is enough.
pub(crate) fn roots(pem: &Pem) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let mut wrong = None;
    for certificate in certificates(pem)? {
        wrong = roots.add(certificate).err().or(wrong);
    }
    match wrong.filter(|_| roots.is_empty()) {
        Some(cause) => Err(TlsError::Certificate { path: pem.path.clone(), cause }),
        None => Ok(roots),
    }
}
