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
use crate::congestion::{Algorithm, Controller};
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
    /// The window does not shrink again for marks of what was sent before this.
    shrunk_until: Option<Tsn>,
    /// Goes in CWR with the next data.
    cwr: Option<Tsn>,
    /// By number of the path: whether it carries what may be marked.
    trials: Vec<EcnTrial>,
}

impl Ecn {
    fn trial(&mut self, path: PathIndex) -> Option<&mut EcnTrial> {
        let at = usize::from(path.0);
        if at >= self.trials.len() {
            self.trials.resize(at + 1, EcnTrial::default());
        }
        self.trials.get_mut(at)
    }

    /// Bytes on the heap, its own included.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.trials.capacity() * size_of::<EcnTrial>()
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
        self.ecn.as_mut().filter(|ecn| ecn.agreed)?.trial(path)
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

    /// The peer got a marked packet: a smaller window for its path, once for what is in flight (RFC 3168 section 6.1.2), and
    /// CWR in any case, for the one before may have been lost.
    pub(super) fn on_ecne(&mut self, now: Time, lowest: Tsn) {
        let sent = self.outbound.next_tsn().previous();
        let Some(ecn) = self.ecn.as_mut().filter(|ecn| ecn.agreed) else { return };
        if lowest.is_after(sent) {
            return; // nothing that we sent
        }
        ecn.cwr = Some(lowest);
        let index = self.outbound.path_of(lowest).map(PathIndex).or_else(|| self.paths.data_path());
        let Some((index, trial)) = index.and_then(|index| Some((index, ecn.trial(index)?))) else { return };
        if trial.has_failed() {
            return;
        }
        self.flags.marked = true;
        if ecn.shrunk_until.is_some_and(|until| !lowest.is_after(until)) {
            return;
        }
        ecn.shrunk_until = Some(sent);
        let path = self.paths.get_mut(index);
        if path.is_recovering() {
            return;
        }
        let (window, pmdcs) = (path.congestion.window(), path.data_chunk_len_max());
        path.congestion.on_ecn(now);
        let failed = ecn.trial(index).is_some_and(|trial| trial.on_mark(window, pmdcs));
        self.stats.ecn_failures += u32::from(failed);
    }
}
