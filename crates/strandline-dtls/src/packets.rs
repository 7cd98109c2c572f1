//! Datagrams and packets that the layer takes and gives.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::header::{Cid, Header};

/// Initial capacity of a datagram in bytes, the minimum MTU of IPv6 (RFC 8200 section 5). A longer one grows it.
const DATAGRAM_CAPACITY: usize = 1280;

/// Where a datagram came from and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The source: IP address and UDP port.
    pub source: SocketAddr,
    /// The local address that it was sent to, if it is known.
    pub destination: Option<IpAddr>,
    /// The ECN bits of the IP header.
    pub ecn: u8,
}

/// A datagram to be sent that is not a packet of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub destination: SocketAddr,
    /// The local address to send from, if it matters.
    pub source: Option<IpAddr>,
    /// The datagram.
    pub bytes: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(destination: SocketAddr, source: Option<IpAddr>, header: &Header<'_>) -> Self {
        let mut bytes = Vec::with_capacity(DATAGRAM_CAPACITY);
        header.write(&mut bytes);
        Self { destination, source, bytes }
    }
}

/// Packets that were decrypted, in order of arrival.
#[derive(Debug, Default)]
pub struct Packets {
    bytes: Vec<u8>,
    packets: Vec<Packet>,
}

/// A decrypted packet.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) arrival: Arrival,
    pub(crate) bytes: Range<usize>,
    /// Set for an INIT: whose it is.
    pub(crate) init: Option<InitOf>,
}

/// A connection that an INIT came over, and the addresses that it names beside its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitOf {
    pub(crate) connection: Cid,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
}

/// Packets of one length from one source, which may be handled together.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// Where they came from: the address that the engine knows the peer by.
    pub arrival: Arrival,
    /// The packets, one behind the other.
    pub bytes: &'a [u8],
    /// Length of each but the last, which may be shorter.
    pub segment_size: usize,
    /// Set for a single INIT: what to ask [`Layer::may_set_up`](crate::Layer::may_set_up) about.
    pub init: Option<&'a InitOf>,
}

impl Packets {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Removes all packets and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }

    pub(crate) fn push(&mut self, arrival: Arrival, bytes: &[u8], init: Option<InitOf>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.packets.push(Packet { arrival, bytes: start..self.bytes.len(), init });
    }

    /// Calls `each` for the packets, as many at once as there are of one kind in a row.
    pub fn for_each_train(&self, mut each: impl FnMut(Train<'_>)) {
        let mut rest = self.packets.as_slice();
        while let Some((first, others)) = rest.split_first() {
            let size = first.bytes.len();
            let mut end = first.bytes.end;
            let mut count = 0;
            // An INIT goes alone. A shorter packet ends a train.
            let mut open = first.init.is_none();
            while let Some(next) = others.get(count)
                && open
                && next.arrival == first.arrival
                && next.init.is_none()
                && next.bytes.len() <= size
            {
                end = next.bytes.end;
                open = next.bytes.len() == size;
                count += 1;
            }
            let bytes = self.bytes.get(first.bytes.start..end).unwrap_or_default();
            each(Train { arrival: first.arrival, bytes, segment_size: size, init: first.init.as_ref() });
            rest = others.get(count..).unwrap_or_default();
        }
    }
}
