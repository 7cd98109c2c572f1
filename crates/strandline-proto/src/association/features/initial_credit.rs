//! The initial credit of streams (docs/stream-credit.md), as an association and its State Cookie keep it.

use crate::config::{AssociationConfig, StreamCredit};

/// The initial credit of each stream in both directions, as powers of two of 1,024 bytes, in four bits each:
/// an association has no room for more. What a peer grants beyond a power of two is used once it grants more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InitialCredit(u8);

impl InitialCredit {
    /// Number of bytes in a State Cookie.
    pub(crate) const LEN: usize = 1;

    /// Returns what a configuration grants the peer's streams.
    pub(super) fn granted_by(config: &AssociationConfig) -> Self {
        let kib = config.extensions.stream_credit.map_or(1, StreamCredit::initial_kib);
        Self((kib.max(1).ilog2() as u8) << 4)
    }

    /// Adds what the peer grants our streams, in units of 1,024 bytes.
    pub(super) fn with_outgoing(self, kib: u16) -> Self {
        Self((self.0 & 0xf0) | kib.max(1).ilog2() as u8)
    }

    /// Returns the credit of the peer's streams, in units of 1,024 bytes.
    pub(crate) const fn incoming_kib(self) -> u16 {
        1 << (self.0 >> 4)
    }

    /// Returns the credit of our streams, in units of 1,024 bytes.
    pub(crate) const fn outgoing_kib(self) -> u16 {
        1 << (self.0 & 0xf)
    }

    /// Returns the bytes of a State Cookie.
    pub(crate) const fn to_bytes(self) -> [u8; Self::LEN] {
        [self.0]
    }

    /// Returns the credit according to a State Cookie.
    pub(crate) const fn from_bytes([byte]: [u8; Self::LEN]) -> Self {
        Self(byte)
    }
}
