//! TLS to databases, with the modes of libpq's `sslmode`.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::settings::{Pem, TlsError, provider, roots};

/// What a database's certificate must prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verify {
    /// Nothing: the connection is encrypted, but its other end may be anybody (`require`).
    Nothing,
    /// It chains to an authority in this file (`verify-ca`).
    Authority(Pem),
    /// It chains to an authority in this file and is valid for the host of the URL (`verify-full`).
    Host(Pem),
}

/// TLS settings of a client of databases. Clones share them.
#[derive(Debug, Clone)]
pub struct DatabaseTls(Arc<ClientConfig>);

/// A TLS connection over a stream `S`.
pub type DatabaseStream<S> = tokio_rustls::client::TlsStream<S>;

impl DatabaseTls {
    /// Creates the settings.
    ///
    /// # Errors
    /// If the file of authorities can't be used.
    pub fn new(verify: &Verify) -> Result<Self, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider());
        let unusable = |cause| {
            let path = match verify {
                Verify::Nothing => std::path::PathBuf::new(),
                Verify::Authority(ca) | Verify::Host(ca) => ca.path.clone(),
            };
            TlsError::Certificate { path, cause }
        };
        let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
        let config = match verify {
            Verify::Host(ca) => builder.with_root_certificates(roots(ca)?).with_no_client_auth(),
            Verify::Nothing | Verify::Authority(_) => {
                let roots = match verify {
                    Verify::Authority(ca) => Some(roots(ca)?),
                    _ => None,
                };
                let verifier = Arc::new(AnyHost { roots, provider: provider() });
                builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
            }
        };
        Ok(Self(Arc::new(config)))
    }

    /// Performs the handshake with the server of this name, a domain or an address.
    ///
    /// # Errors
    /// If `name` is neither, the certificate doesn't prove what it must, or the connection ends.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        name: &str,
        stream: S,
    ) -> io::Result<DatabaseStream<S>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await
    }
}

/// Accepts certificates for any host; with `roots`, only those that chain to one of them.
#[derive(Debug)]
struct AnyHost {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
