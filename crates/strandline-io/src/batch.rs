//! Buffers for received datagrams.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::ipv4::Ipv4Packet;

/// Maximum number of datagrams that one system call receives.
pub(crate) const RECV_MAX: usize = 32;

/// Length of a buffer: that of the largest datagram, and of the largest batch that GRO coalesces.
pub(crate) const BUFFER_BYTES: usize = 65_536;

/// Metadata of a received datagram, or of a coalesced batch of equally long datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Source address and encapsulation port; port 0 for raw IP.
    pub source: SocketAddr,
    /// Local address that the datagram was sent to, if the kernel reports it.
    pub destination: Option<IpAddr>,
    /// Number of bytes in the buffer.
    pub len: usize,
    /// Length in bytes of each packet in the buffer; the last may be shorter. Equal to `len` for a single
    /// packet.
    pub stride: usize,
    /// ECN bits of the IP header, if the kernel reports them: 0b00 not capable, 0b01 and 0b10 capable, 0b11
    /// congestion experienced.
    pub ecn: Option<u8>,
}

impl Received {
    pub(crate) const EMPTY: Self = Self {
        source: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
        destination: None,
        len: 0,
        stride: 0,
        ecn: None,
    };
}

/// Reusable buffers that [`Carrier::recv`](crate::Carrier::recv) fills.
///
/// Each buffer takes 64 KiB of address space. Memory is used only for as much of it as has ever been filled.
#[derive(Debug)]
pub struct RecvBatch {
    storage: Vec<u8>,
    slots: Vec<Slot>,
    filled: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) meta: Received,
    /// Offset of the SCTP packet in the buffer: after the IP header where the kernel includes it.
    pub(crate) start: usize,
}

impl RecvBatch {
    /// Creates buffers for up to `datagrams` datagrams, or coalesced batches, in one call: 1 to 32 (other
    /// values are clamped to this range).
    #[must_use]
    pub fn new(datagrams: usize) -> Self {
        let count = datagrams.clamp(1, RECV_MAX);
        Self {
            storage: vec![0; count * BUFFER_BYTES],
            slots: vec![Slot { meta: Received::EMPTY, start: 0 }; count],
            filled: 0,
        }
    }

    /// Returns the datagrams of the last `recv`. Coalesced batches must be split at each `stride`.
    pub fn iter(&self) -> impl Iterator<Item = (&Received, &[u8])> {
        let buffers = self.storage.chunks_exact(BUFFER_BYTES);
        self.slots.iter().zip(buffers).take(self.filled).filter_map(|(slot, buffer)| {
            let bytes = buffer.get(slot.start..slot.start.checked_add(slot.meta.len)?)?;
            // Empty datagrams hold no SCTP packet.
            (!bytes.is_empty()).then_some((&slot.meta, bytes))
        })
    }

    /// Returns the SCTP packets of the last `recv` in the order of arrival, with coalesced batches split.
    pub fn packets(&self) -> impl Iterator<Item = (&Received, &[u8])> {
        self.iter()
            .flat_map(|(meta, bytes)| bytes.chunks(meta.stride.max(1)).map(move |packet| (meta, packet)))
    }

    /// Returns the number of buffers that the last `recv` filled. Includes datagrams without an SCTP packet,
    /// which the iterators leave out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Returns whether the last `recv` received nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Clears the batch.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Returns the buffers to fill and the slots for the metadata of each.
    pub(crate) fn parts(&mut self) -> (impl Iterator<Item = &mut [u8]>, &mut [Slot]) {
        (self.storage.chunks_exact_mut(BUFFER_BYTES), &mut self.slots)
    }

    /// Strips the IPv4 header of a datagram; drops a datagram that has none.
    pub(crate) fn strip_ipv4(&mut self, index: usize) {
        let buffer = self.storage.chunks_exact(BUFFER_BYTES).nth(index);
        let (Some(slot), Some(buffer)) = (self.slots.get_mut(index), buffer) else { return };
        let found = buffer.get(..slot.meta.len).and_then(Ipv4Packet::of);
        slot.meta.len = 0;
        if let Some(packet) = found {
            slot.start = packet.header.len();
            slot.meta.len = packet.payload.len();
            slot.meta.destination = Some(packet.destination.into());
            slot.meta.ecn = Some(packet.ecn);
        }
        slot.meta.stride = slot.meta.len;
    }

    pub(crate) fn slots(&mut self) -> &mut [Slot] {
        &mut self.slots
    }

    pub(crate) fn set_filled(&mut self, filled: usize) {
        self.filled = filled.min(self.slots.len());
    }
}
