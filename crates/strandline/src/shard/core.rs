//! The shard: the part shared by the driver and all handles.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Poll, Waker};

use strandline_proto::time::Time;

use super::outbox::{BURSTS_MAX, Sent};
use super::secure::next_timeout;
use super::state::State;
use super::steer::Steer;
use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::observe::PacketObserver;

/// Bytes queued in the engine in a row before the sending task sends packets itself, so that a task that never
/// pauses keeps the network busy. Below that the driver sends as soon as the task pauses, and small messages
/// share packets. With headers this is slightly more than a full burst; only one burst is sent, because a
/// second would be short.
const INLINE_BYTES: usize = 64 << 10;

/// Limit of bytes of small messages on the fast path in a row, and the bytes counted for each message beyond
/// its own: past the limit the clock is read and tokio asked whether another task should run.
const ROW_BYTES: usize = 2048;
const MESSAGE_BYTES: usize = 64;

/// Aligned so that no two shards share a cache line, or the pair of lines that processors prefetch together.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    pub(crate) clock: Clock,
    pub(crate) carrier: Carrier,
    pub(crate) observer: Option<Arc<dyn PacketObserver>>,
    /// The state for steering packets between shards, if there are several.
    pub(crate) steer: Option<Arc<Steer>>,
    state: Mutex<State>,
    waits: Waits,
}

/// Counters of contention for the lock.
#[derive(Debug, Default)]
struct Waits {
    /// Both tasks worked with the state: the driver, or tasks that send and receive.
    between_users: AtomicU64,
    /// One of the tasks only read the state.
    with_looks: AtomicU64,
    /// Readers that began to take the lock (counted before) and readers that released it (counted after): while
    /// the second counter is behind the first, a reader is active.
    looks_begun: AtomicU64,
    looks_ended: AtomicU64,
}

/// Read-only access to a shard's state, for statistics, often from another thread than the shard's.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    state: MutexGuard<'a, State>,
    /// Declared after the lock guard, so that it is dropped once the lock is released.
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

    /// Runs a function with the state locked, then its consequences: dispatches events, wakes the driver if it
    /// has something to do, and wakes tasks after releasing the lock.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&mut State, Time) -> T) -> T {
        let mut state = self.lock();
        let now = self.clock.now();
        state.now = now;
        let result = run(&mut state, now);
        state.dispatch(now);
        if !state.gone {
            if state.out.queued_bytes >= INLINE_BYTES && !state.out.is_blocked() {
                let State { engine, out, secure, .. } = &mut *state;
                let secure = secure.as_deref_mut();
                out.run(engine, secure, &self.carrier, self.observer.as_deref(), now, 1);
            }
            let has_work = state.engine.has_transmit() || self.carrier.errors_pending();
            let next = next_timeout(&state.engine, state.secure.as_deref());
            let earlier = next.is_some_and(|at| at < state.armed);
            if has_work || earlier {
                state.wake_driver();
            }
        }
        let woken = std::mem::take(&mut state.to_wake);
        drop(state);
        wake(woken);
        result
    }

    /// Fast path for a small message when only the message has to be handled: the driver is already awake and
    /// does the rest, and the clock was read a moment ago. Returns `None` if this is not the case, or if
    /// another task is first in the queue; `run` returns whether it succeeded.
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

    /// Locks the state for callers that handle the consequences themselves, as the driver does.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let ended = self.waits.looks_ended.load(Ordering::Acquire);
        self.try_lock().unwrap_or_else(|| {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            // A reader was active, or has been since: it may have held the lock.
            let looked = self.waits.looks_begun.load(Ordering::Relaxed) != ended;
            let counter = if looked { &self.waits.with_looks } else { &self.waits.between_users };
            counter.fetch_add(1, Ordering::Relaxed);
            state
        })
    }

    /// Locks the state for reading only.
    pub(crate) fn look(&self) -> Look<'_> {
        self.waits.looks_begun.fetch_add(1, Ordering::Relaxed);
        let state = self.try_lock().unwrap_or_else(|| {
            self.waits.with_looks.fetch_add(1, Ordering::Relaxed);
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        });
        Look { state, _end: LookEnd(&self.waits) }
    }

    /// Returns `None` if the lock is held. A poisoned lock is used regardless: a panic elsewhere must not end
    /// all associations, and the engine's state is consistent between calls.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns how often the lock was contended: between tasks that work with the associations, and with tasks
    /// that only read.
    pub(crate) fn lock_waits(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.waits.between_users), read(&self.waits.with_looks))
    }

    /// Passes ICMP messages that arrived to the engine.
    pub(crate) fn take_errors(&self, state: &mut State, now: Time) {
        let State { engine, to_wake, secure, .. } = state;
        if let Some(secure) = secure {
            return self.carrier.take_errors(|error| secure.handle_icmp(engine, now, &error));
        }
        // On raw IP every socket receives all ICMP messages.
        let steer = self.steer.as_deref().filter(|_| self.carrier.raw().is_none());
        self.carrier.take_errors(|error| match steer {
            None => engine.handle_icmp(now, error),
            Some(steer) => steer.handle_icmp(engine, now, error, to_wake),
        });
    }

    /// Sends the packets that the engine has ready.
    pub(crate) fn transmit(&self, state: &mut State, now: Time) -> Sent {
        let State { engine, out, secure, .. } = state;
        out.run(engine, secure.as_deref_mut(), &self.carrier, self.observer.as_deref(), now, BURSTS_MAX)
    }
}

/// Wakes tasks. Must be called without the lock.
pub(crate) fn wake(woken: Vec<Waker>) {
    for waker in woken {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
