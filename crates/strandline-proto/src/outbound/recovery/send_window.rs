//! The send window: the chunks that were sent and not cumulatively acknowledged, what SACKs reported of them, and what
//! loss detection knows. These do not know each other; the methods of the window pass on what happens to chunks.

use core::time::Duration;

use super::ack::PathAck;
use super::gaps::Gaps;
use super::miss_indications::FastRecovery;
use super::rack::{Learnt, Rack};
use crate::config::Recovery as Mode;
use crate::number::Tsn;
use crate::outbound::messages::Messages;
use crate::outbound::sent::lowest::Lowest;
use crate::outbound::sent::outstanding::{
    ACKED_BEFORE, CHUNKS_MAX, MOVED, ORPHANED, Outstanding, PROBE, RESENT, Run, State,
};
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

/// Maximum number of revoked chunks in a row. A peer short of memory rarely revokes some; each chunk acknowledged for
/// good allows another one. Without a limit every SACK could change everything outstanding.
pub(crate) const RENEGED_MAX: u32 = 4 * CHUNKS_MAX as u32;

/// The send window.
#[derive(Debug)]
pub(crate) struct SendWindow {
    pub(crate) outstanding: Outstanding,
    pub(crate) gaps: Gaps,
    /// The gap acknowledgements that the peer never revokes; `None` before the first NR-SACK with some.
    pub(crate) non_renegable: Option<Box<Gaps>>,
    /// Where the search for the lowest outstanding chunk of each path goes on.
    pub(crate) lowest: Lowest,
    /// Fast recovery by miss indications.
    pub(crate) fast_recovery: FastRecovery,
    /// State of loss detection by time; `None` with miss indications.
    pub(crate) rack: Option<Box<Rack>>,
    /// Number of chunks that the peer may still revoke, including look-ups that this causes: see [`RENEGED_MAX`].
    pub(crate) renege_budget: u32,
}

impl SendWindow {
    pub(crate) fn new(first: Tsn, mode: Mode, learnt: Learnt) -> Self {
        Self {
            outstanding: Outstanding::new(first),
            gaps: Gaps::default(),
            non_renegable: None,
            lowest: Lowest::new(first),
            fast_recovery: FastRecovery::default(),
            rack: (mode == Mode::Rack).then(|| Box::new(Rack::new(learnt))),
            renege_budget: RENEGED_MAX,
        }
    }

    /// Sets the loss detection. Returns false without a change while anything is outstanding, which the other kind
    /// does not know.
    pub(crate) fn set_mode(&mut self, mode: Mode) -> bool {
        if !self.outstanding.is_empty() {
            return false;
        }
        let by_time = mode == Mode::Rack;
        if by_time != self.rack.is_some() {
            self.rack = by_time.then(|| Box::new(Rack::new(Learnt::default())));
        }
        self.fast_recovery = FastRecovery::default();
        true
    }

    /// Removes the first `steps` chunks, which the peer has, and the messages that end with them: run by run, so that
    /// a SACK for many chunks costs little for each. Returns whether any was acknowledged for the first time, and the
    /// bytes that left.
    pub(crate) fn ack_cumulative(
        &mut self,
        steps: usize,
        messages: &mut Messages,
        acks: &mut PerPath<PathAck>,
    ) -> (bool, usize) {
        let steps = steps.min(self.outstanding.len());
        let before = self.outstanding.bytes();
        // The highest index that was acknowledged before.
        let highest_before = self.gaps.last().unwrap_or(0);
        let (mut newly_acked, mut from) = (false, 0);
        let mut leaving = messages.leaving();
        while from < steps {
            let Some(run) = self.outstanding.run_at(from, steps, &mut leaving) else { break };
            from += run.chunks as usize;
            newly_acked |= self.account_leaving(&run, highest_before, &mut acks[run.path]);
        }
        leaving.finish();
        self.outstanding.drop_front(steps);
        if let Some(rack) = &mut self.rack {
            rack.advance(steps);
        }
        (newly_acked, (before - self.outstanding.bytes()) as usize)
    }

