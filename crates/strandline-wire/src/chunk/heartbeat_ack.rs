//! HEARTBEAT ACK: returns the info of a HEARTBEAT (RFC 9260 section 3.3.6).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 5      │ 0             │ length = 8 + info             │
//! ├───────────────┴───────────────┼───────────────────────────────┤
//! │ parameter type = 1            │ parameter length = 4 + bytes  │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ info, as the HEARTBEAT had it                                 ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::heartbeat::Heartbeat;
use super::kind;
use crate::encode::Encode;

/// A HEARTBEAT ACK chunk: encodes the content of a HEARTBEAT as HEARTBEAT ACK.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct HeartbeatAck<'a>(pub Heartbeat<'a>);

impl Encode for HeartbeatAck<'_> {
    fn kind(&self) -> u8 {
        kind::HEARTBEAT_ACK
    }
    fn value_len(&self) -> usize {
        self.0.value_len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        self.0.encode_value(out);
    }
}
