//! Whether what was believed lost was lost. If every chunk that a recovery or a time-out marked turns out to have
//! arrived the first time, there was no congestion, and the window is what it was before (the idea of RFC 3708).
//!
//! A mark is refuted if the chunk is acknowledged before it was sent again, or if the peer reports the retransmission as
//! a duplicate, which every SCTP receiver does. That an acknowledgement comes sooner than any answer could (RFC 3522)
//! proves nothing here: without time stamps in packets a small packet on a slow link is faster than any that was measured.

use crate::number::Tsn;
use crate::time::Time;

/// Retransmissions watched at most; more are taken for needed.
const RESENT_MAX: usize = 256;

/// The doubt about the latest congestion event of one path, and about those before it that are in doubt still.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Chunks marked, and neither sent again nor acknowledged.
    marked: u32,
    /// Sent again, when, and not refuted; in order of time.
    resent: Vec<(Time, Tsn)>,
    /// There was a recovery, and none of its losses is certain.
    open: bool,
    /// Something was refuted.
    any: bool,
}

impl Doubt {
    /// A congestion event begins. True if an earlier one is in doubt still: both are undone together, or none.
    pub(super) fn go_on(&mut self) -> bool {
        let goes_on = self.open;
        if !goes_on {
            self.begin();
        }
        goes_on
    }

    /// A congestion event begins, and those before it are certain.
    pub(super) fn begin(&mut self) {
        self.resent.clear();
        self.marked = 0;
        self.open = true;
        self.any = false;
    }

    /// Something is acknowledged that was sent at `latest`. That is a round trip after a retransmission of which the peer told no
    /// second copy: what it repaired was lost, and nothing is undone.
    pub(super) fn settle(&mut self, latest: Time, round_trip_ns: u64) {
        let is_certain = |at: Time| latest.since(at).as_nanos() >= u128::from(round_trip_ns);
        self.open &= !self.resent.first().is_some_and(|(at, _)| latest > *at && is_certain(*at));
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// It is known by other means whether something was lost, or nobody will tell any more.
    pub(super) fn close(&mut self) {
        self.marked = 0;
        self.resent.clear();
        self.open = false;
    }

    /// A chunk was marked. Twice in one recovery: the first time will not have been for nothing.
    pub(super) fn on_marked(&mut self, resent: bool) {
        self.marked += 1;
        self.open &= !resent;
    }

    /// A marked chunk was sent again, on whichever path.
    pub(super) fn on_resent(&mut self, now: Time, tsn: Tsn) {
        self.marked = self.marked.saturating_sub(1);
        self.open &= self.resent.len() < RESENT_MAX;
        if self.open {
            self.resent.push((now, tsn));
        }
    }

    /// Marked chunks are acknowledged though they were not sent again.
    pub(super) fn on_marks_refuted(&mut self, chunks: u32) {
        self.marked = self.marked.saturating_sub(chunks);
        self.any = true;
    }

    /// The retransmission of a chunk was needless. False if it is not known to have been sent again.
    pub(super) fn on_refuted(&mut self, tsn: Tsn) -> bool {
        let Some(at) = self.resent.iter().position(|(_, resent)| *resent == tsn) else { return false };
        self.resent.remove(at);
        self.any = true;
        true
    }

    /// True once, when all is refuted.
    pub(super) fn take_refuted(&mut self) -> bool {
        let refuted = self.open && self.any && self.marked == 0 && self.resent.is_empty();
        if refuted {
            self.open = false;
        }
        refuted
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.resent.capacity() * size_of::<(Time, Tsn)>()
    }
}