    /// Accounts for a run that leaves. Returns true if it was not acknowledged before.
    fn account_leaving(&mut self, run: &Run, highest_before: usize, ack: &mut PathAck) -> bool {
        let Self { outstanding, rack, .. } = self;
        outstanding.release(run);
        match run.state {
            State::GapAcked | State::NonRenegable | State::NonRenegableFreed => return false,
            // The peer has skipped it, or has it after all: it answers, but no path is credited (RFC 3758 A2).
            State::Abandoned => return true,
            _ => {}
        }
        if run.state == State::InFlight {
            ack.acked.flight_drop += run.bytes;
        }
        if run.has(ORPHANED) {
            return !run.has(ACKED_BEFORE);
        }
        ack.acked.lowest = true;
        if run.has(ACKED_BEFORE) {
            return false;
        }
        ack.acked.bytes += run.bytes;
        ack.acked.chunks += run.chunks;
        ack.note_answer(!run.has(MOVED), run.state == State::InFlight);
        // The last one of a run was sent last, and only its time counts.
        let (at, timed) = (outstanding.sent_at(run.last()), !outstanding.is_unreported(run.last()));
        if !run.has(RESENT) {
            ack.note_rtt(at, timed);
        }
        if let Some(rack) = rack {
            report_acked(rack, outstanding, run, at.map(|at| (at, timed)), highest_before);
        }
        true
    }

    /// Records that a marked chunk is retransmitted on `path`.
    pub(crate) fn resend(&mut self, now: Time, index: usize, path: PathIndex) {
        let Self { outstanding, rack, .. } = self;
        let Some(record) = outstanding.get(index) else { return };
        let how = (!record.has(RESENT), record.has(PROBE));
        let tsn = outstanding.tsn(index);
        let from = (!record.has(ORPHANED)).then_some(record.path);
        let number = rack.as_mut().map(|rack| rack.on_resent(now, tsn, from, how));
        outstanding.resend(index, path, number);
        self.lowest.on_outstanding(path, tsn);
    }

    /// Assigns the chunks of a path that is removed to another one, to be retransmitted unless they have
    /// arrived. Nothing refers to the removed path afterwards. Returns the bytes that left its flight.
    pub(crate) fn move_path(&mut self, from: PathIndex, to: PathIndex, round_trip: Option<Duration>) -> u32 {
        let marked = self.mark_path(from);
        self.outstanding.move_path(from, to);
        self.lowest.on_moved(from, to);
        self.fast_recovery.forget(from);
        if let Some(rack) = &mut self.rack {
            rack.pass_on_min_rtt(from, to, round_trip);
            rack.forget(from);
        }
        marked
    }

    /// Returns the heap of records and loss detection in bytes.
    pub(crate) fn record_heap_bytes(&self) -> usize {
        self.outstanding.record_heap_bytes() + self.rack.as_ref().map_or(0, |rack| rack.heap_bytes())
    }
}

/// Reports chunks that are acknowledged for the first time to loss detection by time. `sent` is the time of
/// the last one, and whether that measures a round-trip time. `highest_before` is the highest index that was
/// acknowledged before.
pub(crate) fn report_acked(
    rack: &mut Rack,
    outstanding: &Outstanding,
    run: &Run,
    sent: Option<(Time, bool)>,
    highest_before: usize,
) {
    if run.has(RESENT) {
        let records = outstanding.range(run.first, run.last() + 1).zip(run.first..);
        for (record, index) in records {
            rack.on_resent_acked(run.path, record.resent, (outstanding.tsn(index), record.chunk_len()));
        }
    } else {
        let tsns = (outstanding.tsn(run.first), outstanding.tsn(run.last()));
        rack.on_acked(run.path, sent, tsns, run.first < highest_before);
    }
    if run.state == State::Marked {
        rack.on_marked_acked(run.path, run.chunks);
    }
}
