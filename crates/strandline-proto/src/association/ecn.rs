//! Explicit congestion notification (RFC 3168 for IP; RFC 9260 section 3.2.1 and RFC 4960 appendix A for the chunks).
//! Agreed on by a parameter in INIT and INIT ACK, which goes only where the configuration wants it. Then packets with new
//! data say that they may be marked instead of dropped; the receiver answers marks by ECNE, in front of its SACK, and the
//! sender answers that by a smaller window and CWR.
//!
//! Who uses DCTCP tells marks exactly (RFC 8257 section 3.2): ECNE goes with a SACK for packets that were marked, and with
//! no other; where marked and other packets follow one another a SACK goes at once. One that covers both counts as marked.
//! Whether a path carries packets that may be marked finds [`EcnTrial`].
//! Everybody else repeats ECNE with each SACK until CWR comes.

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::{Cwr, Ecne};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::Parameter;

use super::Association;
use crate::congestion::{Algorithm, Congestion, Controller};
use crate::outbound::PathAck;
use crate::path::{EcnTrial, PathIndex};
use crate::time::Time;

/// Of an association that asked for ECN.
#[derive(Debug, Default)]
pub(crate) struct Ecn {
    /// Both sides did.
    pub(crate) agreed: bool,
    /// The lowest TSN of the first marked packet that no CWR has answered.
    unanswered: Option<Tsn>,
    /// ECNE is as DCTCP has it, for good: `None` as long as the association's controller is the one that it began with. The
    /// peer wasn't told of another.
    exact: Option<bool>,
    /// Packets marked since then.
    packets: u32,
    /// The latest packet with data was marked.
    marked: bool,
    /// Goes in CWR with the next data.
    cwr: Option<Tsn>,
    /// What the latest ECNE named: it repeats itself until CWR has come. Forgotten once TSNs have gone half way round.
    named: Option<Tsn>,
    /// The path that an ECNE of the packet being received is about.
    told: Option<PathIndex>,
    /// Marks that were told and answered.
    pub(super) answered: u32,
    /// By number of the path.
    marks: Vec<PathMarks>,
}

/// What there is of it for a path.
#[derive(Debug, Clone, Default)]
struct PathMarks {
    /// Whether it carries what may be marked.
    trial: EcnTrial,
    /// The window has shrunk for what was sent up to here: for a mark, a loss or a time-out, whichever came first (RFC 3168 section
    /// 6.1.2). None once that is acknowledged.
    shrunk_until: Option<Tsn>,
    /// A mark of that did not count therefore. It does if what counted is undone.
    passed_over: bool,
}

impl Ecn {
    fn of(&mut self, path: PathIndex) -> Option<&mut PathMarks> {
        let at = usize::from(path.0);
        if at >= self.marks.len() {
            self.marks.resize(at + 1, PathMarks::default());
        }
        self.marks.get_mut(at)
    }

    /// The packet being received says that what it acknowledges of this path was marked.
    pub(crate) fn tells_of(&self, path: PathIndex) -> bool {
        self.told == Some(path)
    }

    /// A packet was received whole.
    pub(crate) fn end_packet(&mut self) {
        self.told = None;
    }

    /// Bytes on the heap, its own included.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.marks.capacity() * size_of::<PathMarks>()
    }

    /// What an association that begins has of it.
    pub(crate) fn declaring(wanted: bool) -> Option<Box<Self>> {
        wanted.then(Box::default)
    }

    /// As a State Cookie has it.
    pub(crate) fn agreed(agreed: bool) -> Option<Box<Self>> {
        agreed.then(|| Box::new(Self { agreed, ..Self::default() }))
    }

    /// What INIT and INIT ACK say.
    pub(crate) fn parameter(wanted: bool) -> Option<Parameter<'static>> {
        wanted.then_some(Parameter::EcnCapable)
    }
}

impl Association {
    /// The trial of a path, if both sides take part.
    fn ecn_trial(&mut self, path: PathIndex) -> Option<&mut EcnTrial> {
        Some(&mut self.ecn.as_mut().filter(|ecn| ecn.agreed)?.of(path)?.trial)
    }

    /// New data went to a path: whether its packets say that they may be marked. With what is sent again they may not.
    pub(super) fn mark_new_data(&mut self, now: Time, path: PathIndex, with_resent: bool) -> bool {
        let Some(trial) = self.ecn_trial(path) else { return false };
        let capable = !with_resent && !trial.has_failed();
        trial.on_new_data(now, capable);
        capable
    }

    /// What an acknowledgement says of a path: data that was sent once at `sent_at` has arrived, or something was lost.
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

    /// A packet with data from `first` on arrived. True if it is to be acknowledged at once.
    pub(super) fn on_data_packet_mark(&mut self, first: Tsn, marked: bool) -> bool {
        let Some(ecn) = self.ecn.as_mut().filter(|ecn| ecn.agreed) else { return false };
        let changed = core::mem::replace(&mut ecn.marked, marked) != marked;
        if marked {
            self.stats.marks_received += 1;
            if ecn.unanswered.is_none() {
                ecn.unanswered = Some(first);
                ecn.packets = 0;
            }
            ecn.packets = ecn.packets.saturating_add(1);
        }
        changed
    }

