//! The way in: from a DATA chunk to the queue of readable messages (RFC 9260 sections 6.2, 6.5, 6.6 and 6.9).

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

/// What the peer did wrong.
type Violation = &'static str;

impl Inbound {
    /// Takes in a DATA chunk. A message under assembly is handed over in parts once it has `partial_delivery_point`
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

    /// A whole message in the next TSN, whose turn it is, with nothing missing, nothing that waits for it, and room for
    /// it: nearly all of them.
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

    /// What the general way comes to for a chunk that is plain.
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

    /// The next fragment of the message that is open, with nothing missing and room for it: nearly all that begin none.
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

    /// What the general way comes to for such a fragment.
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

    /// Nothing can be read before this TSN has come, and there is data behind it.
    pub(crate) fn waits_for(&self, tsn: Tsn) -> bool {
        self.ready.is_empty() && self.map.has_gaps() && self.map.place(tsn) == Place::Next
    }

    /// May the chunk be taken? Data beyond all that has come needs an open window; what fills a gap is taken beyond
    /// it, since it lets other data go (section 6.2). Even a full buffer takes the next TSN, some packets' worth of it
    /// at any time and more if nothing can be read: without it the association would stand still, or go on by one
    /// small chunk for each of the peer's time-outs.
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
    #[inline]
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
        let mut message = if at_once { arena.buffer(run.bytes) } else { BytesMut::with_capacity(run.bytes) };
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

    /// A whole message: readable now, or when its turn comes.
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
    pub(super) fn make_ready(&mut self, message: Message) {
        self.window.charge(message_cost(message.data.len()));
        self.ready.push_back(message);
    }
}
