//! The receive window (RFC 9260 sections 6.2 and 6.2.1; avoidance of silly windows: RFC 1122 section 4.2.3.3).
//!
//! Three numbers differ: what the buffer has room for (`free`), what the peer was told last (`promised`), and what the
//! peer may have under way because it was told more before (`granted`). Small messages cost more than their bytes, so
//! that the window told can shrink by more than what arrived; what was sent under an earlier promise is still taken,
//! or else each such shrinking would look like loss. And the promise grows only in steps worth telling.

/// Least cost of a message that waits to be read, in bytes: more than its place in the queue. Longer ones cost their
/// bytes. Not more than small messages have in practice: what costs more than the bytes that the peer counts makes the
/// window shrink faster than data comes, and a sender of small messages stand still while half of the buffer is free.
const MESSAGE_COST_MIN: usize = 64;
const _: () = assert!(MESSAGE_COST_MIN >= size_of::<crate::event::Message>());

/// Cost of a chunk that is held out of order, in bytes, on top of its payload: its own allocation, its place in the
/// lists and maps of reassembly or of its stream.
pub(super) const HELD_COST: usize = 256;

/// The window is not worth telling of below this many bytes: the payload of a packet of 1,500 bytes.
const STEP: u32 = 1452;

/// Accounts for the receive buffer of one association.
#[derive(Debug)]
pub(super) struct Window {
    /// The receive buffer.
    size: u32,
    /// Cost of all that is held.
    used: u32,
    /// The window as the peer sees it: the last one advertised, less the payload that has come since.
    promised: u32,
    /// The largest window that any advertisement left the peer, less the payload that has come since.
    granted: u32,
}

/// What a message in the queue costs.
pub(super) fn message_cost(len: usize) -> usize {
    len.max(MESSAGE_COST_MIN)
}

impl Window {
    pub(super) const fn new(size: u32) -> Self {
        Self { size, used: 0, promised: size, granted: size }
    }

    pub(super) const fn resize(&mut self, size: u32) {
        self.size = size;
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// The reader takes so much that the buffer should have `wanted` bytes, of at most `size_max`.
    pub(super) fn grow(&mut self, wanted: u32, size_max: u32) {
        self.size = self.size.max(wanted.min(size_max));
    }

    /// The buffer is to have `size_max` bytes at most: it shrinks by what the peer has used up of its window and is not
    /// told of again.
    #[inline]
    pub(super) fn squeeze(&mut self, size_max: u32) {
        if self.size > size_max {
            self.size = self.size.min(self.used.saturating_add(self.promised)).max(size_max);
        }
    }

    /// The window as the peer sees it.
    pub(super) const fn promised(&self) -> u32 {
        self.promised
    }

    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// A chunk with `len` bytes of payload was taken.
    #[inline]
    pub(super) const fn on_taken(&mut self, len: usize) {
        self.promised = self.promised.saturating_sub(len as u32);
        self.granted = self.granted.saturating_sub(len as u32);
    }

    #[inline]
    pub(super) fn charge(&mut self, cost: usize) {
        self.used = self.used.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX));
    }

    #[inline]
    pub(super) fn release(&mut self, cost: usize) {
        self.used = self.used.saturating_sub(u32::try_from(cost).unwrap_or(u32::MAX));
    }

    const fn free(&self) -> u32 {
        self.size.saturating_sub(self.used)
    }

    /// The least growth that is told of.
    const fn step(&self) -> u32 {
        if self.size / 2 < STEP { self.size / 2 } else { STEP }
    }

    /// May data beyond all that has arrived be taken? Not once the peer has used up what it was ever granted and the
    /// window is closed; nor beyond twice the buffer, whatever had been promised.
    #[inline]
    pub(super) const fn takes_new(&self) -> bool {
        (self.granted > 0 || self.free() >= self.step()) && self.takes_missing()
    }

    /// May data that fills a gap be taken?
    #[inline]
    pub(super) const fn takes_missing(&self) -> bool {
        self.used < self.size.saturating_mul(2)
    }

    /// May the next TSN be taken though there is something to read? A packet may hold hundreds of the smallest chunks.
    pub(super) const fn takes_next(&self) -> bool {
        self.used < self.size.saturating_mul(2).saturating_add(1 << 17)
    }

    /// Held data has outgrown even what is granted to fill the lowest gap: as much again, and a few chunks of the
    /// largest size that there is.
    pub(super) const fn is_overrun(&self) -> bool {
        self.used >= self.size.saturating_mul(4).saturating_add(1 << 18)
    }

    /// The peer has used up half of what it was told of: it may be waiting to be told more.
    #[inline]
    pub(super) const fn is_tight(&self) -> bool {
        self.promised < self.size / 2
    }

    /// The peer is told of so little that it may send nothing at all.
    pub(super) const fn is_low(&self) -> bool {
        self.offer() < self.step()
    }

    /// The a_rwnd for a SACK. It grows only by a step, so that the peer is never led to send tiny fragments; an empty
    /// buffer is always told of whole.
    pub(super) const fn offer(&self) -> u32 {
        let free = self.free();
        if free <= self.promised || free - self.promised >= self.step() || self.used == 0 {
            free
        } else {
            self.promised
        }
    }

    pub(super) const fn on_advertised(&mut self, a_rwnd: u32) {
        self.promised = a_rwnd;
        if a_rwnd > self.granted {
            self.granted = a_rwnd;
        }
    }

    /// Has reading opened the window so far that the peer should hear of it without further data? By a quarter of
    /// the buffer; or by a step if the peer waits in front of a closed window and nothing is left to read (`drained`).
    pub(super) const fn update_due(&self, drained: bool) -> bool {
        let gain = self.free().saturating_sub(self.promised);
        let step = self.step();
        let quarter = if self.size / 4 > step { self.size / 4 } else { step };
        gain > 0 && (gain >= quarter || (drained && self.promised < step && gain >= step))
    }
}

#[cfg(test)]
mod tests;
