//! The future that waits for a shard: it tries an operation under the lock, and waits in a queue if the
//! operation isn't possible yet. Dropping it leaves nothing behind.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use strandline_proto::time::Time;

use super::core::Shard;
use super::place::Place;
use super::state::State;
use crate::wait::Token;

/// Tries an operation until it succeeds. Nothing happens before it succeeds, so it can be dropped at any time.
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub(crate) struct Attempt<'a, F, A = fn(&State) -> bool> {
    shard: &'a Shard,
    place: Place,
    token: Token,
    /// Returns whether it need not wait for earlier ones in the queue.
    is_ahead: A,
    run: F,
}

impl<'a, F, A: Fn(&State) -> bool> Attempt<'a, F, A> {
    /// As [`new`](Attempt::new), but doesn't wait for earlier ones in the queue if `is_ahead`.
    pub(crate) fn ahead_if<T>(shard: &'a Shard, place: Place, is_ahead: A, run: F) -> Self
    where
        F: FnMut(&mut State, Time) -> Poll<T> + Unpin,
    {
        Self { shard, place, token: None, is_ahead, run }
    }
}

impl<'a, F> Attempt<'a, F> {
    pub(crate) fn new<T>(shard: &'a Shard, place: Place, run: F) -> Self
    where
        F: FnMut(&mut State, Time) -> Poll<T> + Unpin,
    {
        Self { shard, place, token: None, is_ahead: |_| false, run }
    }
}

impl<T, F, A> Future for Attempt<'_, F, A>
where
    F: FnMut(&mut State, Time) -> Poll<T> + Unpin,
    A: Fn(&State) -> bool + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        poll_ahead(this.shard, this.place, &mut this.token, cx, &this.is_ahead, &mut this.run)
    }
}

impl<F, A> Drop for Attempt<'_, F, A> {
    fn drop(&mut self) {
        forget(self.shard, self.place, &mut self.token);
    }
}

/// Tries the operation once: for the futures above, and for types with their own poll functions.
pub(crate) fn poll<T>(
    shard: &Shard,
    place: Place,
    token: &mut Token,
    cx: &mut Context<'_>,
    run: impl FnMut(&mut State, Time) -> Poll<T>,
) -> Poll<T> {
    poll_ahead(shard, place, token, cx, |_| false, run)
}

/// As [`poll`], but doesn't wait for earlier ones in the queue if `is_ahead`.
pub(crate) fn poll_ahead<T>(
    shard: &Shard,
    place: Place,
    token: &mut Token,
    cx: &mut Context<'_>,
    is_ahead: impl FnOnce(&State) -> bool,
    mut run: impl FnMut(&mut State, Time) -> Poll<T>,
) -> Poll<T> {
    // Takes part in tokio's cooperative budget, so that a task that always succeeds lets others run.
    let budget = std::task::ready!(tokio::task::coop::poll_proceed(cx));
    let result = shard.with(|state, now| {
        state.blocked_stream = None;
        if !state.is_turn(place, *token) && !is_ahead(state) && state.wait(place, token, cx.waker()) {
            return Poll::Pending;
        }
        match run(state, now) {
            Poll::Ready(value) => {
                state.stop_waiting(place, token.take(), false);
                Poll::Ready(value)
            }
            Poll::Pending if state.wait(place, token, cx.waker()) => Poll::Pending,
            // Nothing is left to wait for: the result is final now.
            Poll::Pending => run(state, now),
        }
    });
    if result.is_ready() {
        budget.made_progress();
    }
    result
}

/// Stops waiting.
pub(crate) fn forget(shard: &Shard, place: Place, token: &mut Token) {
    if let Some(token) = token.take() {
        shard.with(|state, _| state.stop_waiting(place, Some(token), true));
    }
}
