//! The packets of one datagram.

use std::ops::Range;

/// Bytes that one datagram may decrypt to, and one output of dimpl.
const SCRATCH_LEN: usize = 65_536;

/// SCTP packets of one datagram, decrypted.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Box<[u8]>,
    len: usize,
    packets: Vec<Range<usize>>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; SCRATCH_LEN].into(), len: 0, packets: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.packets.clear();
    }

    pub(crate) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.packets.iter().map(|range| self.bytes.get(range.clone()).unwrap_or_default())
    }

    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.len..).unwrap_or_default()
    }

    /// Keeps a packet that was written at the start of the room.
    pub(crate) fn keep(&mut self, len: usize) {
        self.packets.push(self.len..self.len + len);
        self.len += len;
    }

    pub(crate) fn push(&mut self, packet: &[u8]) {
        if let Some(room) = self.room().get_mut(..packet.len()) {
            room.copy_from_slice(packet);
            self.keep(packet.len());
        }
    }
}
