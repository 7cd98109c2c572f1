//! The memory of incomplete handshakes, for all connections together.

use super::account::Share;
use super::connections::Connections;

/// The bytes kept of an incomplete handshake, which leave the account when this is dropped.
pub(in crate::server) struct Head(Share);

impl Connections {
    /// The total in bytes.
    pub(in crate::server) fn heads_bytes(&self) -> usize {
        self.heads.bytes()
    }

    /// Begins to account for a handshake.
    pub(in crate::server) fn head(&self) -> Head {
        Head(Share::of(&self.heads))
    }

    /// Sets the number of bytes kept of this handshake. Returns false if all handshakes together exceed a
    /// quarter of the limit for connections. In that case the honest ones can't be told apart, and other
    /// connections must not be closed for their sake.
    pub(in crate::server) fn keeps_head(&self, head: &Head, bytes: usize) -> bool {
        head.0.set_begun(bytes);
        self.heads_bytes() <= self.limits.get().buffered_bytes_max / 4
    }
}
