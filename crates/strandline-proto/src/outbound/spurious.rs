//! Whether what was believed lost was lost. If every chunk that a recovery or a time-out marked turns out to have
//! arrived the first time, there was no congestion, and the window is what it was before (the idea of RFC 3708).
//!
//! A mark is refuted if the chunk is acknowledged before it was sent again, or if the peer reports the retransmission as
//! a duplicate, which every SCTP receiver does. Of what was sent more often than twice each transmission after the first has to be
//! reported: duplicates are listed as often as they come (RFC 9260 section 3.3.4). An acknowledgement that comes sooner than any answer
//! could (RFC 3522) refutes a retransmission a round trip before that, where the association has one path. There are no time stamps in
//! packets, so what counts as too soon has a margin (`PathRack::answer_ns`).

use crate::number::Tsn;
use crate::time::Time;

/// Retransmissions watched at most; more are taken for needed.
pub(super) const RESENT_MAX: usize = 256;

/// The doubt about the latest congestion event of one path, and about those before it that are in doubt still.
#[derive(Debug, Default)]
pub(super) struct Spurious {
    /// Chunks marked, and neither sent again nor acknowledged.
    marked: u32,
    /// Sent again, when, and not refuted; in order of time.
    resent: Vec<(Time, Tsn)>,
    /// Tail-loss probes that were retransmissions, and not refuted, of chunks that were sent again for nothing else; in order of
    /// time. If such a chunk is marked, they are in doubt as well.
    probes: Vec<(Time, Tsn)>,
    /// There was a recovery, and none of its losses is certain.
    open: bool,
    /// Something was refuted.
    any: bool,
}

impl Spurious {
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

    /// Another time-out, and nothing was acknowledged since the one before: all are undone together, or none.
    pub(super) fn begin_again(&mut self) {
        self.marked = 0;
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

    /// A chunk was marked that was sent once.
    pub(super) fn on_marked(&mut self) {
        self.marked += 1;
    }

    /// A chunk was marked that had been sent again. What is known of each time it was may still be refuted; otherwise the first time
    /// will not have been for nothing.
    pub(super) fn on_marked_again(&mut self, tsn: Tsn) {
        self.marked += 1;
        let Self { resent, probes, .. } = self;
        let before = resent.len();
        resent.extend(probes.extract_if(.., |(_, probe)| *probe == tsn));
        if resent.len() > before {
            resent.sort_by_key(|(at, _)| *at);
        }
        self.open &= self.knows(tsn);
    }

    fn knows(&self, tsn: Tsn) -> bool {
        self.resent.iter().any(|(_, resent)| *resent == tsn)
    }

    /// A marked chunk was sent again, on whichever path.
    pub(super) fn on_resent(&mut self, now: Time, tsn: Tsn) {
        self.marked = self.marked.saturating_sub(1);
        self.watch(now, tsn);
    }

    /// A chunk was sent again for the doubt of another path, or as a tail-loss probe: if it is in this doubt as well, one more copy has
    /// to be reported.
    pub(super) fn on_resent_elsewhere(&mut self, now: Time, tsn: Tsn) {
        if self.knows(tsn) {
            self.watch(now, tsn);
        }
    }

    fn watch(&mut self, now: Time, tsn: Tsn) {
        self.open &= self.resent.len() < RESENT_MAX;
        if self.open {
            self.resent.push((now, tsn));
        }
    }

    /// A tail-loss probe of this path was a retransmission. `first`: the chunk had been sent once.
    pub(super) fn on_probe_resent(&mut self, now: Time, tsn: Tsn, first: bool) {
        let known = first || self.probes.iter().any(|(_, probe)| *probe == tsn);
        if known && self.probes.len() < RESENT_MAX {
            self.probes.push((now, tsn));
        } else {
            self.probes.retain(|(_, probe)| *probe != tsn);
        }
    }

    /// All up to here is acknowledged: its probes tell no more.
    pub(super) fn forget_probes(&mut self, cumulative: Tsn) {
        self.probes.retain(|(_, probe)| probe.is_after(cumulative));
    }

    /// Marked chunks are acknowledged though they were not sent again.
    pub(super) fn on_marks_refuted(&mut self, chunks: u32) {
        self.marked = self.marked.saturating_sub(chunks);
        self.any = true;
    }

    /// The retransmission of a chunk was needless. False if it is not known to have been sent again.
    pub(super) fn on_refuted(&mut self, tsn: Tsn) -> bool {
        if let Some(at) = self.probes.iter().position(|(_, probe)| *probe == tsn) {
            self.probes.remove(at);
        }
        let Some(at) = self.resent.iter().position(|(_, resent)| *resent == tsn) else { return false };
        self.resent.remove(at);
        self.any = true;
        true
    }

    /// The chunk was sent again at `at` and acknowledged too soon for an answer: that was for its first transmission. Of one that went
    /// more often, duplicates have to tell. False if it is not known to have been sent again.
    pub(super) fn on_answered_too_soon(&mut self, at: Time, tsn: Tsn) -> bool {
        let mut of_it = self.resent.iter().filter(|(_, resent)| *resent == tsn);
        let alone = of_it.next().is_some_and(|(sent, _)| *sent == at) && of_it.next().is_none();
        alone && self.on_refuted(tsn)
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
        (self.resent.capacity() + self.probes.capacity()) * size_of::<(Time, Tsn)>()
    }
}
