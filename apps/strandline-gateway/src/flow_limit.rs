//! The limit of UDP flows with a peer: how many at the same time, and how many new ones per second. Anybody can
//! begin flows with datagrams from forged addresses, so that they must take nothing from connections. A socket
//! may have three times as many as are left for all, and begin as many of those that may come in a second: alone
//! it gets three quarters; others always find room.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::recent::Recent;

/// How much of what is left a socket may have.
const SHARE: u32 = 3;

/// Limits for the flows with a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowsMax {
    pub(crate) open: u32,
    pub(crate) per_sec: u32,
}

/// The flows with a peer.
#[derive(Debug, Default)]
pub(crate) struct FlowLimit(Mutex<Usage>);

#[derive(Debug, Default)]
struct Usage {
    open: u32,
    /// Flows that may come at once, and when that was counted.
    tokens: Option<(f64, Instant)>,
}

impl Usage {
    /// Returns how many flows may come at once.
    fn fill(&mut self, most: FlowsMax, now: Instant) -> &mut f64 {
        let rate = f64::from(most.per_sec);
        let (tokens, filled) = self.tokens.get_or_insert((rate, now));
        let passed = now.saturating_duration_since(*filled).as_secs_f64();
        *tokens = (*tokens + passed * rate).min(rate);
        *filled = now;
        tokens
    }
}

impl FlowLimit {
    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether any flow is open.
    pub(crate) fn is_used(&self) -> bool {
        self.lock().open > 0
    }

    /// Returns whether one more flow may come in this second, and counts it.
    pub(crate) fn may_come(&self, most: FlowsMax, now: Instant) -> bool {
        let mut usage = self.lock();
        let tokens = usage.fill(most, now);
        let may = *tokens >= 1.0;
        *tokens -= f64::from(u8::from(may));
        may
    }

    /// Returns whether one more flow of a socket may come in this second. `own` are those that came lately.
    pub(crate) fn may_come_beside(&self, own: &mut Recent, most: FlowsMax, now: Instant) -> bool {
        let tokens = *self.lock().fill(most, now);
        tokens >= 1.0 && own.count(now) < tokens * f64::from(SHARE)
    }

    /// Counts a flow of a socket that has come in this second.
    pub(crate) fn has_come(&self, own: &mut Recent, most: FlowsMax, now: Instant) {
        own.add();
        // Another socket may have come first.
        let mut usage = self.lock();
        let tokens = usage.fill(most, now);
        *tokens = (*tokens - 1.0).max(0.0);
    }

    /// Counts a flow that the peer has opened; `None` if there are as many as there may be.
    pub(crate) fn take(self: &Arc<Self>, most: FlowsMax) -> Option<FlowPermit> {
        let mut usage = self.lock();
        (usage.open < most.open).then(|| self.open(&mut usage))
    }

    /// Counts a flow of a socket that has `own`; `None` if it has its share.
    pub(crate) fn take_beside(self: &Arc<Self>, own: usize, most: FlowsMax) -> Option<FlowPermit> {
        let mut usage = self.lock();
        let free = most.open.saturating_sub(usage.open);
        let share = usize::try_from(free.saturating_mul(SHARE)).unwrap_or(usize::MAX);
        (own < share).then(|| self.open(&mut usage))
    }

    /// Returns how many flows of a socket that has `own` must end before one more has room.
    pub(crate) fn lacks(&self, own: usize, most: FlowsMax) -> usize {
        // After `ended` it has `own - ended`, which must be less than its share of `free + ended`.
        let free = i64::from(most.open) - i64::from(self.lock().open);
        let share = free.saturating_mul(i64::from(SHARE));
        let beyond = i64::try_from(own).unwrap_or(i64::MAX).saturating_sub(share);
        if beyond < 0 {
            return 0;
        }
        usize::try_from(beyond / i64::from(SHARE + 1) + 1).unwrap_or(usize::MAX)
    }

    fn open(self: &Arc<Self>, usage: &mut Usage) -> FlowPermit {
        usage.open += 1;
        FlowPermit(Arc::new(Slot { limit: Arc::clone(self), is_held: AtomicBool::new(true) }))
    }
}

/// A flow that counts until it is released.
#[derive(Debug)]
pub(crate) struct Slot {
    limit: Arc<FlowLimit>,
    is_held: AtomicBool,
}

impl Slot {
    /// Counts the flow no longer.
    pub(crate) fn release(&self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            let mut usage = self.limit.lock();
            usage.open = usage.open.saturating_sub(1);
        }
    }
}

/// A flow that counts until this value is dropped, or it is released.
#[derive(Debug)]
pub(crate) struct FlowPermit(Arc<Slot>);

impl FlowPermit {
    /// Returns what releases the flow before it has ended.
    pub(crate) fn slot(&self) -> Arc<Slot> {
        Arc::clone(&self.0)
    }
}

impl Drop for FlowPermit {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests;
