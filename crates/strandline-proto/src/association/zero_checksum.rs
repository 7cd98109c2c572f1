//! Zero checksums (RFC 9653): who takes packets whose checksum is zero, said once in INIT and INIT ACK, and kept for
//! the life of the association.
//!
//! What we declared decides what we take (section 5.3), what the peer declared decides what we send (section 5.2).
//! Both sides need not agree. Always with a right checksum go INIT and what answers out-of-the-blue packets, because
//! nothing is known of the peer, and COOKIE ECHO. No other answer that is made without an association needs to save
//! anything either, except the INIT ACK, which is where the peer sees that its wish is granted.

use strandline_wire::parameter::Parameter;

use super::{Association, State};
use crate::config::ErrorDetectionMethod;

/// What both sides declared at set-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ZeroChecksum {
    /// We named this method in our INIT or INIT ACK, so we take zero checksums.
    pub(crate) declared: Option<ErrorDetectionMethod>,
    /// The peer named a method that is also ours, so we may send zero checksums.
    pub(crate) by_peer: bool,
}

/// The high bit of the byte in a cookie; the others are our EDMID.
const BY_PEER_BIT: u8 = 0x80;

impl ZeroChecksum {
    /// Nothing is known of the peer yet.
    pub(crate) fn declaring(method: Option<ErrorDetectionMethod>) -> Self {
        Self { declared: method, by_peer: false }
    }

    /// The peer's INIT or INIT ACK named this EDMID. It counts only if it is the one that our upper layer allowed: that
    /// layer vouches for both directions of what carries the packets (section 5.2).
    pub(crate) fn agreed_with(self, edmid: Option<u32>) -> Self {
        let method = self.declared.map(ErrorDetectionMethod::edmid);
        Self { by_peer: method.is_some() && method == edmid, ..self }
    }

    /// What INIT and INIT ACK say.
    pub(crate) fn parameter(self) -> Option<Parameter<'static>> {
        self.declared.map(|method| Parameter::ZeroChecksumAcceptable { edmid: method.edmid() })
    }

    /// As a byte of the State Cookie.
    pub(crate) fn to_byte(self) -> u8 {
        let edmid = self.declared.map_or(0, ErrorDetectionMethod::edmid) as u8;
        if self.by_peer { edmid | BY_PEER_BIT } else { edmid }
    }

    pub(crate) fn from_byte(byte: u8) -> Self {
        let declared = ErrorDetectionMethod::from_edmid(u32::from(byte & !BY_PEER_BIT));
        Self { declared, by_peer: byte & BY_PEER_BIT != 0 }
    }
}

impl Association {
    /// A packet of the peer's may have zero for its checksum (section 5.3).
    pub(crate) fn accepts_zero_checksum(&self) -> bool {
        self.zero_checksum.declared.is_some()
    }

    /// What `poll_transmit` builds goes with checksum zero: everything but COOKIE ECHO (section 5.2).
    pub(crate) fn sends_zero_checksum(&self) -> bool {
        self.zero_checksum.by_peer && !matches!(self.state, State::CookieEchoed(_))
    }
}
