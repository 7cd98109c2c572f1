//! The receiving half of an association: which TSNs have come, what is to be acknowledged and when, fragments put
//! together, streams kept in order, the receive window (RFC 9260 sections 6.2, 6.5, 6.6, 6.7 and 6.9).
//!
//! | file | concern |
//! |---|---|
//! | [`tsn_map`] | cumulative TSN, gaps |
//! | [`reassembly`] | fragments |
//! | [`ordering`], [`stream_tree`] | streams |
//! | [`window`] | receive buffer, a_rwnd |
//! | [`sack`] | when to acknowledge |
//! | [`arena`] | where the bytes live |
//!
//! The straight way of a message that comes whole and in order is [`Inbound::on_data`], `take_next`, `dispatch`,
//! [`Inbound::recv`]: it touches no map and allocates nothing.

mod arena;
mod ordering;
mod reassembly;
mod sack;
mod stream_tree;
mod tsn_map;
mod window;

use std::collections::VecDeque;

use bytes::Bytes;
use strandline_wire::{Data, PacketBuilder};

pub(crate) use self::arena::Arena;
use self::ordering::{StreamOrder, Turn};
use self::reassembly::{Header, Neighbour, Open, Reassembly, Run};
use self::sack::SackPolicy;
use self::tsn_map::{Place, TsnMap};
use self::window::{HELD_COST, Window, message_cost};
use crate::config::AssociationConfig;
use crate::event::Message;
use crate::number::Tsn;
use crate::time::Time;

/// What became of a DATA chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// Taken.
    Accepted {
        /// A message, or a part of one, became readable by it.
        readable: bool,
    },
    /// It had come before; the next SACK, due at once, says so.
    Duplicate,
    /// Not taken, as if it had been lost; a SACK is due at once.
    Dropped(DropReason),
    /// The stream is not below the number of incoming streams: the chunk is acknowledged and discarded. The
    /// association reports it in an ERROR chunk (section 6.5).
    InvalidStream,
    /// The chunk has no user data: the association is aborted with the cause No User Data (section 6.2).
    NoUserData,
    /// The peer broke the protocol: the association is aborted with the cause Protocol Violation and this text.
    Violation(&'static str),
}

/// Why a DATA chunk was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// The receive buffer is full.
    BufferFull,
    /// Its TSN is more than 65,535 ahead of the cumulative TSN: no gap block could report it.
    TooFarAhead,
}

/// Heap bytes of one association's receiving half, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InboundMemory {
    /// Bits of TSNs beyond a gap, and the list of duplicates.
    pub(crate) tsn_map: usize,
    /// Records of fragments.
    pub(crate) reassembly: usize,
    /// Next SSNs of streams and records of messages that wait for their turn.
    pub(crate) ordering: usize,
    /// The queue of readable messages, without their bytes.
    pub(crate) queue: usize,
    /// User data held.
    pub(crate) payload: usize,
}

impl InboundMemory {
    /// All of it.
    #[must_use]
    pub(crate) const fn total(&self) -> usize {
        self.tsn_map + self.reassembly + self.ordering + self.queue + self.payload
    }
}

/// The receiving half of one association.
///
/// In: [`on_data`](Self::on_data) for each DATA chunk of a packet, then [`on_packet_end`](Self::on_packet_end) once.
/// Out: [`recv`](Self::recv); [`write_sack`](Self::write_sack) when [`sack_due`](Self::sack_due), or when
/// [`sack_pending`](Self::sack_pending) and a packet goes anyway. Both `on_packet_end` and `recv` can make a SACK due.
///
/// Whatever was acknowledged, in the cumulative TSN or in a gap block, is kept until it is read: it never reneges.
///
/// What is held is bounded by the receive buffer: a readable message costs its bytes, at least 128; a chunk held out
/// of order its bytes and 256. The window advertised is what that leaves. Data is taken beyond it, up to twice the
/// buffer, if it was promised before or fills a gap, and beyond that only if nothing could ever be read without it.
///
/// 120 bytes; no heap while messages come whole, in order, on the first four streams, and are read.
#[derive(Debug)]
pub(crate) struct Inbound {
    map: TsnMap,
    /// What can be read.
    ready: VecDeque<Message>,
    order: StreamOrder,
    reassembly: Option<Box<Reassembly>>,
    sack: SackPolicy,
    window: Window,
    streams: u16,
}

