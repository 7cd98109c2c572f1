//! `[hep]`: copies of messages for a collector.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use strandline_ops::Files;

use crate::server::hep::HepSettings;

use super::error::{ConfigErrors, in_range, wrong};
use super::files::text_of;
use super::host::socket_address;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(deserialize_with = "socket_address")]
    collector: SocketAddr,
    transport: Option<String>,
    #[serde(default)]
    capture_id: u32,
    password: Option<String>,
    password_file: Option<PathBuf>,
    sample: Option<f64>,
    blank_credentials: Option<bool>,
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Table").field("collector", &self.collector).finish_non_exhaustive()
    }
}

/// Maximum length of the password, in bytes.
const PASSWORD_BYTES_MAX: usize = 255;

pub(super) fn check(file: Table, files: &mut Files, errors: &mut ConfigErrors) -> HepSettings {
    let tcp = match file.transport.as_deref() {
        None | Some("udp") => false,
        Some("tcp") => true,
        Some(other) => {
            errors
                .add(wrong("hep.transport", format!("unknown transport {other:?}: use \"udp\" or \"tcp\"")));
            false
        }
    };
    let password = match (file.password, file.password_file) {
        (Some(_), Some(_)) => {
            Err(wrong("hep.password_file", "use either hep.password or hep.password_file, not both"))
        }
        (Some(password), None) => Ok(password),
        (None, Some(path)) => text_of(files, "hep.password_file", &path)
            .map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
        (None, None) => Ok(String::new()),
    };
    let password = errors.take_or(password, String::new());
    if password.len() > PASSWORD_BYTES_MAX {
        errors.add(wrong("hep.password", format!("must have at most {PASSWORD_BYTES_MAX} bytes")));
    }
    if file.collector.port() == 0 || file.collector.ip().is_unspecified() {
        let message = format!("{} is not the address and port of a host", file.collector);
        errors.add(wrong("hep.collector", message));
    }
    HepSettings {
        collector: file.collector,
        tcp,
        capture_id: file.capture_id,
        password: password.into_bytes(),
        sample: in_range("hep.sample", file.sample, 1.0, 0.0..=1.0, errors),
        blank_credentials: file.blank_credentials.unwrap_or(true),
    }
}
