//! Input: from a DATA chunk to the queue of readable messages (RFC 9260 sections 6.2, 6.5, 6.6 and 6.9).

use bytes::{Bytes, BytesMut};
use strandline_wire::Data;

use super::Inbound;
use super::arena::Arena;
use super::flow::Flow;
use super::ordering::Turn;
use super::reassembly::{Header, Neighbour, Open, Run};
use super::tsn_map::{AHEAD_MAX, Place};
use super::window::{HELD_COST, message_cost};
use crate::event::Message;
use crate::number::Tsn;

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
}

/// A description of the violation.
type Violation = &'static str;

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
        if self.is_plain(data) {
            self.take_plain(data, arena);
            return DataOutcome::Accepted { readable: true };
        }
        if self.goes_on_plainly(data) {
            return self.take_next_fragment(data, arena, partial_delivery_point);
        }
        self.on_any_data(data, arena, partial_delivery_point)
    }

    /// True for nearly all chunks: a whole message in the next TSN, whose turn it is, with nothing missing, nothing
    /// waiting for it, and room for it.
    #[inline]
    fn is_plain(&self, data: &Data<'_>) -> bool {
        data.beginning
            && data.ending
            && !data.payload.is_empty()
            && !self.map.has_gaps()
            && data.tsn == self.map.cumulative().next()
            && data.stream.0 < self.streams
            && self.reassembly.as_ref().is_none_or(|reassembly| reassembly.is_empty())
            && (data.unordered || (self.order.is_next(data.stream, data.ssn) && !self.order.has_waiting()))
            && self.window.takes_new()
    }

    /// Does what the general procedure does for such a chunk.
    #[inline]
    fn take_plain(&mut self, data: &Data<'_>, arena: &mut Arena) {
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

    /// True for nearly all continuing fragments: the next fragment of the open message, with nothing missing and room
    /// for it.
    #[inline]
    fn goes_on_plainly(&self, data: &Data<'_>) -> bool {
        let Some(open) = self.reassembly.as_ref().and_then(|held| held.open.as_ref()) else { return false };
        !data.beginning
            && !data.payload.is_empty()
            && !self.map.has_gaps()
            && data.tsn == self.map.cumulative().next()
            && open.header == Header::of(data)
            && self.window.takes_new()
    }

    /// Does what the general procedure does for such a fragment.
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
        if let Err(why) = self.take_fragment(data, arena) {
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
        if data.payload.is_empty() {
            return DataOutcome::NoUserData;
        }
        self.sack.on_chunk(data.immediate);
        if self.map.has_gaps() {
            self.sack.on_trouble();
        }
        let place = self.map.place(data.tsn);
        match place {
            Place::Next | Place::Ahead => {}
            Place::Seen => {
                self.sack.on_trouble();
                let promised = self.window.promised();
                self.flow.get_or_insert_with(|| Flow::of_window(promised)).duplicates.push(data.tsn);
                return DataOutcome::Duplicate;
            }
            Place::TooFar => {
                self.sack.on_trouble();
                return DataOutcome::Dropped(DropReason::TooFarAhead);
            }
        }
        match self.has_room(data.tsn, place) {
            Ok(true) => {}
            Ok(false) => {
                self.sack.on_trouble();
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

    /// True if nothing can be read before this TSN arrives, and there is data beyond it.
    pub(crate) fn waits_for(&self, tsn: Tsn) -> bool {
        self.ready.is_empty() && self.map.has_gaps() && self.map.place(tsn) == Place::Next
    }

    /// True if the chunk may be accepted. Data beyond everything that arrived needs an open window. Data that fills a
    /// gap is accepted beyond it, since it releases other data (section 6.2). Even a full buffer accepts the next
    /// TSN: some packets' worth of it at any time, and more if nothing can be read. Otherwise the association would
    /// stand still, or proceed by one small chunk for each of the peer's time-outs.
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
        Ok(place == Place::Next && (self.window.takes_next() || self.ready.is_empty()))
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

    /// Checks that the B and E bits, the stream, SSN, PPID and U bit agree with the chunks on both sides, as far as
    /// these have arrived. Fragments of a message have consecutive TSNs and share these fields (sections 3.3.1 and
    /// 6.9).
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
        self.dispatch(header.message(data.tsn, bytes))
    }

    /// Joins a fragment with the next TSN to its message.
    #[inline]
    fn take_fragment(&mut self, data: &Data<'_>, arena: &mut Arena) -> Result<(), Violation> {
        let reassembly = self.reassembly.get_or_insert_default();
        let open = reassembly.open.get_or_insert_with(|| Open::new(Header::of(data), data.tsn));
        open.append(data.tsn, data.payload, arena);
        self.window.charge(data.payload.len());
        if data.ending { self.finish_open() } else { Ok(()) }
    }

    /// Processes a fragment beyond a gap.
    fn hold_fragment(&mut self, data: &Data<'_>, arena: &mut Arena) -> Result<(), Violation> {
        self.window.charge(data.payload.len() + HELD_COST);
        let Some(run) = self.reassembly.get_or_insert_default().hold(data) else { return Ok(()) };
        self.release_run(&run);
        let header = run.header;
        let at_once = header.unordered || self.order.is_next(header.stream, header.ssn);
        let mut message = if at_once { arena.buffer(run.bytes) } else { BytesMut::with_capacity(run.bytes) };
        for fragment in &run.fragments {
            message.extend_from_slice(fragment);
        }
        self.dispatch(header.message(run.first, message.freeze()))
    }

    /// Joins the runs that the cumulative TSN has reached to the open message. At most two: one that continues it,
    /// and one that begins the next. Everything between is complete and was dispatched when it arrived.
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
        // What follows an open message must continue it; a chunk on an invalid stream does not.
        match self.reassembly.as_ref().and_then(|held| held.open.as_ref()) {
            Some(open) if open.last != self.map.cumulative() => Err("a message was not ended"),
            _ => Ok(()),
        }
    }

    fn release_run(&mut self, run: &Run) {
        self.window.release(run.bytes + run.fragments.len() * HELD_COST);
    }

    /// Completes the open message, or delivers its last part.
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
        // Its turn had come before its first part was delivered.
        self.deliver(message);
        Ok(())
    }

    /// Delivers what there is of the open message if its turn has come, and if it has at least `point` bytes or if
    /// nothing else can free the buffer that it fills.
    pub(super) fn hand_over_part(&mut self, point: usize) {
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

    /// Makes a whole message readable, now or when its turn comes.
    #[inline]
    fn dispatch(&mut self, message: Message) -> Result<(), Violation> {
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
                if self.order.wait(message) { Ok(()) } else { Err("a stream sequence number was used twice") }
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
            while let Some(next) = self.order.take_next(stream) {
                self.window.release(next.data.len() + HELD_COST);
                self.make_ready(next);
                self.order.advance(stream);
            }
        }
    }

    #[inline]
    pub(super) fn make_ready(&mut self, message: Message) {
        self.window.charge(message_cost(message.data.len()));
        self.ready.push_back(message);
    }
}
