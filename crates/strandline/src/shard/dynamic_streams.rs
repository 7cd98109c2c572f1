//! Streams that are opened and closed at run time (decision 142): which are open, their unread messages, and
//! what waits to be accepted. It knows no engine: [`streams`](super::streams) applies the effects.
//!
//! ```text
//!            open, or accept                 finish, reset               closed
//!  sending:  ---------------> Open ---------------------------> Closing ---------> Closed, or Refused
//!                                  --peer asks to stop--> Stopped --^
//!                              reader dropped                 the peer's end
//!  receiving: --------------> Open ----------> Discarding ------------------> Ended
//! ```
//!
//! A number is free again once it is Closed and Ended. Each use of one has a turn, by which handles are told
//! from those of later uses.

mod marks;
mod queue;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use strandline_proto::event::Message;
use strandline_proto::number::{Ssn, StreamId};
use strandline_proto::reconfiguration::OpenedBy;

use self::marks::{Ends, Mark, Marks};
pub(crate) use self::queue::{Queue, Taken};
use crate::dynamic_streams::{DynamicStreams, Parity};
use crate::error::RecvError;
use crate::wait::{Line, WaitQueue};

/// Names one use of a stream's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) stream: StreamId,
    pub(crate) turn: u32,
}

/// The state of the outgoing direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    Open,
    /// The peer has asked to stop, and the direction is being closed.
    Stopped,
    /// The direction is being closed.
    Closing,
    Closed,
    /// The peer has not closed it, or was not asked to: the number can't be used again.
    Refused,
}

/// The state of the incoming direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiving {
    Open,
    /// Its reader is gone. What arrives is discarded.
    Discarding,
    Ended,
}

/// A stream that is in use.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) turn: u32,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
    /// The peer knows of the stream, or will: it has opened it, or something was sent.
    pub(crate) is_known: bool,
    /// Tasks that wait for the end of the outgoing direction.
    pub(crate) waiters: WaitQueue,
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// It was queued for its reader.
    Queued,
    /// It was joined with the one before it. It had this many bytes.
    Joined(usize),
    /// It is for nobody. It had this many bytes.
    Discarded(usize),
    /// It is of no dynamic stream.
    Foreign(Message),
}

/// Whether the peer was asked for more streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    Idle,
    /// It was, when there were this many.
    Asked(u16),
    Refused,
}

/// The dynamic streams of an association.
#[derive(Debug)]
pub(crate) struct Dynamic {
    pub(crate) settings: DynamicStreams,
    /// Whether this side opens the even streams, once that is known.
    pub(crate) even: Option<bool>,
    open: BTreeMap<StreamId, Open>,
    /// The unread messages of streams with a reader, and of those that wait to be accepted.
    queues: BTreeMap<Key, Queue>,
    unaccepted: VecDeque<Key>,
    /// Tasks that wait for a stream to accept.
    pub(crate) takers: WaitQueue,
    /// Tasks that wait for a free number.
    pub(crate) openers: Line,
    /// Numbers that were used and are free.
    free: BTreeSet<StreamId>,
    /// This side has opened as many streams, from the first one on, and those of them are in use that are not `free`.
    fresh: u16,
    /// What happened behind messages that the engine still holds.
    marks: Marks,
    /// Number of messages that were taken from the engine.
    taken: u64,
    turns: u32,
    /// The uses of streams up to this turn were lost.
    lost: u32,
    /// Streams that the peer has opened and asked to stop, and of which nothing has arrived yet.
    early_stops: BTreeSet<StreamId>,
    /// Numbers that the peer uses again, and whose earlier use it has closed, though its answer is still to come.
    unanswered: BTreeSet<StreamId>,
    /// Streams with a writer that the peer has asked to stop.
    stopped: BTreeSet<Key>,
    pub(crate) growth: Growth,
    /// Outgoing directions that must be reset now, and incoming ones that the peer must be asked to stop.
    pub(crate) to_reset: Vec<StreamId>,
    pub(crate) to_stop: BTreeSet<StreamId>,
}

impl Dynamic {
    pub(crate) fn new(settings: DynamicStreams) -> Self {
        Self {
            settings,
            even: None,
            open: BTreeMap::new(),
            queues: BTreeMap::new(),
            unaccepted: VecDeque::new(),
            takers: WaitQueue::default(),
            openers: Line::default(),
            free: BTreeSet::new(),
            fresh: 0,
            marks: Marks::default(),
            taken: 0,
            turns: 0,
            lost: 0,
            early_stops: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            stopped: BTreeSet::new(),
            growth: Growth::Idle,
            to_reset: Vec::new(),
            to_stop: BTreeSet::new(),
        }
    }

