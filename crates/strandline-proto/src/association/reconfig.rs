//! Reconfiguration of streams (RFC 6525): resets of sequence numbers, and more streams.
//!
//! | file | concern |
//! |---|---|
//! | [`state`] | the state, without the association |
//! | [`request`] | our requests: begun by the application or by the peer, sent, answered |
//! | [`answer`] | the peer's requests |
//! | [`closing`], [`dynamic_streams`] | streams that are opened and closed at run time |
//!
//! ```text
//!  command ---> Waiting --data is acknowledged--> Sent --responses--> reported
//!                  ^                               | ^
//!  peer asks --> queued (until nothing is active)   +-+ T-reconfig, "in progress"
//! ```
//!
//! One thing is active at a time: a request of ours (section 5.1.1), or a reset of all numbers for the peer that waits
//! until our data is acknowledged. A request of the peer that needs the same waits in `queued`. Whatever happens in a
//! packet, [`flush`](Association::flush) sends all that is owed at its end.

mod answer;
pub(crate) mod closing;
mod dynamic_streams;
mod request;
mod state;
mod waiting;

use strandline_wire::TlvWriter;
use strandline_wire::cause::Cause;
use strandline_wire::chunk::ReConfig;
use strandline_wire::parameter::Parameters;
use strandline_wire::parameter::re_config::{Combination, ReConfigParameter, Response, ResultCode};

use self::answer::{finish_deferred, finish_drain, next_of_peer, on_request, start_queued, watch_deferred};
pub(super) use self::request::on_timer;
pub(crate) use self::request::{add_streams, reset_association, reset_streams};
use self::request::{on_response, report_failed, report_reset, send_when_ready};
pub(super) use self::state::Reconfig;
use self::state::{Active, Owed, Part, QueuedRequest, Stage, Verdict};
use super::Association;
use super::context::EndpointContext;
use super::left_over;
use crate::event::Event;
use crate::inbound::i_data::{charged_bytes, partly_delivered};
use crate::inbound::reconfigure as incoming;
use crate::number::{RequestNumber, Tsn};
use crate::outbound::reconfigure as outgoing;
use crate::path_index::PathIndex;
use crate::reconfiguration::{Outcome, StreamDirection};
use crate::time::Time;

/// Maximum length of the parameters of a RE-CONFIG chunk that is sent, in bytes.
const PARAMETERS_LEN_MAX: usize = crate::packet_sizes::CONTROL_PACKET_LEN_MAX
    - strandline_wire::COMMON_HEADER_LEN
    - strandline_wire::CHUNK_HEADER_LEN;

