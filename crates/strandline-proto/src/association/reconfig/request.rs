//! Our requests (RFC 6525 sections 5.1 and 5.2.7).

use core::time::Duration;

use strandline_wire::parameter::re_config::{
    AddIncomingStreams, AddOutgoingStreams, IncomingSsnReset, OutgoingSsnReset, ReConfigParameter, Response,
    ResultCode, SsnTsnReset, StreamList,
};

use super::super::context::EndpointContext;
use super::super::error_counts::UNANSWERED;
use super::super::features::Extensions;
use super::super::{Association, State, left_over};
use super::state::{Active, Origin, Own, Part, Performs, Sent, Stage, Verdict, Work};
use super::{dynamic_streams, encode, progress, reconfig_mut, renumber, report_streams, restart_timer, stop};
use crate::error::ReconfigureError;
use crate::event::Event;
use crate::inbound::reconfigure as incoming;
use crate::number::RequestNumber;
use crate::outbound::reconfigure as outgoing;
use crate::reconfiguration::{Outcome, STREAMS_LISTED_MAX, StreamDirection, Streams};
use crate::time::Time;

/// Minimum time between two SSN/TSN Reset Requests: the maximum segment lifetime (section 5.1.4).
const RENUMBER_INTERVAL: Duration = Duration::from_secs(30);

/// Number of expiries of the timer after which a request is given up if the peer's shutdown waits for nothing
/// else: many peers answer no request from then on. What is held back needs the answer: with the wrong
/// numbers it would never be delivered.
const SHUTDOWN_EXPIRIES_MAX: u16 = 2;

/// Returns the stream numbers as bytes.
fn list(streams: &Streams) -> Vec<u8> {
    streams.list().iter().flat_map(|stream| stream.0.to_be_bytes()).collect()
}

/// Returns what a result means for the request.
fn outcome_of(result: ResultCode) -> Outcome {
    match result {
        ResultCode::DENIED => Outcome::Denied,
        result if result.is_success() => Outcome::Performed,
        _ => Outcome::Failed,
    }
}

/// Asks for a reset of streams. It takes place once the peer has acknowledged what was given to `send` before.
pub(crate) fn reset_streams(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    direction: StreamDirection,
    streams: Streams,
) -> Result<(), ReconfigureError> {
    may_reconfigure(association)?;
    if let Some(stream) = dynamic_streams::first_dynamic(association, &streams) {
        return Err(ReconfigureError::Dynamic { stream: stream.0 });
    }
    let count = match direction {
        StreamDirection::Outgoing => association.outbound.streams(),
        StreamDirection::Incoming => association.inbound.streams(),
        StreamDirection::Both => association.outbound.streams().min(association.inbound.streams()),
    };
    if let Streams::Listed(list) = &streams {
        if list.is_empty() || list.len() > STREAMS_LISTED_MAX {
            return Err(ReconfigureError::Count { listed: list.len() });
        }
        if let Some(stream) = streams.highest().filter(|stream| stream.0 >= count) {
            return Err(ReconfigureError::InvalidStream { stream: stream.0, streams: count });
        }
    }
    begin(association, Work::Reset(direction, streams), None, Origin::Application);
    progress_own(association, cx, now);
    Ok(())
}

/// Asks for a reset of all sequence numbers, TSNs included.
pub(crate) fn reset_association(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
) -> Result<(), ReconfigureError> {
    may_reconfigure(association)?;
    let latest = association.reconfig.as_ref().and_then(|reconfig| reconfig.renumbered_at);
    if latest.is_some_and(|at| now.since(at) < RENUMBER_INTERVAL) {
        return Err(ReconfigureError::TooSoon);
    }
    begin(association, Work::Renumber, None, Origin::Application);
    progress_own(association, cx, now);
    Ok(())
}

/// Asks for more streams.
pub(crate) fn add_streams(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    outgoing: u16,
    incoming: u16,
) -> Result<(), ReconfigureError> {
    may_reconfigure(association)?;
    let fits =
        |streams: u16, more: u16, most: u16| streams.checked_add(more).is_some_and(|streams| streams <= most);
    if (outgoing == 0 && incoming == 0)
        || !fits(association.outbound.streams(), outgoing, u16::MAX)
        || !fits(association.inbound.streams(), incoming, association.config.inbound_streams_max)
    {
        return Err(ReconfigureError::TooManyStreams);
    }
    begin(association, Work::Add { outgoing, incoming }, None, Origin::Application);
    progress_own(association, cx, now);
    Ok(())
}

