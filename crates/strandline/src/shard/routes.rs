//! Streams with their own reader: routes messages to the readers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use strandline_proto::event::Message;
use strandline_proto::memory::TakenBytes;
use strandline_proto::number::StreamId;

use super::dynamic_streams::{Arrival, Dynamic, Key, Taken};
use super::restarts::{Anew, LISTED_MAX, Restart};
use crate::error::RecvError;
use crate::wait::WaitQueue;

/// Bytes counted for each queued message besides its payload, towards the limit of messages taken from the
/// engine and not read yet.
const MESSAGE_OVERHEAD: usize = 64;

/// Least limit of messages taken from the engine and not read yet if each stream has credit, in bytes: so
/// that hundreds of streams may be unread before they hold up the others.
const CREDITED_BYTES: usize = 16 << 20;

/// What a reader gets next.
#[derive(Debug)]
pub(crate) enum Item {
    Message(Message),
    /// The peer restarted, or the stream was reset: what came before may be incomplete.
    Restart(Restart),
}

impl Item {
    fn is_restart(&self) -> bool {
        matches!(self, Self::Restart(_))
    }

    /// Returns the number of streams that a reset lists.
    fn listed(&self) -> usize {
        match self {
            Self::Message(_) => 0,
            Self::Restart(restart) => restart.anew.listed(),
        }
    }
}

#[derive(Debug, Default)]
struct Route {
    queue: VecDeque<Item>,
    waiters: WaitQueue,
    /// Its reader got nothing yet, and the peer has not restarted since it was registered: restarts before its
    /// first message do not concern it.
    fresh: bool,
}

impl Route {
    /// Queues a restart or reset that concerns the stream. Those without a message between them count as one.
    fn push_restart(&mut self, stream: StreamId, cut: Option<StreamId>, anew: &Anew) {
        let concerned = !self.fresh || cut.is_some();
        if concerned && !self.queue.back().is_some_and(Item::is_restart) {
            let anew = match anew {
                Anew::Peer => Anew::Peer,
                Anew::Streams(_) => Anew::Streams(stream.into()),
                Anew::Nothing => Anew::Nothing,
            };
            self.queue.push_back(Item::Restart(Restart { cut, anew }));
        }
    }
}

/// Bytes that the queues of an association hold, in the account of all associations.
#[derive(Debug)]
struct Held {
    bytes: usize,
    taken: Arc<TakenBytes>,
}

impl Held {
    fn add(&mut self, message_len: usize) {
        self.bytes += message_len + MESSAGE_OVERHEAD;
        self.taken.add(message_len + MESSAGE_OVERHEAD);
    }

    /// Counts a message that was joined with another one.
    fn add_joined(&mut self, message_len: usize) {
        self.bytes += message_len;
        self.taken.add(message_len);
    }

    fn remove(&mut self, message_len: usize) {
        self.bytes -= message_len + MESSAGE_OVERHEAD;
        self.taken.remove(message_len + MESSAGE_OVERHEAD);
    }

    /// Returns whether the limit of all associations is reached, and this one holds its share.
    fn is_beyond_share(&self) -> bool {
        self.taken.is_full() && self.bytes as u64 >= self.taken.share()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.taken.remove(self.bytes);
    }
}

/// The queues of an association's messages by stream. While they are full, no message is taken from the engine,
/// and the receive window closes; only then does an unread stream hold up the others.
#[derive(Debug)]
pub(crate) struct Routes {
    streams: HashMap<StreamId, Route>,
    /// Messages of the streams without their own reader, and all restarts and resets among them: a stream may get a
    /// reader before they are read.
    rest: VecDeque<Item>,
    /// Number of streams that resets among these list, at most [`LISTED_MAX`].
    listed: usize,
    held: Held,
    limit_bytes: usize,
    /// No message was taken from the engine at the latest attempt, because all associations together hold too much.
    is_held_back: bool,
    /// Streams that are opened and closed at run time, if the application uses them.
    pub(crate) dynamic: Option<Box<Dynamic>>,
}

impl Routes {
    pub(crate) fn new(limit_bytes: usize, taken: &Arc<TakenBytes>) -> Self {
        Self {
            streams: HashMap::new(),
            rest: VecDeque::new(),
            listed: 0,
            held: Held { bytes: 0, taken: Arc::clone(taken) },
            limit_bytes,
            is_held_back: false,
            dynamic: None,
        }
    }

    /// Returns whether a stream from `first` on has a reader.
    pub(crate) fn has_claimed_from(&self, first: StreamId) -> bool {
        self.streams.keys().any(|stream| *stream >= first)
    }

