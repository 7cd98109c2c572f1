//! TLS to databases, with the modes of libpq's `sslmode`.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::settings::{Pem, TlsError, provider, roots};
use crate::verify::Verifier;

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
        let verifier = match verify {
            Verify::Nothing => Verifier::of_nothing(provider()),
            Verify::Authority(ca) => Verifier::of_authority(roots(ca)?, provider()),
            Verify::Host(ca) => {
                let config = builder.with_root_certificates(roots(ca)?).with_no_client_auth();
                return Ok(Self(Arc::new(config)));
            }
        };
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
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
