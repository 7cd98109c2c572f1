//! Strangers: accepted connections on which no whole message has come yet. They make way for others when descriptors or places
//! are used up.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::connections::{Connection, Connections, Room};

/// Strangers shed at a time: at least so many, and otherwise a quarter of them.
const SHED_MIN: usize = 16;

impl Connections {
    /// Returns whether this peer may have another connection. When there are too many in all, the oldest strangers make way.
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

    /// Connections and associations with lower numbers are no newcomers: their first message would have come.
    pub(in crate::server) fn settled_below(&self, now: Duration) -> u64 {
        let mut strangers = self.strangers.borrow_mut();
        strangers.mark(now, self.next_number());
        strangers.old_below(now)
    }

    /// Closes the oldest strangers, to free their descriptors. Returns how many. They end once their readers have seen it.
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
            tracing::debug!(peer = %stranger.peer, "closed to make room: no message has come");
            stranger.close();
        }
        count
    }
}

#[cfg(test)]
mod tests;
