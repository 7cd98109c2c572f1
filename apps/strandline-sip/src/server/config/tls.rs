//! `[tls]`: certificates.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use strandline_ops::Files;
use strandline_tls::{CertificateDer, ClientCertificates, ClientTls, Own, ServerTls, TlsError};

use super::error::{ConfigError, wrong};
use super::files::pem_of;
use super::host::check_domain;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    certificate: PathBuf,
    key: PathBuf,
    ca: Option<PathBuf>,
    servers_ca: Option<PathBuf>,
    client_certificates: Option<String>,
    #[serde(default)]
    peers: Vec<String>,
}

/// The TLS settings.
#[derive(Debug, Clone)]
pub struct Tls {
    /// For accepted connections.
    pub server: ServerTls,
    /// For outgoing connections, if any certificates are trusted.
    pub client: Option<ClientTls>,
    /// Domains that may relay requests to foreign hosts.
    pub peers: Vec<String>,
    /// The server's own certificate.
    pub(super) own: CertificateDer<'static>,
}

/// The configuration key that names this file.
fn key_of(file: &Table, error: &TlsError) -> &'static str {
    let path = match error {
        TlsError::Certificate { path, .. } | TlsError::File { path, .. } => path,
    };
    // The certificate and the key may be in one file.
    let is_key = *path == file.key && matches!(error, TlsError::File { .. });
    if is_key && *path != file.certificate {
        "tls.key"
    } else if *path == file.certificate {
        "tls.certificate"
    } else if file.servers_ca.as_ref() == Some(path) {
        "tls.servers_ca"
    } else {
        "tls.ca"
    }
}

pub(super) fn check(file: Table, files: &mut Files) -> Result<Tls, ConfigError> {
    let clients = match file.client_certificates.as_deref() {
        None if file.ca.is_some() && !file.peers.is_empty() => ClientCertificates::Optional,
        None | Some("none") => ClientCertificates::None,
        Some("optional") => ClientCertificates::Optional,
        Some("required") => ClientCertificates::Required,
        Some(other) => {
            let message = format!("unknown value {other:?}: use \"none\", \"optional\" or \"required\"");
            return Err(wrong("tls.client_certificates", message));
        }
    };
    if file.ca.is_none() && (clients != ClientCertificates::None || !file.peers.is_empty()) {
        return Err(wrong("tls.ca", "required to verify the certificates of clients and peers"));
    }
    let peers = file.peers.iter().map(|peer| check_domain("tls.peers", peer)).collect::<Result<_, _>>()?;
    let mut read = |key: &str, path: &Path| pem_of(files, key, path);
    let own =
        Own { certificate: read("tls.certificate", &file.certificate)?, key: read("tls.key", &file.key)? };
    let ca = file.ca.as_deref().map(|path| read("tls.ca", path)).transpose()?;
    let servers_ca = file.servers_ca.as_deref().map(|path| read("tls.servers_ca", path)).transpose()?;
    let broken = |error: TlsError| wrong(key_of(&file, &error), error.to_string());
    let server = ServerTls::of(&own, ca.as_ref(), clients).map_err(broken)?;
    let trusted = servers_ca.as_ref().or(ca.as_ref());
    let client = trusted.map(|ca| ClientTls::of(ca, Some(&own))).transpose().map_err(broken)?;
    let own = own.leaf().map_err(broken)?;
    Ok(Tls { server, client, peers, own })
}
