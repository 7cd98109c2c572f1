//! Fuzz target: arbitrary bytes as a handshake.

use crate::server::transports::WebSockets;

use super::{Found, HEAD_MAX, look};

/// What is kept or left over was received, and responses are short.
pub(in crate::server) fn run(bytes: &[u8]) {
    let settings = WebSockets { origins: vec!["https://example.com".to_owned()], ping: None };
    match look(bytes, &settings) {
        Found::Nothing => {}
        Found::Half(kept) => assert!(kept == bytes && kept.len() < HEAD_MAX),
        Found::Whole { answer, rest } => {
            assert!(bytes.ends_with(&rest) && bytes.len() - rest.len() <= HEAD_MAX);
            assert!(
                answer.starts_with("HTTP/1.1 101 ") && answer.ends_with("\r\n\r\n") && answer.len() < 256
            );
        }
        Found::None(refusal) => assert!(refusal.text().len() < 512),
    }
}