type Violation = &'static str;

impl Inbound {
    /// Nothing received yet: `peer_initial_tsn` of the INIT or INIT ACK, incoming streams agreed on, receive buffer
    /// in bytes.
    #[must_use]
    pub(crate) fn new(peer_initial_tsn: Tsn, inbound_streams: u16, receive_buffer: u32) -> Self {
        Self {
            map: TsnMap::new(peer_initial_tsn),
            ready: VecDeque::new(),
            order: StreamOrder::default(),
            reassembly: None,
            sack: SackPolicy::new(),
            window: Window::new(receive_buffer),
            streams: inbound_streams,
        }
    }

    /// The peer restarted (section 5.2.4): its numbers begin anew, and what was not whole is lost. What was readable
    /// stays so.
    pub(crate) fn restart(&mut self, peer_initial_tsn: Tsn, inbound_streams: u16, receive_buffer: u32) {
        let ready = core::mem::take(&mut self.ready);
        *self = Self::new(peer_initial_tsn, inbound_streams, receive_buffer);
        for message in ready {
            self.make_ready(message);
        }
    }

    /// Nothing more will come: what was not whole is lost, what was readable stays so.
    pub fn close(&mut self) {
        self.restart(self.map.cumulative().next(), self.streams, 0);
    }

    /// Incoming streams.
    #[must_use]
    pub const fn streams(&self) -> u16 {
        self.streams
    }

    /// Changes the size of the receive buffer, in bytes. A window that was promised stays promised.
    pub(crate) fn set_receive_buffer(&mut self, receive_buffer: u32) {
        self.window.resize(receive_buffer);
    }

    /// Takes in a DATA chunk. A message under assembly is handed over in parts once it has `partial_delivery_point`
    /// bytes and its turn has come (section 6.9).
    pub(crate) fn on_data(
        &mut self,
        data: &Data<'_>,
        arena: &mut Arena,
        partial_delivery_point: u32,
    ) -> DataOutcome {
        if data.payload.is_empty() {
            return DataOutcome::NoUserData;
        }
        self.sack.on_chunk(data.immediate || self.map.has_gaps());
        let place = self.map.place(data.tsn);
        match place {
            Place::Next | Place::Ahead => {}
            Place::Seen => {
                self.sack.on_duplicate(data.tsn);
                return DataOutcome::Duplicate;
            }
            Place::TooFar => {
                self.sack.on_dropped();
                return DataOutcome::Dropped(DropReason::TooFarAhead);
            }
        }
        match self.has_room(data.tsn, place) {
            Ok(true) => {}
            Ok(false) => {
                self.sack.on_dropped();
                return DataOutcome::Dropped(DropReason::BufferFull);
            }
            Err(why) => return DataOutcome::Violation(why),
        }
        if data.stream.0 >= self.streams {
            self.record(data.tsn, place);
            return match self.join_reached(arena) {
                Ok(()) => DataOutcome::InvalidStream,
                Err(why) => DataOutcome::Violation(why),
            };
        }
        let readable_before = self.ready.len();
        match self.take(data, place, arena, partial_delivery_point) {
            Ok(()) => DataOutcome::Accepted { readable: self.ready.len() > readable_before },
            Err(why) => DataOutcome::Violation(why),
        }
    }

    /// The packet is done: decides whether its data is acknowledged at once or later. `at_once`: the association is
    /// in a state that wants each packet acknowledged (SHUTDOWN-SENT, section 9.2). Without effect if the packet had
    /// no DATA.
    #[inline]
    pub(crate) fn on_packet_end(&mut self, now: Time, at_once: bool, config: &AssociationConfig) {
        self.sack.on_packet_end(now, self.map.has_gaps(), at_once, config);
    }

    /// Must a SACK go now?
    #[inline]
    #[must_use]
    pub(crate) fn sack_due(&self, now: Time) -> bool {
        self.sack.due(now)
    }

    /// When the delayed SACK must go; `Time::MAX` if none waits for its time (one that is due at once has none).
    #[inline]
    #[must_use]
    pub(crate) const fn sack_deadline(&self) -> Time {
        self.sack.deadline()
    }

    /// Is a SACK worth its bytes in a packet that goes anyway?
    #[inline]
    #[must_use]
    pub(crate) const fn sack_pending(&self) -> bool {
        self.sack.pending()
    }

