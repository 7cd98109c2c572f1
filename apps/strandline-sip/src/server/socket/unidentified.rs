//! Strangers: accepted connections on which no complete message has arrived yet. They make way for others
//! when descriptors or places are used up.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::connections::{Connection, Connections, Room};

/// Minimum number of strangers closed at a time; otherwise a quarter of them is closed.
const SHED_MIN: usize = 16;

impl Connections {
    /// Returns true if this peer may have another connection. If there are too many in total, the oldest
    /// strangers are closed.
    pub(in crate::server) fn makes_room(&self, peer: SocketAddr, room: &Room, now: Duration) -> bool {
        self.strangers.borrow_mut().mark(now, self.next_number());
        if self.has_room(peer, room) {
            self.strangers.borrow_mut().places = 0;
            return true;
        }
        if !self.has_room(peer, &Room { connections: usize::MAX, ..*room }) {
            return false;
        }
        let shed = self.shed_strangers(now);
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

    /// Closes the oldest strangers to free their descriptors, and returns how many. They end once their
    /// readers notice.
    pub(in crate::server) fn shed_strangers(&self, now: Duration) -> usize {
        let mut strangers = self.strangers.borrow_mut();
        strangers.mark(now, self.next_number());
        if !strangers.looks(now) {
            return 0;
        }
        let old_below = strangers.old_below(now);
        drop(strangers);
        let by_id = self.by_id.borrow();
        let is_old = |one: &&Rc<Connection>| one.id < old_below && one.accepted.get() && one.life.is_mute();
        let mut found: Vec<Rc<Connection>> = by_id.values().filter(is_old).cloned().collect();
        drop(by_id);
        let count = (found.len() / 4).max(SHED_MIN).min(found.len());
        found.sort_unstable_by_key(|one| one.id);
        found.truncate(count);
        for stranger in &found {
            tracing::debug!(peer = %stranger.peer, "connection without a message closed to make room");
            stranger.close();
        }
        count
    }
}

#[cfg(test)]
mod tests;
