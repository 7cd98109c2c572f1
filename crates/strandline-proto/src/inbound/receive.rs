//! Input: from a DATA chunk to the queue of readable messages (RFC 9260 sections 6.2, 6.5, 6.6 and 6.9).

use bytes::Bytes;
use strandline_wire::Data;

use super::Inbound;
use super::arena::Arena;
use super::dropped::note_dropped;
use super::flow::Flow;
use super::nr_report::{is_recording, note_delivered};
use super::ordering::Turn;
use super::reassembly::{Context, Header, Violation};
use super::reconfigure::is_barred;
use super::renege::make_room;
use super::tsn_map::{AHEAD_MAX, Place};
use super::window::{HELD_COST, message_cost};

use crate::event::Message;
use crate::number::{StreamId, Tsn};

/// The violation of a peer that fills the receive buffer with data that can't be delivered.
const UNDELIVERABLE: Violation = "held data that can't be delivered fills the receive buffer";

/// The outcome of a DATA chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// Accepted.
    Accepted {
        /// True if a message, or a part of one, became readable.
        readable: bool,
    },
    /// It had arrived before. The next SACK, due at once, reports that.
    Duplicate,
    /// Dropped, as if it had been lost. A SACK is due at once.
    Dropped(DropReason),
    /// The stream is not below the number of incoming streams: the chunk is acknowledged and discarded. The
    /// association reports it in an ERROR chunk (section 6.5).
    InvalidStream,
    /// The chunk has no user data: the association is aborted with the cause No User Data (section 6.2).
    NoUserData,
    /// The peer violated the protocol: the association is aborted with the cause Protocol Violation and this text.
    Violation(&'static str),
}

/// Why a DATA chunk was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// The receive buffer is full.
    BufferFull,
    /// Its TSN is more than 65,535 ahead of the cumulative TSN: no gap block could report it.
    TooFarAhead,
    /// A stream reset that precedes it is not complete.
    Barred,
}

