//! A first-in, first-out queue of tasks that wait for room in a send buffer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::task::Waker;

use strandline_proto::number::StreamId;

use super::Token;

/// A task in the queue.
#[derive(Debug)]
struct Waiting {
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
    /// True if the task was woken and may have stopped waiting.
    fn is_gone(&self) -> bool {
        self.may_be_gone && self.waker.is_none()
    }
}

/// Tasks that wait for room, in order of arrival. Only the first is woken when there is room; when it leaves,
/// whether it could send or not, it wakes the next. A task that arrives while others wait goes to the end, even
/// if there is room for its message.
///
/// The work for a task does not grow with those that wait, but for the logarithm of their number: streams
/// whose readers have stopped may be many, and wait for long.
#[derive(Debug, Default)]
pub(crate) struct Line {
    queue: Option<Box<Queue>>,
    /// The last place that was given. Its low bits are the token.
    last: u64,
}

/// Tasks by their places, which grow in order of arrival.
#[derive(Debug, Default)]
struct Queue {
    tasks: BTreeMap<u64, Waiting>,
    /// Tasks that hold up all behind them.
    holding: BTreeSet<u64>,
    /// Tasks by their streams, and those among them that are blocked.
    of_streams: BTreeSet<(StreamId, u64)>,
    blocked: BTreeSet<(StreamId, u64)>,
}

/// All places of a stream's tasks, or those before one.
fn of(stream: StreamId, last: u64) -> RangeInclusive<(StreamId, u64)> {
    (stream, 0)..=(stream, last)
}

impl Queue {
    /// Adds a task to the sets that it belongs to.
    fn list(&mut self, place: u64, stream: Option<StreamId>, blocked: bool) {
        if let Some(stream) = stream {
            self.of_streams.insert((stream, place));
        }
        match (blocked, stream) {
            (false, _) => drop(self.holding.insert(place)),
            (true, Some(stream)) => drop(self.blocked.insert((stream, place))),
            (true, None) => {}
        }
    }

    /// Removes a task from all sets.
    fn unlist(&mut self, place: u64, stream: Option<StreamId>) {
        self.holding.remove(&place);
        if let Some(stream) = stream {
            self.of_streams.remove(&(stream, place));
            self.blocked.remove(&(stream, place));
        }
    }

    /// Returns whether a task at this place that sends on a stream may try now.
    fn is_turn(&self, place: u64, stream: Option<StreamId>) -> bool {
        let is_held = self.holding.range(..place).next().is_some();
        !is_held && stream.is_none_or(|stream| !self.is_behind(place, stream))
    }

    /// Returns whether a task before this place, which has not stopped waiting, waits for room on the stream.
    fn is_behind(&self, place: u64, stream: StreamId) -> bool {
        let holds = |(_, other): &(StreamId, u64)| *other != place && !self.is_gone(*other);
        self.blocked.range(of(stream, place)).any(holds)
    }

    fn is_gone(&self, place: u64) -> bool {
        self.tasks.get(&place).is_none_or(Waiting::is_gone)
    }
}

