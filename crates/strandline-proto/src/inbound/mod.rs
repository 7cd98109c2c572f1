//! The receiving half of an association: arrived TSNs, when and what to acknowledge, reassembly, order within streams,
//! and the receive window (RFC 9260 sections 6.2, 6.5, 6.6, 6.7 and 6.9).
//!
//! | file | concern |
//! |---|---|
//! | [`receive`] | input, from chunk to readable message |
//! | [`tsn_map`] | cumulative TSN, gaps |
//! | [`reassembly`] | fragments in DATA chunks |
//! | [`ordering`] | streams |
//! | [`i_data`], [`interleaved`] | I-DATA chunks: input, fragments and streams |
//! | [`window`] | receive buffer, a_rwnd |
//! | [`stream_credit`] | credit of streams |
//! | [`reconfigure`] | resets of numbers, more streams |
//! | [`forward`] | messages that the peer abandons |
//! | [`renege`] | room for what fills a gap |
//! | [`dropped`] | data that is dropped, and must come again |
//! | [`non_renegable`], [`nr_report`] | NR-SACK: which TSNs beyond a gap were delivered |
//! | [`sack`], [`duplicates`] | when to acknowledge, duplicates |
//! | [`flow`] | rate of arriving data, for acknowledgements and the window |
//! | [`arena`] | memory for the bytes |
//!
//! A message that arrives whole and in order passes through [`Inbound::on_data`], `accept_whole`, `make_ready` and
//! [`Inbound::recv`]: it touches no map and allocates nothing.

mod arena;
pub(crate) mod dropped;
mod duplicates;
mod flow;
pub(crate) mod forward;
mod held;
pub(crate) mod i_data;
mod interleaved;
mod non_renegable;
mod nr_report;
mod ordering;
mod readable;
mod reassembly;
mod receive;
pub(crate) mod reconfigure;
mod renege;
mod sack;
pub(crate) mod stream_credit;
mod tsn_map;
mod window;

use core::time::Duration;
use std::collections::VecDeque;

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::{nr_sack, sack as chunk};

pub(crate) use self::arena::Arena;
use self::dropped::{is_new, note_dropped};
use self::flow::{EVERY_MIN, Flow, SACK_DELAY_MIN};
pub(crate) use self::interleaved::Cut;
pub(crate) use self::ordering::Barred;
use self::ordering::StreamOrder;
use self::reassembly::Reassembly;
pub(crate) use self::receive::DataOutcome;
use self::sack::{Run, SackPolicy};
use self::tsn_map::TsnMap;
use self::window::{Window, message_cost};
use crate::config::{AssociationConfig, SackFrequency};
use crate::event::Message;
use crate::number::{StreamId, Tsn};
use crate::receive_queue::{ReceiveQueue, Share};
use crate::time::Time;

/// Number of round-trip times of reading that the receive window holds. A sender in slow start has twice as much in
/// flight as in the previous round trip, and doubles it again before it learns of a larger window.
const ROUND_TRIPS: u32 = 4;

/// Heap bytes of one association's receiving half, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InboundMemory {
    /// Bits of TSNs beyond a gap, the list of duplicates, and the flow.
    pub(crate) tsn_map: usize,
    /// Records of fragments.
    pub(crate) reassembly: usize,
    /// Next SSNs of streams, and records of messages that wait for their turn.
    pub(crate) ordering: usize,
    /// The queue of readable messages, without their bytes.
    pub(crate) queue: usize,
    /// Held user data.
    pub(crate) payload: usize,
}

impl InboundMemory {
    /// Returns the bytes of all records.
    #[must_use]
    pub(crate) const fn records(&self) -> usize {
        self.reassembly + self.ordering + self.queue
    }
}

/// Returns the bytes held beyond a gap, which use up room for the data of a round trip. With lost retransmissions
/// they span several round trips.
#[inline(never)]
fn held(map: &TsnMap, ready: &VecDeque<Message>, window: &Window) -> u32 {
    if !map.has_gaps() {
        return 0;
    }
    let readable: usize = ready.iter().map(|message| message_cost(message.data.len())).sum();
    window.used().saturating_sub(u32::try_from(readable).unwrap_or(u32::MAX))
}

