//! Streams with queued messages in the order of their turns.

use std::collections::{BTreeMap, VecDeque};

use super::Keep;
use crate::number::StreamId;
use crate::outbound::messages::{List, MessageKey, Messages};

/// Streams that take turns. A stream whose first message is pushed has its turn after all others.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The stream whose turn it is, which may have nothing left. `None` if nothing is queued.
    turn: Option<(StreamId, List)>,
    /// The other streams in the order of their turns.
    order: VecDeque<StreamId>,
    /// The messages of the other streams.
    lists: BTreeMap<StreamId, List>,
}

impl Ring {
    pub(super) fn push(&mut self, messages: &mut Messages, stream: StreamId, message: MessageKey) {
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

    /// Returns the first message of the stream whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<MessageKey> {
        self.turn.as_ref()?.1.first()
    }

    #[inline]
    pub(super) fn has_turn(&self, stream: StreamId) -> bool {
        self.turn.as_ref().is_some_and(|(turn, _)| *turn == stream)
    }

    /// Returns true if the stream has no queued message.
    pub(super) fn is_idle(&self, stream: StreamId) -> bool {
        match &self.turn {
            Some((turn, list)) if *turn == stream => list.first().is_none(),
            _ => !self.lists.contains_key(&stream),
        }
    }

    /// Removes the first message of a stream. A turn does not end with it.
    pub(super) fn pop(&mut self, messages: &mut Messages, stream: StreamId) {
        match &mut self.turn {
            Some((turn, list)) if *turn == stream => list.pop(messages),
            _ => self.pop_of(messages, stream),
        }
    }

    /// Removes the first message of a stream whose turn it isn't: one that was under way when the scheduler changed.
    #[cold]
    fn pop_of(&mut self, messages: &mut Messages, stream: StreamId) {
        let Some(list) = self.lists.get_mut(&stream) else { return };
        list.pop(messages);
        if list.first().is_none() {
            self.lists.remove(&stream);
            self.order.retain(|other| *other != stream);
        }
    }

    /// Ends the turn of a stream.
    pub(super) fn rotate(&mut self) {
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

    /// Removes messages. The stream whose turn it is keeps it, even with nothing left.
    pub(super) fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>) {
        if let Some((_, list)) = &mut self.turn {
            list.retain(messages, keep);
        }
        self.lists.retain(|_, list| {
            list.retain(messages, keep);
            list.first().is_some()
        });
        self.order.retain(|stream| self.lists.contains_key(stream));
    }

    /// Removes all messages of a stream, and returns them in their order. The stream whose turn it is keeps it.
    pub(super) fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        if let Some((_, list)) = self.turn.as_mut().filter(|(turn, _)| *turn == stream) {
            return list.drain(messages);
        }
        let Some(mut list) = self.lists.remove(&stream) else { return Vec::new() };
        self.order.retain(|other| *other != stream);
        list.drain(messages)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.order.capacity() * size_of::<StreamId>() + self.lists.len() * size_of::<(StreamId, List)>()
    }
}
