//! Bursts on their way from the engine to the carrier. Several share one buffer, so that one system call sends
//! them all.

use std::net::{IpAddr, SocketAddr};

use strandline_proto::event::Transmit;

/// Largest burst, bytes: the limit of one GSO send.
const BURST_BYTES: usize = 65_535;

/// Bytes gathered before they are sent. The bursts of one association are usually larger and are sent at once;
/// answers to many associations are a packet or two each.
const GATHERED_BYTES: usize = 16 << 10;

/// Limit of bursts in one system call.
const BURSTS_MAX: usize = 64;

/// A burst in the buffer, or its unsent rest.
#[derive(Debug, Clone, Copy)]
struct Burst {
    transmit: Transmit,
    start: usize,
}

/// The bursts in sending order, and the buffer that holds them.
#[derive(Debug)]
pub(crate) struct Bursts {
    buffer: Box<[u8]>,
    filled: usize,
    bursts: Vec<Burst>,
    /// Whether bursts of several associations are merged into one where possible.
    mixed: bool,
}

impl Bursts {
    pub(crate) fn new(mixed: bool) -> Self {
        let buffer = vec![0; GATHERED_BYTES + BURST_BYTES].into();
        Self { buffer, filled: 0, bursts: Vec::new(), mixed }
    }

    /// Returns whether there are no bursts.
    pub(crate) fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }

    /// Returns the space for the next burst; `None` if enough have been gathered.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.filled >= GATHERED_BYTES || self.bursts.len() >= BURSTS_MAX {
            return None;
        }
        self.buffer.get_mut(self.filled..self.filled + BURST_BYTES)
    }

    /// Adds the burst that was written into the room, and returns its packets. With mixed trains, packets as
    /// long as those of the previous burst and with the same destination are merged into that burst: the kernel
    /// takes them as one.
    pub(crate) fn add(&mut self, transmit: Transmit) -> &[u8] {
        let start = self.filled;
        self.filled += transmit.len;
        match self.bursts.last_mut() {
            Some(last) if self.mixed && last.is_continued_by(&transmit) => last.transmit.len += transmit.len,
            _ => self.bursts.push(Burst { transmit, start }),
        }
        self.buffer.get(start..self.filled).unwrap_or_default()
    }

    /// Adds a datagram that is not the engine's. Returns false if there is no room for it.
    pub(crate) fn add_datagram(
        &mut self,
        destination: SocketAddr,
        source: Option<IpAddr>,
        bytes: &[u8],
    ) -> bool {
        let len = bytes.len();
        let Some(room) = self.room().and_then(|room| room.get_mut(..len)) else { return false };
        room.copy_from_slice(bytes);
        self.add(Transmit {
            destination,
            source,
            len,
            segment_size: len,
            fragment: None,
            ecn_capable: false,
        });
        true
    }

    /// Returns each burst with its bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Transmit, &[u8])> {
        self.bursts.iter().map(|burst| {
            let end = burst.start + burst.transmit.len;
            (&burst.transmit, self.buffer.get(burst.start..end).unwrap_or_default())
        })
    }

    /// Returns the bytes left to be sent.
    pub(crate) fn bytes(&self) -> usize {
        self.bursts.iter().map(|burst| burst.transmit.len).sum()
    }

    /// Keeps the unsent rest of each burst: `left` yields the number of unsent bytes per burst, and bursts
    /// beyond its end are kept whole.
    pub(crate) fn keep(&mut self, left: impl IntoIterator<Item = usize>) {
        for (burst, left) in self.bursts.iter_mut().zip(left) {
            burst.start += burst.transmit.len - left;
            burst.transmit.len = left;
        }
        self.bursts.retain(|burst| burst.transmit.len > 0);
        if self.bursts.is_empty() {
            self.filled = 0;
        }
    }

    /// Removes all bursts.
    pub(crate) fn clear(&mut self) {
        self.bursts.clear();
        self.filled = 0;
    }
}

impl Burst {
    /// Returns whether the burst behind this one in the buffer can be merged into it.
    fn is_continued_by(&self, next: &Transmit) -> bool {
        let Transmit { destination, source, segment_size, fragment, ecn_capable, len } = self.transmit;
        // A shorter packet can only be the last of a train.
        let fits = next.segment_size == segment_size || next.len < segment_size;
        let whole = segment_size > 0 && len.is_multiple_of(segment_size);
        let alike = (next.destination, next.source, next.ecn_capable) == (destination, source, ecn_capable);
        whole
            && fits
            && alike
            && fragment.is_none()
            && next.fragment.is_none()
            && len + next.len <= BURST_BYTES
    }
}

#[cfg(test)]
mod tests;
