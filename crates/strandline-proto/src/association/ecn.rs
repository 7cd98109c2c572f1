//! Explicit congestion notification (RFC 3168 for IP; RFC 9260 section 3.2.1 and RFC 4960 appendix A for the chunks).
//! It is negotiated by a parameter in INIT and INIT ACK, which is sent only if configured. Packets with new data are
//! then ECN-capable, so that the network may mark them instead of dropping them. The receiver answers marks with
//! ECNE, in front of its SACK, and the sender answers that with a smaller window and CWR.
//!
//! A side with DCTCP reports marks exactly (RFC 8257 section 3.2): a SACK for marked packets has an ECNE, and no
//! other. When marked and unmarked packets alternate, a SACK is sent at once. A SACK that covers both counts as
//! marked. Other sides repeat ECNE with each SACK until CWR arrives. Either way ECNE has the number of marked packets,
//! which the sender counts exactly whatever its controller is. [`EcnTrial`] finds out whether a path carries
//! ECN-capable packets.
//!
//! Each path has marks of its own, in an ECNE of its own, and CWR answers each by its TSN: with several paths
//! at once, the window shrinks of each path that marks, and of no other (decision 157).

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::{Cwr, Ecne};
use strandline_wire::number::Tsn;

use super::Association;
use crate::congestion::{Algorithm, Congestion, Controller};
use crate::inbound::highest_tsn;
use crate::outbound::PathAck;
use crate::path::EcnTrial;
use crate::path_index::{PathIndex, PathMask, PathVec};
use crate::time::Time;

/// Number of CWRs with later TSNs that answer the marks of a path as one with their own TSN does.
const PASSED_MAX: u8 = 3;

/// ECN state of an association that asked for ECN.
#[derive(Debug, Default)]
pub(crate) struct Ecn {
    /// True if both sides asked for it.
    pub(crate) agreed: bool,
    /// Set once the controller of the association has changed: whether ECNE still follows DCTCP's rules. The peer was
    /// not told of the change.
    exact: Option<bool>,
    /// The paths concerned by ECNEs of the packet being received.
    echoed: PathMask,
    /// Number of marks reported and answered.
    pub(super) answered: u32,
    /// State by path number.
    marks: PathVec<PathMarks>,
}

/// Marked packets that arrived on a path.
#[derive(Debug, Clone, Copy, Default)]
struct Arrived {
    /// The lowest TSN of the first one that no CWR has answered, if there are any.
    lowest: Tsn,
    /// Number of those that no CWR has answered.
    packets: u32,
    /// Number of these that an ECNE has reported.
    reported: u32,
    /// True if the latest packet with data was marked.
    marked: bool,
    /// True if any has arrived.
    any: bool,
    /// Number of CWRs that answered later marks since these began.
    passed: u8,
}

impl Arrived {
    /// Records that CWR answered what was reported so far, up to `answered`. Packets that were marked since and not
    /// reported yet are, so that the sender counts all. `highest` is the highest TSN that has arrived.
    fn on_answered(&mut self, answered: Tsn, highest: Tsn) {
        self.packets = self.packets.saturating_sub(self.reported);
        let lowest = if answered == highest { highest } else { answered.next() };
        (self.lowest, self.reported, self.passed) = (lowest, 0, 0);
    }
}

/// What the peer has reported of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    /// TSN of the latest ECNE, which is repeated until CWR has arrived. Forgotten after half of the TSN space.
    named: Option<Tsn>,
    /// The highest TSN of an ECNE, and the number of marked packets that ECNEs with it have reported, if any have.
    counted_tsn: Tsn,
    counted: u32,
}

impl Reported {
    /// Returns how many packets an ECNE reports as marked that none before it has. Their number begins anew
    /// with another TSN; a peer that reports none has seen at least one.
    fn newly_marked(&mut self, ecne: &Ecne) -> u32 {
        let (lowest, packets) = (ecne.lowest_tsn, ecne.packets.unwrap_or(1).max(1));
        if self.counted == 0 || lowest.is_after(self.counted_tsn) {
            (self.counted_tsn, self.counted) = (lowest, packets);
            return packets;
        }
        if lowest != self.counted_tsn {
            return 0; // An earlier one that was overtaken.
        }
        let more = packets.saturating_sub(self.counted);
        self.counted += more;
        more
    }
}

