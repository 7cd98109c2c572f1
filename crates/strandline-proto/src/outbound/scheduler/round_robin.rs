//! One fragment of each stream in turn (RFC 8260 section 3.2). It exists for tests only, as the example of a second
//! scheduler.

use std::collections::VecDeque;

use super::super::messages::{List, MessageKey, Messages};
use super::{Fragment, Scheduler};
use crate::number::StreamId;

/// The streams with queued messages, the next one first.
#[derive(Debug, Default)]
pub(in super::super) struct RoundRobin {
    streams: VecDeque<(StreamId, List)>,
}

impl Scheduler for RoundRobin {
    fn push(&mut self, messages: &mut Messages, stream: StreamId, message: MessageKey) {
        let known = self.streams.iter().position(|(number, _)| *number == stream);
        let at = known.unwrap_or_else(|| {
            self.streams.push_back((stream, List::default()));
            self.streams.len() - 1
        });
        self.streams[at].1.push(messages, message);
    }

    fn next(&self, messages: &Messages) -> Option<Fragment> {
        let (_, list) = self.streams.front()?;
        Fragment::of(messages, list.first()?)
    }

    fn on_sent(&mut self, messages: &mut Messages, fragment: &Fragment, _len: usize, ends: bool) {
        let at = self.streams.iter().position(|(stream, _)| *stream == fragment.stream);
        let Some((stream, mut list)) = at.and_then(|at| self.streams.remove(at)) else { return };
        if ends {
            list.pop(messages);
        }
        if list.first().is_some() {
            self.streams.push_back((stream, list));
        }
    }

    fn heap_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<(StreamId, List)>()
    }
}
