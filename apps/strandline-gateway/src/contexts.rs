//! The associations with a peer: each is a context of congestion control, with a window of its own.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strandline::{Association, Stream};
use tokio::time::Instant;

use crate::clock::now;
use crate::fair_sharing::FairSharing;
use crate::health::{self, Seen};
use crate::loss_meter::LossMeter;
use crate::mapping::{Health, Measurement};
use crate::stacks::check_extensions;

/// Shortest and longest time until another one is set up after a failure.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// One that ends sooner counts as a failure.
const STEADY: Duration = Duration::from_secs(10);

/// An association with a peer.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) association: Association,
    /// Divides the send buffer of the association among clients.
    pub(crate) sharing: Arc<FairSharing>,
    begun: Instant,
    /// Streams of connections that use it.
    streams: AtomicU32,
    /// Whether the peer's process at the other end has handed over to another one.
    is_left: AtomicBool,
    meter: Mutex<LossMeter>,
    /// The last report of the peer about the direction from it.
    down: Mutex<Option<Measurement>>,
}

/// A stream that counts for its context until this value is dropped.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Context>);

impl InUse {
    pub(crate) fn sharing(&self) -> &Arc<FairSharing> {
        &self.0.sharing
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Context {
    pub(crate) fn new(association: Association) -> Arc<Self> {
        Arc::new(Self {
            sharing: FairSharing::new(association.clone()),
            association,
            begun: now(),
            streams: AtomicU32::new(0),
            is_left: AtomicBool::new(false),
            meter: Mutex::default(),
            down: Mutex::new(None),
        })
    }

    /// Counts a stream.
    pub(crate) fn take(self: &Arc<Self>) -> InUse {
        self.streams.fetch_add(1, Ordering::Relaxed);
        InUse(Arc::clone(self))
    }

    /// Opens a stream, which counts as in use; `None` if that is not possible any more, or the peer is no gateway.
    pub(crate) async fn open(self: &Arc<Self>) -> Option<(Association, Stream, InUse)> {
        // Count the use first, so that the association is not shut down meanwhile.
        let used = self.take();
        let stream = self.association.open_stream().await.ok()?;
        let is_gateway = self.association.status().is_some_and(|status| check_extensions(&status).is_ok());
        is_gateway.then(|| (self.association.clone(), stream, used))
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.streams.load(Ordering::Relaxed) == 0
    }

    /// Returns whether the peer has left the process that it is with.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    /// Returns its state; `None` if it has ended.
    pub(crate) fn look(&self) -> Option<Seen> {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        health::look(&self.association, &mut meter, now().saturating_duration_since(self.begun))
    }

    fn down(&self) -> MutexGuard<'_, Option<Measurement>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a report of the peer.
    pub(crate) fn set_down(&self, flow: Measurement) {
        *self.down() = Some(flow);
    }

    /// Window in bytes that each stream would have if one more were opened.
    fn share(&self) -> u64 {
        let up = self.look().map_or(0, |seen| seen.flow.window);
        let down = (*self.down()).map_or(up, |flow| flow.window);
        u64::from(up.min(down)) / u64::from(self.streams.load(Ordering::Relaxed) + 1)
    }
}

/// All contexts of a peer: the first is kept by its link, the others are there as long as they help.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    more: Vec<Arc<Context>>,
    /// Number of associations that are being set up.
    coming: u32,
    /// How often the peer has left for another process.
    moves: u32,
    /// No association is set up before this time, and the current back-off.
    not_before: Option<Instant>,
    pause: Duration,
}

/// An association that is being set up.
#[derive(Debug)]
pub(crate) struct Coming {
    moves: u32,
}

impl State {
    fn pauses(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|time| now < time)
    }

    fn pause_from(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.not_before = Some(now + self.pause);
    }
}

impl Contexts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of associations, with those that are being set up.
    pub(crate) fn count(&self) -> u32 {
        let state = self.lock();
        1 + state.coming + state.more.len() as u32
    }

    /// Counts a further association that is being set up. `None` if the maximum is reached, or the last one
    /// has failed recently.
    pub(crate) fn begin(&self, most: u32, now: Instant) -> Option<Coming> {
        let mut state = self.lock();
        let may = 1 + state.coming + (state.more.len() as u32) < most && !state.pauses(now);
        state.coming += u32::from(may);
        may.then_some(Coming { moves: state.moves })
    }

    /// Adds the association that was being set up. Returns false if the peer has meanwhile restarted.
    pub(crate) fn finish(&self, coming: Coming, context: Arc<Context>) -> bool {
        let mut state = self.lock();
        state.coming = state.coming.saturating_sub(1);
        let is_of_use = coming.moves == state.moves;
        state.more.extend(is_of_use.then_some(context));
        is_of_use
    }

    /// Records that the set-up of a further association has failed.
    pub(crate) fn fail(&self, _coming: Coming, now: Instant) {
        let mut state = self.lock();
        state.coming = state.coming.saturating_sub(1);
        state.pause_from(now);
    }

    /// Records that an association ended after `lasted`; a short one delays the next attempt.
    pub(crate) fn end(&self, lasted: Duration, now: Instant) {
        let mut state = self.lock();
        if lasted >= STEADY {
            (state.pause, state.not_before) = (Duration::ZERO, None);
        } else {
            state.pause_from(now);
        }
    }

    pub(crate) fn remove(&self, context: &Arc<Context>) {
        self.lock().more.retain(|other| !Arc::ptr_eq(other, context));
    }

    /// Forgets further associations, with a process that the peer leaves: they end with their last stream.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.moves = state.moves.wrapping_add(1);
        for context in state.more.drain(..) {
            context.is_left.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the association with the largest window for another stream.
    pub(crate) fn best(&self, first: Arc<Context>) -> Arc<Context> {
        let more = self.lock().more.clone();
        if more.is_empty() {
            return first;
        }
        let all = std::iter::once(first.clone()).chain(more);
        all.max_by_key(|context| context.share()).unwrap_or(first)
    }

    /// Returns the state of the context that another stream would use.
    pub(crate) fn health(&self, first: Arc<Context>, most: u32) -> Option<Health> {
        let best = self.best(first);
        let seen = best.look()?;
        let contexts = self.count();
        // During the back-off none can be added: report the maximum as reached.
        let most = if self.lock().pauses(now()) { contexts.min(most) } else { most };
        Some(Health {
            answers: seen.answers,
            rtt: seen.rtt,
            up: seen.flow,
            down: *best.down(),
            contexts,
            contexts_max: most,
        })
    }
}

#[cfg(test)]
mod tests;
