//! One message of each stream in turn (RFC 8260 section 3.2), or one fragment if they may be interleaved.

use super::super::settings::Settings;
use super::ring::Ring;
use super::{Fragment, Keep, Scheduler};
use crate::number::StreamId;
use crate::outbound::messages::{MessageKey, Messages};

/// A turn is a message or a fragment.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    ring: Ring,
    /// A turn is a fragment instead of a message.
    by_fragment: bool,
}

impl Scheduler for RoundRobin {
    fn push(&mut self, messages: &mut Messages, _: &Settings, stream: StreamId, message: MessageKey) {
        self.ring.push(messages, stream, message);
    }

    fn next(&self, messages: &Messages) -> Option<Fragment> {
        Fragment::of(messages, self.ring.first()?)
    }

    fn on_sent(
        &mut self,
        messages: &mut Messages,
        _: &Settings,
        fragment: &Fragment,
        _len: usize,
        ends: bool,
    ) {
        if ends {
            self.ring.pop(messages, fragment.stream);
        }
        if (ends || self.by_fragment) && self.ring.has_turn(fragment.stream) {
            self.ring.rotate();
        }
    }

    fn set_by_fragment(&mut self, by_fragment: bool) {
        self.by_fragment = by_fragment;
    }

    fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>) {
        self.ring.retain(messages, keep);
        if self.ring.first().is_none() {
            self.ring.rotate();
        }
    }

    fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        let taken = self.ring.take_stream(messages, stream);
        if self.ring.first().is_none() {
            self.ring.rotate();
        }
        taken
    }

    fn has_reserve(&self, stream: StreamId) -> bool {
        self.ring.is_idle(stream)
    }

    fn heap_bytes(&self) -> usize {
        self.ring.heap_bytes()
    }
}