/// Encodes parameters; those that don't fit are left out.
fn encode(parameters: &[ReConfigParameter<'_>]) -> Vec<u8> {
    let mut buffer = [0; PARAMETERS_LEN_MAX];
    let mut writer = TlvWriter::new(&mut buffer);
    for parameter in parameters {
        let _ = writer.push(parameter);
    }
    writer.finish().to_vec()
}

/// Encodes responses, two to a chunk.
fn responses_of(responses: &[Response]) -> Vec<Vec<u8>> {
    let parameters: Vec<_> =
        responses.iter().map(|response| ReConfigParameter::Response(*response)).collect();
    parameters.chunks(2).map(encode).collect()
}

/// Processes a RE-CONFIG chunk (section 5.2.1), if the extension was negotiated.
pub(super) fn on_re_config(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    chunk: &ReConfig<'_>,
    from: PathIndex,
    report: &mut Vec<u8>,
) {
    if !(association.state.sends_data() || association.state.receives_data()) {
        return;
    }
    let combination = match Combination::of(chunk.parameters) {
        Ok(combination) => combination,
        Err(error) => {
            return Association::report(report, &Cause::ProtocolViolation(error.text().as_bytes()));
        }
    };
    let mut asks = false;
    for parameter in combination.iter() {
        match parameter {
            ReConfigParameter::Response(response) => on_response(association, cx, now, &response),
            request => {
                asks = true;
                on_request(association, cx, now, &request);
            }
        }
    }
    if asks && !is_renumbering(association) {
        // The answer may depend on data that is missing.
        incoming::acknowledge_now(&mut association.inbound);
    }
    progress(association, cx, now, from);
}

/// Returns the state, which is created at first use.
fn reconfig_mut(association: &mut Association) -> &mut Reconfig {
    let (own, peers) = (association.initial_tsn, association.peer_initial_tsn);
    association.reconfig.get_or_insert_with(|| Box::new(Reconfig::new(own, peers)))
}

/// Adopts the peer's initial TSN during the set-up: its requests are numbered from there (section 5.1.1).
pub(super) fn adopt_peers_tsn(association: &mut Association) {
    let peers = association.peer_initial_tsn;
    if let Some(reconfig) = &mut association.reconfig {
        reconfig.expect_from(peers);
    }
}

/// Continues what waited for data to arrive or to be acknowledged, and sends what is owed.
#[cold]
pub(super) fn progress(association: &mut Association, cx: &mut EndpointContext, now: Time, from: PathIndex) {
    if association.reconfig.is_none() {
        return;
    }
    finish_deferred(association, cx, now);
    finish_drain(association, cx);
    closing::advance(association, cx, now);
    send_when_ready(association, cx, now);
    // At most one request waits for the end of another one.
    if start_queued(association) || closing::start(association) {
        finish_drain(association, cx);
        send_when_ready(association, cx, now);
    }
    flush(association, cx, now, from);
    watch_deferred(association);
}

/// Sends the responses that are owed, and our request if it is due. Several parameters share a chunk where that is
/// allowed (section 3.1).
fn flush(association: &mut Association, cx: &mut EndpointContext, now: Time, from: PathIndex) {
    let receiver = next_of_peer(association);
    let Some(reconfig) = &mut association.reconfig else { return };
    let Owed { responses, repeated } = reconfig.take_owed(receiver);
    let due = reconfig.take_due();
    let mut chunks = Vec::new();
    match (&due, &responses[..]) {
        (Some(due), [response]) if due.goes_with_response => {
            let mut bytes = encode(&[ReConfigParameter::Response(*response)]);
            bytes.extend_from_slice(&due.bytes);
            chunks.push(bytes);
        }
        (due, responses) => {
            chunks.extend(responses_of(responses));
            chunks.extend(due.as_ref().map(|due| due.bytes.clone()));
        }
    }
    if due.is_none() {
        chunks.extend(repeated);
    }
    for bytes in &chunks {
        association.send_control(cx, from, &ReConfig { parameters: Parameters::new(bytes) });
    }
    if due.is_some() {
        association.control_path = from;
        restart_timer(association, now);
    }
}

/// Returns true if TSNs begin anew at our request, or have done so: SACKs may acknowledge numbers from before or
/// after.
pub(super) fn is_renumbering(association: &Association) -> bool {
    association.reconfig.as_ref().is_some_and(|reconfig| reconfig.is_renumbering())
}

/// Returns true if a SACK acknowledges a TSN of the numbering before or after a reset of all numbers: it was under
/// way during the reset, and says nothing.
#[cold]
pub(super) fn is_foreign_ack(association: &Association, cumulative: Tsn) -> bool {
    is_renumbering(association) && !outgoing::may_acknowledge(&association.outbound, cumulative)
}

/// Ends all requests because the association ends or restarts.
#[cold]
pub(super) fn end(association: &mut Association, cx: &mut EndpointContext) {
    if association.reconfig.is_some() {
        give_up(association, cx, true);
        let deferred = association.reconfig.as_mut().and_then(|reconfig| reconfig.deferred.take());
        if let Some(streams) = deferred.and_then(|deferred| deferred.answers) {
            let (direction, outcome) = (StreamDirection::Incoming, Outcome::Failed);
            report_reset(association, cx, direction, streams, outcome);
        }
        incoming::set_barred(&mut association.inbound, None);
        association.reconfig = None;
    }
}

/// Ends what is under way because the peer shuts down, unless it was `sent`; or all of it, because nothing more is
/// sent. Messages that were held back are sent or reported as usual. The peer's requests are still answered.
#[cold]
pub(super) fn stop(association: &mut Association, cx: &mut EndpointContext, sent: bool) {
    give_up(association, cx, sent);
    // What follows may end the association.
    let receiver = next_of_peer(association);
    let Some(reconfig) = &mut association.reconfig else { return };
    let Owed { responses, .. } = reconfig.take_owed(receiver);
    let path = association.paths.data_path().unwrap_or(association.control_path);
    for bytes in responses_of(&responses) {
        association.send_control(cx, path, &ReConfig { parameters: Parameters::new(&bytes) });
    }
}

fn give_up(association: &mut Association, cx: &mut EndpointContext, sent: bool) {
    let Some(reconfig) = &mut association.reconfig else { return };
    reconfig.deny_pending(sent);
    if sent {
        reconfig.closing.clear()
    } else {
        reconfig.closing.cancel_requests()
    }
    if reconfig.sent().is_some() && !sent {
        return;
    }
    let renumbers = reconfig.sent().is_some_and(|sent| sent.has(Part::Renumber));
    let Some(active) = reconfig.active.take() else { return };
    outgoing::release_held(&mut association.outbound);
    if renumbers {
        incoming::set_barred(&mut association.inbound, None);
    }
    if let Active::Own(own) = active {
        if let (Stage::Sent(_), true) = (&own.stage, association.state.sends_data()) {
            association.deadlines.control = Time::MAX;
        }
        report_failed(association, cx, &own);
    }
}

/// Reports the numbers of streams.
fn report_streams(association: &Association, cx: &mut EndpointContext, outcome: Outcome) {
    let (outbound, inbound) = (association.outbound.streams(), association.inbound.streams());
    let event = Event::StreamsChanged { outcome, outbound_streams: outbound, inbound_streams: inbound };
    cx.event(association.id, event);
}

/// Sets the numbering of both directions anew (sections 5.1.4 and 5.2.4).
fn renumber(association: &mut Association, cx: &mut EndpointContext, own: Tsn, peers: Tsn) {
    let before = charged_bytes(&association.inbound);
    let mut cuts = partly_delivered(&association.inbound);
    let went_on = incoming::go_on(&mut association.inbound, peers, &mut cx.arena);
    let (unread, cut) = went_on.unwrap_or_else(|| incoming::renumber(&mut association.inbound, peers));
    cx.memory.on_read(before.saturating_sub(charged_bytes(&association.inbound)));
    left_over::on_renumbering(association, own);
    outgoing::renumber(&mut association.outbound, own);
    outgoing::release_held(&mut association.outbound);
    if let Some(ecn) = &mut association.ecn {
        ecn.forget_numbers();
    }
    if let Some(reconfig) = &mut association.reconfig {
        reconfig.renumbered = true;
        if matches!(reconfig.queued, Some(QueuedRequest::Renumber(..))) {
            // Its numbers are those of before.
            reconfig.deny_queued(ResultCode::ALREADY_IN_PROGRESS);
        }
        reconfig.deferred = None;
        reconfig.closing.clear();
    }
    let kept = partly_delivered(&association.inbound);
    cuts.retain(|stream| !kept.contains(stream));
    for stream in cuts {
        cx.event(association.id, Event::PartialDeliveryAborted { stream, unread });
    }
    let outcome = Outcome::Performed;
    let event = Event::AssociationReset { outcome, local_tsn: own, peer_tsn: peers, unread, cut };
    cx.event(association.id, event);
}

/// Starts the timer of our request anew. Only in states in which it does not measure the set-up or the shutdown.
fn restart_timer(association: &mut Association, now: Time) {
    let Some(Active::Own(own)) = association.reconfig.as_ref().and_then(|reconfig| reconfig.active.as_ref())
    else {
        return;
    };
    let rto = association.paths.get(association.control_path).rto.rto();
    let waits = own.waits(rto).min(association.config.rto_max.max(rto));
    if association.state.sends_data() {
        association.deadlines.control = now + waits;
    }
}

/// Records the verdict on a request of the peer, and that a response is owed.
fn answer(association: &mut Association, number: RequestNumber, verdict: Verdict) {
    let reconfig = reconfig_mut(association);
    reconfig.set_verdict(number, verdict);
    reconfig.owe(number);
}