/// Checks whether a request can begin now.
fn may_reconfigure(association: &Association) -> Result<(), ReconfigureError> {
    if !matches!(association.state, State::Established) {
        return Err(ReconfigureError::NotEstablished);
    }
    if !association.features.has(Extensions::RE_CONFIG) {
        return Err(ReconfigureError::NotSupported);
    }
    let busy = association.reconfig.as_ref().is_some_and(|reconfig| reconfig.active.is_some());
    if busy { Err(ReconfigureError::InProgress) } else { Ok(()) }
}

pub(super) fn progress_own(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let path = association.paths.data_path().unwrap_or(association.control_path);
    progress(association, cx, now, path);
}

/// Begins a request: messages that are given from now on wait for its outcome if they belong after it. `performs`
/// is the peer's request that asked for it.
pub(super) fn begin(association: &mut Association, work: Work, performs: Option<Performs>, origin: Origin) {
    let held = match &work {
        Work::Reset(direction, streams) if direction.is_outgoing() => Some(streams.clone()),
        Work::Renumber => Some(Streams::All),
        Work::Reset(..) | Work::Add { .. } => None,
    };
    if let Some(streams) = held {
        outgoing::hold(&mut association.outbound, streams, &association.config);
    }
    let own = Own { work, performs, origin, stage: Stage::Waiting(None) };
    reconfig_mut(association).active = Some(Active::Own(own));
}

/// Sends our request once the data that precedes it is acknowledged.
pub(super) fn send_when_ready(association: &mut Association, _cx: &mut EndpointContext, now: Time) {
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(Active::Own(Own { work, stage: Stage::Waiting(last), .. })) = &mut reconfig.active else {
        return;
    };
    let drained = outgoing::is_drained(&association.outbound);
    let ready = match work {
        Work::Reset(direction, _) if direction.is_outgoing() => {
            if drained && last.is_none() {
                *last = Some(association.outbound.next_tsn().previous());
            }
            last.is_some_and(|last| outgoing::is_acked(&association.outbound, last))
        }
        Work::Renumber => drained && !association.outbound.has_outstanding() && reconfig.deferred.is_none(),
        Work::Reset(..) | Work::Add { .. } => true,
    };
    if ready {
        compose(association, now);
    }
}

/// Builds the parameters of our request. It is sent at the end of the packet or command.
fn compose(association: &mut Association, now: Time) {
    let last_tsn = association.outbound.next_tsn().previous();
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(Active::Own(own)) = &reconfig.active else { return };
    let (work, performs) = (own.work.clone(), own.performs.clone());
    let mut parts = Vec::new();
    let bytes = match &work {
        Work::Reset(direction, streams) => {
            // The peer's list is copied as it is (section 5.1.2 step A4).
            let bytes = performs.as_ref().map_or_else(|| list(streams), |performs| performs.list.clone());
            let (asked, mut parameters) = (streams, Vec::new());
            let streams = StreamList::new(&bytes);
            if direction.is_outgoing() {
                let request = reconfig.take_number();
                let answers = performs.as_ref().map(|performs| performs.number);
                let response = answers.unwrap_or_else(|| reconfig.answers_nothing());
                let reset = OutgoingSsnReset { request, response, last_tsn, streams };
                parts.push((request, Part::ResetOutgoing));
                parameters.push(ReConfigParameter::OutgoingSsnReset(reset));
            }
            if direction.is_incoming() {
                let request = reconfig.take_number();
                reconfig.consented = Some((request, asked.clone()));
                parts.push((request, Part::ResetIncoming));
                let reset = IncomingSsnReset { request, streams };
                parameters.push(ReConfigParameter::IncomingSsnReset(reset));
            }
            encode(&parameters)
        }
        Work::Renumber => {
            let request = reconfig.take_number();
            reconfig.renumbered_at = Some(now);
            parts.push((request, Part::Renumber));
            incoming::bar_past(&mut association.inbound);
            encode(&[ReConfigParameter::SsnTsnReset(SsnTsnReset { request })])
        }
        Work::Add { outgoing, incoming } => {
            let mut parameters = Vec::new();
            if *outgoing > 0 {
                let request = reconfig.take_number();
                parts.push((request, Part::AddOutgoing));
                let add = AddOutgoingStreams { request, streams: *outgoing };
                parameters.push(ReConfigParameter::AddOutgoingStreams(add));
            }
            if *incoming > 0 {
                let request = reconfig.take_number();
                reconfig.wanted_streams = *incoming;
                parts.push((request, Part::AddIncoming));
                let add = AddIncomingStreams { request, streams: *incoming };
                parameters.push(ReConfigParameter::AddIncomingStreams(add));
            }
            encode(&parameters)
        }
    };
    if let Some(Performs { number, .. }) = performs {
        reconfig.set_verdict(number, Verdict::Request(bytes.clone()));
        reconfig.owed.retain(|owed| *owed != number);
    }
    if let Some(Active::Own(own)) = &mut reconfig.active {
        own.stage = Stage::Sent(Sent::new(bytes, parts));
    }
}

