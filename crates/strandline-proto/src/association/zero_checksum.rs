//! Zero checksums (RFC 9653): which side accepts packets with a checksum of zero, declared once in INIT and INIT ACK
//! for the life of the association.
//!
//! Our declaration decides what we accept (section 5.3), the peer's declaration what we send (section 5.2). The two
//! sides need not agree. INIT and answers to out-of-the-blue packets always have a checksum, because nothing is known
//! about the peer, and so does COOKIE ECHO. Other answers without an association need not save it either, except the
//! INIT ACK, which shows the peer that its declaration is honoured.

use strandline_wire::parameter::Parameter;

use super::{Association, State};
use crate::config::ErrorDetectionMethod;

/// The declarations of both sides at set-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ZeroChecksum {
    /// The method that we declared in our INIT or INIT ACK, so we accept zero checksums.
    pub(crate) declared: Option<ErrorDetectionMethod>,
    /// True if the peer declared our method too, so we may send zero checksums.
    pub(crate) by_peer: bool,
}

/// The high bit of the byte in a cookie; the others are our EDMID.
const BY_PEER_BIT: u8 = 0x80;

impl ZeroChecksum {
    /// Returns the state before anything is known about the peer.
    pub(crate) fn declaring(method: Option<ErrorDetectionMethod>) -> Self {
        Self { declared: method, by_peer: false }
    }

    /// Returns the state after the peer's INIT or INIT ACK declared this EDMID. It counts only if our upper layer
    /// allowed the same method, because that layer guarantees both directions (section 5.2).
    pub(crate) fn agreed_with(self, edmid: Option<u32>) -> Self {
        let method = self.declared.map(ErrorDetectionMethod::edmid);
        Self { by_peer: method.is_some() && method == edmid, ..self }
    }

    /// Returns the parameter for INIT and INIT ACK.
    pub(crate) fn parameter(self) -> Option<Parameter<'static>> {
        self.declared.map(|method| Parameter::ZeroChecksumAcceptable { edmid: method.edmid() })
    }

    /// Returns the state as a byte of the State Cookie.
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
    /// True if packets of the peer may have a checksum of zero (section 5.3).
    pub(crate) fn accepts_zero_checksum(&self) -> bool {
        self.features.zero_checksum.declared.is_some()
    }

    /// True if `poll_transmit` builds packets with a checksum of zero: all except COOKIE ECHO (section 5.2).
    pub(crate) fn sends_zero_checksum(&self) -> bool {
        self.features.zero_checksum.by_peer && !matches!(self.state, State::CookieEchoed(_))
    }
}
