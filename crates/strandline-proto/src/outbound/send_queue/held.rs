//! Messages that wait for a reset of their streams (RFC 6525 section 5.1.2 step A1): they were given after the request,
//! and their sequence numbers begin anew.

use crate::number::StreamId;
use crate::outbound::messages::{List, MessageKey, Messages};
use crate::reconfiguration::Streams;

/// The messages that are held back.
#[derive(Debug)]
pub(crate) struct Held {
    streams: Streams,
    /// Messages given since the request, in this order.
    messages: List,
    /// Number of messages in `messages`.
    pub(crate) count: usize,
    /// Number of earlier messages of the streams that are not sent to their ends.
    pub(crate) before: usize,
}

impl Held {
    /// Holds back what is given from now on. `before` is the number of earlier messages that are not sent to their
    /// ends.
    pub(crate) fn new(streams: Streams, before: usize) -> Self {
        Self { streams, messages: List::default(), count: 0, before }
    }

    pub(crate) fn concerns(&self, stream: StreamId) -> bool {
        self.streams.contains(stream)
    }

    pub(crate) fn push(&mut self, messages: &mut Messages, key: MessageKey) {
        self.count += 1;
        self.messages.push(messages, key);
    }

    /// Records that a message of a stream was sent to its end, or will not be sent.
    pub(crate) fn on_gone(&mut self, stream: StreamId) {
        if self.streams.contains(stream) {
            self.before = self.before.saturating_sub(1);
        }
    }

    /// Takes out the first message.
    pub(crate) fn pop(&mut self, messages: &mut Messages) -> Option<MessageKey> {
        let key = self.messages.first()?;
        self.messages.pop(messages);
        self.count = self.count.saturating_sub(1);
        Some(key)
    }
}
