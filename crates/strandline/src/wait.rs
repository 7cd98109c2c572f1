//! Tasks that wait for something that another task or the driver will do.

mod line;

use std::collections::VecDeque;
use std::task::Waker;

pub(crate) use self::line::Line;

/// What a waiting future holds of its place in a queue; none before it has waited.
pub(crate) type Token = Option<u32>;

/// Wakers of waiting tasks. One costs no allocation; nothing is left behind by futures that were dropped, as long as
/// they call [`remove`](Self::remove).
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    first: Option<(u32, Waker)>,
    more: Option<Box<More>>,
    last_token: u32,
}

/// Behind a pointer, for it is rare that several tasks wait for the same thing.
#[derive(Debug, Default)]
struct More {
    waiting: VecDeque<(u32, Waker)>,
}

impl WaitQueue {
    /// Enters a task, or renews its entry.
    pub(crate) fn register(&mut self, token: &mut Token, waker: &Waker) {
        if let Some(wanted) = *token
            && let Some((_, old)) = self.entries().find(|(found, _)| *found == wanted)
        {
            old.clone_from(waker);
            return;
        }
        let number = token.unwrap_or_else(|| {
            self.last_token = self.last_token.wrapping_add(1);
            self.last_token
        });
        *token = Some(number);
        // In front only if none waits: who comes later is woken later.
        if self.is_empty() {
            self.first = Some((number, waker.clone()));
        } else {
            self.more.get_or_insert_default().waiting.push_back((number, waker.clone()));
        }
    }

    fn entries(&mut self) -> impl Iterator<Item = &mut (u32, Waker)> {
        let more = self.more.as_mut().map(|more| more.waiting.iter_mut());
        self.first.iter_mut().chain(more.into_iter().flatten())
    }

    /// True if nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.as_ref().is_none_or(|more| more.waiting.is_empty())
    }

    /// Takes a task out. False if it was not there: it has been woken.
    pub(crate) fn remove(&mut self, token: Token) -> bool {
        let Some(token) = token else { return false };
        if self.first.as_ref().is_some_and(|(found, _)| *found == token) {
            self.first = None;
            return true;
        }
        let Some(more) = &mut self.more else { return false };
        let before = more.waiting.len();
        more.waiting.retain(|(found, _)| *found != token);
        more.waiting.len() < before
    }

    /// Everybody's waker; the caller wakes them once no lock is held.
    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        to_wake.extend(self.first.take().map(|(_, waker)| waker));
        if let Some(more) = self.more.take() {
            to_wake.extend(more.waiting.into_iter().map(|(_, waker)| waker));
        }
    }

    /// The waker of the task that waits longest.
    pub(crate) fn wake_one(&mut self, to_wake: &mut Vec<Waker>) {
        let next = self.first.take().or_else(|| self.more.as_mut()?.waiting.pop_front());
        to_wake.extend(next.map(|(_, waker)| waker));
    }
}

#[cfg(test)]
mod tests;