/// ECN state of a path.
#[derive(Debug, Clone, Default)]
struct PathMarks {
    arrived: Arrived,
    named: Reported,
    /// True if CWR goes with the next data, for the latest ECNE.
    cwr: bool,
    /// Whether the path carries ECN-capable packets.
    trial: EcnTrial,
    /// Highest TSN sent before the window last shrank for a mark, a loss or a time-out, whichever came first (RFC
    /// 3168 section 6.1.2). `None` once it is acknowledged.
    shrunk_until: Option<Tsn>,
    /// True if a mark did not count because of that. It counts if the reduction is undone.
    passed_over: bool,
    /// Number of packets that the peer has reported as marked.
    reported: u32,
}

impl Ecn {
    /// Forgets all TSNs, because they begin anew.
    pub(super) fn forget_numbers(&mut self) {
        for marks in self.marks.iter_mut() {
            (marks.arrived.packets, marks.named, marks.cwr) = (0, Reported::default(), false);
            marks.shrunk_until = None;
        }
    }

    /// Returns the path of which an ECNE with this TSN was the latest.
    fn named(&self, lowest: Tsn) -> Option<PathIndex> {
        let mut paths = PathIndex::ALL.into_iter().zip(self.marks.iter());
        paths.find(|(_, marks)| marks.named.named == Some(lowest)).map(|(index, _)| index)
    }

    fn of(&mut self, path: PathIndex) -> &mut PathMarks {
        self.marks.or_insert_with(path, |_| PathMarks::default())
    }

    /// Forgets a path that is removed.
    pub(super) fn forget(&mut self, path: PathIndex) {
        self.marks.reset(path);
        self.echoed.remove(path);
    }

    /// Returns the number of packets to a path that the peer has reported as marked.
    pub(super) fn reported(&self, path: PathIndex) -> u32 {
        self.marks.iter().nth(path.number().into()).map_or(0, |marks| marks.reported)
    }

    /// True if the packet being received reports a mark on what it acknowledges of this path.
    pub(crate) fn is_echoed(&self, path: PathIndex) -> bool {
        self.echoed.contains(path)
    }

    /// Ends the processing of a received packet.
    pub(crate) fn end_packet(&mut self) {
        self.echoed = PathMask::default();
    }

    /// Returns the number of bytes on the heap, including this value.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.marks.heap_bytes()
    }

    /// Returns the state of a new association.
    pub(crate) fn declaring(wanted: bool) -> Option<Box<Self>> {
        wanted.then(Box::default)
    }

    /// Returns the state according to a State Cookie.
    pub(crate) fn agreed(agreed: bool) -> Option<Box<Self>> {
        agreed.then(|| Box::new(Self { agreed, ..Self::default() }))
    }
}

impl Association {
    /// Returns the ECN validation of a path, if both sides use ECN.
    fn ecn_trial(&mut self, path: PathIndex) -> Option<&mut EcnTrial> {
        Some(&mut self.ecn.as_mut().filter(|ecn| ecn.agreed)?.of(path).trial)
    }

    /// Records that new data is sent on a path. Returns true if its packets are ECN-capable; packets with
    /// retransmissions are not.
    pub(super) fn mark_new_data(&mut self, now: Time, path: PathIndex, with_resent: bool) -> bool {
        let Some(trial) = self.ecn_trial(path) else { return false };
        let capable = !with_resent && !trial.has_failed();
        trial.on_new_data(now, capable);
        capable
    }

    /// Updates the ECN validation of a path: data that was sent once at `sent_at` has arrived, or something was lost.
    pub(super) fn judge_ecn(&mut self, now: Time, path: PathIndex, sent_at: Option<Time>, lost: bool) {
        let rto = &self.paths.get(path).rto;
        let round_trip = rto.srtt().unwrap_or_else(|| rto.rto());
        let Some(trial) = self.ecn_trial(path) else { return };
        if let Some(sent_at) = sent_at {
            trial.on_acked(now, sent_at);
        }
        let failed = lost && trial.on_lost(now, round_trip);
        self.stats.ecn_failures += u32::from(failed);
    }

