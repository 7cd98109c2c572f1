//! `[tls]`: certificates.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use strandline_ops::Files;
use strandline_tls::{CertificateDer, ClientCertificates, ClientTls, Own, ServerTls, TlsError};

use super::error::{ConfigErrors, wrong};
use super::files::pem_of;
use super::host::check_hosts;

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

pub(super) fn check(file: Table, files: &mut Files, errors: &mut ConfigErrors) -> Option<Tls> {
    let clients = match file.client_certificates.as_deref() {
        None if file.ca.is_some() && !file.peers.is_empty() => ClientCertificates::Optional,
        None | Some("none") => ClientCertificates::None,
        Some("optional") => ClientCertificates::Optional,
        Some("required") => ClientCertificates::Required,
        Some(other) => {
            let message = format!("unknown value {other:?}: use \"none\", \"optional\" or \"required\"");
            errors.add(wrong("tls.client_certificates", message));
            ClientCertificates::None
        }
    };
    if file.ca.is_none() && (clients != ClientCertificates::None || !file.peers.is_empty()) {
        errors.add(wrong("tls.ca", "required to verify the certificates of clients and peers"));
    }
    let peers = check_hosts("tls.peers", &file.peers, errors);
    let mut read = |key: &str, path: &Path| errors.take(pem_of(files, key, path));
    let (certificate, key) = (read("tls.certificate", &file.certificate), read("tls.key", &file.key));
    let ca = file.ca.as_deref().map(|path| read("tls.ca", path));
    let servers_ca = file.servers_ca.as_deref().map(|path| read("tls.servers_ca", path));
    // All of the files have been tried. Of those that can't be read, nothing more can be said.
    let own = Own { certificate: certificate?, key: key? };
    let ca = if let Some(ca) = ca { Some(ca?) } else { None };
    let servers_ca = if let Some(ca) = servers_ca { Some(ca?) } else { None };
    let broken = |error: TlsError| wrong(key_of(&file, &error), error.to_string());
    let server = errors.take(ServerTls::of(&own, ca.as_ref(), clients).map_err(broken))?;
    let trusted = servers_ca.as_ref().or(ca.as_ref());
    let client = trusted.map(|ca| ClientTls::of(ca, Some(&own))).transpose().map_err(broken);
    let client = errors.take(client)?;
    let own = errors.take(own.leaf().map_err(broken))?;
    Some(Tls { server, client, peers, own })
}
