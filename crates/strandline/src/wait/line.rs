//! A line of tasks that wait for room: served in the order in which they came.

use std::collections::VecDeque;
use std::task::Waker;

use super::Token;

/// A task in the line.
#[derive(Debug)]
struct Waiting {
    token: u32,
    /// Taken when the task is woken, and given back when it waits on.
    waker: Option<Waker>,
    /// The task may have stopped waiting without a word: see [`Line::register`].
    may_be_gone: bool,
}

/// Tasks that wait for room. Only the first is woken when there is some; it wakes the next one when it leaves, served or not.
/// A task that comes while others wait goes to the end, even if there is room for it.
///
/// It allocates when a task has to wait, and keeps that memory.
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
    /// True if no task waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.as_ref().is_none_or(|waiting| waiting.is_empty())
    }

    /// Whether the task with this token, or one that doesn't wait yet, may try now: every task before it has been woken and may
    /// be gone.
    pub(crate) fn is_turn(&self, token: Token) -> bool {
        let ahead = self.waiting.iter().flat_map(|waiting| waiting.iter());
        let mut ahead = ahead.take_while(|waiting| Some(waiting.token) != token);
        ahead.all(|waiting| waiting.may_be_gone && waiting.waker.is_none())
    }

    /// Enters a task at the end, or renews its entry in its place. `may_be_gone`: a poll function waits, whose caller may never
    /// call it again; when such a task is woken, it no longer keeps out those behind it.
    pub(crate) fn register(&mut self, token: &mut Token, waker: &Waker, may_be_gone: bool) {
        let waiting = self.waiting.get_or_insert_default();
        if let Some(found) = waiting.iter_mut().find(|waiting| Some(waiting.token) == *token) {
            match &mut found.waker {
                Some(old) => old.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return;
        }
        self.last_token = self.last_token.wrapping_add(1);
        *token = Some(self.last_token);
        waiting.push_back(Waiting { token: self.last_token, waker: Some(waker.clone()), may_be_gone });
    }

    /// Takes a task out, and wakes the one whose turn it is then. To be called for every task that stops waiting.
    pub(crate) fn leave(&mut self, token: Token, to_wake: &mut Vec<Waker>) {
        let Some(waiting) = &mut self.waiting else { return };
        let Some(at) = waiting.iter().position(|waiting| Some(waiting.token) == token) else { return };
        waiting.remove(at);
        self.wake_next(to_wake);
    }

    /// There may be room: wakes the first task, unless it has been woken, and the one behind each that may be gone.
    pub(crate) fn wake_next(&mut self, to_wake: &mut Vec<Waker>) {
        for waiting in self.waiting.iter_mut().flat_map(|waiting| waiting.iter_mut()) {
            to_wake.extend(waiting.waker.take());
            if !waiting.may_be_gone {
                return;
            }
        }
    }

    /// Wakes every task and empties the line: none of them has to wait any more.
    pub(crate) fn dissolve(&mut self, to_wake: &mut Vec<Waker>) {
        let waiting = self.waiting.take();
        to_wake.extend(waiting.into_iter().flat_map(|waiting| *waiting).filter_map(|waiting| waiting.waker));
    }
}

#[cfg(test)]
mod tests;
