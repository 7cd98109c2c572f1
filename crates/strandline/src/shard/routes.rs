//! Streams with their own reader: routes messages to the readers.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use strandline_proto::event::Message;
use strandline_proto::number::StreamId;

use crate::wait::WaitQueue;

/// Bytes counted for each queued message besides its payload, towards the limit of messages taken from the
/// engine and not read yet.
const MESSAGE_OVERHEAD: usize = 64;

#[derive(Debug, Default)]
struct Route {
    queue: VecDeque<Message>,
    waiters: WaitQueue,
}

/// The queues of an association's messages by stream. While they are full, no message is taken from the engine,
/// and the receive window closes; only then does an unread stream hold up the others.
#[derive(Debug)]
pub(crate) struct Routes {
    streams: HashMap<StreamId, Route>,
    rest: VecDeque<Message>,
    held_bytes: usize,
    limit_bytes: usize,
}

impl Routes {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { streams: HashMap::new(), rest: VecDeque::new(), held_bytes: 0, limit_bytes }
    }

    /// Registers a reader for a stream. Returns false if the stream has one.
    pub(crate) fn claim(&mut self, stream: StreamId) -> bool {
        if self.streams.contains_key(&stream) {
            return false;
        }
        // Messages that arrived before the reader was registered.
        let (mine, rest) = std::mem::take(&mut self.rest).into_iter().partition(|m| m.stream == stream);
        self.rest = rest;
        self.streams.insert(stream, Route { queue: mine, waiters: WaitQueue::default() });
        true
    }

    /// Removes the stream's reader: its unread messages go back to the readers of the association.
    pub(crate) fn unclaim(&mut self, stream: StreamId, read: &mut WaitQueue, to_wake: &mut Vec<Waker>) {
        if let Some(route) = self.streams.remove(&stream)
            && !route.queue.is_empty()
        {
            self.rest.extend(route.queue);
            read.wake_all(to_wake);
        }
    }

    /// Returns whether no more messages may be taken from the engine.
    pub(crate) fn is_full(&self) -> bool {
        self.held_bytes >= self.limit_bytes
    }

    /// Queues a message and wakes its reader.
    pub(crate) fn push(&mut self, message: Message, read: &mut WaitQueue, to_wake: &mut Vec<Waker>) {
        self.held_bytes += message.data.len() + MESSAGE_OVERHEAD;
        match self.streams.get_mut(&message.stream) {
            Some(route) => {
                route.queue.push_back(message);
                route.waiters.wake_all(to_wake);
            }
            None => {
                self.rest.push_back(message);
                read.wake_all(to_wake);
            }
        }
    }

    /// Removes the next message of a stream, or of the streams without their own reader.
    pub(crate) fn pop(&mut self, stream: Option<StreamId>) -> Option<Message> {
        let queue = match stream {
            Some(stream) => &mut self.streams.get_mut(&stream)?.queue,
            None => &mut self.rest,
        };
        let message = queue.pop_front()?;
        self.held_bytes -= message.data.len() + MESSAGE_OVERHEAD;
        Some(message)
    }

    pub(crate) fn waiters(&mut self, stream: StreamId) -> Option<&mut WaitQueue> {
        self.streams.get_mut(&stream).map(|route| &mut route.waiters)
    }

    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        for route in self.streams.values_mut() {
            route.waiters.wake_all(to_wake);
        }
    }
}

#[cfg(test)]
mod tests;
