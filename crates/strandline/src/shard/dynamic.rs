//! Streams that are opened and closed at run time (decision 139): which are open, their unread messages, and what waits to
//! be accepted. It knows no engine: [`streams`](super::streams) applies the effects.
//!
//! ```text
//!            open, or accept                 finish, reset               closed
//!  sending:  ---------------> Open ---------------------------> Closing ---------> Closed, or Refused
//!                                  --peer asks to stop--> Stopped --^
//!                              reader dropped                 the peer's end
//!  receiving: --------------> Open ----------> Discarding ------------------> Ended
//! ```
//!
//! A number is free again once it is Closed and Ended. Each use of one has a turn, by which handles are told from those of
//! later uses.

mod queue;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use strandline_proto::event::Message;
use strandline_proto::number::{Ssn, StreamId};

pub(crate) use self::queue::{Queue, Taken};
use crate::error::RecvError;
use crate::stream::{DynamicStreams, Parity};
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
    /// It is for nobody. It had this many bytes.
    Discarded(usize),
    /// It is of no dynamic stream.
    Foreign(Message),
}

/// Where streams end among the messages that the engine holds. The SSN is that of the message after the last one; `None`
/// if the end is none that the peer has chosen for this stream.
type Ends = Vec<(StreamId, Option<Ssn>)>;

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
    /// Number of streams that this side has opened for the first time.
    fresh: u16,
    ends: VecDeque<(u64, Ends)>,
    /// Where all streams are lost because numbers begin anew, and what their readers are told.
    losses: VecDeque<(u64, RecvError)>,
    /// Number of messages that were taken from the engine.
    taken: u64,
    turns: u32,
    /// The uses of streams up to this turn were lost.
    lost: u32,
    /// Streams that the peer has opened and asked to stop, and of which nothing has arrived yet.
    early_stops: BTreeSet<StreamId>,
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
            ends: VecDeque::new(),
            losses: VecDeque::new(),
            taken: 0,
            turns: 0,
            lost: 0,
            early_stops: BTreeSet::new(),
            growth: Growth::Idle,
            to_reset: Vec::new(),
            to_stop: BTreeSet::new(),
        }
    }

    /// Sets whether this side opens the even streams by the tags of the association.
    pub(crate) fn set_even(&mut self, by_tags: Option<bool>) {
        self.even = match self.settings.parity {
            Parity::ByTags => by_tags,
            Parity::Even => by_tags.map(|_| true),
            Parity::Odd => by_tags.map(|_| false),
        };
    }

    /// Returns whether the stream is one that this side opens; `None` for a stream that is not dynamic.
    fn is_own(&self, stream: StreamId) -> Option<bool> {
        let is_even = stream.0.is_multiple_of(2);
        (stream >= self.settings.first).then_some(self.even? == is_even)
    }

    /// Takes a free number below `streams` for a stream of this side, the lowest one. `None` if there is none now.
    pub(crate) fn take_number(&mut self, streams: u16) -> Option<Key> {
        let even = self.even.filter(|_| self.losses.is_empty())?;
        let first = u32::from(self.settings.first.0);
        let base = first + u32::from(first.is_multiple_of(2) != even);
        let stream = match self.free.pop_first() {
            Some(stream) => stream,
            None => {
                let fresh = base + 2 * u32::from(self.fresh);
                let stream = u16::try_from(fresh).ok().filter(|fresh| *fresh < streams)?;
                self.fresh += 1;
                StreamId(stream)
            }
        };
        let key = self.begin(stream, false);
        self.queues.insert(key, Queue::default());
        Some(key)
    }

    fn begin(&mut self, stream: StreamId, is_known: bool) -> Key {
        self.turns = self.turns.wrapping_add(1);
        let turn = self.turns;
        let (sending, receiving) = (Sending::Open, Receiving::Open);
        self.open.insert(stream, Open { turn, sending, receiving, is_known, waiters: WaitQueue::default() });
        Key { stream, turn }
    }

    /// Begins a stream that the peer has opened. If too many wait to be accepted, it is refused: closed in both directions.
    fn begin_peers(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let key = self.begin(stream, true);
        let is_stopped = self.early_stops.remove(&stream);
        let is_refused = self.unaccepted.len() >= self.settings.backlog;
        let Some(open) = self.open.get_mut(&stream) else { return };
        if is_stopped || is_refused {
            open.sending = Sending::Stopped;
            self.to_reset.push(stream);
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
        self.unaccepted.pop_front()
    }

    /// Returns a stream in use.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Open> {
        self.open.get_mut(&key.stream).filter(|open| open.turn == key.turn)
    }

    /// Returns the stream that uses a number now.
    pub(crate) fn current(&self, stream: StreamId) -> Option<(Key, Sending)> {
        self.open.get(&stream).map(|open| (Key { stream, turn: open.turn }, open.sending))
    }

    /// Returns whether something may be sent on the stream: otherwise why not.
    pub(crate) fn sending(&self, key: Key) -> Option<Sending> {
        let open = self.open.get(&key.stream).filter(|open| open.turn == key.turn)?;
        self.losses.is_empty().then_some(open.sending)
    }

    /// Returns whether the stream was lost because numbers began anew.
    pub(crate) fn is_lost(&self, key: Key) -> bool {
        let earlier = self.lost.wrapping_sub(key.turn) < u32::MAX / 2;
        (earlier && self.lost > 0) || (!self.losses.is_empty() && self.open.contains_key(&key.stream))
    }

    /// Records that the outgoing direction is closed, or was refused. Returns whether a number became free.
    pub(crate) fn on_closed(&mut self, stream: StreamId, performed: bool, to_wake: &mut Vec<Waker>) -> bool {
        let Some(open) = self.open.get_mut(&stream) else { return false };
        open.sending = if performed { Sending::Closed } else { Sending::Refused };
        open.waiters.wake_all(to_wake);
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
        }
        is_own
    }

    /// Records that the peer asks to stop a stream that it has opened and of which nothing has arrived.
    pub(crate) fn on_early_stop(&mut self, stream: StreamId) {
        if self.is_own(stream) == Some(false) {
            self.early_stops.insert(stream);
        }
    }

    /// Queues a message.
    pub(crate) fn push(&mut self, message: Message, to_wake: &mut Vec<Waker>) -> Arrival {
        let stream = message.stream;
        let Some(is_own) = self.is_own(stream) else { return Arrival::Foreign(message) };
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
                queue.push(message);
                queue.waiters.wake_all(to_wake);
                Arrival::Queued
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
        self.ends.push_back((self.taken + unread as u64, ends));
    }

    /// Notes that the incoming directions of all streams end there.
    pub(crate) fn note_all(&mut self, unread: usize) {
        let open = self.open.iter().filter(|(_, open)| open.receiving != Receiving::Ended);
        let all = open.map(|(stream, _)| (*stream, None)).collect();
        self.note_ends(unread, all);
    }

    /// Notes that all streams are lost behind the `unread` messages that the engine holds.
    pub(crate) fn note_loss(&mut self, unread: usize, why: RecvError) {
        self.losses.push_back((self.taken + unread as u64, why));
    }

    /// Applies what was noted for the position that is reached. Returns whether a number became free.
    pub(crate) fn advance(&mut self, to_wake: &mut Vec<Waker>) -> bool {
        let mut freed = false;
        while let Some((_, ends)) = self.ends.pop_front_if(|(at, _)| *at <= self.taken) {
            for (stream, next) in ends {
                freed |= self.end(stream, next, to_wake);
            }
        }
        while let Some((_, why)) = self.losses.pop_front_if(|(at, _)| *at <= self.taken) {
            self.lose(&why, to_wake);
            freed = true;
        }
        freed
    }

    /// Ends the incoming direction. Returns whether a number became free.
    fn end(&mut self, stream: StreamId, next: Option<Ssn>, to_wake: &mut Vec<Waker>) -> bool {
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

    /// Returns whether something that was noted has not been reached.
    pub(crate) fn awaits_messages(&self) -> bool {
        !self.ends.is_empty() || !self.losses.is_empty()
    }

    /// Wakes all tasks, except those that wait for a number.
    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        self.takers.wake_all(to_wake);
        self.queues.values_mut().for_each(|queue| queue.waiters.wake_all(to_wake));
        self.open.values_mut().for_each(|open| open.waiters.wake_all(to_wake));
    }

    /// Returns the bytes of records, without those of messages.
    pub(crate) fn memory(&self) -> usize {
        let ends: usize = self.ends.iter().map(|(_, ends)| size_of_val(&**ends)).sum();
        size_of::<Self>()
            + self.open.len() * size_of::<(StreamId, Open)>()
            + self.queues.values().map(|queue| size_of::<Key>() + queue.memory()).sum::<usize>()
            + self.unaccepted.capacity() * size_of::<Key>()
            + (self.free.len() + self.early_stops.len()) * size_of::<StreamId>()
            + ends
    }
}

#[cfg(test)]
mod tests;
