//! Partial reliability (RFC 3758, RFC 7496): messages that are given up, and FORWARD TSN.

use strandline_wire::PacketBuilder;

use super::context::Shared;
use super::{Association, credit, reconfig};
use crate::event::{Event, SendInfo};
use crate::outbound::partial::{self, Abandoned, Skipping};
use crate::path_index::PathIndex;
use crate::time::Time;

/// Returns whether chunks that were sent may be given up: the peer can be told to skip them.
fn may_skip(association: &Association) -> Skipping {
    match association.features.skips() {
        true if association.state.sends_data() => Skipping::Agreed,
        true if association.state.in_setup() => Skipping::NotYet,
        _ => Skipping::Never,
    }
}

/// Gives up what may not be transmitted any more. Called before anything is transmitted, and when a lifetime ends.
pub(super) fn abandon_due(association: &mut Association, cx: &mut Shared, now: Time) {
    if !partial::is_partial(&association.outbound) || association.state.is_closed() {
        return;
    }
    let skipping = may_skip(association);
    if let Some(abandoned) = partial::abandon_due(&mut association.outbound, now, skipping) {
        apply(association, cx, now, abandoned);
    }
    watch_lifetimes(association);
}

/// Sets the timer for the end of the next lifetime. Called when a message with a limit was given, too.
#[cold]
pub(crate) fn watch_lifetimes(association: &mut Association) {
    association.deadlines.expiry = partial::expiry_deadline(&association.outbound);
}

/// Gives up messages of a lower priority for a message of `len` bytes that the send buffer has no room for. Returns true
/// if there is room now.
pub(crate) fn make_room(
    association: &mut Association,
    cx: &mut Shared,
    now: Time,
    info: &SendInfo,
    len: usize,
) -> bool {
    if !partial::is_partial(&association.outbound) {
        return false;
    }
    let agreed = may_skip(association) == Skipping::Agreed;
    let messages_max = association.config.send_messages_max;
    let wanted = (info, len, messages_max as usize);
    let Some(abandoned) = partial::abandon_lower(&mut association.outbound, now, wanted, agreed) else {
        return false;
    };
    apply(association, cx, now, abandoned);
    true
}

/// Reports messages that were given up, and takes their chunks out of the flight.
fn apply(association: &mut Association, cx: &mut Shared, now: Time, abandoned: Abandoned) {
    cx.on_send_bytes_gone(abandoned.bytes);
    for failed in abandoned.failed {
        association.extras.get_or_insert_default().abandoned.count(&failed);
        cx.event(association.id, Event::SendFailed(failed));
    }
    for index in association.paths.indices() {
        association.paths.get_mut(index).on_abandoned(abandoned.flight[index]);
    }
    settle_timers(association, now);
    association.assert_flights();
    if abandoned.writable {
        cx.event(association.id, Event::Writable);
    }
    credit::report_writable(association, cx);
    if association.reconfig.is_some() {
        let path = association.control_path;
        reconfig::progress(association, cx, now, path);
    }
    association.progress_shutdown(cx, now);
}

/// Stops T3-rtx of paths with nothing in flight, and keeps one running while the peer has not acknowledged a FORWARD
/// TSN (rule C5). Called after a SACK, too.
pub(super) fn settle_timers(association: &mut Association, now: Time) {
    let Association { outbound, paths, .. } = association;
    if !partial::is_partial(outbound) {
        return;
    }
    let data_path = paths.data_path();
    for index in paths.indices() {
        let path = paths.get_mut(index);
        if path.flight > 0 || outbound.has_overdue(index) {
            continue;
        }
        match partial::forward_pending(outbound) && data_path == Some(index) {
            true => path.start_rtx(now),
            false => path.stop_rtx(),
        }
    }
}

/// Writes a FORWARD TSN if one is due. It is subject to no window.
#[inline]
pub(super) fn write_forward(
    association: &mut Association,
    now: Time,
    index: PathIndex,
    packet: &mut PacketBuilder<'_>,
) {
    if partial::forward_due(&association.outbound)
        && partial::write_forward(&mut association.outbound, (now, index), packet)
    {
        association.extras.get_or_insert_default().abandoned.forward_tsns_sent += 1;
        association.paths.get_mut(index).start_rtx(now);
    }
}