/// The receiving half of one association.
///
/// Input: [`on_data`](Self::on_data) for each DATA chunk of a packet, then [`on_packet_end`](Self::on_packet_end) once.
/// Output: [`recv`](Self::recv); [`write_sack`](Self::write_sack) when [`sack_due`](Self::sack_due), or when
/// [`sack_pending`](Self::sack_pending) and a packet is sent anyway. Both `on_packet_end` and `recv` can make a SACK
/// due; one that is due at once has no [`sack_deadline`](Self::sack_deadline), so check after either. The I bit and
/// chunks without user data are handled here.
///
/// The receive buffer limits what is held: a readable message costs its bytes, at least 64; a chunk held out of order
/// costs its bytes and 256. The rest is the advertised window. Data is accepted beyond it, up to twice the buffer, if
/// it was promised before or fills a gap. A chunk that fills a gap when that is full replaces the highest TSNs that are
/// held for reordering ([`renege`]). Beyond that only the next TSN is accepted.
///
/// Everything that was acknowledged by the cumulative TSN is kept until it is read.
///
/// A message of `partial_delivery_point` bytes is delivered in parts once its turn has come. So is a shorter one if
/// nothing is missing, nothing else can be read, and it fills the buffer. A part is never delivered while a chunk of it
/// is missing.
///
/// 128 bytes; no heap of its own while messages arrive whole, in order, on the first four streams, and are read, except
/// for the queue that they pass through, until [`release_idle`](Self::release_idle).
#[derive(Debug)]
pub(crate) struct Inbound {
    map: TsnMap,
    /// Readable messages.
    ready: VecDeque<Message>,
    order: StreamOrder,
    reassembly: Reassembly,
    sack: SackPolicy,
    window: Window,
    /// Allocated by the first duplicate, and once data arrives in volume.
    flow: Option<Box<Flow>>,
    streams: u16,
    share: Share,
    /// The highest TSN of a chunk that was dropped, if it is beyond the cumulative one.
    dropped: Tsn,
}

/// Returns the highest TSN that has arrived.
pub(crate) const fn highest_tsn(inbound: &Inbound) -> Tsn {
    inbound.map.highest()
}

impl Inbound {
    /// Creates the receiving half before any data: `peer_initial_tsn` is from the INIT or INIT ACK, `inbound_streams`
    /// was negotiated, `receive_buffer` is in bytes.
    #[must_use]
    pub(crate) fn new(peer_initial_tsn: Tsn, inbound_streams: u16, receive_buffer: u32) -> Self {
        Self {
            map: TsnMap::new(peer_initial_tsn),
            ready: VecDeque::new(),
            order: StreamOrder::default(),
            reassembly: Reassembly::default(),
            sack: SackPolicy::new(),
            window: Window::new(receive_buffer),
            flow: None,
            streams: inbound_streams,
            share: Share::default(),
            dropped: peer_initial_tsn.previous(),
        }
    }

    /// Handles a restart of the peer (section 5.2.4): its numbers begin anew, incomplete messages are lost, and
    /// readable ones stay.
    ///
    /// Returns the number of messages, or parts of messages, that remain readable, and the stream of a message of which
    /// a part was handed over and the rest is lost.
    pub(crate) fn restart(
        &mut self,
        peer_initial_tsn: Tsn,
        inbound_streams: u16,
        receive_buffer: u32,
    ) -> (usize, Option<StreamId>) {
        let cut = self.reassembly.partly_delivered();
        let ready = core::mem::take(&mut self.ready);
        let unread = ready.len();
        *self = Self::new(peer_initial_tsn, inbound_streams, receive_buffer);
        for message in ready {
            self.make_ready(message);
        }
        (unread, cut)
    }

    /// Closes the receiving half: incomplete messages are lost. Readable ones stay, and so do the numbers of the next
    /// ones, which tell a reader whether the last ones are missing.
    pub(crate) fn close(&mut self) {
        let mut order = core::mem::take(&mut self.order);
        order.close();
        let _ = self.restart(self.map.cumulative().next(), self.streams, 0);
        self.order = order;
    }