    /// Hands unread messages of streams that became dynamic to these. Returns the bytes of those that are
    /// discarded, and their streams.
    pub(crate) fn hand_over_rest(
        &mut self,
        read: &mut WaitQueue,
        to_wake: &mut Vec<Waker>,
    ) -> Vec<(StreamId, usize)> {
        let mut discarded = Vec::new();
        for item in std::mem::take(&mut self.rest) {
            match item {
                Item::Message(message) => {
                    self.held.remove(message.data.len());
                    discarded.extend(self.push(message, read, to_wake));
                }
                Item::Restart(restart) => self.rest.push_back(Item::Restart(restart)),
            }
        }
        discarded
    }

    /// Takes the next message of a dynamic stream, and returns whether its bytes count for the stream's credit.
    pub(crate) fn take_dynamic(&mut self, key: Key) -> (Taken, bool) {
        let queue = self.dynamic.as_mut().and_then(|dynamic| dynamic.queue_mut(key));
        let Some(queue) = queue else { return (Taken::Error(RecvError::Unfinished), false) };
        let taken = queue.take();
        let counts = !queue.has_ended();
        if let Taken::Message(message) = &taken {
            self.held.remove(message.data.len());
        }
        (taken, counts)
    }

    /// Drops the reader of a dynamic stream. Returns the unread bytes that count for the stream's credit.
    pub(crate) fn drop_dynamic(&mut self, key: Key) -> usize {
        let queue = self.dynamic.as_mut().and_then(|dynamic| dynamic.take_queue(key));
        let Some(queue) = queue else { return 0 };
        let counts = !queue.has_ended();
        let mut unread = 0;
        for len in queue.into_sizes() {
            self.held.remove(len);
            unread += len;
        }
        if counts { unread } else { 0 }
    }

    /// Returns the bytes of records, without those of messages.
    pub(crate) fn memory(&self) -> usize {
        let routes = self.streams.capacity() * size_of::<(StreamId, Route)>();
        let queued = self.streams.values().map(|route| route.queue.capacity()).sum::<usize>();
        let listed = self.listed * size_of::<StreamId>();
        let dynamic = self.dynamic.as_ref().map_or(0, |dynamic| dynamic.memory());
        size_of::<Self>() + routes + (queued + self.rest.capacity()) * size_of::<Item>() + listed + dynamic
    }

    /// Allows more unread messages, because each stream keeps to its credit: as many bytes as the receive
    /// buffer may have, which is small at first.
    pub(crate) fn begin_credit(&mut self, receive_buffer_max: usize) {
        self.limit_bytes = self.limit_bytes.max(CREDITED_BYTES).max(receive_buffer_max);
    }

    /// Registers a reader for a stream. Returns false if the stream has one.
    pub(crate) fn claim(&mut self, stream: StreamId) -> bool {
        if self.streams.contains_key(&stream) {
            return false;
        }
        let mut route = Route { fresh: true, ..Route::default() };
        // Messages that arrived before the reader was registered.
        for item in std::mem::take(&mut self.rest) {
            match item {
                Item::Message(message) if message.stream == stream => {
                    route.fresh = false;
                    route.queue.push_back(Item::Message(message));
                }
                Item::Message(_) => self.rest.push_back(item),
                Item::Restart(restart) => {
                    let mine = restart.cut.filter(|cut| *cut == stream);
                    if mine.is_some() || restart.anew.concerns(stream) {
                        route.push_restart(stream, mine, &restart.anew);
                    }
                    let cut = restart.cut.filter(|cut| *cut != stream);
                    self.rest.push_back(Item::Restart(Restart { cut, ..restart }));
                }
            }
        }
        self.streams.insert(stream, route);
        true
    }