impl Inbound {
    /// Processes a DATA chunk. A message under assembly is delivered in parts once it has `partial_delivery_point`
    /// bytes and its turn has come (section 6.9).
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        data: &Data<'_>,
        arena: &mut Arena,
        partial_delivery_point: u32,
    ) -> DataOutcome {
        if self.is_whole_in_order(data) {
            self.accept_whole(data, arena);
            return DataOutcome::Accepted { readable: true };
        }
        if self.is_next_fragment(data) {
            return self.take_next_fragment(data, arena, partial_delivery_point);
        }
        self.on_any_data(data, arena, partial_delivery_point)
    }

    /// True for nearly all chunks: a whole message in the next TSN, whose turn it is, with nothing missing, nothing
    /// waiting for it, and room for it.
    #[inline]
    fn is_whole_in_order(&self, data: &Data<'_>) -> bool {
        data.beginning
            && data.ending
            && !data.payload.is_empty()
            && !self.map.has_gaps()
            && data.tsn == self.map.cumulative().next()
            && data.stream.0 < self.streams
            && self.reassembly.is_empty()
            && !self.order.has_waiting()
            && (data.unordered || self.order.is_next(data.stream, data.ssn))
            && self.window.takes_new()
    }

    /// Accepts such a chunk, with the same result as [`on_any_data`](Self::on_any_data).
    #[inline]
    fn accept_whole(&mut self, data: &Data<'_>, arena: &mut Arena) {
        self.sack.on_chunk(data.immediate);
        self.map.advance();
        self.window.on_taken(data.payload.len());
        let bytes = arena.copy(data.payload).freeze();
        let message = Header::of(data).message(data.tsn, bytes);
        if !data.unordered {
            self.order.advance(data.stream);
        }
        self.make_ready(message);
    }

    /// True for nearly all continuing fragments: the next fragment of a message, with nothing missing and room for it.
    #[inline]
    fn is_next_fragment(&self, data: &Data<'_>) -> bool {
        self.reassembly.goes_on(data, &self.map) && !data.payload.is_empty() && self.window.takes_new()
    }

    /// Accepts such a fragment, with the same result as [`on_any_data`](Self::on_any_data).
    fn take_next_fragment(
        &mut self,
        data: &Data<'_>,
        arena: &mut Arena,
        partial_delivery_point: u32,
    ) -> DataOutcome {
        let readable_before = self.ready.len();
        self.sack.on_chunk(data.immediate);
        self.map.advance();
        self.window.on_taken(data.payload.len());
        if let Err(why) = self.take_fragment(data, Place::Next, arena) {
            return DataOutcome::Violation(why);
        }
        if !data.ending {
            self.hand_over_part(partial_delivery_point as usize);
        }
        DataOutcome::Accepted { readable: self.ready.len() > readable_before }
    }

    fn on_any_data(
        &mut self,
        data: &Data<'_>,
        arena: &mut Arena,
        partial_delivery_point: u32,
    ) -> DataOutcome {
        if self.order.interleaved().is_some() {
            return DataOutcome::Violation("DATA although I-DATA was negotiated");
        }
        let place = match admit(self, data.tsn, data.payload, data.immediate) {
            Ok(place) => place,
            Err(outcome) => return outcome,
        };
        if self.order.has_waiting() && is_barred(self, data, place) {
            self.sack.on_irregular();
            note_dropped(self, data.tsn);
            return DataOutcome::Dropped(DropReason::Barred);
        }
        if data.stream.0 >= self.streams {
            self.record(data.tsn, place);
            return match self.on_cumulative(arena) {
                Ok(()) => DataOutcome::InvalidStream,
                Err(why) => DataOutcome::Violation(why),
            };
        }
        let readable_before = self.ready.len();
        let taken = self.take(data, place, arena, partial_delivery_point);
        if is_recording(self) {
            note_delivered(self, readable_before);
        }
        match taken {
            Ok(()) => DataOutcome::Accepted { readable: self.ready.len() > readable_before },
            Err(why) => DataOutcome::Violation(why),
        }
    }

    /// True if nothing can be read before this TSN arrives, and there is data beyond it.
    pub(crate) fn waits_for(&self, tsn: Tsn) -> bool {
        self.ready.is_empty() && self.map.has_gaps() && self.map.place(tsn) == Place::Next
    }

    /// True if the chunk may be accepted. Data beyond everything that arrived needs an open window. Data that fills a
    /// gap is accepted beyond it, since it releases other data (section 6.2), and a full buffer drops the highest TSNs
    /// for it. If none can go, it accepts the next TSN: some packets' worth of it at any time, and more if nothing can
    /// be read. Otherwise the association would stand still, or proceed by one small chunk for each of the peer's
    /// time-outs.
    #[inline]
    fn has_room(&mut self, tsn: Tsn, place: Place) -> Result<bool, Violation> {
        if tsn.is_after(self.map.highest()) {
            return if self.window.takes_new() { Ok(true) } else { refuse_new(self) };
        }
        if self.window.takes_missing() || make_room(self, tsn) {
            return Ok(true);
        }
        if self.window.is_overrun() {
            return Err(UNDELIVERABLE);
        }
        Ok(place == Place::Next && (self.window.takes_next() || self.ready.is_empty()))
    }

    #[inline]
    pub(super) fn record(&mut self, tsn: Tsn, place: Place) {
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
        self.reassembly.check(data, place, &self.map)?;
        self.record(data.tsn, place);
        self.window.on_taken(data.payload.len());
        if data.beginning && data.ending {
            self.take_whole(data, arena)?;
        } else {
            self.take_fragment(data, place, arena)?;
        }
        if place == Place::Next && !self.reassembly.is_empty() {
            self.on_cumulative(arena)?;
            self.hand_over_part(partial_delivery_point as usize);
        }
        Ok(())
    }

    /// Processes a message in one chunk.
    #[inline]
    fn take_whole(&mut self, data: &Data<'_>, arena: &mut Arena) -> Result<(), Violation> {
        let header = Header::of(data);
        let bytes = if header.unordered || self.order.is_next(header.stream, header.ssn) {
            arena.copy(data.payload).freeze()
        } else {
            // It may wait for long and gets its own allocation, so that it does not pin a block.
            Bytes::copy_from_slice(data.payload)
        };
        self.dispatch(header.message(data.tsn, bytes), data.tsn)
    }

    /// Processes a fragment that is checked and recorded.
    #[inline]
    fn take_fragment(&mut self, data: &Data<'_>, place: Place, arena: &mut Arena) -> Result<(), Violation> {
        let Self { map, order, window, .. } = self;
        match self.reassembly.take(data, place, &mut Context { map, order, window, arena }) {
            Some((message, last)) => self.finish(message, last),
            None => Ok(()),
        }
    }

    /// Processes what is complete now that the cumulative TSN has moved.
    pub(super) fn on_cumulative(&mut self, arena: &mut Arena) -> Result<(), Violation> {
        loop {
            let Self { map, order, window, .. } = self;
            let message = self.reassembly.on_cumulative(&mut Context { map, order, window, arena })?;
            let Some(message) = message else { return Ok(()) };
            let last = self.map.cumulative();
            self.finish(message, last)?;
        }
    }

    /// Processes a message that is complete, or its last part. `last` is the TSN of its last fragment, or a later one
    /// that the cumulative TSN has reached.
    fn finish(&mut self, message: Message, last: Tsn) -> Result<(), Violation> {
        if message.begins {
            return self.dispatch(message, last);
        }
        // Its turn had come before its first part was delivered.
        self.deliver(message);
        Ok(())
    }

    /// Delivers what there is of a message if its turn has come, and if it has at least `point` bytes or if
    /// nothing else can free the buffer that it fills.
    #[inline]
    pub(super) fn hand_over_part(&mut self, point: usize) {
        let stuck =
            || self.window.is_low(self.share.bytes()) && self.ready.is_empty() && !self.map.has_gaps();
        if self.order.interleaved().is_some() {
            if stuck() {
                hand_over_longest(self);
            }
            return;
        }
        if let Some(part) = self.reassembly.take_part(point, &self.order, stuck) {
            self.window.release(part.data.len());
            self.make_ready(part);
        }
    }

    /// Makes a whole message readable, now or when its turn comes.
    #[inline]
    fn dispatch(&mut self, message: Message, last: Tsn) -> Result<(), Violation> {
        if message.unordered {
            self.make_ready(message);
            return Ok(());
        }
        let ahead = message.tsn.distance_from(self.map.cumulative());
        let ahead = if ahead <= AHEAD_MAX { ahead } else { 0 };
        match self.order.turn(message.stream, message.ssn, ahead) {
            Turn::Now => {
                self.deliver(message);
                Ok(())
            }
            Turn::Later => {
                self.window.charge(message.data.len() + HELD_COST);
                if self.order.wait(message, last) {
                    Ok(())
                } else {
                    Err("a stream sequence number was used twice")
                }
            }
            Turn::Past => Err("a stream sequence number was used before"),
        }
    }

    /// Delivers a message whose turn has come, and those of its stream that waited for it.
    #[inline]
    fn deliver(&mut self, message: Message) {
        let (stream, unordered) = (message.stream, message.unordered);
        self.make_ready(message);
        if unordered {
            return;
        }
        self.order.advance(stream);
        if self.order.has_waiting() {
            deliver_waiting(self, stream);
        }
    }

    #[inline]
    pub(super) fn make_ready(&mut self, message: Message) {
        self.window.charge(message_cost(message.data.len()));
        self.ready.push_back(message);
    }
}

