//! Partial reliability (RFC 3758, RFC 7496): messages that are abandoned, and FORWARD TSN.

use std::collections::BTreeSet;

use strandline_wire::PacketBuilder;

use super::context::EndpointContext;
use super::dry::report_dry;
use super::{Association, stream_credit};
use crate::event::Event;
use crate::number::StreamId;
use crate::outbound::dynamic_streams;
use crate::outbound::partial::{self, Abandoned, Skipping};
use crate::path_index::PathIndex;
use crate::time::Time;

/// Returns whether chunks that were sent may be abandoned: the peer can be told to skip them.
pub(super) fn may_skip(association: &Association) -> Skipping {
    match association.features.skips() {
        true if association.state.sends_data() => Skipping::Agreed,
        true if association.state.in_setup() => Skipping::NotYet,
        _ => Skipping::Never,
    }
}

/// Sets the timer for the end of the next lifetime. Called when a message with a limit was given, too.
#[cold]
pub(crate) fn watch_lifetimes(association: &mut Association) {
    association.deadlines.expiry = partial::expiry_deadline(&association.outbound);
}

/// Gives up all messages of streams that the peer has not acknowledged.
#[cold]
pub(super) fn abandon_streams(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    streams: &BTreeSet<StreamId>,
) {
    let skipping = may_skip(association);
    let abandoned = dynamic_streams::abandon_streams(
        &mut association.outbound,
        now,
        streams,
        skipping,
        &association.config,
    );
    if let Some(abandoned) = abandoned {
        apply(association, cx, now, abandoned);
        association.progress_shutdown(cx, now);
    }
    association.flags.burst_open = true;
    watch_lifetimes(association);
}

/// Reports messages that were abandoned, and takes their chunks out of the flight.
pub(super) fn apply(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    abandoned: Abandoned,
) {
    cx.on_send_bytes_gone(abandoned.bytes);
    for failed in abandoned.failed {
        association.extras.get_or_insert_default().abandoned.count(&failed);
        cx.event(association.id, Event::SendFailed(failed));
    }
    for index in association.paths.indices() {
        association.paths.get_mut(index).on_abandoned(abandoned.flight[index]);
    }
    update_t3_rtx(association, now);
    association.assert_flights();
    if abandoned.writable {
        cx.event(association.id, Event::Writable);
    }
    report_dry(association, cx);
    stream_credit::report_writable(association, cx);
}

/// Stops T3-rtx of paths with nothing in flight, and keeps one running while the peer has not acknowledged a FORWARD
/// TSN (rule C5). Called after a SACK, too.
pub(super) fn update_t3_rtx(association: &mut Association, now: Time) {
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