    /// Returns whether unread messages of a stream with a reader precede a restart or reset, so that their numbers are
    /// of an earlier numbering.
    pub(crate) fn begins_anew(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|route| route.queue.iter().any(Item::is_restart))
    }

    /// Removes the stream's reader: its unread messages go back to the readers of the association.
    pub(crate) fn unclaim(&mut self, stream: StreamId, read: &mut WaitQueue, to_wake: &mut Vec<Waker>) {
        if let Some(route) = self.streams.remove(&stream)
            && !route.queue.is_empty()
        {
            self.listed += route.queue.iter().map(Item::listed).sum::<usize>();
            self.rest.extend(route.queue);
            read.wake_all(to_wake);
        }
    }

    /// Returns whether the engine may hold messages because no more may be taken from it.
    pub(crate) fn is_full(&self) -> bool {
        self.held.bytes >= self.limit_bytes || self.is_held_back
    }

    /// Returns whether a message may be taken from the engine now.
    pub(crate) fn takes_more(&mut self) -> bool {
        self.is_held_back = self.held.is_beyond_share();
        !self.is_full()
    }

    /// Returns whether all associations together hold too much, so that nobody who reads this one may make room for it.
    pub(crate) const fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Queues a message and wakes its reader. Returns the bytes of one that is discarded, and its stream.
    pub(crate) fn push(
        &mut self,
        message: Message,
        read: &mut WaitQueue,
        to_wake: &mut Vec<Waker>,
    ) -> Option<(StreamId, usize)> {
        let (stream, len) = (message.stream, message.data.len());
        let message = match &mut self.dynamic {
            None => message,
            Some(dynamic) => match dynamic.push(message, to_wake) {
                Arrival::Foreign(message) => message,
                Arrival::Discarded(len) => return Some((stream, len)),
                Arrival::Queued => {
                    self.held.add(len);
                    return None;
                }
                Arrival::Joined(len) => {
                    self.held.add_joined(len);
                    return None;
                }
            },
        };
        self.held.add(len);
        match self.streams.get_mut(&message.stream) {
            Some(route) => {
                route.fresh = false;
                route.queue.push_back(Item::Message(message));
                route.waiters.wake_all(to_wake);
            }
            None => {
                self.rest.push_back(Item::Message(message));
                read.wake_all(to_wake);
            }
        }
        None
    }

    /// Notes that the peer restarted: every reader that exists now is told, at the position that
    /// [`push_restart`](Self::push_restart) marks.
    pub(crate) fn expect_restart(&mut self) {
        for route in self.streams.values_mut() {
            route.fresh = false;
        }
    }

    /// Queues a restart of the peer behind the messages that were queued before. The caller wakes the readers.
    pub(crate) fn push_restart(&mut self, restart: Restart) {
        let Restart { cut, mut anew } = restart;
        if let (Some(dynamic), Some(cut)) = (&mut self.dynamic, cut) {
            dynamic.on_cut(cut);
        }
        for (stream, route) in &mut self.streams {
            let mine = cut.filter(|cut| cut == stream);
            if mine.is_some() || anew.concerns(*stream) {
                route.push_restart(*stream, mine, &anew);
            }
        }
        let cut = cut.filter(|cut| !self.streams.contains_key(cut));
        if self.listed + anew.listed() > LISTED_MAX {
            anew.widen();
        }
        match self.rest.back_mut() {
            Some(Item::Restart(last)) => {
                self.listed -= last.anew.listed();
                last.join(Restart { cut, anew });
                self.listed += last.anew.listed();
            }
            // Whole messages are not affected.
            None if cut.is_none() => {}
            _ => {
                self.listed += anew.listed();
                self.rest.push_back(Item::Restart(Restart { cut, anew }));
            }
        }
    }

    /// Removes the next message of a stream, or of the streams without their own reader, or the restart of the
    /// peer that comes before it.
    pub(crate) fn pop(&mut self, stream: Option<StreamId>) -> Option<Item> {
        let queue = match stream {
            Some(stream) => &mut self.streams.get_mut(&stream)?.queue,
            None => &mut self.rest,
        };
        // Whole messages are not affected by a restart.
        let skipped =
            |item: &Item| stream.is_none() && matches!(item, Item::Restart(Restart { cut: None, .. }));
        loop {
            let item = queue.pop_front()?;
            match &item {
                Item::Message(message) => self.held.remove(message.data.len()),
                Item::Restart(restart) if stream.is_none() => self.listed -= restart.anew.listed(),
                Item::Restart(_) => {}
            }
            if !skipped(&item) {
                return Some(item);
            }
        }
    }

    /// Returns whether [`pop`](Self::pop) would return something for the streams without their own reader.
    pub(crate) fn has_rest(&self) -> bool {
        self.next_of_rest().is_some()
    }

    /// Returns whether [`pop`](Self::pop) would return a restart for the streams without their own reader.
    pub(crate) fn restart_is_next(&self) -> bool {
        self.next_of_rest().is_some_and(Item::is_restart)
    }

    /// Returns what comes next for the streams without their own reader. Whole messages are not affected by a
    /// restart.
    fn next_of_rest(&self) -> Option<&Item> {
        self.rest.iter().find(|item| !matches!(item, Item::Restart(Restart { cut: None, .. })))
    }

    pub(crate) fn waiters(&mut self, stream: StreamId) -> Option<&mut WaitQueue> {
        self.streams.get_mut(&stream).map(|route| &mut route.waiters)
    }

    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.wake_all(to_wake);
        }
        for route in self.streams.values_mut() {
            route.waiters.wake_all(to_wake);
        }
    }
}

#[cfg(test)]
mod tests;
