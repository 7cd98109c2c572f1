//! Fuzz targets for the server's own parsers.
#![allow(clippy::panic, reason = "a fuzz target stops at what breaks a promise")]

pub use super::config::fuzzing::run as config;
pub use super::dns::fuzzing::run as dns;
use super::input::handshake;
use super::socket::{OpenedFrame, WebSocket, frame, letter};
use super::workers::frames;

/// Maximum size of a WebSocket message, in bytes.
const MESSAGE_MAX: usize = 4096;

/// WebSocket: a handshake, and the frames of a connection.
pub fn websocket(bytes: &[u8]) {
    handshake(bytes);
    frames_of(bytes);
    let mut out = Vec::new();
    if bytes.len() <= MESSAGE_MAX && WebSocket::new(MESSAGE_MAX).seal(bytes, &mut out) {
        assert!(
            frame(&out, MESSAGE_MAX).is_ok_and(|found| found.is_some_and(|found| found.len == out.len()))
        );
    }
}

/// Frames stay within the input, messages within their limit, and responses are not larger than what they
/// answer.
fn frames_of(bytes: &[u8]) {
    let (mut socket, mut rest, mut out) = (WebSocket::new(MESSAGE_MAX), bytes, Vec::new());
    while let Ok(Some(found)) = frame(rest, MESSAGE_MAX) {
        let Some((whole, after)) = rest.split_at_checked(found.len) else { panic!("cut beyond the end") };
        assert!(!whole.is_empty());
        rest = after;
        match socket.open(whole, &mut out) {
            OpenedFrame::Message(message) => assert!(message.len() <= MESSAGE_MAX),
            OpenedFrame::Nothing => {}
            OpenedFrame::End => break,
        }
    }
    // The server's own close frame contains a code.
    assert!(out.len() <= bytes.len() + 8);
}

/// The protocol between processes of one server.
pub fn worker(bytes: &[u8]) {
    frames(bytes);
    letter(bytes);
}