    /// ECNE, in front of the SACK for what was marked.
    pub(super) fn write_ecne(&mut self, packet: &mut PacketBuilder<'_>) {
        let Some(ecn) = self.ecn.as_mut().filter(|ecn| ecn.agreed) else { return };
        let Some(lowest_tsn) = ecn.unanswered else { return };
        let ecne = Ecne { lowest_tsn, packets: Some(ecn.packets) };
        let exact = ecn.exact.unwrap_or(self.config.congestion == Algorithm::Dctcp);
        if packet.push(&ecne) && exact {
            ecn.unanswered = None;
        }
    }

    /// The controller is about to change: ECNE stays as it is.
    pub(super) fn keep_ecne(&mut self) {
        if let Some(ecn) = &mut self.ecn {
            ecn.exact.get_or_insert(self.config.congestion == Algorithm::Dctcp);
        }
    }

    /// CWR, in front of data.
    pub(super) fn write_cwr(&mut self, packet: &mut PacketBuilder<'_>) {
        let Some(ecn) = &mut self.ecn else { return };
        if let Some(lowest_tsn) = ecn.cwr
            && packet.push(&Cwr { lowest_tsn })
        {
            ecn.cwr = None;
        }
    }

    /// The sender has heard of the mark.
    pub(super) fn on_cwr(&mut self, answered: Tsn) {
        if let Some(ecn) = &mut self.ecn
            && ecn.unanswered.is_some_and(|tsn| answered.is_at_or_after(tsn))
        {
            ecn.unanswered = None;
        }
    }

    /// The peer got a marked packet: a smaller window for its path, once for what is in flight, whether that was marked, lost or both
    /// (RFC 3168 section 6.1.2); and CWR in any case, for the one before may have been lost.
    pub(super) fn on_ecne(&mut self, now: Time, lowest: Tsn) {
        let sent = self.outbound.next_tsn().previous();
        let Some(ecn) = self.ecn.as_mut().filter(|ecn| ecn.agreed) else { return };
        if lowest.is_after(sent) {
            return; // nothing that we sent
        }
        ecn.cwr = Some(lowest);
        let repeated = ecn.named.replace(lowest) == Some(lowest);
        let probed = self.outbound.probed_from(lowest);
        let index = probed.or_else(|| self.outbound.path_of(lowest)).map(PathIndex);
        let index = index.or_else(|| self.paths.data_path());
        let Some((index, marks)) = index.and_then(|index| Some((index, ecn.of(index)?))) else { return };
        if marks.trial.has_failed() {
            return;
        }
        // What went again and may have taken another path was marked on the first one, whose window has shrunk for what was lost there.
        let here = probed.is_some() || self.paths.len() == 1 || self.outbound.went_once(lowest);
        if !here && marks.shrunk_until.is_none_or(|until| lowest.is_after(until)) {
            return;
        }
        let counts = !repeated && marks.shrunk_until.is_none_or(|until| lowest.is_after(until));
        marks.passed_over |= !repeated && !counts;
        ecn.told = Some(index);
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
            self.outbound.on_shrunk(index.0);
        }
        let Some(ecn) = &mut self.ecn else { return };
        ecn.answered = ecn.answered.saturating_add(1);
        let Some(marks) = ecn.of(index) else { return };
        (marks.shrunk_until, marks.passed_over) = (Some(sent), false);
        self.stats.ecn_failures += u32::from(marks.trial.on_mark(now, round_trip, window, pmdcs));
    }

    /// The window of a path has shrunk for a loss or a time-out: marks of what was sent so far say nothing new.
    /// `in_doubt`: what it shrank for before may be undone together with this.
    pub(super) fn on_window_shrunk(&mut self, index: PathIndex, undoable: bool) {
        let sent = self.outbound.next_tsn().previous();
        let alike = shrinks_alike(&self.paths.get(index).congestion);
        let Some(marks) = self.ecn.as_mut().filter(|_| alike).and_then(|ecn| ecn.of(index)) else { return };
        marks.shrunk_until = Some(sent);
        marks.passed_over &= undoable;
    }

    /// An acknowledgement made the window of a path shrink or undid that.
    pub(super) fn on_window_changed(&mut self, now: Time, index: PathIndex, ack: &PathAck) {
        if ack.undo
            && let Some(marks) = self.ecn.as_mut().and_then(|ecn| ecn.of(index))
        {
            marks.shrunk_until = None;
            if core::mem::take(&mut marks.passed_over) && !ack.fast_retransmit_loss {
                self.shrink_for_mark(now, index);
            }
        }
        // After that: what was needless is from before what is lost now, which covers the marks as well.
        if ack.fast_retransmit_loss {
            self.on_window_shrunk(index, ack.undo_continues);
        }
    }

    /// What the windows shrank for is history once it is acknowledged.
    pub(super) fn settle_marks(&mut self) {
        let Some(ecn) = &mut self.ecn else { return };
        // Half of all numbers later the same one is another chunk's.
        ecn.named.take_if(|named| named.is_after(self.outbound.next_tsn()));
        for marks in &mut ecn.marks {
            marks.shrunk_until.take_if(|until| self.outbound.path_of(*until).is_none());
        }
    }
}

/// A mark and a loss are the same to the controller. DCTCP counts marks, and BBR does not shrink for a loss.
fn shrinks_alike(congestion: &Congestion) -> bool {
    congestion.recovers_in_proportion() && !congestion.counts_marks()
}
