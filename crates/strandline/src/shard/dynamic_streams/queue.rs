//! The unread messages of a dynamic stream.

use std::collections::VecDeque;

use strandline_proto::event::Message;
use strandline_proto::number::Ssn;

use crate::error::RecvError;
use crate::wait::WaitQueue;

#[derive(Debug)]
enum Item {
    Message(Message),
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
    pub(super) fn push(&mut self, message: Message) {
        if message.begins && !message.unordered {
            if message.ssn != self.next {
                self.cut();
            }
            self.next = message.ssn.next();
        }
        if !(message.begins && message.ends) {
            self.is_partial = !message.ends;
        }
        self.items.push_back(Item::Message(message));
    }

    /// Records that something is missing here.
    pub(super) fn cut(&mut self) {
        self.is_partial = false;
        if !matches!(self.items.back(), Some(Item::Gap)) {
            self.items.push_back(Item::Gap);
        }
    }

    /// Ends the stream, of which the message after the last one would have the SSN `next`. The end is clean unless messages are
    /// missing immediately before it: messages that were given up earlier have their gaps.
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
            Some(Item::Gap) => Taken::Error(RecvError::Abandoned),
            None => match &self.end {
                None => Taken::Nothing,
                Some(End::Clean) => Taken::End,
                Some(End::Error(error)) => Taken::Error(error.clone()),
            },
        }
    }

    /// Takes out the sizes of all unread messages, in bytes.
    pub(crate) fn into_sizes(self) -> impl Iterator<Item = usize> {
        let len = |item| match item {
            Item::Message(message) => Some(message.data.len()),
            Item::Gap => None,
        };
        self.items.into_iter().filter_map(len)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.items.capacity() * size_of::<Item>()
    }
}
