//! Detection of spurious retransmissions. If every chunk that a recovery or a time-out marked turns out to have
//! arrived the first time, there was no congestion, and the old window is restored (the idea of RFC 3708).
//!
//! A mark is refuted if the chunk is acknowledged before its retransmission, or if the peer reports the
//! retransmission as a duplicate, which every SCTP receiver does. If a chunk was sent more than twice, each
//! transmission after the first must be reported: duplicates are listed as often as they arrive (RFC 9260 section
//! 3.3.4). An acknowledgement that arrives sooner than any answer could (RFC 3522) refutes a retransmission a round
//! trip earlier, if the association has one path. Packets have no timestamps, so the limit for too soon has a margin
//! (`PathRack::spurious_below_ns`).

use crate::number::Tsn;
use crate::time::Time;

/// Maximum number of retransmissions watched; more are assumed to be needed.
pub(crate) const RESENT_MAX: usize = 256;

/// The undo state of the latest congestion event of one path, and of earlier ones that may still be spurious.
#[derive(Debug, Default)]
pub(crate) struct Spurious {
    /// Number of chunks marked, and neither retransmitted nor acknowledged.
    marked: u32,
    /// Retransmissions that are not refuted, with their time; in order of time.
    resent: Vec<(Time, Tsn)>,
    /// Tail-loss probes that were retransmissions and are not refuted, of chunks that were retransmitted for no other
    /// reason; in order of time. If such a chunk is marked, its probes must be refuted as well.
    probes: Vec<(Time, Tsn)>,
    /// True if there was a recovery whose losses may all be spurious.
    open: bool,
    /// True if something was refuted.
    any_refuted: bool,
}

impl Spurious {
    /// Begins a congestion event. Returns true if an earlier one may still be spurious: both are undone together, or
    /// neither.
    pub(crate) fn begin_or_continue(&mut self) -> bool {
        let goes_on = self.open;
        if !goes_on {
            self.begin();
        }
        goes_on
    }

    /// Begins a congestion event; earlier ones are certain.
    pub(crate) fn begin(&mut self) {
        self.resent.clear();
        self.marked = 0;
        self.open = true;
        self.any_refuted = false;
    }

    /// Begins another time-out without an acknowledgement since the previous one: all are undone together, or none.
    pub(crate) fn continue_timeouts(&mut self) {
        self.marked = 0;
    }

    /// Records that something sent at `latest` is acknowledged. If that is a round trip after a retransmission
    /// without a report of a second copy, the repaired loss was real, and nothing is undone.
    pub(crate) fn close_if_certain(&mut self, latest: Time, round_trip_ns: u64) {
        let is_certain = |at: Time| latest.since(at).as_nanos() >= u128::from(round_trip_ns);
        self.open &= !self.resent.first().is_some_and(|(at, _)| latest > *at && is_certain(*at));
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Ends the undo state: it is known by other means whether something was lost, or nothing will show it any more.
    pub(crate) fn close(&mut self) {
        self.marked = 0;
        self.resent.clear();
        self.open = false;
    }

    /// Records that a chunk that was sent once was marked.
    pub(crate) fn on_marked(&mut self) {
        self.marked += 1;
    }

    /// Records that a retransmitted chunk was marked. Its known retransmissions may still be refuted; if they are
    /// unknown, the loss counts as real.
    pub(crate) fn on_marked_again(&mut self, tsn: Tsn) {
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

    /// Records that a marked chunk was retransmitted, on any path.
    pub(crate) fn on_resent(&mut self, now: Time, tsn: Tsn) {
        self.marked = self.marked.saturating_sub(1);
        self.watch(now, tsn);
    }

    /// Records that a chunk was retransmitted for another path's event, or as a tail-loss probe: if it belongs to
    /// this event as well, one more copy must be reported.
    pub(crate) fn on_resent_elsewhere(&mut self, now: Time, tsn: Tsn) {
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

    /// Records that a tail-loss probe of this path was a retransmission. `first` is true if the chunk had been sent
    /// once.
    pub(crate) fn on_probe_resent(&mut self, now: Time, tsn: Tsn, first: bool) {
        let known = first || self.probes.iter().any(|(_, probe)| *probe == tsn);
        if known && self.probes.len() < RESENT_MAX {
            self.probes.push((now, tsn));
        } else {
            self.probes.retain(|(_, probe)| *probe != tsn);
        }
    }

    /// Forgets the probes of chunks up to `cumulative`, which are acknowledged.
    pub(crate) fn forget_probes(&mut self, cumulative: Tsn) {
        self.probes.retain(|(_, probe)| probe.is_after(cumulative));
    }

    /// Records that marked chunks are acknowledged without a retransmission.
    pub(crate) fn on_marks_refuted(&mut self, chunks: u32) {
        self.marked = self.marked.saturating_sub(chunks);
        self.any_refuted = true;
    }

    /// Records that the retransmission of a chunk was spurious. Returns false if no retransmission of it is known.
    pub(crate) fn on_refuted(&mut self, tsn: Tsn) -> bool {
        if let Some(at) = self.probes.iter().position(|(_, probe)| *probe == tsn) {
            self.probes.remove(at);
        }
        let Some(at) = self.resent.iter().position(|(_, resent)| *resent == tsn) else { return false };
        self.resent.remove(at);
        self.any_refuted = true;
        true
    }

    /// Records that the chunk was retransmitted at `at` and acknowledged too soon for an answer, so the
    /// acknowledgement is for its first transmission. If it was retransmitted more often, duplicates must show it.
    /// Returns false if no retransmission of it is known.
    pub(crate) fn on_answered_too_soon(&mut self, at: Time, tsn: Tsn) -> bool {
        let mut of_it = self.resent.iter().filter(|(_, resent)| *resent == tsn);
        let alone = of_it.next().is_some_and(|(sent, _)| *sent == at) && of_it.next().is_none();
        alone && self.on_refuted(tsn)
    }

    /// Returns true once, when everything is refuted.
    pub(crate) fn take_refuted(&mut self) -> bool {
        let refuted = self.open && self.any_refuted && self.marked == 0 && self.resent.is_empty();
        if refuted {
            self.open = false;
        }
        refuted
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        (self.resent.capacity() + self.probes.capacity()) * size_of::<(Time, Tsn)>()
    }
}