    /// Returns what is missing of the data that the peer has visibly sent, as a violation text, or `None` if
    /// everything is readable or was read. A peer may shut down only after everything was acknowledged (section 9.2).
    #[must_use]
    pub(crate) fn incomplete(&self) -> Option<&'static str> {
        if self.map.has_gaps() {
            return Some("shutdown while DATA is missing: a TSN below the highest one has not arrived");
        }
        if is_new(self, self.dropped) {
            return Some(
                "shutdown while DATA is missing: a TSN for which there was no room has not come again",
            );
        }
        let held = self.order.interleaved().is_some_and(|interleaved| !interleaved.is_empty());
        if held || !self.reassembly.is_empty() {
            return Some("shutdown in the middle of a message: its last fragment has not arrived");
        }
        if self.order.has_messages() {
            return Some("shutdown while a message is missing: a stream sequence number was left out");
        }
        None
    }

    /// Returns the number of incoming streams.
    #[must_use]
    pub(crate) const fn streams(&self) -> u16 {
        self.streams
    }

    /// Changes the size of the receive buffer, in bytes. An advertised window stays valid.
    pub(crate) fn set_receive_buffer(&mut self, receive_buffer: u32) {
        self.window.resize(receive_buffer);
    }

    /// Refuses a DATA chunk for lack of memory elsewhere: the SACK that is due at once reports a closed window.
    pub(crate) fn refuse(&mut self, tsn: Tsn) {
        note_dropped(self, tsn);
        self.sack.on_chunk(true);
        self.sack.on_refused();
    }

    /// Ends a packet: decides whether its data is acknowledged at once or later. `at_once` is true in a state in
    /// which each packet must be acknowledged (SHUTDOWN-SENT, section 9.2). Without effect if the packet had no DATA.
    /// The receive buffer may grow to `buffer_max` bytes; a larger one shrinks, as far as that revokes nothing that
    /// was advertised.
    ///
    /// Returns true if the round-trip time should be measured now, see [`on_rtt_probe_sent`](Self::on_rtt_probe_sent).
    #[inline]
    pub(crate) fn on_packet_end(
        &mut self,
        now: Time,
        at_once: bool,
        config: &AssociationConfig,
        buffer_max: impl Fn() -> u32,
    ) -> bool {
        if !self.sack.has_data() {
            return false;
        }
        let run = self.sack.run(self.map.has_gaps());
        // With many losses no run is long, but a peer that fills the window shows the same.
        let in_volume = run == Run::Long || self.window.is_tight(self.share.bytes());
        if in_volume && self.flow.is_none() {
            self.flow = Some(Flow::of_window(self.window.promised()));
        }
        if self.window.size() > config.receive_buffer_start() {
            // The buffer may have grown in an earlier flow, and nothing is known about the current one.
            let known = self.flow.as_ref().and_then(|flow| flow.buffer_max);
            self.window.squeeze(known.unwrap_or_else(&buffer_max));
        }
        // Packets per acknowledgement, and how long it waits for them, if not the default.
        let (mut wants_rtt, mut pace) = (false, None);
        if let Some(flow) = &mut self.flow {
            if flow.on_packet(now, self.window.promised()) {
                let held = held(&self.map, &self.ready, &self.window);
                if let Some(in_round_trip) = flow.turn(now, self.window.used().saturating_sub(held)) {
                    let size_max = buffer_max();
                    flow.buffer_max = Some(size_max);
                    let wanted = in_round_trip.saturating_mul(ROUND_TRIPS).saturating_add(held);
                    self.window.grow(wanted, size_max);
                }
            }
            if flow.wants_rtt(now) {
                // Duplicates alone are no flow. With a fixed window and fixed acknowledgements the round-trip time is
                // not needed.
                let adapts =
                    config.receive_buffer.is_none() || config.sack_frequency == SackFrequency::Adaptive;
                wants_rtt = adapts && (in_volume || flow.is_measured());
            }
            if run == Run::Broken {
                flow.on_irregular();
                pace = flow.crowded().map(|every| (every, SACK_DELAY_MIN));
            } else if run == Run::Long
                && flow.every() > EVERY_MIN
                && !self.window.is_tight(self.share.bytes())
            {
                pace = Some((flow.every(), flow.sack_delay()));
            }
        }
        let (every, delay) = match (config.sack_frequency, pace) {
            (SackFrequency::Every(packets), _) => (packets, config.sack_delay),
            (SackFrequency::Adaptive, None) => (EVERY_MIN, config.sack_delay),
            (SackFrequency::Adaptive, Some((every, delay))) => {
                if run == Run::Broken {
                    self.sack.delay_despite_gap();
                }
                (every, delay.min(config.sack_delay))
            }
        };
        self.sack.on_packet_end(now, at_once, every, || delay);
        wants_rtt
    }

    /// Records that a HEARTBEAT with this nonce was sent to the source of the data. `srtt` is the value known so far.
    /// `longest` is that of the slowest path, if there are several.
    pub(crate) fn on_rtt_probe_sent(
        &mut self,
        now: Time,
        nonce: u64,
        srtt: Option<Duration>,
        longest: Option<Duration>,
    ) {
        if let Some(flow) = &mut self.flow {
            flow.on_rtt_probe_sent(now, nonce, srtt, longest);
        }
    }

    /// Processes a HEARTBEAT ACK with this nonce.
    pub(crate) fn on_rtt_answer(&mut self, now: Time, nonce: u64) {
        if let Some(flow) = &mut self.flow {
            flow.on_rtt_answer(now, nonce);
        }
    }

    /// True if a SACK must be sent now.
    #[inline]
    #[must_use]
    pub(crate) fn sack_due(&self, now: Time) -> bool {
        self.sack.due(now)
    }

    /// Returns when the delayed SACK must be sent; `Time::MAX` if none is delayed (one that is due at once has no
    /// deadline).
    #[inline]
    #[must_use]
    pub(crate) const fn sack_deadline(&self) -> Time {
        self.sack.deadline()
    }

    /// True if a SACK is worth its bytes in a packet that is sent anyway.
    #[inline]
    #[must_use]
    pub(crate) const fn sack_pending(&self) -> bool {
        self.sack.pending()
    }

    /// Appends a SACK of at most `len_max` bytes, or with `keeps` an NR-SACK, with as many gap blocks and duplicates as
    /// fit. Returns false without a change if none fits.
    pub(crate) fn write_sack(
        &mut self,
        now: Time,
        packet: &mut PacketBuilder<'_>,
        len_max: usize,
        keeps: bool,
    ) -> bool {
        let cumulative = self.map.cumulative();
        if self.dropped.is_before(cumulative) {
            self.dropped = cumulative; // Before the numbers wrap around.
        }
        let a_rwnd = if self.sack.is_refusing() { 0 } else { self.window.advertised(self.share.bytes()) };
        let room = packet.remaining();
        let written = if keeps {
            nr_report::write_nr_sack(self, packet, len_max, a_rwnd)
        } else {
            let gaps = self.map.gap_blocks();
            let duplicates = self.flow.as_ref().map_or(&[][..], |flow| flow.duplicates.as_slice());
            chunk::write_within(packet, len_max, cumulative, a_rwnd, gaps, duplicates)
        };
        if !written {
            return false;
        }
        self.window.on_advertised(a_rwnd);
        let waited = self.sack.on_sent(now);
        if let Some(flow) = &mut self.flow {
            let len = room - packet.remaining();
            let items = if keeps { nr_sack::items_in(len) } else { chunk::items_in(len) };
            flow.on_gaps(items.saturating_sub(flow.duplicates.as_slice().len()));
            // The list starts anew (section 3.3.4).
            flow.duplicates.clear();
            flow.on_advertised(a_rwnd);
            if waited {
                flow.on_pause();
            }
        }
        true
    }

    /// True if something is missing below what has arrived.
    #[inline]
    pub(crate) const fn has_gaps(&self) -> bool {
        self.map.has_gaps()
    }

    /// Returns the highest TSN up to which nothing is missing.
    #[inline]
    #[must_use]
    pub(crate) const fn cumulative_tsn(&self) -> Tsn {
        self.map.cumulative()
    }

    /// Returns the window that a SACK would advertise now, in bytes.
    #[must_use]
    pub(crate) fn a_rwnd(&self) -> u32 {
        self.window.advertised(self.share.bytes())
    }

    /// Returns the next message to read, or the next part of one, and frees its room. Afterwards a SACK that reports
    /// this may be due.
    #[inline]
    pub(crate) fn recv(&mut self) -> Option<Message> {
        let message = self.ready.pop_front()?;
        let (stream, len) = (message.stream, message.data.len());
        self.window.release(message_cost(len));
        if self.ready.is_empty() {
            self.hand_over_part(usize::MAX);
        }
        let credit_due = self.order.has_credits() && stream_credit::on_received(self, stream, len);
        if credit_due || self.window.update_due(self.ready.is_empty(), self.share) {
            self.sack.request();
        }
        Some(message)
    }

    /// As repeated calls of [`recv`](Self::recv), for up to `max` messages: appends to `messages` and returns their
    /// number.
    pub(crate) fn recv_many(&mut self, messages: &mut Vec<Message>, max: usize) -> usize {
        let before = messages.len();
        let mut credit_due = false;
        while messages.len() - before < max && !self.ready.is_empty() {
            let count = self.ready.len().min(max - (messages.len() - before));
            let mut cost = 0;
            messages.extend(
                self.ready.drain(..count).inspect(|message| cost += message_cost(message.data.len())),
            );
            if self.order.has_credits() {
                let taken = messages.len() - count;
                credit_due |=
                    stream_credit::on_received_many(self, messages.get(taken..).unwrap_or_default());
            }
            self.window.release(cost);
            if self.ready.is_empty() {
                self.hand_over_part(usize::MAX);
            }
        }
        let taken = messages.len() > before;
        if credit_due || (taken && self.window.update_due(self.ready.is_empty(), self.share)) {
            self.sack.request();
        }
        messages.len() - before
    }

    /// True if [`recv`](Self::recv) would return something.
    #[inline]
    #[must_use]
    pub(crate) fn readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the size of the receive buffer in bytes.
    #[must_use]
    pub(crate) const fn receive_buffer(&self) -> u32 {
        self.window.size()
    }

    /// Returns the bytes of the receive buffer in use, including the overhead of small and of held chunks.
    #[must_use]
    pub(crate) const fn buffered_bytes(&self) -> u32 {
        self.window.used()
    }

    /// Frees memory that is not needed now, when nothing has arrived for a while.
    pub(crate) fn release_idle(&mut self) {
        self.map.release_idle();
        self.sack.release_idle();
        if !self.sack.pending() {
            self.flow = None;
        }
        self.order.release_idle();
        self.ready.shrink_to_fit();
        self.reassembly.release_idle(self.map.cumulative());
        if let Some(interleaved) = self.order.interleaved_mut() {
            interleaved.release_idle();
        }
    }

    /// Returns the heap bytes by kind.
    #[must_use]
    pub(crate) fn memory(&self) -> InboundMemory {
        let (reassembly, fragments) = self.reassembly.heap_bytes();
        let (interleaved, parts) =
            self.order.interleaved().map_or((0, 0), |interleaved| interleaved.heap_bytes());
        let (ordering, waiting) = self.order.heap_bytes();
        let ready: usize = self.ready.iter().map(|message| message.data.len()).sum();
        InboundMemory {
            tsn_map: self.map.heap_bytes() + self.flow.as_ref().map_or(0, |flow| flow.heap_bytes()),
            reassembly: reassembly + interleaved,
            ordering,
            queue: self.ready.capacity() * size_of::<Message>(),
            payload: fragments + parts + waiting + ready,
        }
    }
}

/// Sets the association's share of the carrier's receive queue. `srtt` is the round-trip time of the path
/// that the data takes, if it is known: only over a short one the queue may hold most of what the window
/// allows. `least` is the minimum share in bytes.
pub(crate) fn share_queue(
    inbound: &mut Inbound,
    now: Time,
    queue: &mut ReceiveQueue,
    srtt: Option<Duration>,
    least: u32,
) {
    let rtt = inbound.flow.as_ref().and_then(|flow| flow.rtt_min()).or(srtt);
    inbound.share.update(now, queue, rtt, inbound.sack.packets(), least);
}

/// True if the peer may send nothing more before the application has read.
pub(crate) fn is_held_up(inbound: &Inbound) -> bool {
    inbound.readable() && inbound.window.is_low(inbound.share.bytes())
}

#[cfg(test)]
mod tests;
