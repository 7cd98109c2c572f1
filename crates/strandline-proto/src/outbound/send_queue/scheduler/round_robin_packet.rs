//! One packet of each stream in turn (RFC 8260 section 3.3): a lost packet holds up one stream only.

use super::super::settings::Settings;
use super::ring::Ring;
use super::{Fragment, Keep, Scheduler};
use crate::number::StreamId;
use crate::outbound::messages::{MessageKey, Messages};

/// A turn lasts until the next packet begins.
#[derive(Debug, Default)]
pub(crate) struct RoundRobinPerPacket {
    ring: Ring,
    /// Something was sent in this turn.
    used: bool,
}

impl Scheduler for RoundRobinPerPacket {
    fn push(&mut self, messages: &mut Messages, _: &Settings, stream: StreamId, message: MessageKey) {
        self.ring.push(messages, stream, message);
    }

    /// Returns `None`, too, if the other streams must wait for the next packet.
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
        self.used |= self.ring.has_turn(fragment.stream);
    }

    fn begin_packet(&mut self) {
        if core::mem::take(&mut self.used) {
            self.ring.rotate();
        }
    }

    fn pop(&mut self, messages: &mut Messages, settings: &Settings) -> Option<MessageKey> {
        self.begin_packet();
        let next = self.next(messages)?;
        self.on_sent(messages, settings, &next, 0, true);
        Some(next.message)
    }

    fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>) {
        self.ring.retain(messages, keep);
        if self.ring.first().is_none() && !self.used {
            self.ring.rotate();
        }
    }

    fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        let taken = self.ring.take_stream(messages, stream);
        if self.ring.first().is_none() && !self.used {
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
