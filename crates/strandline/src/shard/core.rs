//! The shard itself: what the driver and all handles share.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Poll, Waker};

use strandline_proto::time::Time;

use super::outbox::{BURSTS_MAX, Sent};
use super::state::State;
use super::steer::Steer;
use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::observe::PacketObserver;

/// Bytes given to the engine in a row before their sender sends them itself, so that a task that never pauses keeps
/// the network busy. Below that the driver does it, as soon as the sender pauses: small messages then share packets.
/// With the headers it is somewhat more than a full burst, and only one burst goes: a second one would be short.
const INLINE_BYTES: usize = 64 << 10;

/// Bytes of small messages that take the short way in a row, and what each counts for beyond its own: after that the
/// clock is read and tokio asked whether another task should run.
const ROW_BYTES: usize = 2048;
const MESSAGE_BYTES: usize = 64;

/// Aligned so that no two share a cache line, nor the pair of lines that processors fetch at once.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    pub(crate) clock: Clock,
    pub(crate) carrier: Carrier,
    pub(crate) observer: Option<Arc<dyn PacketObserver>>,
    /// What it knows of the stack's other shards, if there are any.
    pub(crate) steer: Option<Arc<Steer>>,
    state: Mutex<State>,
    waits: Waits,
}

/// Who had to wait for the lock.
#[derive(Debug, Default)]
struct Waits {
    /// Of two who both work with the state: the driver, tasks that send and receive.
    between_users: AtomicU64,
    /// Where one of the two only looked at it.
    with_looks: AtomicU64,
    /// Looks that wanted the lock, counted before they did, and looks that have let go of it, counted afterwards: as long as
    /// the second hasn't caught up with the first, somebody looks.
    looks_begun: AtomicU64,
    looks_ended: AtomicU64,
}

/// A shard's state for looking only: for statistics and the like, often from another thread than the shard's.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    state: MutexGuard<'a, State>,
    /// Behind the lock, so that it is dropped once that was let go.
    _end: LookEnd<'a>,
}

#[derive(Debug)]
struct LookEnd<'a>(&'a Waits);

impl Deref for Look<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl Drop for LookEnd<'_> {
    fn drop(&mut self) {
        self.0.looks_ended.fetch_add(1, Ordering::Release);
    }
}

impl Shard {
    pub(crate) fn new(
        clock: Clock,
        carrier: Carrier,
        observer: Option<Arc<dyn PacketObserver>>,
        steer: Option<Arc<Steer>>,
        state: State,
    ) -> Self {
        Self { clock, carrier, observer, steer, state: Mutex::new(state), waits: Waits::default() }
    }

    /// Runs something with the state locked, and then whatever follows from it: events are handed out, the driver is
    /// told if there is something for it to do, and tasks are woken once the lock is let go.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&mut State, Time) -> T) -> T {
        let mut state = self.lock();
        let now = self.clock.now();
        state.now = now;
        let result = run(&mut state, now);
        state.dispatch(now);
        if !state.gone {
            if state.out.queued_bytes >= INLINE_BYTES && !state.out.is_blocked() {
                let State { engine, out, .. } = &mut *state;
                out.run(engine, &self.carrier, self.observer.as_deref(), now, 1);
            }
            let has_work = state.engine.has_transmit() || self.carrier.errors_pending();
            let earlier = state.engine.poll_timeout().is_some_and(|at| at < state.armed);
            if has_work || earlier {
                state.wake_driver();
            }
        }
        let woken = std::mem::take(&mut state.to_wake);
        drop(state);
        wake(woken);
        result
    }

    /// The short way for a small message, if nothing but the message needs to be dealt with: the driver is awake
    /// already and does the rest, and only a moment has passed since the clock was read. `None` if that doesn't hold,
    /// or if it is somebody else's turn; `run` says whether it could be done.
    pub(crate) fn with_message<T>(
        &self,
        bytes: usize,
        run: impl FnOnce(&mut State, Time) -> Poll<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        let row = state.row_bytes + bytes + MESSAGE_BYTES;
        if state.driver.is_some() || row > ROW_BYTES || state.out.queued_bytes + bytes >= INLINE_BYTES {
            state.row_bytes = 0;
            return None;
        }
        state.row_bytes = row;
        let now = state.now;
        match run(&mut state, now) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// The state, for those who do the rest themselves, as the driver does.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let ended = self.waits.looks_ended.load(Ordering::Acquire);
        self.try_lock().unwrap_or_else(|| {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            // A look was under way, or has been since: whoever had the lock then may have been that.
            let looked = self.waits.looks_begun.load(Ordering::Relaxed) != ended;
            let counter = if looked { &self.waits.with_looks } else { &self.waits.between_users };
            counter.fetch_add(1, Ordering::Relaxed);
            state
        })
    }

    /// The state, for looking only.
    pub(crate) fn look(&self) -> Look<'_> {
        self.waits.looks_begun.fetch_add(1, Ordering::Relaxed);
        let state = self.try_lock().unwrap_or_else(|| {
            self.waits.with_looks.fetch_add(1, Ordering::Relaxed);
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        });
        Look { state, _end: LookEnd(&self.waits) }
    }

    /// `None` if somebody has the lock. A panic elsewhere must not take all associations with it: the engine's state is
    /// consistent between calls.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// How often somebody had to wait for the lock so far: for others who use the associations, and for or as somebody who
    /// only looked.
    pub(crate) fn lock_waits(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.waits.between_users), read(&self.waits.with_looks))
    }

    /// Gives the engine the ICMP messages that came.
    pub(crate) fn take_errors(&self, state: &mut State, now: Time) {
        let State { engine, to_wake, .. } = state;
        // On raw IP every socket gets all messages.
        let steer = self.steer.as_deref().filter(|_| self.carrier.raw().is_none());
        self.carrier.take_errors(|error| match steer {
            None => engine.handle_icmp(now, error),
            Some(steer) => steer.handle_icmp(engine, now, error, to_wake),
        });
    }

    /// Sends what there is to send.
    pub(crate) fn transmit(&self, state: &mut State, now: Time) -> Sent {
        let State { engine, out, .. } = state;
        out.run(engine, &self.carrier, self.observer.as_deref(), now, BURSTS_MAX)
    }
}

/// Wakes tasks, without a lock.
pub(crate) fn wake(woken: Vec<Waker>) {
    for waker in woken {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
