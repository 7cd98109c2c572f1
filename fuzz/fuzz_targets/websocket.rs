//! Any bytes as a WebSocket handshake, and as frames.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_sip::fuzzing::websocket(bytes));
