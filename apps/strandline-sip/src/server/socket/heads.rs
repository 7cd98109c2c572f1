//! What is kept of handshakes that aren't whole, of all connections together.

use super::account::Share;
use super::connections::Connections;

/// What is kept of a handshake that isn't whole. It is given back with it.
pub(in crate::server) struct Head(Share);

impl Connections {
    /// What is kept of all of them, bytes.
    pub(in crate::server) fn heads_bytes(&self) -> usize {
        self.heads.bytes()
    }

    /// Nothing is kept of a handshake that begins.
    pub(in crate::server) fn head(&self) -> Head {
        Head(Share::of(&self.heads))
    }

    /// So much is kept of this one. False if of all together it is more than a quarter of what may be kept for connections: nobody
    /// can tell which of them are honest, and no other connection is to end for their sake.
    pub(in crate::server) fn keeps_head(&self, head: &Head, bytes: usize) -> bool {
        head.0.set_begun(bytes);
        self.heads_bytes() <= self.patience.get().buffered_bytes_max / 4
    }
}
