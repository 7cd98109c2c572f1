//! Which message is sent next. A scheduler chooses among messages that wait; once a message is begun, it is sent to
//! its end before another one (RFC 9260 section 6.9 numbers the fragments of a message in sequence).

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

    /// The message that `pop` would return.
    pub(super) fn next(&self) -> Option<&Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.next(),
        }
    }

    /// The messages that would be returned next, as far as they are at hand in one piece; at least one if any waits.
    #[inline]
    pub(super) fn front(&mut self) -> &mut [Message] {
        match self {
            Self::Fcfs(fcfs) => fcfs.front(),
        }
    }

    /// Takes the first `count` of `front`.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> impl ExactSizeIterator<Item = Message> + '_ {
        match self {
            Self::Fcfs(fcfs) => fcfs.take(count),
        }
    }

    /// Takes the message that is to be sent next.
    pub(super) fn pop(&mut self) -> Option<Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.pop(),
        }
    }

    /// Messages that wait.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fcfs(fcfs) => fcfs.len(),
        }
    }

    /// Takes out the messages that `wanted` names; the others keep their order.
    pub(super) fn extract(&mut self, wanted: impl FnMut(&Message) -> bool) -> Vec<Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.extract(wanted),
        }
    }

    /// All messages, in the order in which they would have been sent.
    pub(super) fn into_messages(self) -> impl Iterator<Item = Message> {
        match self {
            Self::Fcfs(fcfs) => fcfs.into_messages(),
        }
    }

    /// Heap held, user data not counted.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Fcfs(fcfs) => fcfs.heap_bytes(),
        }
    }
}
