//! Bursts on their way from the engine to the carrier: several in one buffer, so that one system call takes all of them.

use strandline_proto::event::Transmit;

/// The largest burst: what one GSO send takes.
const BURST_BYTES: usize = 65_535;

/// Bytes that are gathered before they are sent. Bursts of one association are larger mostly, and go at once; the answers
/// to many associations are a packet or two each.
const GATHERED_BYTES: usize = 16 << 10;

/// Bursts that one system call takes.
const BURSTS_MAX: usize = 64;

/// A burst in a buffer, or what is left of it.
#[derive(Debug, Clone, Copy)]
struct Burst {
    transmit: Transmit,
    start: usize,
}

/// Bursts in the order in which they are to be sent, and the buffer that they are in.
#[derive(Debug)]
pub(crate) struct Bursts {
    buffer: Box<[u8]>,
    filled: usize,
    bursts: Vec<Burst>,
    /// Bursts of several associations become one where they can.
    mixed: bool,
}

impl Bursts {
    pub(crate) fn new(mixed: bool) -> Self {
        let buffer = vec![0; GATHERED_BYTES + BURST_BYTES].into();
        Self { buffer, filled: 0, bursts: Vec::new(), mixed }
    }

    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }

    /// Where the next burst is to be written; `None` if enough are there.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.filled >= GATHERED_BYTES || self.bursts.len() >= BURSTS_MAX {
            return None;
        }
        self.buffer.get_mut(self.filled..self.filled + BURST_BYTES)
    }

    /// A burst was written into the room, and these are its packets. With mixed trains, those that are as long as the packets of
    /// the burst before it, and go to the same place, become part of that: the kernel takes them as one.
    pub(crate) fn add(&mut self, transmit: Transmit) -> &[u8] {
        let start = self.filled;
        self.filled += transmit.len;
        match self.bursts.last_mut() {
            Some(last) if self.mixed && last.is_continued_by(&transmit) => last.transmit.len += transmit.len,
            _ => self.bursts.push(Burst { transmit, start }),
        }
        self.buffer.get(start..self.filled).unwrap_or_default()
    }

    /// Each burst with its bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Transmit, &[u8])> {
        self.bursts.iter().map(|burst| {
            let end = burst.start + burst.transmit.len;
            (&burst.transmit, self.buffer.get(burst.start..end).unwrap_or_default())
        })
    }

    /// Bytes that are left to be sent.
    pub(crate) fn bytes(&self) -> usize {
        self.bursts.iter().map(|burst| burst.transmit.len).sum()
    }

    /// Only so many bytes are left of each burst, as many as `left` says; of the others nothing was sent.
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

    /// Nothing is left to be sent.
    pub(crate) fn clear(&mut self) {
        self.bursts.clear();
        self.filled = 0;
    }
}

impl Burst {
    /// Whether another burst that lies behind this one is its continuation.
    fn is_continued_by(&self, next: &Transmit) -> bool {
        let Transmit { destination, source, segment_size, fragment, ecn_capable, len } = self.transmit;
        // A shorter packet is the last of a train.
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
