//! First come, first served over all streams: the order in which the application sent (RFC 8260 section 3.1).

use super::super::settings::Settings;
use super::{Fragment, Keep, Scheduler};
use crate::number::StreamId;
use crate::outbound::messages::{List, MessageKey, Messages};

/// One list for all streams.
#[derive(Debug, Default)]
pub(crate) struct Fcfs {
    messages: List,
}

impl Fcfs {
    #[inline]
    pub(super) fn first(&self) -> Option<MessageKey> {
        self.messages.first()
    }

    #[inline]
    pub(super) fn remove_first(&mut self, messages: &mut Messages) {
        self.messages.pop(messages);
    }
}

impl Scheduler for Fcfs {
    #[inline]
    fn push(&mut self, messages: &mut Messages, _: &Settings, _stream: StreamId, message: MessageKey) {
        self.messages.push(messages, message);
    }

    #[inline]
    fn next(&self, messages: &Messages) -> Option<Fragment> {
        Fragment::of(messages, self.messages.first()?)
    }

    #[inline]
    fn on_sent(
        &mut self,
        messages: &mut Messages,
        _: &Settings,
        _fragment: &Fragment,
        _len: usize,
        ends: bool,
    ) {
        if ends {
            self.messages.pop(messages);
        }
    }

    fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>) {
        self.messages.retain(messages, keep);
    }

    /// Looks at all messages, which are in one list.
    fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        let mut taken = Vec::new();
        self.messages.retain(messages, &mut |key, message| {
            let keep = message.info.stream != stream;
            if !keep {
                taken.push(key);
            }
            keep
        });
        taken
    }

    /// False: a stream would not have its turn earlier.
    fn has_reserve(&self, _stream: StreamId) -> bool {
        false
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
