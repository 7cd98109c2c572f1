//! `[websocket]`: connections of browsers.

use std::time::Duration;

use serde::Deserialize;

use crate::server::transports::WebSockets;

use super::error::{ConfigErrors, wrong};

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    origins: Vec<String>,
    ping_secs: Option<u64>,
}

/// Default interval of pings on a silent connection, in seconds.
const PING_SECS: u64 = 30;

pub(super) fn check(file: Table, errors: &mut ConfigErrors) -> WebSockets {
    for origin in &file.origins {
        let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        if host.is_none_or(|host| host.is_empty() || host.contains(['/', ' '])) {
            let message = format!(
                "expected an origin such as \"https://phone.example.com\", without a path, not {origin:?}"
            );
            errors.add(wrong("websocket.origins", message));
        }
    }
    let ping = match file.ping_secs.unwrap_or(PING_SECS) {
        0 => None,
        secs @ 5..=3600 => Some(Duration::from_secs(secs)),
        secs => {
            let message = format!("{secs} is neither 0 (never) nor between 5 and 3600");
            errors.add(wrong("websocket.ping_secs", message));
            None
        }
    };
    WebSockets { origins: file.origins, ping }
}