    /// Appends a SACK with as many gap blocks and duplicates as fit. False, and nothing changed, if none fits.
    pub(crate) fn write_sack(&mut self, packet: &mut PacketBuilder<'_>) -> bool {
        let (cumulative, a_rwnd) = (self.map.cumulative(), self.window.offer());
        let gaps = self.map.gap_blocks();
        if !strandline_wire::chunk::sack::write(packet, cumulative, a_rwnd, gaps, self.sack.duplicates()) {
            return false;
        }
        self.window.on_advertised(a_rwnd);
        self.sack.on_sent();
        true
    }

    /// The cumulative TSN went out in a SHUTDOWN chunk, which acknowledges as a SACK does unless there are gaps or
    /// duplicates to report (section 6.2).
    pub(crate) fn on_cumulative_sent(&mut self) {
        if !self.map.has_gaps() && self.sack.duplicates().is_empty() {
            self.sack.on_sent();
        }
    }

    /// The highest TSN up to which nothing is missing.
    #[inline]
    #[must_use]
    pub(crate) const fn cumulative_tsn(&self) -> Tsn {
        self.map.cumulative()
    }

    /// Is a TSN missing below the highest one that came?
    #[inline]
    #[must_use]
    pub(crate) const fn has_gaps(&self) -> bool {
        self.map.has_gaps()
    }

    /// The window that a SACK would advertise now, in bytes.
    #[must_use]
    pub(crate) const fn a_rwnd(&self) -> u32 {
        self.window.offer()
    }

    /// The next message to read, or the next part of one. Gives its room back; afterwards a SACK may be due that
    /// tells the peer so.
    pub(crate) fn recv(&mut self) -> Option<Message> {
        let message = self.ready.pop_front()?;
        self.window.release(message_cost(message.data.len()));
        if self.ready.is_empty() {
            self.hand_over_part(usize::MAX);
        }
        if self.window.update_due(self.ready.is_empty()) {
            self.sack.request();
        }
        Some(message)
    }

    /// Would [`recv`](Self::recv) return something?
    #[inline]
    #[must_use]
    pub(crate) fn readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Bytes of the receive buffer in use, cost of small and of held chunks included.
    #[must_use]
    pub(crate) const fn buffered_bytes(&self) -> u32 {
        self.window.used()
    }

    /// Gives back memory that is not needed now, when nothing has come for a while.
    pub(crate) fn release_idle(&mut self) {
        self.map.release_idle();
        self.sack.release_idle();
        self.order.release_idle();
        self.ready.shrink_to_fit();
        match &mut self.reassembly {
            Some(reassembly) if !reassembly.is_empty() => reassembly.unpin(),
            _ => self.reassembly = None,
        }
    }

    /// Heap bytes by kind.
    #[must_use]
    pub(crate) fn memory(&self) -> InboundMemory {
        let (reassembly, fragments) =
            self.reassembly.as_ref().map_or((0, 0), |reassembly| reassembly.heap_bytes());
        let (ordering, waiting) = self.order.heap_bytes();
        let ready: usize = self.ready.iter().map(|message| message.data.len()).sum();
        InboundMemory {
            tsn_map: self.map.heap_bytes() + self.sack.heap_bytes(),
            reassembly,
            ordering,
            queue: self.ready.capacity() * size_of::<Message>(),
            payload: fragments + waiting + ready,
        }
    }

