//! First come, first served over all streams: the order in which the application sent (RFC 8260 section 3.1).

use std::collections::VecDeque;

use super::super::message::Message;

/// One ring for all streams, allocated with the first message.
#[derive(Debug, Default)]
pub(in super::super) struct Fcfs {
    messages: VecDeque<Message>,
}

impl Fcfs {
    pub(super) fn push(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    pub(super) fn next(&self) -> Option<&Message> {
        self.messages.front()
    }

    #[inline]
    pub(super) fn front(&mut self) -> &mut [Message] {
        self.messages.as_mut_slices().0
    }

    #[inline]
    pub(super) fn take(&mut self, count: usize) -> impl ExactSizeIterator<Item = Message> + '_ {
        self.messages.drain(..count.min(self.messages.len()))
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn extract(&mut self, mut wanted: impl FnMut(&Message) -> bool) -> Vec<Message> {
        if !self.messages.iter().any(&mut wanted) {
            return Vec::new();
        }
        let (taken, kept) = self.messages.drain(..).partition::<Vec<_>, _>(wanted);
        self.messages = kept.into();
        taken
    }

    pub(super) fn into_messages(self) -> impl Iterator<Item = Message> {
        self.messages.into_iter()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.messages.capacity() * size_of::<Message>()
    }
}
