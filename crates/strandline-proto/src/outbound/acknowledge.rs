//! Acknowledgement: SACK, NR-SACK, and the Cumulative TSN Ack of a SHUTDOWN.

use strandline_wire::{GapBlock, NrSack, Sack};

use super::recovery::on_sack::{Cumulative, Progress};
use super::{Busy, Outbound, PROBE_ROOM, PathAck, SackOutcome};
use crate::number::Tsn;
use crate::path_index::PerPath;
use crate::time::Time;

/// Why an association ends whose peer keeps revoking what it acknowledged.
const RENEGES: &str = "peer reneges too often";

impl Busy {
    /// Prepares for an acknowledgement up to `cumulative`. `room` is the peer's window for new data, in
    /// bytes. Returns true if new data is pending that fits it.
    fn before_ack(&mut self, now: Time, cumulative: Tsn, room: u32, paths: &mut PerPath<PathAck>) -> bool {
        if let Some(partial) = &mut self.partial {
            partial.on_cumulative(now, cumulative, self.sent.rack.as_deref_mut(), paths);
        }
        let pending = self.queue.pending_bytes();
        pending > 0 && pending.min(PROBE_ROOM) <= room as usize
    }
}

/// Acknowledgement.
impl Outbound {
    /// Processes a SACK (section 6.2.1).
    pub(crate) fn on_sack(
        &mut self,
        now: Time,
        sack: &Sack<'_>,
        paths: &mut PerPath<PathAck>,
    ) -> SackOutcome {
        let fixed = (sack.cumulative_tsn(), sack.a_rwnd());
        process_selective_ack(self, now, fixed, (sack.gap_blocks(), sack.duplicates()), |_, _| Some(0), paths)
    }

    /// Processes the Cumulative TSN Ack of a SHUTDOWN, which reports neither gaps nor window (section 9.2).
    pub(crate) fn on_cumulative(&mut self, now: Time, tsn: Tsn, paths: &mut PerPath<PathAck>) -> SackOutcome {
        let mut idle = None;
        let busy = busy_or_empty(&mut self.busy, self.idle_next, &mut idle);
        let steps = match busy.sent.classify(tsn) {
            Cumulative::Steps(steps) => steps,
            // pion puts a TSN of its own here, so half of its SHUTDOWNs acknowledge data that was never sent. The
            // SHUTDOWN still counts; outstanding data waits for a SACK.
            Cumulative::Stale | Cumulative::Impossible => return SackOutcome::Ignored,
        };
        let can_send_new = busy.before_ack(now, tsn, self.window.rwnd(), paths);
        let progress =
            busy.sent.acknowledge_cumulatively(now, steps, can_send_new, &mut busy.messages, paths);
        if progress.reneges_too_often {
            return SackOutcome::Violation(RENEGES);
        }
        if progress.newly_acked {
            self.window.on_shutdown_acked();
        }
        if let Some(partial) = &mut busy.partial {
            partial.advance(now, &busy.sent, false);
        }
        Self::outcome(busy, steps, progress, false)
    }

    fn outcome(busy: &mut Busy, steps: usize, progress: Progress, window_opened: bool) -> SackOutcome {
        busy.queue.on_delivered(progress.delivered);
        SackOutcome::Applied {
            cumulative_advanced: steps > 0,
            newly_acked: progress.newly_acked,
            entered_fast_recovery: progress.entered_fast_recovery,
            in_fast_recovery: progress.in_fast_recovery,
            all_acked: busy.sent.outstanding.is_empty(),
            writable: busy.queue.take_writable(),
            window_opened,
            delivered: progress.delivered,
        }
    }
}

/// Returns the state of a busy association, or puts an empty one into `idle`, so that acknowledgements are
/// checked in the same way while nothing is outstanding.
#[inline(always)]
fn busy_or_empty<'a>(busy: &'a mut Option<Box<Busy>>, next: Tsn, idle: &'a mut Option<Busy>) -> &'a mut Busy {
    match busy.as_deref_mut() {
        Some(busy) => busy,
        None => idle.insert(Busy::empty(next)),
    }
}

/// Processes an NR-SACK (draft-tuexen-tsvwg-sctp-multipath section 4.4.2).
#[cold]
pub(crate) fn on_nr_sack(
    outbound: &mut Outbound,
    now: Time,
    sack: &NrSack<'_>,
    paths: &mut PerPath<PathAck>,
) -> SackOutcome {
    let fixed = (sack.cumulative_tsn(), sack.a_rwnd());
    let take_non_renegable = |busy: &mut Busy, may_be_old: bool| {
        let kept = sack.non_renegable();
        let others = sack.gap_blocks().len() - kept.len();
        busy.sent.process_non_renegable(kept, others, may_be_old, &mut busy.messages)
    };
    process_selective_ack(
        outbound,
        now,
        fixed,
        (sack.gap_blocks(), sack.duplicates()),
        take_non_renegable,
        paths,
    )
}

/// Processes the contents of a SACK or NR-SACK. `take_non_renegable` processes the non-renegable blocks, which may be
/// older than those of the previous NR-SACK if it is passed true, and returns the bytes that leave the send buffer, or
/// `None` for a violation.
#[inline]
fn process_selective_ack(
    outbound: &mut Outbound,
    now: Time,
    (cumulative, a_rwnd): (Tsn, u32),
    (blocks, duplicates): (impl Iterator<Item = GapBlock> + Clone, impl ExactSizeIterator<Item = Tsn>),
    take_non_renegable: impl FnOnce(&mut Busy, bool) -> Option<usize>,
    paths: &mut PerPath<PathAck>,
) -> SackOutcome {
    let mut idle = None;
    let busy = busy_or_empty(&mut outbound.busy, outbound.idle_next, &mut idle);
    let steps = match busy.sent.classify(cumulative) {
        Cumulative::Steps(steps) => steps,
        Cumulative::Impossible => {
            return SackOutcome::Violation("SACK acknowledges a TSN that was never sent");
        }
        Cumulative::Stale => {
            outbound.window.on_stale_answer();
            return SackOutcome::Ignored;
        }
    };
    if busy.sent.reports_unsent(steps, blocks.clone()) {
        return SackOutcome::Violation("SACK names a TSN in a gap block that was never sent");
    }
    let in_flight = busy.sent.outstanding.in_flight_bytes();
    busy.queue.on_answer();
    if duplicates.len() > 0 {
        busy.sent.on_duplicates(duplicates, paths);
    }
    let can_send_new = busy.before_ack(now, cumulative, a_rwnd.saturating_sub(in_flight), paths);
    let mut progress = busy.sent.acknowledge(now, steps, blocks, can_send_new, &mut busy.messages, paths);
    let freed = if progress.reneges_too_often { None } else { take_non_renegable(busy, steps == 0) };
    let Some(freed) = freed else {
        return SackOutcome::Violation(RENEGES);
    };
    progress.delivered += freed;
    let outstanding = &mut busy.sent.outstanding;
    let lowest = outstanding.get(0).map(|record| usize::from(record.len));
    let opened = outbound.window.update(a_rwnd, outstanding.in_flight_bytes(), lowest);
    let window_opened = opened && !progress.newly_acked;
    if let Some(partial) = &mut busy.partial {
        partial.advance(now, &busy.sent, true);
    }
    Outbound::outcome(busy, steps, progress, window_opened)
}
