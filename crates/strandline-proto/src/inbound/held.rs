//! A message in I-DATA chunks of which something is held (RFC 8260): its fragments are joined from the first one on,
//! and those beyond a gap wait.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use strandline_wire::IData;

use super::arena::Arena;
use super::readable::Key;
use super::renege::DroppedTsns;
use super::window::{HELD_COST, Window};
use crate::event::Message;
use crate::number::{Fsn, Ppid, Ssn, Tsn};

/// A description of the violation.
pub(super) type Violation = &'static str;

/// Half of the MIDs or FSNs: one further ahead is past (RFC 1982).
pub(super) const HALF: u32 = 1 << 31;

/// A message of which something is held: an incomplete one, or one that waits for its turn.
#[derive(Debug)]
pub(super) struct Held {
    /// Of the first fragment, once that has arrived.
    ppid: Ppid,
    /// The TSN of the first fragment in `data`.
    pub(super) first: Tsn,
    /// The highest TSN that arrived.
    pub(super) latest: Tsn,
    /// The fragments from the first one, or from the end of the part that was delivered, up to the first gap.
    pub(super) data: BytesMut,
    /// The FSN after those.
    pub(super) next: Fsn,
    /// True if no part was delivered.
    pub(super) begins: bool,
    /// True if the window is not charged for this record.
    pub(super) is_free: bool,
    /// The fragments beyond a gap, by their FSNs. Exactly the next one is looked up, so their order does not matter.
    pub(super) beyond: BTreeMap<u32, (Tsn, Bytes)>,
    /// The highest FSN that arrived.
    highest: Fsn,
    /// The FSN of the last fragment, once that has arrived.
    last: Option<Fsn>,
}

impl Held {
    pub(super) fn new(data: &IData<'_>) -> Self {
        Self {
            ppid: Ppid(0),
            first: data.tsn,
            latest: data.tsn,
            data: BytesMut::new(),
            next: Fsn(0),
            begins: true,
            is_free: false,
            beyond: BTreeMap::new(),
            highest: data.fsn,
            last: None,
        }
    }

    /// Checks that a fragment agrees with those that have arrived.
    pub(super) fn check(&self, data: &IData<'_>) -> Result<(), Violation> {
        if data.fsn.distance_from(self.next) >= HALF || self.beyond.contains_key(&data.fsn.0) {
            return Err("a fragment sequence number was used twice");
        }
        if self.last.is_some_and(|last| data.ending || data.fsn.is_after(last)) {
            return Err("a message has a fragment beyond its last one");
        }
        if data.ending && self.highest.is_after(data.fsn) {
            return Err("a message ends before its last fragment");
        }
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| last.next() == self.next)
    }

    /// Adds a fragment that agrees with the others. `at_once`: the message is delivered as soon as it is
    /// complete, so its bytes may be cut out of a shared block.
    pub(super) fn add(&mut self, data: &IData<'_>, at_once: bool, window: &mut Window, arena: &mut Arena) {
        if data.beginning {
            self.ppid = data.ppid;
        }
        if data.tsn.is_after(self.latest) {
            self.latest = data.tsn;
        }
        if data.fsn.is_after(self.highest) {
            self.highest = data.fsn;
        }
        if data.ending {
            self.last = Some(data.fsn);
        }
        if data.fsn != self.next {
            window.charge(data.payload.len() + HELD_COST);
            self.beyond.insert(data.fsn.0, (data.tsn, Bytes::copy_from_slice(data.payload)));
            return;
        }
        window.charge(data.payload.len());
        self.join(data.tsn, data.payload, at_once, arena);
        while let Some((tsn, fragment)) = self.beyond.remove(&self.next.0) {
            window.release(HELD_COST);
            self.join(tsn, &fragment, at_once, arena);
        }
    }

    fn join(&mut self, tsn: Tsn, fragment: &[u8], at_once: bool, arena: &mut Arena) {
        if self.data.is_empty() {
            self.first = tsn;
        }
        if at_once {
            arena.append(&mut self.data, fragment, 0);
        } else {
            self.data.extend_from_slice(fragment);
        }
        self.next = self.next.next();
    }

    /// True if it is one whole message in one chunk, of which nothing was delivered.
    pub(super) fn is_single(&self) -> bool {
        self.begins && self.last == Some(Fsn(0)) && self.next == Fsn(1)
    }

    /// Drops fragments beyond a gap, and adds their TSNs and lengths to `dropped`.
    pub(super) fn renege(&mut self, what: &mut DroppedTsns<'_>, dropped: &mut Vec<(Tsn, usize)>) {
        let before = dropped.len();
        self.beyond.retain(|fsn, (tsn, bytes)| {
            let drops = what.takes(*tsn);
            if drops {
                what.on_dropped(*tsn, bytes.len() + HELD_COST);
                dropped.push((*tsn, bytes.len()));
                if self.last == Some(Fsn(*fsn)) {
                    self.last = None;
                }
            }
            !drops
        });
        if dropped.len() > before {
            let beyond = self.beyond.keys().map(|fsn| Fsn(*fsn));
            let highest = beyond.max_by_key(|fsn| fsn.distance_from(self.next));
            self.highest = highest.unwrap_or(Fsn(self.next.0.wrapping_sub(1)));
        }
    }

    /// Takes out what has been joined: the message, or a part of it.
    pub(super) fn take(&mut self, key: Key) -> Message {
        let (begins, ends) = (core::mem::take(&mut self.begins), self.is_complete());
        let data = core::mem::take(&mut self.data).freeze();
        message(key, self.ppid, self.first, (begins, ends), data)
    }

    /// Returns what the window is charged for.
    pub(super) fn cost(&self) -> usize {
        let record = if self.is_free { 0 } else { HELD_COST };
        record + self.len() + self.beyond.len() * HELD_COST
    }

    /// Returns the bytes of user data that are held.
    pub(super) fn len(&self) -> usize {
        self.data.len() + self.beyond.values().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }
}

/// Returns a message or a part of one. Its SSN is the low half of the MID, as RFC 6458 has room for no more.
pub(super) fn message(key: Key, ppid: Ppid, tsn: Tsn, (begins, ends): (bool, bool), data: Bytes) -> Message {
    let Key { stream, unordered, mid } = key;
    let ssn = if unordered { Ssn(0) } else { Ssn((mid & 0xffff) as u16) };
    Message { stream, ssn, tsn, ppid, unordered, begins, ends, data }
}
