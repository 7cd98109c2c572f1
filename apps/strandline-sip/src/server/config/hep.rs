//! `[hep]`: copies of messages for a collector.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use strandline_ops::Files;

use crate::server::hep::HepSettings;

use super::error::{ConfigError, wrong};
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

pub(super) fn check(file: Table, files: &mut Files) -> Result<HepSettings, ConfigError> {
    let tcp = match file.transport.as_deref() {
        None | Some("udp") => false,
        Some("tcp") => true,
        Some(other) => {
            return Err(wrong(
                "hep.transport",
                format!("unknown transport {other:?}: use \"udp\" or \"tcp\""),
            ));
        }
    };
    let password = match (file.password, file.password_file) {
        (Some(_), Some(_)) => {
            return Err(wrong("hep.password_file", "use either hep.password or hep.password_file, not both"));
        }
        (Some(password), None) => password,
        (None, Some(path)) => {
            let text = text_of(files, "hep.password_file", &path)?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        (None, None) => String::new(),
    };
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(wrong("hep.password", format!("must have at most {PASSWORD_BYTES_MAX} bytes")));
    }
    if file.collector.port() == 0 || file.collector.ip().is_unspecified() {
        return Err(wrong(
            "hep.collector",
            format!("{} is not the address and port of a host", file.collector),
        ));
    }
    let sample = file.sample.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&sample) {
        return Err(wrong("hep.sample", format!("{sample} is not between 0 and 1")));
    }
    Ok(HepSettings {
        collector: file.collector,
        tcp,
        capture_id: file.capture_id,
        password: password.into_bytes(),
        sample,
        blank_credentials: file.blank_credentials.unwrap_or(true),
    })
}