impl Line {
    /// Returns whether no task waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_none()
    }

    /// Returns whether the task with this token, or a task that isn't queued yet, may try now to send on a
    /// stream: every task before it waits for room on another stream, or has been woken and may have stopped
    /// waiting.
    pub(crate) fn is_turn(&self, token: Token, stream: Option<StreamId>) -> bool {
        let place = self.place(token).unwrap_or(u64::MAX);
        self.queue.as_ref().is_none_or(|queue| queue.is_turn(place, stream))
    }

    /// Returns whether a task before it waits for room on the stream.
    pub(crate) fn is_behind(&self, token: Token, stream: StreamId) -> bool {
        let place = self.place(token).unwrap_or(u64::MAX);
        self.queue.as_ref().is_some_and(|queue| queue.is_behind(place, stream))
    }

    /// Returns whether a task waits to send on the stream.
    pub(crate) fn has(&self, stream: StreamId) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.of_streams.range(of(stream, u64::MAX)).next().is_some())
    }

    /// Returns the place of a task; `None` if it isn't queued.
    fn place(&self, token: Token) -> Option<u64> {
        let back = u64::from((self.last as u32).wrapping_sub(token?));
        let place = self.last.checked_sub(back)?;
        self.queue.as_ref()?.tasks.contains_key(&place).then_some(place)
    }

    /// Adds a task at the end, or updates its waker in its position. `may_be_gone` marks poll functions,
    /// whose caller may never call them again: once woken, such a task no longer blocks those behind it. A
    /// task that is `blocked` waits for room on its `stream`, and holds up only others of that stream.
    pub(crate) fn register(
        &mut self,
        token: &mut Token,
        waker: &Waker,
        may_be_gone: bool,
        stream: Option<StreamId>,
        blocked: bool,
    ) {
        let known = self.place(*token);
        let queue = self.queue.get_or_insert_default();
        if let Some((place, found)) = known.and_then(|place| Some((place, queue.tasks.get_mut(&place)?))) {
            match &mut found.waker {
                Some(old) => old.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            let before = found.stream;
            (found.stream, found.blocked) = (stream, blocked);
            queue.unlist(place, before);
            queue.list(place, stream, blocked);
            return;
        }
        self.last += 1;
        *token = Some(self.last as u32);
        let waiting = Waiting { waker: Some(waker.clone()), may_be_gone, stream, blocked };
        queue.tasks.insert(self.last, waiting);
        queue.list(self.last, stream, blocked);
    }

    /// Removes a task and wakes the one whose turn is next. Must be called for every task that stops waiting.
    pub(crate) fn leave(&mut self, token: Token, to_wake: &mut Vec<Waker>) {
        let Some(place) = self.place(token) else { return };
        let Some(queue) = &mut self.queue else { return };
        let Some(left) = queue.tasks.remove(&place) else { return };
        queue.unlist(place, left.stream);
        if queue.tasks.is_empty() {
            self.queue = None;
            return;
        }
        self.wake_next(to_wake);
        if let Some(stream) = left.stream {
            self.wake_stream(stream, to_wake);
        }
    }

    /// Wakes the first task unless it was already woken, and the task behind each one that may be gone. Called
    /// when there may be room.
    pub(crate) fn wake_next(&mut self, to_wake: &mut Vec<Waker>) {
        let Some(queue) = &mut self.queue else { return };
        while let Some(first) = queue.holding.first().copied() {
            let Some(waiting) = queue.tasks.get_mut(&first) else { return };
            to_wake.extend(waiting.waker.take());
            if !waiting.may_be_gone {
                return;
            }
            queue.holding.remove(&first);
        }
    }

    /// Wakes the first task that waits for room on a stream, as [`wake_next`](Self::wake_next) does.
    pub(crate) fn wake_stream(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let Some(queue) = &mut self.queue else { return };
        for (_, place) in queue.blocked.range(of(stream, u64::MAX)) {
            let Some(waiting) = queue.tasks.get_mut(place) else { continue };
            to_wake.extend(waiting.waker.take());
            if !waiting.may_be_gone {
                return;
            }
        }
    }

    /// Wakes all tasks that send on a stream.
    pub(crate) fn wake_all_of(&mut self, stream: StreamId, to_wake: &mut Vec<Waker>) {
        let Some(queue) = &mut self.queue else { return };
        for (_, place) in queue.of_streams.range(of(stream, u64::MAX)) {
            let Some(waiting) = queue.tasks.get_mut(place) else { continue };
            to_wake.extend(waiting.waker.take());
            if waiting.may_be_gone {
                queue.holding.remove(place);
            }
        }
    }

    /// Wakes every task and empties the queue: none of them has to wait any more.
    pub(crate) fn dissolve(&mut self, to_wake: &mut Vec<Waker>) {
        let queue = self.queue.take();
        let tasks = queue.into_iter().flat_map(|queue| queue.tasks.into_values());
        to_wake.extend(tasks.filter_map(|waiting| waiting.waker));
    }
}

#[cfg(test)]
mod tests;