    /// Records a packet with data from `first` on that arrived on a path. Returns true if it must be
    /// acknowledged at once.
    pub(super) fn on_data_packet_mark(&mut self, path: PathIndex, first: Tsn, marked: bool) -> bool {
        let Some(ecn) = self.ecn.as_mut().filter(|ecn| ecn.agreed) else { return false };
        let arrived = &mut ecn.of(path).arrived;
        let changed = core::mem::replace(&mut arrived.marked, marked) != marked;
        if marked {
            self.stats.marks_received += 1;
            if arrived.packets == 0 {
                (arrived.lowest, arrived.reported, arrived.passed) = (first, 0, 0);
            }
            arrived.any = true;
            arrived.packets = arrived.packets.saturating_add(1);
        }
        changed
    }

    /// Writes an ECNE for each path with marked data, in front of the SACK.
    pub(super) fn write_ecne(&mut self, packet: &mut PacketBuilder<'_>) {
        let Some(ecn) = self.ecn.as_mut().filter(|ecn| ecn.agreed) else { return };
        let exact = ecn.exact.unwrap_or(self.config.congestion == Algorithm::Dctcp);
        for PathMarks { arrived, .. } in ecn.marks.iter_mut().filter(|marks| marks.arrived.packets > 0) {
            if packet.push(&Ecne { lowest_tsn: arrived.lowest, packets: Some(arrived.packets) }) {
                arrived.reported = arrived.packets;
                if exact {
                    arrived.packets = 0;
                }
            }
        }
    }

    /// Keeps the rules for ECNE when the controller is about to change.
    pub(super) fn keep_ecne(&mut self) {
        if let Some(ecn) = &mut self.ecn {
            ecn.exact.get_or_insert(self.config.congestion == Algorithm::Dctcp);
        }
    }

    /// Writes CWR, in front of data.
    pub(super) fn write_cwr(&mut self, packet: &mut PacketBuilder<'_>) {
        let Some(ecn) = &mut self.ecn else { return };
        for PathMarks { named, cwr, .. } in ecn.marks.iter_mut() {
            if let Some(lowest_tsn) = named.named.filter(|_| *cwr)
                && packet.push(&Cwr { lowest_tsn })
            {
                *cwr = false;
            }
        }
    }

    /// Processes CWR: the sender knows about the mark. It answers the path whose ECNE has that TSN. That of
    /// another path is repeated until a CWR of its own, or the last of some later ones: a sender may answer
    /// all ECNEs with one.
    ///
    /// A TSN that has not arrived stands for all that have. As a server, usrsctp may send one that it drew
    /// before its set-up.
    pub(super) fn on_cwr(&mut self, answered: Tsn) {
        let highest = highest_tsn(&self.inbound);
        let answered = if answered.is_after(highest) { highest } else { answered };
        let Some(ecn) = &mut self.ecn else { return };
        let several = ecn.marks.iter().filter(|marks| marks.arrived.any).nth(1).is_some();
        for PathMarks { arrived, .. } in ecn.marks.iter_mut() {
            if arrived.packets == 0 || !answered.is_at_or_after(arrived.lowest) {
                continue;
            }
            arrived.passed = arrived.passed.saturating_add(1);
            if arrived.lowest == answered || !several || arrived.passed >= PASSED_MAX {
                arrived.on_answered(answered, highest);
            }
        }
    }