    /// Returns the number of streams that are open, in a direction or both.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Sets whether this side opens the even streams by the tags of the association.
    pub(crate) fn set_even(&mut self, by_tags: Option<bool>) {
        self.even = self.even_by(by_tags);
    }

    fn even_by(&self, by_tags: Option<bool>) -> Option<bool> {
        match self.settings.parity {
            Parity::ByTags => by_tags,
            Parity::Even => by_tags.map(|_| true),
            Parity::Odd => by_tags.map(|_| false),
        }
    }

    /// Returns whether the streams in use remain those of this side, and exist, with these tags and as many streams.
    pub(crate) fn remains(&self, by_tags: Option<bool>, streams: u16) -> bool {
        let last = self.open.last_key_value().map(|(stream, _)| stream.0);
        last.is_none_or(|last| last < streams && self.even == self.even_by(by_tags))
    }

    /// Returns whether the stream is one that this side opens; `None` for a stream that is not dynamic.
    fn is_own(&self, stream: StreamId) -> Option<bool> {
        let is_even = stream.0.is_multiple_of(2);
        (stream >= self.settings.first).then_some(self.even? == is_even)
    }

    /// Takes a free number below `streams` for a stream of this side, the lowest one. `None` if there is none now.
    pub(crate) fn take_number(&mut self, streams: u16) -> Option<Key> {
        if self.marks.has_loss() {
            return None;
        }
        let stream = match self.free.pop_first() {
            Some(stream) => stream,
            None => {
                let fresh = self.nth(self.fresh).filter(|fresh| fresh.0 < streams)?;
                self.fresh += 1;
                fresh
            }
        };
        let key = self.begin(stream, false);
        self.queues.insert(key, Queue::default());
        Some(key)
    }

    /// Returns the number of the stream that this side opens after `count` others.
    fn nth(&self, count: u16) -> Option<StreamId> {
        let first = u32::from(self.settings.first.0);
        let base = first + u32::from(first.is_multiple_of(2) != self.even?);
        u16::try_from(base + 2 * u32::from(count)).ok().map(StreamId)
    }

    fn begin(&mut self, stream: StreamId, is_known: bool) -> Key {
        self.turns = self.turns.wrapping_add(1);
        let turn = self.turns;
        let (sending, receiving) = (Sending::Open, Receiving::Open);
        self.open.insert(stream, Open { turn, sending, receiving, is_known, waiters: WaitQueue::default() });
        Key { stream, turn }
    }

    /// Begins a stream that the peer has opened. If too many wait to be accepted, it is refused: closed in
    /// both directions.
    fn begin_peers(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let key = self.begin(stream, true);
        let is_stopped = self.early_stops.remove(&stream);
        let is_refused = self.unaccepted.len() >= self.settings.backlog;
        let Some(open) = self.open.get_mut(&stream) else { return };
        if is_stopped || is_refused {
            open.sending = Sending::Stopped;
            self.to_reset.push(stream);
        }
        if is_stopped && !is_refused {
            self.stopped.insert(key);
        }
        if is_refused {
            open.receiving = Receiving::Discarding;
            self.to_stop.insert(stream);
            return;
        }
        self.queues.insert(key, Queue::default());
        self.unaccepted.push_back(key);
        self.takers.wake_one(to_wake);
    }

    /// Takes the next stream that the peer has opened.
    pub(crate) fn accept(&mut self) -> Option<Key> {
        let key = self.unaccepted.pop_front()?;
        if self.unaccepted.is_empty() {
            self.unaccepted = VecDeque::new();
        }
        Some(key)
    }

    /// Returns whether the peer has asked to stop sending, also once the stream is closed.
    pub(crate) fn was_stopped(&self, key: Key) -> bool {
        self.stopped.contains(&key)
    }

    /// Forgets that the peer has asked to stop sending: the writer is dropped.
    pub(crate) fn forget_stop(&mut self, key: Key) {
        self.stopped.remove(&key);
    }

