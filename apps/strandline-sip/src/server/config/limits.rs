//! `[limits]`: maximum numbers and sizes.

use serde::Deserialize;

use super::error::{ConfigErrors, wrong};
use crate::codec::Limits;
use crate::service::Settings;
use crate::transaction::TransactionLimits;

/// Minimum for the memory of messages, in bytes. New messages may use half of it, which must hold the largest
/// one.
const BYTES_LEAST: usize = 1 << 20;
/// Minimum for the size of headers and bodies, in bytes.
const MESSAGE_BYTES_LEAST: usize = 1024;
/// Default for the number of connections.
const CONNECTIONS_MAX: usize = 1_000_000;
/// Default for the size of a request sent in a datagram, in bytes, if the path MTU is unknown (RFC 3261
/// section 18.1.1).
const UDP_REQUEST_BYTES_MAX: usize = 1300;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    users_max: Option<usize>,
    transactions_max: Option<usize>,
    transactions_bytes_max: Option<usize>,
    connections_max: Option<usize>,
    message_header_bytes_max: Option<usize>,
    message_body_bytes_max: Option<usize>,
    udp_request_bytes_max: Option<usize>,
}

/// The checked limits.
pub(super) struct Checked {
    pub(super) users: usize,
    pub(super) transactions: TransactionLimits,
    pub(super) connections: usize,
    pub(super) message: Limits,
    /// Maximum size of a request sent in a datagram, in bytes; 0 for no limit.
    pub(super) udp_request_bytes: usize,
}

/// Checks the table, and rejects values with which nothing would work.
pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> Checked {
    let defaults = Settings::default();
    for (key, value, least) in [
        ("users_max", file.users_max, 1),
        ("transactions_max", file.transactions_max, 1),
        ("transactions_bytes_max", file.transactions_bytes_max, BYTES_LEAST),
        ("connections_max", file.connections_max, 1),
        ("message_header_bytes_max", file.message_header_bytes_max, MESSAGE_BYTES_LEAST),
        ("message_body_bytes_max", file.message_body_bytes_max, MESSAGE_BYTES_LEAST),
    ] {
        if let Some(value) = value.filter(|value| *value < least) {
            errors
                .add(wrong(format!("limits.{key}"), format!("{value} is less than the minimum of {least}")));
        }
    }
    let transactions = TransactionLimits {
        servers_max: file.transactions_max.unwrap_or(defaults.limits.servers_max),
        clients_max: file.transactions_max.unwrap_or(defaults.limits.clients_max),
        bytes_max: file.transactions_bytes_max.unwrap_or(defaults.limits.bytes_max),
    };
    let mut message = defaults.message;
    message.header_bytes_max = file.message_header_bytes_max.unwrap_or(message.header_bytes_max);
    message.body_bytes_max = file.message_body_bytes_max.unwrap_or(message.body_bytes_max);
    Checked {
        users: file.users_max.unwrap_or(defaults.users_max),
        transactions,
        connections: file.connections_max.unwrap_or(CONNECTIONS_MAX),
        message,
        udp_request_bytes: file.udp_request_bytes_max.unwrap_or(UDP_REQUEST_BYTES_MAX),
    }
}

#[cfg(test)]
mod tests;
