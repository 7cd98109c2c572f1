//! Associations of peers that may not be served: see [`unidentified`](crate::server::socket). Some make way
//! when there are too many.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use crate::transaction::Numbers;

/// When an association was heard, in seconds since the start of the server.
#[derive(Debug, Clone, Copy)]
struct Heard {
    /// The time by which it is ordered; not later than the last one.
    ordered: u32,
    last: u32,
}

#[derive(Debug, Default)]
struct All {
    /// The numbers of associations without a message; lower ones are older.
    silent: BTreeSet<u64>,
    /// The other ones, by the time of a message.
    spoke: BTreeSet<(u32, u64)>,
    heard: HashMap<u64, Heard, Numbers>,
}

impl All {
    fn remove(&mut self, connection: u64) {
        self.silent.remove(&connection);
        if let Some(heard) = self.heard.remove(&connection) {
            self.spoke.remove(&(heard.ordered, connection));
        }
    }
}

/// The associations that peers have set up, without those that were found to be served.
#[derive(Debug, Default)]
pub(super) struct Strangers(RefCell<All>);

impl Strangers {
    /// Adds an association that a peer has set up.
    pub(super) fn add(&self, connection: u64) {
        self.0.borrow_mut().silent.insert(connection);
    }

    /// Records a message.
    pub(super) fn on_message(&self, connection: u64, now_secs: u32) {
        let mut all = self.0.borrow_mut();
        if let Some(heard) = all.heard.get_mut(&connection) {
            heard.last = now_secs;
        } else if all.silent.remove(&connection) {
            all.heard.insert(connection, Heard { ordered: now_secs, last: now_secs });
            all.spoke.insert((now_secs, connection));
        }
    }

    /// Removes an association after its end.
    pub(super) fn remove(&self, connection: u64) {
        self.0.borrow_mut().remove(connection);
    }

    /// Takes an association that isn't served and whose number is lower than `below`: the oldest one without
    /// a message, or else the one that has been silent for longest.
    pub(super) fn take(&self, below: u64, is_identified: impl Fn(u64) -> bool) -> Option<u64> {
        let mut all = self.0.borrow_mut();
        if let Some(oldest) = all.silent.first().copied().filter(|oldest| *oldest < below) {
            all.silent.remove(&oldest);
            return Some(oldest);
        }
        loop {
            let (ordered, connection) = all.spoke.first().copied()?;
            let last = all.heard.get(&connection).map_or(ordered, |heard| heard.last);
            if last > ordered {
                // Messages have arrived since it was put into this order.
                all.remove(connection);
                all.heard.insert(connection, Heard { ordered: last, last });
                all.spoke.insert((last, connection));
            } else if is_identified(connection) {
                all.remove(connection);
            } else if connection < below {
                all.remove(connection);
                return Some(connection);
            } else {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
