//! Buffers for what arrives.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::ipv4::Ipv4Packet;

/// Most datagrams that one system call receives.
pub(crate) const RECV_MAX: usize = 32;

/// Room for the largest datagram, which is also the largest train of datagrams that GRO makes.
pub(crate) const BUFFER_BYTES: usize = 65_536;

/// Where a datagram, or a train of equal datagrams, came from and how it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Source address and encapsulation port; port 0 for raw IP.
    pub source: SocketAddr,
    /// The local address it was sent to, if the kernel told.
    pub destination: Option<IpAddr>,
    /// Bytes in the buffer.
    pub len: usize,
    /// Size in bytes of each packet in the buffer; the last may be shorter. Equal to `len` for a single packet.
    pub stride: usize,
    /// The two ECN bits of the IP header, if the kernel told: 0b00 not capable, 0b01 and 0b10 capable, 0b11 congestion
    /// experienced.
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

/// Buffers that [`Carrier::recv`](crate::Carrier::recv) fills, used again for each call.
///
/// Each takes 64 KiB of address space. Memory is used only for as much of them as has ever been filled.
#[derive(Debug)]
pub struct RecvBatch {
    storage: Vec<u8>,
    slots: Vec<Slot>,
    filled: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) meta: Received,
    /// Where the SCTP packet starts in the buffer: behind the IP header where the kernel gives it.
    pub(crate) start: usize,
}

impl RecvBatch {
    /// Buffers for up to `datagrams` datagrams, or trains of them, in one call: 1 to 32 (other values are brought into
    /// this range).
    #[must_use]
    pub fn new(datagrams: usize) -> Self {
        let count = datagrams.clamp(1, RECV_MAX);
        Self {
            storage: vec![0; count * BUFFER_BYTES],
            slots: vec![Slot { meta: Received::EMPTY, start: 0 }; count],
            filled: 0,
        }
    }

    /// What the last `recv` brought: datagrams, or trains of them that must be cut at each `stride`.
    pub fn iter(&self) -> impl Iterator<Item = (&Received, &[u8])> {
        let buffers = self.storage.chunks_exact(BUFFER_BYTES);
        self.slots.iter().zip(buffers).take(self.filled).filter_map(|(slot, buffer)| {
            let bytes = buffer.get(slot.start..slot.start.checked_add(slot.meta.len)?)?;
            // Empty datagrams carry no SCTP packet.
            (!bytes.is_empty()).then_some((&slot.meta, bytes))
        })
    }

    /// What the last `recv` brought, cut into SCTP packets, in the order of arrival.
    pub fn packets(&self) -> impl Iterator<Item = (&Received, &[u8])> {
        self.iter()
            .flat_map(|(meta, bytes)| bytes.chunks(meta.stride.max(1)).map(move |packet| (meta, packet)))
    }

    /// Number of buffers that the last `recv` filled. Datagrams without an SCTP packet are counted here but not given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filled
    }

    /// True if the last `recv` brought nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Forgets what it holds.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// The buffers to fill and the places for what is known about each.
    pub(crate) fn parts(&mut self) -> (impl Iterator<Item = &mut [u8]>, &mut [Slot]) {
        (self.storage.chunks_exact_mut(BUFFER_BYTES), &mut self.slots)
    }

    /// Strips an IPv4 header; what has none is dropped.
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