/// Processes a response (section 5.2.7).
pub(super) fn on_response(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    response: &Response,
) {
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(sent) = reconfig.sent_mut() else { return };
    let Some(at) = sent.parts.iter().position(|(number, _)| *number == response.response) else { return };
    sent.unanswered = 0;
    if response.result == ResultCode::IN_PROGRESS {
        sent.in_progress = sent.in_progress.saturating_add(1);
        if let (Some((_, Part::Renumber)), Some(next)) = (sent.parts.get(at), response.next_tsns) {
            incoming::on_next_tsn_known(&mut association.inbound, next.sender);
        }
        return restart_timer(association, now);
    }
    let (_, part) = sent.parts.remove(at);
    left_over::on_answer(association, now);
    conclude(association, cx, part, response);
    finish_own(association);
}

/// Processes a request of the peer that is the answer to a part of ours: with this number, if there is one.
pub(super) fn acknowledge_part(
    association: &mut Association,
    _cx: &mut EndpointContext,
    part: Part,
    number: Option<RequestNumber>,
) {
    let Some(sent) = association.reconfig.as_mut().and_then(|reconfig| reconfig.sent_mut()) else { return };
    let before = sent.parts.len();
    sent.parts.retain(|(own, kind)| *kind != part || number.is_some_and(|number| number != *own));
    if sent.parts.len() < before {
        finish_own(association);
    }
}

/// Ends our request if all its parts are answered.
fn finish_own(association: &mut Association) {
    let Some(reconfig) = &mut association.reconfig else { return };
    if reconfig.sent().is_some_and(|sent| sent.parts.is_empty()) {
        reconfig.active = None;
        if association.state.sends_data() {
            association.deadlines.control = Time::MAX;
        }
    }
}

/// Applies the response to a part of our request.
fn conclude(association: &mut Association, cx: &mut EndpointContext, part: Part, response: &Response) {
    let outcome = outcome_of(response.result);
    let done = outcome == Outcome::Performed;
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(Active::Own(own)) = &reconfig.active else { return };
    let (work, origin) = (own.work.clone(), own.origin);
    let by_application = origin == Origin::Application;
    match (part, work) {
        (Part::ResetOutgoing, Work::Reset(_, streams)) => {
            if done {
                outgoing::reset_streams(&mut association.outbound, &streams);
            }
            outgoing::release_held(&mut association.outbound);
            if origin == Origin::Closing {
                dynamic_streams::conclude(association, cx, part, &streams, (response.result, outcome));
            } else if done || by_application {
                report_reset(association, cx, StreamDirection::Outgoing, streams, outcome);
            }
        }
        // The peer's own request follows a success, and is reported.
        (Part::ResetIncoming, Work::Reset(_, streams)) if response.result != ResultCode::PERFORMED => {
            reconfig.consented = None;
            if origin == Origin::Closing {
                return dynamic_streams::conclude(
                    association,
                    cx,
                    part,
                    &streams,
                    (response.result, outcome),
                );
            }
            let outcome = if done { Outcome::NothingToDo } else { outcome };
            report_reset(association, cx, StreamDirection::Incoming, streams, outcome);
        }
        (Part::Renumber, _) => match response.next_tsns {
            Some(next) if done => renumber(association, cx, next.receiver, next.sender),
            _ => fail_renumber(association, cx, if done { Outcome::Failed } else { outcome }),
        },
        (Part::AddOutgoing, Work::Add { outgoing, .. }) => {
            if done {
                outgoing::add_streams(&mut association.outbound, outgoing);
            }
            if done || by_application {
                report_streams(association, cx, outcome);
            }
        }
        (Part::AddIncoming, _) if !done => {
            reconfig.wanted_streams = 0;
            report_streams(association, cx, outcome);
        }
        _ => {}
    }
    association.flags.burst_open = true;
}

