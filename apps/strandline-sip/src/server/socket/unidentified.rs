//! Strangers: accepted connections of peers that are not served, as they have neither registered nor
//! authenticated a request nor set up a call. They make way for others when descriptors or places are used
//! up.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::connections::{Connection, Connections, Room};

/// Minimum number of strangers closed at a time; otherwise a quarter of them is closed.
const SHED_MIN: usize = 16;

impl Connections {
    /// Returns true if this peer may have another connection. If there are too many in total, strangers are
    /// closed. `is_identified`: whether the peer of a connection is served.
    pub(in crate::server) fn makes_room(
        &self,
        peer: SocketAddr,
        room: &Room,
        now: Duration,
        is_identified: impl Fn(u64) -> bool,
    ) -> bool {
        self.strangers.borrow_mut().mark(now, self.next_number());
        if self.has_room(peer, room) {
            self.strangers.borrow_mut().places = 0;
            return true;
        }
        if !self.has_room(peer, &Room { connections: usize::MAX, ..*room }) {
            return false;
        }
        let shed = self.shed_strangers(now, is_identified);
        let mut strangers = self.strangers.borrow_mut();
        if shed > 0 {
            strangers.places = shed;
        }
        let has_place = strangers.places > 0;
        strangers.places = strangers.places.saturating_sub(1);
        has_place
    }

    /// Connections and associations with lower numbers than this are not new: their first message would have
    /// arrived.
    pub(in crate::server) fn settled_below(&self, now: Duration) -> u64 {
        let mut strangers = self.strangers.borrow_mut();
        strangers.mark(now, self.next_number());
        strangers.old_below(now)
    }

    /// Closes strangers to free their descriptors, and returns how many: first the oldest ones that have sent
    /// no message, then those that have been silent for longest. They end once their readers notice.
    pub(in crate::server) fn shed_strangers(
        &self,
        now: Duration,
        is_identified: impl Fn(u64) -> bool,
    ) -> usize {
        let mut strangers = self.strangers.borrow_mut();
        strangers.mark(now, self.next_number());
        if !strangers.looks(now) {
            return 0;
        }
        let old_below = strangers.old_below(now);
        drop(strangers);
        let by_id = self.by_id.borrow();
        let is_stranger =
            |one: &&Rc<Connection>| one.id < old_below && one.accepted.get() && !is_identified(one.id);
        let mut found: Vec<Rc<Connection>> = by_id.values().filter(is_stranger).cloned().collect();
        drop(by_id);
        let count = (found.len() / 4).max(SHED_MIN).min(found.len());
        let now_secs = self.now_secs.get();
        found.sort_unstable_by_key(|one| match one.life.is_mute() {
            true => (false, 0, one.id),
            false => (true, one.life.last_heard(now_secs), one.id),
        });
        found.truncate(count);
        for stranger in &found {
            tracing::debug!(peer = %stranger.peer, "connection of a stranger closed to make room");
            stranger.close();
        }
        count
    }
}

#[cfg(test)]
mod tests;
