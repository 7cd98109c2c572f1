//! The unread messages of a dynamic stream.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use strandline_proto::event::Message;
use strandline_proto::number::Ssn;

use crate::error::RecvError;
use crate::wait::WaitQueue;

/// Unread items of a stream after which small messages are joined: until then, its reader is not far behind.
const JOINED_FROM: usize = 64;
/// Messages of fewer bytes are joined, up to this number of bytes.
const SMALL: usize = 4 << 10;
const JOINED_MAX: usize = 64 << 10;

#[derive(Debug)]
enum Item {
    Message(Message),
    /// Small messages: what precedes the data of the first one, and the data of all.
    Joined(Message, BytesMut),
    /// Messages, or the rest of one, are missing here.
    Gap,
}

/// How a stream ends.
#[derive(Debug, Clone)]
enum End {
    /// The peer has finished it.
    Clean,
    Error(RecvError),
}

/// What a reader gets next.
#[derive(Debug)]
pub(crate) enum Taken {
    Message(Message),
    End,
    Error(RecvError),
    Nothing,
}

/// The unread messages of a stream, and its end.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: VecDeque<Item>,
    end: Option<End>,
    /// The SSN of the next message.
    next: Ssn,
    /// A message is incomplete. Whole ones may follow its first part.
    is_partial: bool,
    pub(crate) waiters: WaitQueue,
}

impl Queue {
    /// Adds a message. Returns false if it was joined with the last one, which `joins` allows.
    pub(super) fn push(&mut self, message: Message, joins: bool) -> bool {
        if message.begins && !message.unordered {
            if message.ssn != self.next {
                self.cut();
            }
            self.next = message.ssn.next();
        }
        if !(message.begins && message.ends) {
            self.is_partial = !message.ends;
        }
        if joins && self.items.len() >= JOINED_FROM && self.join(&message) {
            return false;
        }
        self.items.push_back(Item::Message(message));
        true
    }

    /// Joins a message with the last one if both are small. Returns whether it did.
    fn join(&mut self, message: &Message) -> bool {
        let is_small = |message: &Message| {
            message.data.len() < SMALL && message.begins && message.ends && !message.unordered
        };
        let Some(last) = self.items.back_mut() else { return false };
        let (Item::Message(first) | Item::Joined(first, _)) = last else { return false };
        if !is_small(message) || !is_small(first) || first.ppid != message.ppid {
            return false;
        }
        match last {
            Item::Joined(_, joined) if joined.len() + message.data.len() > JOINED_MAX => return false,
            Item::Joined(_, joined) => joined.extend_from_slice(&message.data),
            Item::Message(first) => {
                let mut joined = BytesMut::with_capacity(SMALL);
                joined.extend_from_slice(&first.data);
                joined.extend_from_slice(&message.data);
                let mut first = first.clone();
                first.data = Bytes::new();
                *last = Item::Joined(first, joined);
            }
            Item::Gap => return false,
        }
        true
    }

    /// Records that something is missing here.
    pub(super) fn cut(&mut self) {
        self.is_partial = false;
        if !matches!(self.items.back(), Some(Item::Gap)) {
            self.items.push_back(Item::Gap);
        }
    }

    /// Ends the stream, of which the message after the last one would have the SSN `next`. The end is clean
    /// unless messages are missing immediately before it: messages that were given up earlier have their
    /// gaps.
    pub(super) fn end(&mut self, next: Option<Ssn>) {
        let is_clean = next == Some(self.next) && !self.is_partial;
        let end = if is_clean { End::Clean } else { End::Error(RecvError::Unfinished) };
        self.end.get_or_insert(end);
    }

    pub(super) fn fail(&mut self, why: RecvError) {
        self.end.get_or_insert(End::Error(why));
    }

    /// Returns whether the stream has ended: what is unread of it does not count for a later use of its number.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Takes the next message, or returns the end.
    pub(crate) fn take(&mut self) -> Taken {
        match self.items.pop_front() {
            Some(Item::Message(message)) => Taken::Message(message),
            Some(Item::Joined(mut message, joined)) => {
                message.data = joined.freeze();
                Taken::Message(message)
            }
            Some(Item::Gap) => Taken::Error(RecvError::Abandoned),
            None => match &self.end {
                None => Taken::Nothing,
                Some(End::Clean) => Taken::End,
                Some(End::Error(error)) => Taken::Error(error.clone()),
            },
        }
    }

    /// Takes out the sizes of all unread messages in bytes, joined ones as one.
    pub(crate) fn into_sizes(self) -> impl Iterator<Item = usize> {
        let len = |item| match item {
            Item::Message(message) => Some(message.data.len()),
            Item::Joined(_, joined) => Some(joined.len()),
            Item::Gap => None,
        };
        self.items.into_iter().filter_map(len)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.items.capacity() * size_of::<Item>()
    }
}
