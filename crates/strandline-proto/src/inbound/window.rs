//! The receive window (RFC 9260 sections 6.2 and 6.2.1; silly window avoidance: RFC 1122 section 4.2.3.3).
//!
//! Three numbers differ: the free room of the buffer (`free`), the last advertised window (`promised`), and what the
//! peer may have in flight because more was advertised before (`granted`). Small messages cost more than their bytes,
//! so the advertised window can shrink by more than what arrived. Data sent under an earlier promise is still
//! accepted; otherwise each such shrinking would look like loss. The promise grows only in steps that are worth
//! reporting.
//!
//! The methods that take a `share` keep the window within it: the flow's share of the carrier's receive queue, see
//! [`ReceiveQueue`](crate::receive_queue::ReceiveQueue).

use strandline_wire::{COMMON_HEADER_LEN, DATA_CHUNK_HEADER_LEN};

use crate::packet_sizes::{ETHERNET_MTU, IPV4_HEADER_LEN};
use crate::receive_queue::Share;

/// Minimum cost of an unread message in bytes: more than its entry in the queue. Longer messages cost their bytes. It
/// must not exceed the usual cost of small messages: a larger one would make the window shrink faster than the data
/// that the peer counts, and stall a sender of small messages while half of the buffer is free.
const MESSAGE_COST_MIN: usize = 64;
const _: () = assert!(MESSAGE_COST_MIN >= size_of::<crate::event::Message>());

/// Cost of a chunk that is held out of order, in bytes, besides its payload: its own allocation, and its entries in
/// the lists and maps of reassembly or of its stream.
pub(super) const HELD_COST: usize = 256;

/// Minimum window growth worth reporting, in bytes, until a longer chunk arrives: the user data of an Ethernet packet
/// over IPv4 (RFC 9260 sections 3.1 and 3.3.1).
const STEP: u32 =
    (ETHERNET_MTU - IPV4_HEADER_LEN) as u32 - COMMON_HEADER_LEN as u32 - DATA_CHUNK_HEADER_LEN as u32;

/// Bytes that the data of the next TSN may cost beyond twice the buffer. A packet may hold hundreds of the smallest
/// chunks.
const NEXT_MAX: u32 = 128 << 10;

/// Bytes that all held data may cost beyond four times the buffer: a few chunks of the maximum size.
const OVERRUN_MAX: u32 = 256 << 10;

/// Fraction of the buffer by which reading must open the window before the peer is told without further data.
const UPDATE_DIVISOR: u32 = 4;

/// Accounts for the receive buffer of one association.
#[derive(Debug)]
pub(super) struct Window {
    /// Size of the receive buffer in bytes.
    size: u32,
    /// Cost of all held data.
    used: u32,
    /// The window as the peer sees it: the last one advertised, less the payload that arrived since.
    promised: u32,
    /// The largest window that any advertisement left the peer, less the payload that arrived since.
    granted: u32,
    /// Payload of the longest chunk that arrived, in bytes: with less room, the peer may wait (RFC 1122 section
    /// 4.2.3.4).
    chunk_max: u16,
    /// Number of chunks for which no room is searched, because the latest search was in vain.
    searches_to_skip: u16,
}

/// Returns the cost of a message in the queue.
pub(super) fn message_cost(len: usize) -> usize {
    len.max(MESSAGE_COST_MIN)
}

impl Window {
    pub(super) const fn new(size: u32) -> Self {
        Self { size, used: 0, promised: size, granted: size, chunk_max: 0, searches_to_skip: 0 }
    }

