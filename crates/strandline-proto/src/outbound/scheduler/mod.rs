//! Selects the next message. A scheduler chooses among queued messages. Once a message is begun, it is sent to its
//! end before another one (RFC 9260 section 6.9 numbers the fragments of a message in sequence).

mod fcfs;

use fcfs::Fcfs;

use super::message::Message;

/// The scheduler of an association.
#[derive(Debug)]
pub(super) enum Scheduler {
    /// First come, first served.
    Fcfs(Fcfs),
}

impl Default for Scheduler {
    fn default() -> Self {
        Self::Fcfs(Fcfs::default())
    }
}

impl Scheduler {
    /// Adds a message.
    pub(super) fn push(&mut self, message: Message) {
        match self {
            Self::Fcfs(fcfs) => fcfs.push(message),
        }
    }

    /// Returns the message that `pop` would return.
    pub(super) fn next(&self) -> Option<&Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.next(),
        }
    }

    /// Returns the next messages, as far as they are available in one slice; at least one if any waits.
    #[inline]
    pub(super) fn front(&mut self) -> &mut [Message] {
        match self {
            Self::Fcfs(fcfs) => fcfs.front(),
        }
    }

    /// Takes the first `count` messages of `front`.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> impl ExactSizeIterator<Item = Message> + '_ {
        match self {
            Self::Fcfs(fcfs) => fcfs.take(count),
        }
    }

    /// Takes the message that must be sent next.
    pub(super) fn pop(&mut self) -> Option<Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.pop(),
        }
    }

    /// Returns the number of queued messages.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fcfs(fcfs) => fcfs.len(),
        }
    }

    /// Removes the messages that `wanted` selects; the others keep their order.
    pub(super) fn extract(&mut self, wanted: impl FnMut(&Message) -> bool) -> Vec<Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.extract(wanted),
        }
    }

    /// Returns all messages, in the order in which they would have been sent.
    pub(super) fn into_messages(self) -> impl Iterator<Item = Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.into_messages(),
        }
    }

    /// Returns the heap bytes, without user data.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Fcfs(fcfs) => fcfs.heap_bytes(),
        }
    }
}
