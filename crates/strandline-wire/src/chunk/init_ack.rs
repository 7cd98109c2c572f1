//! INIT ACK: answers an INIT with a State Cookie (RFC 9260 section 3.3.3).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 2      │ 0             │ length = 20 + parameters      │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ initiate tag, not 0                                           │
//! ├───────────────────────────────────────────────────────────────┤
//! │ advertised receiver window credit (a_rwnd), at least 1,500    │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ number of outbound streams    │ number of inbound streams     │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ initial TSN                                                   │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ parameters, State Cookie among them                           ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::init::Init;
use super::kind;
use crate::encode::Encode;

/// An INIT ACK chunk: encodes the content of an INIT as INIT ACK.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct InitAck<'a>(pub Init<'a>);

impl Encode for InitAck<'_> {
    fn kind(&self) -> u8 {
        kind::INIT_ACK
    }
    fn value_len(&self) -> usize {
        self.0.value_len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        self.0.encode_value(out);
    }
}