    pub(super) const fn resize(&mut self, size: u32) {
        self.size = size;
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// Grows the buffer to `wanted` bytes, at most `size_max`, because the reader needs it.
    pub(super) fn grow(&mut self, wanted: u32, size_max: u32) {
        self.size = self.size.max(wanted.min(size_max));
    }

    /// Shrinks the buffer towards `size_max` bytes, by window that the peer has used up and that is not
    /// advertised again.
    #[inline]
    pub(super) fn squeeze(&mut self, size_max: u32) {
        if self.size > size_max {
            self.size = self.size.min(self.used.saturating_add(self.promised)).max(size_max);
        }
    }

    /// Returns the window as the peer sees it.
    pub(super) const fn promised(&self) -> u32 {
        self.promised
    }

    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// Records that a chunk with `len` bytes of payload was accepted.
    #[inline]
    pub(super) const fn on_taken(&mut self, len: usize) {
        self.promised = self.promised.saturating_sub(len as u32);
        self.granted = self.granted.saturating_sub(len as u32);
        // A chunk is at most as long as its length field can say.
        if len as u16 > self.chunk_max {
            self.chunk_max = len as u16;
        }
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

    /// Returns the minimum growth that is reported: the longest chunk of the peer, at most half of the largest window.
    /// A peer that avoids silly windows sends nothing into a smaller one.
    const fn step(&self, share: u32) -> u32 {
        let chunk = self.chunk_max as u32;
        let chunk = if chunk < STEP { STEP } else { chunk };
        let whole = if self.size < share { self.size } else { share };
        if whole / 2 < chunk { whole / 2 } else { chunk }
    }

    /// True if there is room for a packet of 1,500 bytes, or half of a smaller buffer.
    const fn has_room(&self) -> bool {
        let room = if self.size / 2 < STEP { self.size / 2 } else { STEP };
        self.free() >= room
    }

    /// True if data beyond everything that arrived may be accepted: not once the peer has used up everything it was
    /// granted and the window is closed, and not beyond twice the buffer, whatever was promised.
    #[inline]
    pub(super) const fn takes_new(&self) -> bool {
        (self.granted > 0 || self.has_room()) && self.takes_missing()
    }

    /// Returns by how many bytes what is held exceeds the limit up to which data that fills a gap is accepted.
    pub(super) const fn excess(&self) -> u32 {
        self.used.saturating_sub(self.size.saturating_mul(2))
    }

    /// Returns whether room is searched for a chunk that fills a gap.
    pub(super) const fn may_search_room(&mut self) -> bool {
        let may_search = self.searches_to_skip == 0;
        self.searches_to_skip = self.searches_to_skip.saturating_sub(1);
        may_search
    }

    /// Searches no room for the next `chunks` chunks.
    pub(super) fn skip_searches(&mut self, chunks: usize) {
        self.searches_to_skip = u16::try_from(chunks).unwrap_or(u16::MAX);
    }

    /// True if data that fills a gap may be accepted.
    #[inline]
    pub(super) const fn takes_missing(&self) -> bool {
        self.used < self.size.saturating_mul(2)
    }

    /// True if the next TSN may be accepted even though there is something to read.
    pub(super) const fn takes_next(&self) -> bool {
        self.used < self.size.saturating_mul(2).saturating_add(NEXT_MAX)
    }

    /// True if held data exceeds even what is granted for filling the lowest gap.
    pub(super) const fn is_overrun(&self) -> bool {
        self.used >= self.size.saturating_mul(4).saturating_add(OVERRUN_MAX)
    }

    /// True if the peer has used up half of the advertised window, and may be waiting for more.
    #[inline]
    pub(super) const fn is_tight(&self, share: u32) -> bool {
        self.promised < self.size / 2 && self.promised < share / 2
    }

    /// True if the advertised window is so small that the peer may send nothing at all.
    #[inline]
    pub(super) fn is_low(&self, share: u32) -> bool {
        // A step is at most half of the largest window.
        self.promised.min(self.room_within(share)) < self.size.min(share) / 2 && self.is_below_step(share)
    }

    #[inline(never)]
    fn is_below_step(&self, share: u32) -> bool {
        self.advertised(share) < self.step(share)
    }

    /// Returns the room to be advertised. A share that becomes smaller may revoke some: data on the way is
    /// accepted, and a queue that overflows would cost more.
    const fn room_within(&self, share: u32) -> u32 {
        let free = self.free();
        if free < share { free } else { share }
    }

    /// Returns the a_rwnd for a SACK. It grows only by a step, so that the peer never sends tiny fragments. An empty
    /// buffer is always advertised whole.
    pub(super) const fn advertised(&self, share: u32) -> u32 {
        let free = self.room_within(share);
        if free <= self.promised || free - self.promised >= self.step(share) || self.used == 0 {
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

    /// True if reading has opened the window so far that the peer should be told without further data: by a quarter
    /// of the buffer, or by a step if the peer waits for a closed window and nothing is left to read (`drained`).
    #[inline]
    pub(super) fn update_due(&self, drained: bool, share: Share) -> bool {
        if share.is_whole() {
            self.is_worth_advertising(self.free(), self.size, drained)
        } else {
            self.is_share_worth_advertising(share.bytes(), drained)
        }
    }

    #[inline(never)]
    fn is_share_worth_advertising(&self, share: u32, drained: bool) -> bool {
        self.is_worth_advertising(self.room_within(share), self.size.min(share), drained)
    }

    /// True if the peer should be told of a window of `open` bytes, of `whole` at most.
    #[inline]
    fn is_worth_advertising(&self, open: u32, whole: u32, drained: bool) -> bool {
        let gain = open.saturating_sub(self.promised);
        // A step is at most half of the whole.
        let waits = drained && self.promised < whole / 2;
        (gain >= whole / UPDATE_DIVISOR || waits) && self.is_step(gain, whole, drained)
    }

    #[inline(never)]
    fn is_step(&self, gain: u32, whole: u32, drained: bool) -> bool {
        let step = self.step(whole);
        let part = (whole / UPDATE_DIVISOR).max(step);
        gain > 0 && (gain >= part || (drained && self.promised < step && gain >= step))
    }
}

#[cfg(test)]
mod tests;