    /// Returns a stream in use.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Open> {
        self.open.get_mut(&key.stream).filter(|open| open.turn == key.turn)
    }

    /// Returns whose stream it is for a question to stop: of one that this side has opened, a message must be
    /// acknowledged before. If the outgoing direction is closed, that is certain, and no further message
    /// would show it.
    pub(crate) fn stop_request_opener(&self, stream: StreamId) -> OpenedBy {
        let is_closed = self.open.get(&stream).is_some_and(|open| open.sending == Sending::Closed);
        if self.is_own(stream) == Some(true) && !is_closed { OpenedBy::Us } else { OpenedBy::Peer }
    }

    /// Returns whether something may be sent on the stream: otherwise why not.
    pub(crate) fn sending(&self, key: Key) -> Option<Sending> {
        let open = self.open.get(&key.stream).filter(|open| open.turn == key.turn)?;
        (!self.marks.has_loss()).then_some(open.sending)
    }

    /// Returns whether the stream was lost because numbers began anew.
    pub(crate) fn is_lost(&self, key: Key) -> bool {
        let earlier = self.lost.wrapping_sub(key.turn) < u32::MAX / 2;
        (earlier && self.lost > 0) || (self.marks.has_loss() && self.open.contains_key(&key.stream))
    }

    /// Ends the use of a number that the peer uses again: it has closed both directions, though its answer is
    /// still to come.
    fn renew(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        let is_closing = matches!(open.sending, Sending::Closing | Sending::Stopped);
        if open.receiving == Receiving::Ended && is_closing {
            open.waiters.wake_all(to_wake);
            self.open.remove(&stream);
            self.unanswered.insert(stream);
        }
    }

    /// Records that the outgoing direction is closed, or was refused. Returns whether a number became free.
    pub(crate) fn on_closed(&mut self, stream: StreamId, performed: bool, to_wake: &mut Vec<Waker>) -> bool {
        if self.unanswered.remove(&stream) {
            return false;
        }
        let Some(open) = self.open.get_mut(&stream) else { return false };
        open.sending = if performed { Sending::Closed } else { Sending::Refused };
        open.waiters.wake_all(to_wake);
        if open.receiving == Receiving::Discarding {
            // The peer knows of the stream for certain now. If it has been asked before, it ignores this.
            self.to_stop.insert(stream);
        }
        self.release(stream)
    }

    /// Forgets a stream of which the peer does not know.
    pub(crate) fn forget(&mut self, stream: StreamId) -> bool {
        if let Some(open) = self.open.get_mut(&stream) {
            (open.sending, open.receiving) = (Sending::Closed, Receiving::Ended);
        }
        self.release(stream)
    }

    /// Lets the number of a stream be used again if both directions are closed. Returns whether it became free for this
    /// side.
    fn release(&mut self, stream: StreamId) -> bool {
        let is_done = |open: &Open| (open.sending, open.receiving) == (Sending::Closed, Receiving::Ended);
        if !self.open.get(&stream).is_some_and(is_done) {
            return false;
        }
        self.open.remove(&stream);
        let is_own = self.is_own(stream) == Some(true);
        if is_own {
            self.free.insert(stream);
            // The highest ones count as never used.
            while let Some(last) = self.fresh.checked_sub(1)
                && let Some(stream) = self.nth(last)
                && self.free.remove(&stream)
            {
                self.fresh = last;
            }
        }
        is_own
    }

    /// Queues a message.
    pub(crate) fn push(&mut self, message: Message, to_wake: &mut Vec<Waker>) -> Arrival {
        let stream = message.stream;
        let Some(is_own) = self.is_own(stream) else { return Arrival::Foreign(message) };
        self.renew(stream, to_wake);
        if !self.open.contains_key(&stream) {
            if is_own {
                return Arrival::Foreign(message);
            }
            self.begin_peers(stream, to_wake);
        }
        let Some(open) = self.open.get(&stream) else { return Arrival::Foreign(message) };
        let key = Key { stream, turn: open.turn };
        match self.queues.get_mut(&key) {
            Some(queue) if open.receiving == Receiving::Open => {
                let len = message.data.len();
                let is_own = queue.push(message, self.settings.joins_unread);
                queue.waiters.wake_all(to_wake);
                if is_own { Arrival::Queued } else { Arrival::Joined(len) }
            }
            _ => Arrival::Discarded(message.data.len()),
        }
    }

    /// Counts a message that was taken from the engine, of whatever stream.
    pub(crate) fn on_taken(&mut self) {
        self.taken += 1;
    }

    /// Notes that streams end behind the `unread` messages that the engine holds.
    pub(crate) fn note_ends(&mut self, unread: usize, ends: Ends) {
        self.note(unread, Mark::Ends(ends));
    }

    /// Notes that the peer asks to stop sending on streams, behind the `unread` messages that the engine
    /// holds: they tell which streams are meant.
    pub(crate) fn note_stops(&mut self, unread: usize, streams: Vec<StreamId>) {
        self.note(unread, Mark::Stops(streams));
    }

    fn note(&mut self, unread: usize, mark: Mark) {
        self.marks.push(self.taken + unread as u64, mark);
    }

    /// Notes that the incoming directions of all streams end there.
    pub(crate) fn note_all(&mut self, unread: usize) {
        let open = self.open.iter().filter(|(_, open)| open.receiving != Receiving::Ended);
        let all = open.map(|(stream, _)| (*stream, None)).collect();
        self.note_ends(unread, all);
    }

    /// Notes that all streams are lost behind the `unread` messages that the engine holds.
    pub(crate) fn note_loss(&mut self, unread: usize, why: RecvError) {
        self.note(unread, Mark::Loss(why));
    }

    /// Applies what was noted for the position that is reached. Returns whether a number became free. The writers on
    /// `stopped` streams must be woken.
    pub(crate) fn advance(&mut self, stopped: &mut Vec<StreamId>, to_wake: &mut Vec<Waker>) -> bool {
        let mut freed = false;
        while let Some(mark) = self.marks.take_due(self.taken) {
            match mark {
                Mark::Ends(ends) => {
                    for (stream, next) in ends {
                        freed |= self.end(stream, next, to_wake);
                    }
                }
                Mark::Stops(streams) => {
                    for stream in streams {
                        if self.on_stop(stream, to_wake) {
                            stopped.push(stream);
                        }
                    }
                }
                Mark::Loss(why) => {
                    self.lose(&why, to_wake);
                    freed = true;
                }
            }
        }
        freed
    }

    /// Handles the peer's wish that a stream stops. Returns true if it was open.
    fn on_stop(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) -> bool {
        let Some(open) = self.open.get_mut(&stream) else {
            // One of the peer without a message: all were given up, and its end follows.
            if self.is_own(stream) == Some(false) {
                self.early_stops.insert(stream);
            }
            return false;
        };
        if open.sending != Sending::Open {
            return false; // It is being closed anyway.
        }
        open.sending = Sending::Stopped;
        open.waiters.wake_all(to_wake);
        self.stopped.insert(Key { stream, turn: open.turn });
        self.to_reset.push(stream);
        true
    }

    /// Ends the incoming direction. Returns whether a number became free.
    fn end(&mut self, stream: StreamId, next: Option<Ssn>, to_wake: &mut Vec<Waker>) -> bool {
        self.renew(stream, to_wake);
        if !self.open.contains_key(&stream) {
            // A stream of the peer without a message, or of which all were given up.
            if self.is_own(stream) != Some(false) {
                return false;
            }
            self.begin_peers(stream, to_wake);
        }
        let Some(open) = self.open.get_mut(&stream) else { return false };
        open.receiving = Receiving::Ended;
        self.to_stop.remove(&stream);
        if let Some(queue) = self.queues.get_mut(&Key { stream, turn: open.turn }) {
            queue.end(next);
            queue.waiters.wake_all(to_wake);
        }
        self.release(stream)
    }

    fn lose(&mut self, why: &RecvError, to_wake: &mut Vec<Waker>) {
        for (stream, mut open) in std::mem::take(&mut self.open) {
            open.waiters.wake_all(to_wake);
            if let Some(queue) = self.queues.get_mut(&Key { stream, turn: open.turn }) {
                queue.fail(why.clone());
                queue.waiters.wake_all(to_wake);
            }
        }
        self.lost = self.turns;
        self.fresh = 0;
        self.free.clear();
        self.early_stops.clear();
        self.unanswered.clear();
        self.to_reset.clear();
        self.to_stop.clear();
        self.growth = Growth::Idle;
    }

    /// Records that the peer gave up a message of which a part was handed over. The caller wakes the readers.
    pub(crate) fn on_cut(&mut self, stream: StreamId) {
        let Some(open) = self.open.get(&stream) else { return };
        if let Some(queue) = self.queues.get_mut(&Key { stream, turn: open.turn }) {
            queue.cut();
        }
    }

    pub(crate) fn queue_mut(&mut self, key: Key) -> Option<&mut Queue> {
        self.queues.get_mut(&key)
    }

    /// Removes the reader of a stream.
    pub(crate) fn take_queue(&mut self, key: Key) -> Option<Queue> {
        self.queues.remove(&key)
    }

    /// Returns whether the peer's resets must be denied from now on, or no longer, if that has changed: too
    /// many are noted.
    pub(crate) fn take_denial(&mut self) -> Option<bool> {
        self.marks.take_denial()
    }

    /// Returns whether something that was noted has not been reached.
    pub(crate) fn awaits_messages(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Wakes all tasks, except those that wait for a number.
    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        self.takers.wake_all(to_wake);
        self.queues.values_mut().for_each(|queue| queue.waiters.wake_all(to_wake));
        self.open.values_mut().for_each(|open| open.waiters.wake_all(to_wake));
    }

    /// Returns the bytes of records, without those of messages.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>()
            + self.open.len() * size_of::<(StreamId, Open)>()
            + self.queues.values().map(|queue| size_of::<Key>() + queue.memory()).sum::<usize>()
            + self.unaccepted.capacity() * size_of::<Key>()
            + (self.free.len() + self.early_stops.len() + self.to_stop.len() + self.unanswered.len())
                * size_of::<StreamId>()
            + self.stopped.len() * size_of::<Key>()
            + self.to_reset.capacity() * size_of::<StreamId>()
            + self.marks.memory()
    }
}

#[cfg(test)]
mod tests;
