//! Credit for each stream (docs/stream-credit.md): its chunks, and the timer of STREAM BLOCKED.

use strandline_wire::chunk::{StreamBlocked, StreamCredit};

use super::Association;
use super::build::push_control;
use super::context::EndpointContext;
use super::features::InitialCredit;
use crate::event::Event;
use crate::inbound::stream_credit as incoming;
use crate::outbound::stream_credit as outgoing;
use crate::outbound::waits_for_credit;
use crate::packet_sizes::CONTROL_PACKET_LEN_MAX;
use crate::time::Time;

/// Makes both halves count credit, or not, as was negotiated. Nothing may have arrived.
pub(super) fn adopt(association: &mut Association) {
    let Association { features, inbound, outbound, config, .. } = association;
    let credit = features.stream_credit();
    outgoing::set_credit(outbound, credit.map(InitialCredit::outgoing_kib));
    let granted = credit.map(InitialCredit::incoming_kib);
    incoming::set_credit(inbound, granted, config.extensions.stream_credit);
}

/// Processes a STREAM CREDIT chunk, if the extension was negotiated.
#[cold]
pub(super) fn on_credit(association: &mut Association, cx: &mut EndpointContext, chunk: &StreamCredit<'_>) {
    let opened = outgoing::on_credit(&mut association.outbound, chunk);
    if opened {
        association.flags.burst_open = true;
        report_writable(association, cx);
    }
}

/// Processes a STREAM BLOCKED chunk, if the extension was negotiated.
#[cold]
pub(super) fn on_blocked(association: &mut Association, chunk: &StreamBlocked<'_>) {
    if association.state.receives_data() {
        incoming::on_blocked(&mut association.inbound, chunk.streams());
    }
}

/// Reports streams that have room again, and the send buffer: what waits for credit does not count against it.
pub(super) fn report_writable(association: &mut Association, cx: &mut EndpointContext) {
    while let Some(stream) = outgoing::take_writable_stream(&mut association.outbound) {
        cx.event(association.id, Event::StreamWritable { stream });
    }
    if association.outbound.take_writable() {
        cx.event(association.id, Event::Writable);
    }
}

/// Returns when to send a STREAM BLOCKED after `now`, while a stream waits for it: after an RTO, and twice as
/// long each time.
pub(super) fn stream_blocked_deadline(association: &Association, now: Time) -> Time {
    let back_off = outgoing::back_off(&association.outbound);
    let index = association.paths.data_path().unwrap_or(association.control_path);
    let wait = association.paths.get(index).rto.rto() * (1 << back_off);
    now + wait.min(association.config.rto_max)
}

/// Sends a STREAM BLOCKED because its timer has expired.
pub(super) fn send_stream_blocked(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    if !association.state.sends_data() || !waits_for_credit(&association.outbound) {
        return;
    }
    let index = association.paths.data_path().unwrap_or(association.control_path);
    // The silence counts once: T3-rtx counts it while data is outstanding.
    if outgoing::is_unanswered(&association.outbound) && !association.outbound.has_outstanding() {
        let change = association.paths.get_mut(index).on_error(&association.config);
        association.on_path_error(cx, index, change);
        association.count_error(cx, now);
        if association.state.is_closed() {
            return;
        }
    }
    let route = association.route(index);
    let streams = outgoing::blocked_streams(&association.outbound);
    let mut named = 0;
    push_control(association, cx, route, CONTROL_PACKET_LEN_MAX, |packet| {
        named = outgoing::write_stream_blocked(&streams, packet);
        named > 0
    });
    outgoing::on_stream_blocked_sent(&mut association.outbound, &streams, named);
    association.deadlines.probe = stream_blocked_deadline(association, now);
}
