//! Strict priorities (RFC 8260 section 3.4): streams with a lower value first. Streams of equal priority take turns.

use super::super::settings::Settings;
use super::ranked::Ranked;
use super::{Fragment, Keep, Scheduler};
use crate::number::StreamId;
use crate::outbound::messages::{MessageKey, Messages};

/// A stream's rank is its value: the higher it is, the lower the priority (section 4.3.2).
#[derive(Debug, Default)]
pub(crate) struct Priority {
    streams: Ranked<u16>,
    /// A turn is a fragment instead of a message.
    by_fragment: bool,
}

impl Scheduler for Priority {
    fn push(&mut self, messages: &mut Messages, settings: &Settings, stream: StreamId, message: MessageKey) {
        self.streams.push(messages, stream, message, || settings.value(stream));
    }

    fn next(&self, messages: &Messages) -> Option<Fragment> {
        self.streams.next(messages)
    }

    fn on_sent(
        &mut self,
        messages: &mut Messages,
        _: &Settings,
        fragment: &Fragment,
        _len: usize,
        ends: bool,
    ) {
        let stream = fragment.stream;
        let gone = ends && self.streams.pop(messages, stream);
        if !gone
            && (ends || self.by_fragment)
            && let Some(value) = self.streams.rank(stream)
        {
            self.streams.set_rank(stream, value);
        }
    }

    fn set_by_fragment(&mut self, by_fragment: bool) {
        self.by_fragment = by_fragment;
    }

    fn on_value(&mut self, stream: StreamId, value: u16) {
        if self.streams.rank(stream).is_some_and(|rank| rank != value) {
            self.streams.set_rank(stream, value);
        }
    }

    fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>) {
        self.streams.retain(messages, keep, |_, _| {});
    }

    fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        self.streams.take_stream(messages, stream)
    }

    fn has_reserve(&self, stream: StreamId) -> bool {
        self.streams.rank(stream).is_none()
    }

    fn heap_bytes(&self) -> usize {
        self.streams.heap_bytes()
    }
}
