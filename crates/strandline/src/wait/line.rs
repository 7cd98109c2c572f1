//! A first-in, first-out queue of tasks that wait for room in a send buffer.

use std::collections::VecDeque;
use std::task::Waker;

use strandline_proto::number::StreamId;

use super::Token;

/// A task in the queue.
#[derive(Debug)]
struct Waiting {
    token: u32,
    /// `None` after the task was woken, until it waits again.
    waker: Option<Waker>,
    /// The task may have stopped waiting without notice: see [`Line::register`].
    may_be_gone: bool,
    /// The stream that the task sends on, if it is known.
    stream: Option<StreamId>,
    /// The task waits for room on that stream, which keeps those of other streams from nothing.
    blocked: bool,
}

impl Waiting {
    /// True if a task behind it that sends on `stream` need not wait for it.
    fn lets_pass(&self, stream: Option<StreamId>) -> bool {
        let is_other = self.blocked && (stream.is_none() || self.stream != stream);
        is_other || (self.may_be_gone && self.waker.is_none())
    }

    fn is_blocked_on(&self, stream: StreamId) -> bool {
        self.blocked && self.stream == Some(stream)
    }
}

/// Tasks that wait for room, in order of arrival. Only the first is woken when there is room; when it leaves,
/// whether it could send or not, it wakes the next. A task that arrives while others wait goes to the end, even
/// if there is room for its message.
///
/// It allocates memory when a task has to wait, and keeps that memory.
#[derive(Debug, Default)]
pub(crate) struct Line {
    #[expect(
        clippy::box_collection,
        reason = "most associations have none: a pointer instead of four words"
    )]
    waiting: Option<Box<VecDeque<Waiting>>>,
    last_token: u32,
}

impl Line {
    /// Returns whether no task waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.as_ref().is_none_or(|waiting| waiting.is_empty())
    }

    /// Returns whether the task with this token, or a task that isn't queued yet, may try now to send on a stream: every task
    /// before it waits for room on another stream, or has been woken and may have stopped waiting.
    pub(crate) fn is_turn(&self, token: Token, stream: Option<StreamId>) -> bool {
        self.ahead(token).all(|waiting| waiting.lets_pass(stream))
    }

    /// Returns whether a task before it waits for room on the stream.
    pub(crate) fn is_behind(&self, token: Token, stream: StreamId) -> bool {
        self.ahead(token).any(|waiting| waiting.is_blocked_on(stream))
    }

    /// Returns whether a task waits to send on the stream.
    pub(crate) fn has(&self, stream: StreamId) -> bool {
        self.ahead(None).any(|waiting| waiting.stream == Some(stream))
    }

    fn ahead(&self, token: Token) -> impl Iterator<Item = &Waiting> {
        let all = self.waiting.iter().flat_map(|waiting| waiting.iter());
        all.take_while(move |waiting| Some(waiting.token) != token)
    }

    /// Adds a task at the end, or updates its waker in its position. `may_be_gone` marks poll functions, whose
    /// caller may never call them again: once woken, such a task no longer blocks those behind it. A task that is `blocked`
    /// waits for room on its `stream`, and holds up only others of that stream.
    pub(crate) fn register(
        &mut self,
        token: &mut Token,
        waker: &Waker,
        may_be_gone: bool,
        stream: Option<StreamId>,
        blocked: bool,
    ) {
        let waiting = self.waiting.get_or_insert_default();
        if let Some(found) = waiting.iter_mut().find(|waiting| Some(waiting.token) == *token) {
            match &mut found.waker {
                Some(old) => old.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            (found.stream, found.blocked) = (stream, blocked);
            return;
        }
        self.last_token = self.last_token.wrapping_add(1);
        *token = Some(self.last_token);
        waiting.push_back(Waiting {
            token: self.last_token,
            waker: Some(waker.clone()),
            may_be_gone,
            stream,
            blocked,
        });
    }

    /// Removes a task and wakes the one whose turn is next. Must be called for every task that stops waiting.
    pub(crate) fn leave(&mut self, token: Token, to_wake: &mut Vec<Waker>) {
        let Some(waiting) = &mut self.waiting else { return };
        let Some(at) = waiting.iter().position(|waiting| Some(waiting.token) == token) else { return };
        let left = waiting.remove(at);
        self.wake_next(to_wake);
        if let Some(stream) = left.and_then(|left| left.stream) {
            self.wake_stream(stream, to_wake);
        }
    }

    /// Wakes the first task unless it was already woken, and the task behind each one that may be gone. Called
    /// when there may be room.
    pub(crate) fn wake_next(&mut self, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.iter_mut().flat_map(|waiting| waiting.iter_mut());
        for waiting in waiting.filter(|waiting| !waiting.blocked) {
            to_wake.extend(waiting.waker.take());
            if !waiting.may_be_gone {
                return;
            }
        }
    }

    /// Wakes the first task that waits for room on a stream, as [`wake_next`](Self::wake_next) does.
    pub(crate) fn wake_stream(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.iter_mut().flat_map(|waiting| waiting.iter_mut());
        for waiting in waiting.filter(|waiting| waiting.is_blocked_on(stream)) {
            to_wake.extend(waiting.waker.take());
            if !waiting.may_be_gone {
                return;
            }
        }
    }

    /// Wakes all tasks that send on a stream.
    pub(crate) fn wake_all_of(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.iter_mut().flat_map(|waiting| waiting.iter_mut());
        let of_stream = waiting.filter(|waiting| waiting.stream == Some(stream));
        to_wake.extend(of_stream.filter_map(|waiting| waiting.waker.take()));
    }

    /// Wakes every task and empties the queue: none of them has to wait any more.
    pub(crate) fn dissolve(&mut self, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.take();
        to_wake.extend(waiting.into_iter().flat_map(|waiting| *waiting).filter_map(|waiting| waiting.waker));
    }
}

#[cfg(test)]
mod tests;