    /// Processes ECNE: shrinks the window of the marked packet's path, once for the data in flight, whether that was
    /// marked, lost or both (RFC 3168 section 6.1.2). Schedules CWR in any case, because the previous one may have
    /// been lost.
    pub(super) fn on_ecne(&mut self, now: Time, ecne: &Ecne) {
        let lowest = ecne.lowest_tsn;
        let sent = self.outbound.next_tsn().previous();
        let Some(ecn) = self.ecn.as_mut().filter(|ecn| ecn.agreed) else { return };
        if lowest.is_after(sent) {
            return; // A TSN that was never sent.
        }
        let probed = self.outbound.probed_from(lowest);
        // One that is repeated is about the path that it was about first, wherever its chunk went since.
        let index = ecn.named(lowest).or(probed).or_else(|| self.outbound.path_of(lowest));
        let Some(index) = index.or_else(|| self.paths.data_path()) else { return };
        let sent_packets = u32::try_from(self.stats.packets_sent).unwrap_or(u32::MAX);
        let marks = ecn.of(index);
        marks.cwr = true;
        let marked = marks.named.newly_marked(ecne);
        let repeated = marks.named.named.replace(lowest) == Some(lowest);
        marks.reported = marks.reported.saturating_add(marked).min(sent_packets);
        if marks.trial.has_failed() {
            return;
        }
        // A retransmitted chunk may have moved to another path. It was marked on the first one, whose window has
        // shrunk for the loss.
        let here = probed.is_some() || !self.paths.has_several() || self.outbound.went_once(lowest);
        if !here && marks.shrunk_until.is_none_or(|until| lowest.is_after(until)) {
            return;
        }
        let counts = !repeated && marks.shrunk_until.is_none_or(|until| lowest.is_after(until));
        marks.passed_over |= !repeated && !counts;
        ecn.echoed.insert(index);
        if counts {
            self.shrink_for_mark(now, index);
        }
    }

    fn shrink_for_mark(&mut self, now: Time, index: PathIndex) {
        let sent = self.outbound.next_tsn().previous();
        let path = self.paths.get_mut(index);
        let (window, pmdcs) = (path.congestion.window(), path.data_chunk_len_max());
        let round_trip = path.rto.srtt().unwrap_or_else(|| path.rto.rto());
        path.congestion.on_ecn(now);
        if shrinks_alike(&path.congestion) {
            path.congestion.on_certain();
            self.outbound.on_shrunk(index);
        }
        let Some(ecn) = &mut self.ecn else { return };
        ecn.answered = ecn.answered.saturating_add(1);
        let marks = ecn.of(index);
        (marks.shrunk_until, marks.passed_over) = (Some(sent), false);
        self.stats.ecn_failures += u32::from(marks.trial.on_mark(now, round_trip, window, pmdcs));
    }

    /// Records that the window of a path has shrunk for a loss or a time-out, so that marks on data sent so far do
    /// not count. `undoable` is true if the previous reduction may be undone together with this one.
    pub(super) fn on_window_shrunk(&mut self, index: PathIndex, undoable: bool) {
        let sent = self.outbound.next_tsn().previous();
        let alike = shrinks_alike(&self.paths.get(index).congestion);
        let Some(marks) = self.ecn.as_mut().filter(|_| alike).map(|ecn| ecn.of(index)) else { return };
        marks.shrunk_until = Some(sent);
        marks.passed_over &= undoable;
    }

    /// Handles an acknowledgement that shrank the window of a path or undid that.
    pub(super) fn on_window_changed(&mut self, now: Time, index: PathIndex, ack: &PathAck) {
        if ack.undo
            && let Some(marks) = self.ecn.as_mut().map(|ecn| ecn.of(index))
        {
            marks.shrunk_until = None;
            if core::mem::take(&mut marks.passed_over) && !ack.begins_congestion_event {
                self.shrink_for_mark(now, index);
            }
        }
        // Must come last: the spurious reduction precedes the current loss, which also covers the marks.
        if ack.begins_congestion_event {
            self.on_window_shrunk(index, ack.undo_continues);
        }
    }

    /// Forgets reductions whose data is acknowledged.
    pub(super) fn forget_past_reductions(&mut self) {
        let Some(ecn) = &mut self.ecn else { return };
        // After half of the TSN space the same number belongs to another chunk.
        let next = self.outbound.next_tsn();
        for marks in ecn.marks.iter_mut() {
            marks.named.named.take_if(|named| named.is_after(next));
            if marks.named.counted_tsn.is_after(next) {
                marks.named.counted = 0;
            }
            marks.shrunk_until.take_if(|until| self.outbound.path_of(*until).is_none());
        }
    }
}

/// True if the controller treats a mark as a loss. DCTCP counts marks, and BBR does not shrink for a loss.
fn shrinks_alike(congestion: &Congestion) -> bool {
    congestion.recovers_in_proportion() && !congestion.counts_marks()
}
