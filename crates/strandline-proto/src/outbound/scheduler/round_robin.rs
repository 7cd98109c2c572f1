//! One message of each stream in turn (RFC 8260 section 3.2), or one fragment if they may be interleaved.

use std::collections::{BTreeMap, VecDeque};

use super::super::messages::{List, MessageKey, Messages};
use super::{Fragment, Scheduler};
use crate::number::StreamId;

/// The streams with queued messages. A stream whose first message is pushed has its turn after all others.
#[derive(Debug, Default)]
pub(in super::super) struct RoundRobin {
    /// The stream whose turn it is. `None` if nothing is queued.
    turn: Option<(StreamId, List)>,
    /// The other streams in the order of their turns.
    order: VecDeque<StreamId>,
    /// The messages of the other streams.
    lists: BTreeMap<StreamId, List>,
    /// A turn is a fragment instead of a message.
    by_fragment: bool,
}

impl RoundRobin {
    /// Sets whether a turn is a fragment instead of a message.
    pub(in super::super) fn set_by_fragment(&mut self, by_fragment: bool) {
        self.by_fragment = by_fragment;
    }

    /// Returns true if the stream has no queued message.
    pub(super) fn is_idle(&self, stream: StreamId) -> bool {
        self.turn.as_ref().is_none_or(|(turn, _)| *turn != stream) && !self.lists.contains_key(&stream)
    }

    /// Ends the turn of a stream.
    fn rotate(&mut self) {
        let Some((stream, list)) = self.turn.take() else { return };
        if list.first().is_some() {
            if self.order.is_empty() {
                self.turn = Some((stream, list));
                return;
            }
            self.order.push_back(stream);
            self.lists.insert(stream, list);
        }
        self.turn = self.order.pop_front().and_then(|next| Some((next, self.lists.remove(&next)?)));
    }

    /// Removes the first message of a stream whose turn it isn't.
    fn pop_of(&mut self, messages: &mut Messages, stream: StreamId) {
        let Some(list) = self.lists.get_mut(&stream) else { return };
        list.pop(messages);
        if list.first().is_none() {
            self.lists.remove(&stream);
            self.order.retain(|other| *other != stream);
        }
    }
}

impl Scheduler for RoundRobin {
    fn push(&mut self, messages: &mut Messages, stream: StreamId, message: MessageKey) {
        match &mut self.turn {
            None => {
                let mut list = List::default();
                list.push(messages, message);
                self.turn = Some((stream, list));
            }
            Some((turn, list)) if *turn == stream => list.push(messages, message),
            Some(_) => {
                let list = self.lists.entry(stream).or_insert_with(|| {
                    self.order.push_back(stream);
                    List::default()
                });
                list.push(messages, message);
            }
        }
    }

    fn next(&self, messages: &Messages) -> Option<Fragment> {
        Fragment::of(messages, self.turn.as_ref()?.1.first()?)
    }

    fn on_sent(&mut self, messages: &mut Messages, fragment: &Fragment, _len: usize, ends: bool) {
        match &mut self.turn {
            Some((stream, list)) if *stream == fragment.stream => {
                if ends {
                    list.pop(messages);
                }
                if ends || self.by_fragment {
                    self.rotate();
                }
            }
            _ if ends => self.pop_of(messages, fragment.stream),
            _ => {}
        }
    }

    fn heap_bytes(&self) -> usize {
        self.order.capacity() * size_of::<StreamId>() + self.lists.len() * size_of::<(StreamId, List)>()
    }
}
