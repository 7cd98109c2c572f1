//! Waits on several shards at once, for the first that has a result.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use strandline_proto::time::Time;

use super::attempt::{self, forget};
use super::core::Shard;
use super::place::Place;
use super::state::State;
use crate::wait::Token;

/// A socket on every shard of a stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Everywhere<'a> {
    pub(crate) shards: &'a [Arc<Shard>],
    /// The socket's index on each shard.
    pub(crate) sockets: &'a [u32],
    /// The shard that is asked first.
    pub(crate) turn: &'a AtomicUsize,
}

/// A socket on one shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) shard: u16,
    pub(crate) socket: u32,
}

/// Records which shards are finished for a caller that waits on all of them.
#[derive(Debug)]
pub(crate) struct Finished {
    /// One bit for each shard; a stack has at most 64.
    shards: u64,
    all: u64,
}

impl Finished {
    /// Creates the record for a number of shards, none of them finished.
    pub(crate) fn of(count: usize) -> Self {
        Self { shards: 0, all: u64::MAX.checked_shr(64_u32.saturating_sub(count as u32)).unwrap_or(0) }
    }

    /// Passes on the result of one shard. An error that means that the shard is finished is passed on only once
    /// all shards are.
    pub(crate) fn unless_all<T, E>(
        &mut self,
        at: At,
        result: Poll<Result<T, E>>,
        is_finished: impl FnOnce(&E) -> bool,
    ) -> Poll<Result<T, E>> {
        let bit = 1_u64.checked_shl(at.shard.into()).unwrap_or(0);
        match result {
            Poll::Ready(Err(error)) if is_finished(&error) => {
                self.shards |= bit;
                if self.shards == self.all { Poll::Ready(Err(error)) } else { Poll::Pending }
            }
            other => {
                self.shards &= !bit;
                other
            }
        }
    }
}

/// Tries each shard in turn once, without waiting. Returns the first result, or the error of a shard if no other has a
/// result.
pub(crate) fn try_any<T, E>(
    socket: Everywhere<'_>,
    mut run: impl FnMut(&mut State, Time, At) -> Poll<Result<T, E>>,
) -> Poll<Result<(u16, T), E>> {
    let Everywhere { shards, sockets, turn } = socket;
    let (first, mut failed) = (turn.load(Ordering::Relaxed), Poll::Pending);
    for step in 0..shards.len() {
        let index = first.wrapping_add(step) % shards.len();
        let (Some(shard), Some(socket)) = (shards.get(index), sockets.get(index)) else { continue };
        let at = At { shard: index as u16, socket: *socket };
        match shard.with(|state, now| run(state, now, at)) {
            Poll::Ready(Ok(value)) => {
                turn.store(index + 1, Ordering::Relaxed);
                return Poll::Ready(Ok((at.shard, value)));
            }
            Poll::Ready(Err(error)) => failed = Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
    }
    failed
}

/// A future that tries each shard in turn until one succeeds, and returns that shard and its result. Nothing
/// happens before it succeeds, so it can be dropped at any time. A shard's error is returned only if no other
/// shard has a result.
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub(crate) struct AnyAttempt<'a, F> {
    socket: Everywhere<'a>,
    place: fn(u32) -> Place,
    /// The shards where the task waits, with its token on each.
    waiting: Vec<(usize, Token)>,
    run: F,
}

impl<'a, F> AnyAttempt<'a, F> {
    /// `run` receives a shard's state and the socket's location.
    pub(crate) fn new<T, E>(socket: Everywhere<'a>, place: fn(u32) -> Place, run: F) -> Self
    where
        F: FnMut(&mut State, Time, At) -> Poll<Result<T, E>> + Unpin,
    {
        Self { socket, place, waiting: Vec::new(), run }
    }

    /// Stops waiting on all shards.
    fn forget_all(&mut self) {
        for (index, mut token) in self.waiting.drain(..) {
            if let (Some(shard), Some(socket)) =
                (self.socket.shards.get(index), self.socket.sockets.get(index))
            {
                forget(shard, (self.place)(*socket), &mut token);
            }
        }
    }

    fn take_token(&mut self, index: usize) -> Token {
        let found = self.waiting.iter().position(|(waiting, _)| *waiting == index)?;
        self.waiting.swap_remove(found).1
    }
}

impl<T, E, F> Future for AnyAttempt<'_, F>
where
    F: FnMut(&mut State, Time, At) -> Poll<Result<T, E>> + Unpin,
{
    type Output = Result<(u16, T), E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Everywhere { shards, sockets, turn } = this.socket;
        let (first, mut failed) = (turn.load(Ordering::Relaxed), None);
        for step in 0..shards.len() {
            let index = first.wrapping_add(step) % shards.len();
            let (Some(shard), Some(socket)) = (shards.get(index), sockets.get(index)) else { continue };
            let mut token = this.take_token(index);
            let at = At { shard: index as u16, socket: *socket };
            let run = |state: &mut State, now| (this.run)(state, now, at);
            let tried = attempt::poll(shard, (this.place)(*socket), &mut token, cx, run);
            if token.is_some() {
                this.waiting.push((index, token));
            }
            match tried {
                Poll::Ready(Ok(value)) => {
                    turn.store(index + 1, Ordering::Relaxed);
                    this.forget_all();
                    return Poll::Ready(Ok((at.shard, value)));
                }
                Poll::Ready(Err(error)) => failed = Some(error),
                Poll::Pending => {}
            }
        }
        match failed {
            Some(error) => {
                this.forget_all();
                Poll::Ready(Err(error))
            }
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for AnyAttempt<'_, F> {
    fn drop(&mut self) {
        self.forget_all();
    }
}
