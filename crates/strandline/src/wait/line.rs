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
    /// The task waits for room on this stream, which keeps no others from theirs.
    stream: Option<StreamId>,
}

impl Waiting {
    /// True if those behind it need not wait for it.
    fn lets_others_pass(&self) -> bool {
        self.stream.is_some() || (self.may_be_gone && self.waker.is_none())
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

    /// Returns whether the task with this token, or a task that isn't queued yet, may try now: every task
    /// before it has been woken and may have stopped waiting.
    pub(crate) fn is_turn(&self, token: Token) -> bool {
        let ahead = self.waiting.iter().flat_map(|waiting| waiting.iter());
        let mut ahead = ahead.take_while(|waiting| Some(waiting.token) != token);
        ahead.all(Waiting::lets_others_pass)
    }

    /// Adds a task at the end, or updates its waker in its position. `may_be_gone` marks poll functions, whose
    /// caller may never call them again: once woken, such a task no longer blocks those behind it. Nor does a task that
    /// waits for room on a `stream`.
    pub(crate) fn register(
        &mut self,
        token: &mut Token,
        waker: &Waker,
        may_be_gone: bool,
        stream: Option<StreamId>,
    ) {
        let waiting = self.waiting.get_or_insert_default();
        if let Some(found) = waiting.iter_mut().find(|waiting| Some(waiting.token) == *token) {
            match &mut found.waker {
                Some(old) => old.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            found.stream = stream;
            return;
        }
        self.last_token = self.last_token.wrapping_add(1);
        *token = Some(self.last_token);
        waiting.push_back(Waiting {
            token: self.last_token,
            waker: Some(waker.clone()),
            may_be_gone,
            stream,
        });
    }

    /// Removes a task and wakes the one whose turn is next. Must be called for every task that stops waiting.
    pub(crate) fn leave(&mut self, token: Token, to_wake: &mut Vec<Waker>) {
        let Some(waiting) = &mut self.waiting else { return };
        let Some(at) = waiting.iter().position(|waiting| Some(waiting.token) == token) else { return };
        waiting.remove(at);
        self.wake_next(to_wake);
    }

    /// Wakes the first task unless it was already woken, and the task behind each one that may be gone. Called
    /// when there may be room.
    pub(crate) fn wake_next(&mut self, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.iter_mut().flat_map(|waiting| waiting.iter_mut());
        for waiting in waiting.filter(|waiting| waiting.stream.is_none()) {
            to_wake.extend(waiting.waker.take());
            if !waiting.may_be_gone {
                return;
            }
        }
    }

    /// Wakes the tasks that wait for room on a stream.
    pub(crate) fn wake_stream(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.iter_mut().flat_map(|waiting| waiting.iter_mut());
        for waiting in waiting.filter(|waiting| waiting.stream == Some(stream)) {
            to_wake.extend(waiting.waker.take());
        }
    }

    /// Wakes every task and empties the queue: none of them has to wait any more.
    pub(crate) fn dissolve(&mut self, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.take();
        to_wake.extend(waiting.into_iter().flat_map(|waiting| *waiting).filter_map(|waiting| waiting.waker));
    }
}

#[cfg(test)]
mod tests;
