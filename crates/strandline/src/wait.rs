//! Queues of tasks that wait for an action of another task or of the driver.

mod line;

use std::collections::VecDeque;
use std::task::Waker;

pub(crate) use self::line::Line;

/// A waiting future's position in a queue; `None` before it has waited.
pub(crate) type Token = Option<u32>;

/// A queue of wakers of waiting tasks. A single waker needs no allocation. Dropped futures leave nothing behind
/// if they call [`remove`](Self::remove).
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    first: Option<(u32, Waker)>,
    more: Option<Box<More>>,
    last_token: u32,
}

/// Allocated separately, because several tasks rarely wait for the same event.
#[derive(Debug, Default)]
struct More {
    waiting: VecDeque<(u32, Waker)>,
}

impl WaitQueue {
    /// Adds a task, or updates its waker.
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
        // Only an empty queue uses the first slot, so that later tasks are woken later.
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

    /// Returns whether no task waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.as_ref().is_none_or(|more| more.waiting.is_empty())
    }

    /// Removes a task. Returns false if it was not in the queue because it has been woken.
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

    /// Removes all wakers; the caller wakes them once it holds no lock.
    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        to_wake.extend(self.first.take().map(|(_, waker)| waker));
        if let Some(more) = self.more.take() {
            to_wake.extend(more.waiting.into_iter().map(|(_, waker)| waker));
        }
    }

    /// Removes the waker of the task that has waited longest.
    pub(crate) fn wake_one(&mut self, to_wake: &mut Vec<Waker>) {
        let next = self.first.take().or_else(|| self.more.as_mut()?.waiting.pop_front());
        to_wake.extend(next.map(|(_, waker)| waker));
    }
}

/// Tasks that wait for something that only one of them can take, such as a message, and tasks that only watch whether
/// there is something to take.
#[derive(Debug, Default)]
pub(crate) struct Takers {
    pub(crate) takers: WaitQueue,
    pub(crate) watchers: WaitQueue,
}

impl Takers {
    /// Removes the wakers of the task that has waited longest to take, and of all that watch.
    pub(crate) fn wake_one(&mut self, to_wake: &mut Vec<Waker>) {
        self.takers.wake_one(to_wake);
        self.watchers.wake_all(to_wake);
    }

    /// Removes all wakers.
    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        self.takers.wake_all(to_wake);
        self.watchers.wake_all(to_wake);
    }
}

#[cfg(test)]
mod tests;