fn fail_renumber(association: &mut Association, cx: &mut EndpointContext, outcome: Outcome) {
    incoming::set_barred(&mut association.inbound, None);
    outgoing::release_held(&mut association.outbound);
    let (local_tsn, peer_tsn) =
        (association.outbound.next_tsn(), association.inbound.cumulative_tsn().next());
    let event = Event::AssociationReset { outcome, local_tsn, peer_tsn, unread: 0, cut: None };
    cx.event(association.id, event);
}

pub(super) fn report_reset(
    association: &Association,
    cx: &mut EndpointContext,
    direction: StreamDirection,
    streams: Streams,
    outcome: Outcome,
) {
    cx.event(association.id, Event::StreamsReset { direction, streams, outcome, unread: 0 });
}

/// Reports that a request of the application failed because it was given up.
pub(super) fn report_failed(association: &Association, cx: &mut EndpointContext, own: &Own) {
    if own.origin != Origin::Application {
        return;
    }
    let outcome = Outcome::Failed;
    match &own.work {
        Work::Reset(direction, streams) => {
            report_reset(association, cx, *direction, streams.clone(), outcome)
        }
        Work::Add { .. } => report_streams(association, cx, outcome),
        Work::Renumber => {
            let (local_tsn, peer_tsn) =
                (association.outbound.next_tsn(), association.inbound.cumulative_tsn().next());
            let event = Event::AssociationReset { outcome, local_tsn, peer_tsn, unread: 0, cut: None };
            cx.event(association.id, event);
        }
    }
}

/// Handles an expiry of the timer of our request (section 5.1.1): it is sent again. It counts as an error unless
/// the peer has answered that the request is in progress (section 5.2.7 step H2).
///
/// Requests without a response have a count of their own besides that of the association, which answered
/// HEARTBEATs reset.
#[cold]
pub(in super::super) fn on_timer(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(sent) = reconfig.sent_mut() else {
        // A reset of the peer waits for its data.
        return progress(association, cx, now, association.control_path);
    };
    sent.repeat();
    if association.flags.sourceless {
        // It did not leave, so no answer is missing.
        return progress(association, cx, now, association.control_path);
    }
    if sent.in_progress == 0 || sent.unanswered > 0 {
        sent.unanswered = sent.unanswered.saturating_add(1);
        let unanswered = sent.unanswered;
        association.errors.total = association.errors.total.saturating_add(1);
        if association.errors.total.max(unanswered) > association.config.association_retrans_max {
            return association.give_up(cx, now, UNANSWERED);
        }
        association.back_off_control_path(cx);
    } else {
        // The next expiry without a response in between is an error.
        sent.unanswered = 1;
    }
    let waits_for_data =
        association.outbound.has_pending() || association.outbound.unacknowledged_bytes() > 0;
    let delays = matches!(association.state, State::ShutdownReceived) && !waits_for_data;
    let Some(reconfig) = &mut association.reconfig else { return };
    let (delays, needs_peer) = match reconfig.sent_mut() {
        Some(sent) => {
            sent.delays = sent.delays.saturating_add(delays.into());
            (sent.delays, sent.needs_peer())
        }
        None => (0, false),
    };
    if needs_peer {
        // The peer's request may wait for ours while ours waits for it.
        reconfig.deny_queued(ResultCode::ALREADY_IN_PROGRESS);
    }
    if delays > SHUTDOWN_EXPIRIES_MAX && !outgoing::holds_messages(&association.outbound) {
        stop(association, cx, true);
        association.progress_shutdown(cx, now);
    }
    progress(association, cx, now, association.control_path);
}
