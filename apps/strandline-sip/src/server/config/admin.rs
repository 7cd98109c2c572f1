//! `[admin]`: administration over HTTP.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strandline_ops::Files;

use super::error::{ConfigError, ConfigErrors, wrong};
use super::files::text_of;
use super::host::{check_hosts, socket_address_if_any};

/// Minimum length of a token, in characters, so that it can't be guessed.
const TOKEN_MIN: usize = 16;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    #[serde(deserialize_with = "socket_address_if_any")]
    address: Option<SocketAddr>,
    token: Option<PathBuf>,
    hosts: Vec<String>,
}

/// The address and the credentials of the administration interface.
#[derive(Clone)]
pub struct Admin {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The token that requests must present.
    pub token: String,
    /// Host names accepted in requests, besides the address and `localhost`.
    pub hosts: Vec<String>,
}

impl core::fmt::Debug for Admin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Admin({})", self.address)
    }
}

/// Checks the table. The command line takes precedence over the file.
pub(super) fn check(
    file: Table,
    address: Option<SocketAddr>,
    token: Option<&Path>,
    files: &mut Files,
    errors: &mut ConfigErrors,
) -> Option<Admin> {
    let hosts = check_hosts("admin.hosts", &file.hosts, errors);
    let token = token.map(Path::to_owned).or(file.token);
    match (address.or(file.address), token) {
        (None, None) => None,
        (None, Some(_)) => {
            errors.add(wrong("admin.address", "required with admin.token, such as \"127.0.0.1:9091\""));
            None
        }
        (Some(_), None) => {
            let hint = "required: a file with a secret, such as the output of `openssl rand -hex 32` (--admin-token)";
            errors.add(wrong("admin.token", hint));
            None
        }
        (Some(address), Some(path)) => {
            let token = errors.take(read_token(&path, files))?;
            Some(Admin { address, token, hosts })
        }
    }
}

fn read_token(path: &Path, files: &mut Files) -> Result<String, ConfigError> {
    let token = text_of(files, "admin.token", path)?.trim().to_owned();
    if token.len() < TOKEN_MIN || token.contains(|char: char| !char.is_ascii_graphic()) {
        let message =
            format!("{} must contain one word of at least {TOKEN_MIN} ASCII characters", path.display());
        return Err(wrong("admin.token", message));
    }
    Ok(token)
}