/// Refuses data beyond everything that arrived. It is a violation if the messages that fill the buffer wait
/// for one whose number was left out: nothing could ever free it.
#[cold]
fn refuse_new(inbound: &Inbound) -> Result<bool, Violation> {
    let Inbound { order, ready, map, window, .. } = inbound;
    let waits = order.has_messages() && order.barred().is_none();
    let stuck = waits && ready.is_empty() && !map.has_gaps();
    if stuck && !window.takes_missing() { Err(UNDELIVERABLE) } else { Ok(false) }
}

/// Delivers the messages that wait on a stream and whose turn has come.
pub(super) fn deliver_waiting(inbound: &mut Inbound, stream: StreamId) {
    while let Some(next) = inbound.order.take_next(stream) {
        make_waiting_ready(inbound, next);
        inbound.order.advance(stream);
    }
}

/// Makes a message readable that has waited for others.
pub(super) fn make_waiting_ready(inbound: &mut Inbound, message: Message) {
    inbound.window.release(message.data.len() + HELD_COST);
    inbound.make_ready(message);
}

/// Delivers what there is of the longest message whose turn has come, of those in I-DATA chunks.
#[cold]
fn hand_over_longest(inbound: &mut Inbound) {
    let Inbound { order, window, .. } = inbound;
    if let Some(part) = order.interleaved_mut().and_then(|interleaved| interleaved.take_longest(window)) {
        inbound.make_ready(part);
    }
}

/// Checks whether a chunk is new and has room. Returns its place, or the outcome if it is not accepted.
#[inline]
pub(super) fn admit(
    inbound: &mut Inbound,
    tsn: Tsn,
    payload: &[u8],
    immediate: bool,
) -> Result<Place, DataOutcome> {
    if payload.is_empty() {
        return Err(DataOutcome::NoUserData);
    }
    inbound.sack.on_chunk(immediate);
    if inbound.map.has_gaps() {
        inbound.sack.on_irregular();
    }
    let place = inbound.map.place(tsn);
    match place {
        Place::Next | Place::Ahead => {}
        Place::Seen => {
            inbound.sack.on_irregular();
            let promised = inbound.window.promised();
            inbound.flow.get_or_insert_with(|| Flow::of_window(promised)).duplicates.push(tsn);
            return Err(DataOutcome::Duplicate);
        }
        Place::TooFar => {
            inbound.sack.on_irregular();
            note_dropped(inbound, tsn);
            return Err(DataOutcome::Dropped(DropReason::TooFarAhead));
        }
    }
    match inbound.has_room(tsn, place) {
        Ok(true) => Ok(place),
        Ok(false) => {
            inbound.sack.on_irregular();
            note_dropped(inbound, tsn);
            Err(DataOutcome::Dropped(DropReason::BufferFull))
        }
        Err(why) => Err(DataOutcome::Violation(why)),
    }
}
