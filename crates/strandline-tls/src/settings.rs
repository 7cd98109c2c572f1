//! Certificates, keys, and what is trusted, from PEM files.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::verify::SipVerifier;

/// The longest file of certificates or keys.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// What is wrong with a file or its content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// It can't be read, or holds no PEM of the kind that is needed.
    #[error("{path}: {message}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Certificate and key don't go together, or nothing can be made of them.
    #[error("{path}: {cause}")]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        cause: rustls::Error,
    },
}

/// One's own certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFiles {
    /// PEM: the certificate, and those that lead to one that others trust.
    pub certificate: PathBuf,
    /// PEM: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// A PEM file that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// Where it is: errors name it.
    pub path: PathBuf,
    /// What stands there.
    pub bytes: Vec<u8>,
}

impl core::fmt::Debug for Pem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // It may be a key.
        f.debug_tuple("Pem").field(&self.path).finish()
    }
}

impl Pem {
    /// Reads it.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        let read = || {
            let mut bytes = Vec::new();
            std::fs::File::open(path)?.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = read().map_err(|error: std::io::Error| file(path, &error.to_string()))?;
        if bytes.len() as u64 > PEM_BYTES_MAX {
            return Err(file(path, "it has more than 16 MiB, the limit: is that the right file?"));
        }
        Ok(Self { path: path.to_owned(), bytes })
    }
}

/// One's own certificate and its key, as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The certificate, and those that lead to one that others trust.
    pub certificate: Pem,
    /// PKCS #8, PKCS #1 or SEC 1.
    pub key: Pem,
}

impl Own {
    /// The certificate itself, without those that lead to one that others trust.
    ///
    /// # Errors
    /// If there is none.
    pub fn leaf(&self) -> Result<CertificateDer<'static>, TlsError> {
        let none = || file(&self.certificate.path, "no certificate in PEM there");
        certificates(&self.certificate)?.into_iter().next().ok_or_else(none)
    }
}

impl OwnFiles {
    fn read(&self) -> Result<Own, TlsError> {
        Ok(Own { certificate: Pem::read(&self.certificate)?, key: Pem::read(&self.key)? })
    }
}

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    None,
    /// They may.
    Optional,
    /// They must.
    Required,
}

/// What a server needs. Copies share it.
#[derive(Debug, Clone)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

/// What a client needs. Copies share it.
#[derive(Debug, Clone)]
pub struct ClientTls(pub(crate) Arc<ClientConfig>);

impl ServerTls {
    /// With one's own certificate. Those of clients must lead to one in the file `ca`, without which none is asked for.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn new(own: &OwnFiles, ca: Option<&Path>, clients: ClientCertificates) -> Result<Self, TlsError> {
        let ca = ca.map(Pem::read).transpose()?;
        Self::of(&own.read()?, ca.as_ref(), clients)
    }

    /// The settings of a server from certificates that were read already.
    ///
    /// # Errors
    /// What is wrong with it.
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
        // A ticket for each connection would cost more than phones that come back seldom save.
        config.send_tls13_tickets = 1;
        Ok(Self(Arc::new(config)))
    }
}

impl ClientTls {
    /// Servers' certificates must lead to one in the file `ca`, and prove the SIP domain that is wanted (RFC 5922 section 7.3).
    /// With one's own, servers may ask for it.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn new(ca: &Path, own: Option<&OwnFiles>) -> Result<Self, TlsError> {
        let own = own.map(OwnFiles::read).transpose()?;
        Self::of(&Pem::read(ca)?, own.as_ref())
    }

    /// The settings of a client from certificates that were read already.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(ca: &Pem, own: Option<&Own>) -> Result<Self, TlsError> {
        let certificate = |cause| TlsError::Certificate { path: ca.path.clone(), cause };
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(certificate)?;
        let broken = |error: rustls::client::VerifierBuilderError| file(&ca.path, &error.to_string());
        let verifier = SipVerifier::new(roots(ca)?, provider()).map_err(broken)?;
        // Not less is asked for than usual, but what RFC 5922 asks for.
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

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn file(path: &Path, message: &str) -> TlsError {
    TlsError::File { path: path.to_owned(), message: message.to_owned() }
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.bytes).collect();
    let all = all.map_err(|error| file(&pem.path, &error.to_string()))?;
    if all.is_empty() { Err(file(&pem.path, "no certificate in PEM there")) } else { Ok(all) }
}

fn chain_and_key(own: &Own) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let key = PrivateKeyDer::from_pem_slice(&own.key.bytes);
    let key = key.map_err(|error| match error {
        pem::Error::NoItemsFound => file(&own.key.path, "no private key in PEM there"),
        error => file(&own.key.path, &error.to_string()),
    })?;
    Ok((certificates(&own.certificate)?, key))
}

/// Of a system's many authorities some may be of a kind that can't be checked: one that can is enough.
fn roots(pem: &Pem) -> Result<RootCertStore, TlsError> {
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