    /// Heap bytes in all.
    #[must_use]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.memory().total()
    }

    /// May the chunk be taken? Data beyond all that has come needs an open window; what fills a gap is taken beyond
    /// it, since it lets other data go (section 6.2). If nothing can be read, even a full buffer takes the next TSN:
    /// without it the association would stand still for ever.
    #[inline]
    fn has_room(&self, tsn: Tsn, place: Place) -> Result<bool, Violation> {
        if tsn.is_after(self.map.highest()) {
            return Ok(self.window.takes_new());
        }
        if self.window.takes_missing() {
            return Ok(true);
        }
        if self.window.is_overrun() {
            return Err("held data that can't be delivered fills the receive buffer");
        }
        Ok(place == Place::Next && self.ready.is_empty())
    }

    #[inline]
    fn record(&mut self, tsn: Tsn, place: Place) {
        if place == Place::Next {
            self.map.advance();
        } else {
            self.map.insert_ahead(tsn);
        }
    }

    fn take(
        &mut self,
        data: &Data<'_>,
        place: Place,
        arena: &mut Arena,
        partial_delivery_point: u32,
    ) -> Result<(), Violation> {
        self.check_sequence(data, place)?;
        self.record(data.tsn, place);
        self.window.on_taken(data.payload.len());
        if data.beginning && data.ending {
            self.take_whole(data, arena)?;
        } else if place == Place::Next {
            self.take_fragment(data, arena)?;
        } else {
            self.hold_fragment(data, arena)?;
        }
        if self.reassembly.is_some() && place == Place::Next {
            self.join_reached(arena)?;
            self.hand_over_part(partial_delivery_point as usize);
        }
        Ok(())
    }

    /// Do the B and E bits, the stream, SSN, PPID and U bit agree with the chunks on both sides, as far as they have
    /// come? Fragments of a message have consecutive TSNs and these fields in common (sections 3.3.1 and 6.9).
    #[inline]
    fn check_sequence(&self, data: &Data<'_>, place: Place) -> Result<(), Violation> {
        let header = Header::of(data);
        let before = match (&self.reassembly, place) {
            (Some(reassembly), Place::Next) => match &reassembly.open {
                Some(open) => Some(Neighbour::Joined(open.header)),
                None => Some(Neighbour::Apart),
            },
            (None, Place::Next) => Some(Neighbour::Apart),
            (reassembly, _) if self.map.contains(data.tsn.previous()) => {
                Some(reassembly.as_ref().map_or(Neighbour::Apart, |held| held.before(data.tsn)))
            }
            _ => None,
        };
        match before {
            Some(Neighbour::Apart) if !data.beginning => return Err("a fragment without the one before it"),
            Some(Neighbour::Joined(_)) if data.beginning => {
                return Err("a message begins before the last one ended");
            }
            Some(Neighbour::Joined(other)) if other != header => {
                return Err("fragments of one message differ");
            }
            _ => {}
        }
        let next = data.tsn.next();
        if !self.map.has_gaps() || !self.map.contains(next) {
            return Ok(());
        }
        match self.reassembly.as_ref().map_or(Neighbour::Apart, |held| held.at(next)) {
            Neighbour::Apart if !data.ending => Err("a fragment without the one after it"),
            Neighbour::Joined(_) if data.ending => Err("a message ends before its last fragment"),
            Neighbour::Joined(other) if other != header => Err("fragments of one message differ"),
            _ => Ok(()),
        }
    }

    /// A message in one chunk.
    #[inline]
    fn take_whole(&mut self, data: &Data<'_>, arena: &mut Arena) -> Result<(), Violation> {
        let header = Header::of(data);
        let bytes = if header.unordered || self.order.is_next(header.stream, header.ssn) {
            arena.copy(data.payload).freeze()
        } else {
            // It may wait for long: its own allocation, so that it doesn't pin others' bytes.
            Bytes::copy_from_slice(data.payload)
        };
        self.dispatch(header.message(data.tsn, bytes))
    }

    /// A fragment whose TSN is the next one: joined to its message at once.
    fn take_fragment(&mut self, data: &Data<'_>, arena: &mut Arena) -> Result<(), Violation> {
        let reassembly = self.reassembly.get_or_insert_default();
        let open = reassembly.open.get_or_insert_with(|| Open::new(Header::of(data), data.tsn));
        open.append(data.tsn, data.payload, arena);
        self.window.charge(data.payload.len());
        if data.ending { self.finish_open() } else { Ok(()) }
    }

    /// A fragment beyond a gap.
    fn hold_fragment(&mut self, data: &Data<'_>, arena: &mut Arena) -> Result<(), Violation> {
        self.window.charge(data.payload.len() + HELD_COST);
        let Some(run) = self.reassembly.get_or_insert_default().hold(data) else { return Ok(()) };
        self.release_run(&run);
        let header = run.header;
        let at_once = header.unordered || self.order.is_next(header.stream, header.ssn);
        let mut message =
            if at_once { arena.buffer(run.bytes) } else { bytes::BytesMut::with_capacity(run.bytes) };
        for fragment in &run.fragments {
            message.extend_from_slice(fragment);
        }
        self.dispatch(header.message(run.first, message.freeze()))
    }

    /// Joins the runs that the cumulative TSN has reached to the open message. At most two: one that goes on with
    /// it, and one that begins the next; whatever lies between is whole and was dispatched when it came.
    fn join_reached(&mut self, arena: &mut Arena) -> Result<(), Violation> {
        while let Some(run) =
            self.reassembly.as_mut().and_then(|held| held.take_reached(self.map.cumulative()))
        {
            self.release_run(&run);
            self.window.charge(run.bytes);
            let reassembly = self.reassembly.get_or_insert_default();
            let open = match &mut reassembly.open {
                Some(open) if !run.begins && open.header == run.header && open.last.next() == run.first => {
                    open
                }
                None if run.begins => reassembly.open.insert(Open::new(run.header, run.first)),
                _ => return Err("fragments of a message are not consecutive"),
            };
            let mut tsn = run.first;
            for fragment in &run.fragments {
                open.append(tsn, fragment, arena);
                tsn = tsn.next();
            }
            if run.ends {
                self.finish_open()?;
            }
        }
        // What follows an open message must continue it; a chunk on a stream that doesn't exist does not.
        match self.reassembly.as_ref().and_then(|held| held.open.as_ref()) {
            Some(open) if open.last != self.map.cumulative() => Err("a message was not ended"),
            _ => Ok(()),
        }
    }

    fn release_run(&mut self, run: &Run) {
        self.window.release(run.bytes + run.fragments.len() * HELD_COST);
    }

    /// The open message is whole, or its last part is there.
    fn finish_open(&mut self) -> Result<(), Violation> {
        let Some(mut open) = self.reassembly.as_mut().and_then(|held| held.open.take()) else {
            return Ok(());
        };
        self.window.release(open.data.len());
        let mut message = open.take(true);
        if message.begins {
            if !message.unordered && !self.order.is_next(message.stream, message.ssn) {
                message.data = Bytes::copy_from_slice(&message.data);
            }
            return self.dispatch(message);
        }
        // Its turn had come before its first part was handed over.
        self.deliver(message);
        Ok(())
    }

    /// Hands over what there is of the open message, if that is `point` bytes or more, or if nothing else can free the
    /// buffer that it fills; and if its turn has come.
    fn hand_over_part(&mut self, point: usize) {
        let Some(open) = self.reassembly.as_mut().and_then(|held| held.open.as_mut()) else { return };
        let stuck = || self.window.is_low() && self.ready.is_empty() && !self.map.has_gaps();
        if open.data.is_empty() || (open.data.len() < point && !stuck()) {
            return;
        }
        if open.header.unordered || self.order.is_next(open.header.stream, open.header.ssn) {
            let part = open.take(false);
            self.window.release(part.data.len());
            self.make_ready(part);
        }
    }

    /// A whole message: readable now, or when its turn comes.
    #[inline]
    fn dispatch(&mut self, message: Message) -> Result<(), Violation> {
        if message.unordered {
            self.make_ready(message);
            return Ok(());
        }
        let ahead = message.tsn.distance_from(self.map.cumulative());
        let ahead = if ahead <= tsn_map::AHEAD_MAX { ahead } else { 0 };
        match self.order.turn(message.stream, message.ssn, ahead) {
            Turn::Now => {
                self.deliver(message);
                Ok(())
            }
            Turn::Later => {
                self.window.charge(message.data.len() + HELD_COST);
                if self.order.wait(message) { Ok(()) } else { Err("a stream sequence number was used twice") }
            }
            Turn::Past => Err("a stream sequence number was used before"),
        }
    }

    /// A message whose turn has come, and those of its stream that waited for it.
    #[inline]
    fn deliver(&mut self, message: Message) {
        let (stream, unordered) = (message.stream, message.unordered);
        self.make_ready(message);
        if unordered {
            return;
        }
        self.order.advance(stream);
        if self.order.has_waiting() {
            while let Some(next) = self.order.take_next(stream) {
                self.window.release(next.data.len() + HELD_COST);
                self.make_ready(next);
                self.order.advance(stream);
            }
        }
    }

    #[inline]
    fn make_ready(&mut self, message: Message) {
        self.window.charge(message_cost(message.data.len()));
        self.ready.push_back(message);
    }
}

#[cfg(test)]
mod tests;
