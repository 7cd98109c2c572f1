//! Closes idle connections.

use std::rc::Rc;
use std::time::Duration;

use super::account::largest;
use super::connection_limits::ConnectionLimits;
use super::connections::{Connection, Connections};

/// Maximum number of schedule entries for closed connections.
const GONE_MAX: usize = 4096;

/// Returns true if a connection must be closed. `silent` is how long nothing was received, and `silence_max`
/// the limit for that.
fn is_over(
    (accepted, mute): (bool, bool),
    silent: Duration,
    silence_max: Option<Duration>,
    limits: &ConnectionLimits,
) -> bool {
    (accepted && mute && silent >= limits.first_message) || silence_max.is_some_and(|most| silent >= most)
}

impl Connections {
    /// Closes idle connections, and the largest ones if the buffers exceed their limit. `silence_max` returns
    /// how long a connection may be silent. Call it every second.
    pub(in crate::server) fn let_go(&self, now: Duration, silence_max: impl Fn(u64) -> Option<Duration>) {
        // Never 0, which has a special meaning in `Activity`.
        let now_secs = now.as_secs().saturating_add(1) as u32;
        self.now_secs.set(now_secs);
        let limits = self.limits.get();
        loop {
            let Some(id) = self.watch.borrow_mut().next(now_secs) else { break };
            let Some(connection) = self.by_id.borrow().get(&id).cloned() else { continue };
            let since = connection.life.silent_since(now_secs);
            let silent = Duration::from_secs(u64::from(now_secs.saturating_sub(since)));
            let stuck = Duration::from_secs(u64::from(connection.life.stuck(now_secs, connection.waits())));
            let what = (connection.accepted.get(), connection.life.is_mute());
            if is_over(what, silent, silence_max(id), &limits) {
                tracing::debug!(peer = %connection.peer, "idle connection closed");
                connection.close();
            } else if stuck >= limits.write {
                tracing::debug!(peer = %connection.peer, "connection closed: the peer stopped reading");
                connection.give_up();
            }
            self.watch.borrow_mut().add(now_secs, id);
        }
        let by_id = self.by_id.borrow();
        self.watch.borrow_mut().forget(2 * by_id.len() + GONE_MAX, |id| by_id.contains_key(&id));
        drop(by_id);
        self.keep_to_account();
    }

    /// Closes the connections with the largest buffers if the total exceeds the limit.
    pub(in crate::server) fn keep_to_account(&self) {
        let (bytes, most) = (self.account.bytes(), self.limits.get().buffered_bytes_max);
        if bytes <= most {
            return;
        }
        let by_id = self.by_id.borrow();
        let shares: Vec<(usize, Rc<Connection>)> =
            by_id.values().filter(|one| one.kept() > 0).map(|one| (one.kept(), Rc::clone(one))).collect();
        drop(by_id);
        for connection in largest(shares, bytes, most) {
            tracing::debug!(peer = %connection.peer, "connection closed: connections.buffered_bytes_max is exceeded");
            connection.give_up();
        }
    }
}

#[cfg(test)]
mod tests;
