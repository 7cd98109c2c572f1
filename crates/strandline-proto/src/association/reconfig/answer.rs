//! Requests of the peer (RFC 6525 section 5.2).

use core::time::Duration;

use strandline_wire::parameter::re_config::{
    IncomingSsnReset, NextTsns, OutgoingSsnReset, ReConfigParameter, Response, ResultCode, StreamList,
};

use super::super::Association;
use super::super::context::EndpointContext;
use super::request::{acknowledge_part, begin, report_reset};
use super::state::{
    Active, Deferred, Origin, Own, Part, Performs, QueuedRequest, Reconfig, Stage, Verdict, Work,
};
use super::{answer, dynamic_streams, reconfig_mut, renumber, report_streams};
use crate::event::Event;
use crate::inbound::i_data::charged_bytes;
use crate::inbound::{Barred, reconfigure as incoming};
use crate::number::{RequestNumber, StreamId, Tsn};
use crate::outbound::reconfigure as outgoing;
use crate::reconfiguration::{DynamicStreamsEvent, Outcome, StreamDirection, Streams};
use crate::time::Time;

/// Maximum number of streams that we list in an Outgoing SSN Reset Request.
const OUTGOING_LISTED_MAX: usize = 512;

/// Distance between our next TSN when the peer asks for a reset of all numbers and the first one after the
/// reset. More TSNs are never used in between. The peer cannot take our new DATA for old DATA before it knows
/// of the reset: such a TSN is too far ahead.
const TSN_STEP: u32 = 1 << 30;

/// Distance between the peer's TSNs before and after a reset (section 5.2.4 step G1).
const PEER_TSN_STEP: u32 = 1 << 31;

/// Maximum distance of a reset's last TSN beyond the cumulative TSN: no DATA beyond that could be accepted.
const LAST_AHEAD_MAX: u32 = u16::MAX as u32;

/// Time after which a reset is refused whose data is still missing. A peer that never sends the data would
/// bar a reset of all numbers.
const DEFERRED_MAX: Duration = Duration::from_secs(60);

impl From<StreamList<'_>> for Streams {
    fn from(list: StreamList<'_>) -> Self {
        if list.is_all() { Self::All } else { list.iter().collect() }
    }
}

/// Returns true if all of the streams are below a number of streams.
fn exist(streams: &Streams, count: u16) -> bool {
    streams.highest().is_none_or(|StreamId(highest)| highest < count)
}

/// Processes a request of the peer, and records what is owed to it.
pub(super) fn on_request(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    request: &ReConfigParameter<'_>,
) {
    let Some(number) = request.request() else { return };
    let reconfig = reconfig_mut(association);
    if number != reconfig.expected {
        // A repetition, if its verdict is known; otherwise a bad number.
        return reconfig.owe(number);
    }
    reconfig.expected = number.next();
    reconfig.set_verdict(number, Verdict::Pending);
    let result = match request {
        ReConfigParameter::OutgoingSsnReset(reset) => on_outgoing_reset(association, cx, now, reset),
        ReConfigParameter::IncomingSsnReset(reset) => on_incoming_reset(association, cx, reset),
        ReConfigParameter::SsnTsnReset(_) => on_renumber_request(association, cx, number),
        ReConfigParameter::AddOutgoingStreams(add) => {
            acknowledge_part(association, cx, Part::AddIncoming, None);
            Some(on_add_outgoing(association, cx, add.streams))
        }
        ReConfigParameter::AddIncomingStreams(add) => Some(on_add_incoming(association, cx, add.streams)),
        ReConfigParameter::Response(_) => None,
    };
    match (result, request) {
        (Some(result), _) => answer(association, number, Verdict::Is(Response::new(number, result))),
        // Step E2.
        (None, ReConfigParameter::OutgoingSsnReset(_)) => answer(association, number, Verdict::Pending),
        // The real answer may follow soon. usrsctp takes "in progress" for the end of these requests, so that only a
        // repetition gets it.
        (None, _) => {}
    }
}

/// Section 5.2.2. Returns `None` if the reset waits for missing data.
fn on_outgoing_reset(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    reset: &OutgoingSsnReset<'_>,
) -> Option<ResultCode> {
    let (streams, count) = (Streams::from(reset.streams), association.inbound.streams());
    let asked = take_consent(reconfig_mut(association), reset, &streams, count);
    if asked.is_some() {
        acknowledge_part(association, cx, Part::ResetIncoming, Some(reset.response));
    }
    let wanted = asked.as_ref().is_some_and(|asked| asked.covers(&streams));
    let permitted = association.config.extensions.peer_requests.reset_streams;
    let may = cx.has_event_room() && !dynamic_streams::are_denied(association);
    let allowed = (permitted || dynamic_streams::are_dynamic(association, &streams)) && may;
    let reconfig = reconfig_mut(association);
    let awaits_stop = dynamic_streams::awaits_stop(reconfig, &streams);
    let waits = reconfig.deferred.is_some() || reconfig.sent().is_some_and(|sent| sent.has(Part::Renumber));
    let cumulative = association.inbound.cumulative_tsn();
    let result = match () {
        () if !allowed && !wanted => ResultCode::DENIED,
        () if !exist(&streams, count) => ResultCode::WRONG_SSN,
        () if !reset.last_tsn.is_after(cumulative) && !awaits_stop => {
            reset_incoming(association, cx, &streams)
        }
        () if reset.last_tsn.is_after(cumulative)
            && reset.last_tsn.distance_from(cumulative) > LAST_AHEAD_MAX =>
        {
            ResultCode::WRONG_SSN
        }
        () if waits => ResultCode::ALREADY_IN_PROGRESS,
        () => {
            let barred = Barred::Beyond(streams.clone(), reset.last_tsn);
            incoming::set_barred(&mut association.inbound, Some(barred));
            let (number, last, until) = (reset.request, reset.last_tsn, now + DEFERRED_MAX);
            let deferred = Deferred { number, streams, last, answers: asked, until };
            reconfig_mut(association).deferred = Some(deferred);
            return None;
        }
    };
    report_refusal(association, cx, asked, result);
    Some(result)
}

/// Returns the streams that we asked for if the request is the answer to ours, or to a part of it: usrsctp
/// resets streams one after the other. Any request has the number of our latest one (section 5.1.2 step A4),
/// but the answer has its streams, too. What it leaves out may follow.
fn take_consent(
    reconfig: &mut Reconfig,
    reset: &OutgoingSsnReset<'_>,
    streams: &Streams,
    count: u16,
) -> Option<Streams> {
    let (_, asked) = reconfig.consented.take_if(|(number, asked)| {
        *number == reset.response && (asked.covers(streams) || streams.covers(asked))
    })?;
    let rest = match (&asked, streams) {
        (Streams::All, Streams::Listed(list)) if list.len() < usize::from(count) => Some(Streams::All),
        (Streams::Listed(all), Streams::Listed(_)) => {
            let rest: Streams = all.iter().copied().filter(|stream| !streams.contains(*stream)).collect();
            (!rest.list().is_empty()).then_some(rest)
        }
        _ => None,
    };
    reconfig.consented = rest.map(|rest| (reset.response, rest));
    Some(asked)
}

/// Reports that our request for these incoming streams has failed, if the peer's answer to it was refused.
fn report_refusal(
    association: &Association,
    cx: &mut EndpointContext,
    asked: Option<Streams>,
    result: ResultCode,
) {
    if let Some(streams) = asked.filter(|_| result != ResultCode::PERFORMED) {
        report_reset(association, cx, StreamDirection::Incoming, streams, Outcome::Failed);
    }
}

/// Steps E3 and E5.
fn reset_incoming(association: &mut Association, cx: &mut EndpointContext, streams: &Streams) -> ResultCode {
    let ended = dynamic_streams::ended(association, streams);
    let before = charged_bytes(&association.inbound);
    let Some(unread) = incoming::reset_streams(&mut association.inbound, streams) else {
        return ResultCode::WRONG_SSN;
    };
    cx.memory.on_received(before, charged_bytes(&association.inbound));
    if let Some(DynamicStreamsEvent::Ended { streams: ended, .. }) = ended {
        let all = ended.len() == streams.list().len();
        let event = DynamicStreamsEvent::Ended { streams: ended, unread };
        cx.event(association.id, Event::DynamicStreams(event));
        if all {
            return ResultCode::PERFORMED;
        }
    }
    let event = Event::StreamsReset {
        direction: StreamDirection::Incoming,
        streams: streams.clone(),
        outcome: Outcome::Performed,
        unread,
    };
    cx.event(association.id, event);
    ResultCode::PERFORMED
}

/// Performs a reset that waited for data, once it has arrived, or refuses it after a time.
pub(super) fn finish_deferred(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let cumulative = association.inbound.cumulative_tsn();
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(deferred) = &reconfig.deferred else { return };
    let arrived =
        !deferred.last.is_after(cumulative) && !dynamic_streams::awaits_stop(reconfig, &deferred.streams);
    let Some(deferred) = reconfig.deferred.take_if(|deferred| arrived || deferred.until <= now) else {
        return;
    };
    incoming::set_barred(&mut association.inbound, None);
    let result = match () {
        () if !arrived => ResultCode::WRONG_SSN,
        () if deferred.answers.is_none() && !cx.has_event_room() => ResultCode::DENIED,
        () => reset_incoming(association, cx, &deferred.streams),
    };
    answer(association, deferred.number, Verdict::Is(Response::new(deferred.number, result)));
    report_refusal(association, cx, deferred.answers, result);
}

/// Sets the timer of the reset that waits for data, unless a request of ours uses it. The timer belongs to
/// requests only in states that send data.
pub(super) fn watch_deferred(association: &mut Association) {
    let deferred = association.reconfig.as_ref().and_then(|reconfig| reconfig.deferred.as_ref());
    if let Some(until) = deferred.map(|deferred| deferred.until)
        && association.deadlines.control == Time::MAX
        && association.state.sends_data()
    {
        association.deadlines.control = until;
    }
}

/// Section 5.2.3. Returns `None` if our request follows.
fn on_incoming_reset(
    association: &mut Association,
    cx: &mut EndpointContext,
    reset: &IncomingSsnReset<'_>,
) -> Option<ResultCode> {
    let requests = association.config.extensions.peer_requests;
    let has_room = cx.has_event_room() && !dynamic_streams::are_denied(association);
    let may = association.state.sends_data() && has_room;
    let allowed = requests.reset_streams && may;
    let streams = Streams::from(reset.streams);
    if may && dynamic_streams::are_dynamic(association, &streams) {
        if !exist(&streams, association.outbound.streams()) {
            return Some(ResultCode::WRONG_SSN);
        }
        // The application stops sending on them, and each is closed as if it had finished: there is nothing
        // to do for this request.
        let unread = incoming::unread(&association.inbound);
        let event = DynamicStreamsEvent::Stopped { streams: streams.list().to_vec(), unread };
        cx.event(association.id, Event::DynamicStreams(event));
        return Some(ResultCode::NOTHING_TO_DO);
    }
    if !allowed || reset.streams.iter().len() > OUTGOING_LISTED_MAX {
        return Some(ResultCode::DENIED);
    }
    if !exist(&streams, association.outbound.streams()) {
        return Some(ResultCode::WRONG_SSN);
    }
    let refuses = refuses_crossing(association);
    let Some(reconfig) = &mut association.reconfig else { return Some(ResultCode::DENIED) };
    match &reconfig.active {
        None if outgoing::are_reset(&association.outbound, &streams) => {
            return Some(ResultCode::NOTHING_TO_DO);
        }
        Some(Active::Own(Own { work: Work::Reset(_, resetting), stage: Stage::Sent(sent), .. }))
            if sent.has(Part::ResetOutgoing) && resetting.covers(&streams) =>
        {
            return Some(ResultCode::NOTHING_TO_DO);
        }
        _ => {}
    }
    let crosses = reconfig.sent().is_some_and(|sent| sent.needs_peer());
    if reconfig.queued.is_some() || (crosses && refuses) {
        return Some(ResultCode::ALREADY_IN_PROGRESS);
    }
    let list = reset.streams.iter().flat_map(|stream| stream.0.to_be_bytes()).collect();
    reconfig.queued = Some(QueuedRequest::Reset(Performs { number: reset.request, list }, streams));
    None
}

/// Returns whether this side refuses a request that crosses one of ours, if both need a request or the data
/// of the other side first: the side with the higher tag does. Without such a rule both would wait, or both
/// would refuse.
fn refuses_crossing(association: &Association) -> bool {
    association.local_tag.0 > association.peer_tag.0
}

/// Section 5.2.4. Returns `None` if the reset waits until our data is acknowledged.
fn on_renumber_request(
    association: &mut Association,
    cx: &EndpointContext,
    number: RequestNumber,
) -> Option<ResultCode> {
    let requests = association.config.extensions.peer_requests;
    if !requests.reset_association || !association.state.sends_data() || !cx.has_event_room() {
        return Some(ResultCode::DENIED);
    }
    let refuses = refuses_crossing(association);
    let reconfig = reconfig_mut(association);
    let busy = reconfig.queued.is_some() || reconfig.deferred.is_some();
    let waits = match reconfig.sent() {
        Some(sent) if sent.has(Part::Renumber) => refuses,
        Some(sent) => sent.needs_peer(),
        None => false,
    };
    if busy || waits {
        return Some(ResultCode::ALREADY_IN_PROGRESS);
    }
    let sender = association.outbound.next_tsn() + TSN_STEP;
    reconfig_mut(association).queued = Some(QueuedRequest::Renumber(number, sender));
    None
}

/// Section 5.2.5.
fn on_add_outgoing(association: &mut Association, cx: &mut EndpointContext, count: u16) -> ResultCode {
    let most = association.config.inbound_streams_max;
    let allowed = association.config.extensions.peer_requests.add_streams;
    let reconfig = reconfig_mut(association);
    let wanted = reconfig.wanted_streams >= count;
    let fits = association.inbound.streams().checked_add(count).is_some_and(|streams| streams <= most);
    if !((allowed && cx.has_event_room()) || wanted) || !fits {
        return ResultCode::DENIED;
    }
    if count == 0 {
        return ResultCode::NOTHING_TO_DO;
    }
    let reconfig = reconfig_mut(association);
    reconfig.wanted_streams = reconfig.wanted_streams.saturating_sub(count);
    incoming::add_streams(&mut association.inbound, count);
    report_streams(association, cx, Outcome::Performed);
    ResultCode::PERFORMED
}

/// Section 5.2.6. Our own request follows.
fn on_add_incoming(association: &mut Association, cx: &EndpointContext, count: u16) -> ResultCode {
    let requests = association.config.extensions.peer_requests;
    let most = requests.outbound_streams_max;
    let streams = association.outbound.streams();
    let sends_data = association.state.sends_data();
    let reconfig = reconfig_mut(association);
    // Ours that the peer has not answered yet may be added, too.
    let asked = reconfig.streams_asked_for();
    let fits = |added: &u16| {
        let all = streams.checked_add(asked).and_then(|streams| streams.checked_add(*added));
        all.is_some_and(|streams| streams <= most)
    };
    let added = reconfig.queued_streams.checked_add(count).filter(fits);
    let allowed = requests.add_streams && sends_data && cx.has_event_room();
    let Some(added) = added.filter(|_| allowed) else { return ResultCode::DENIED };
    if count == 0 {
        return ResultCode::NOTHING_TO_DO;
    }
    reconfig.queued_streams = added;
    ResultCode::PERFORMED
}

/// Begins what the peer asked for, if nothing else is active. Returns true if something began.
pub(super) fn start_queued(association: &mut Association) -> bool {
    let Some(reconfig) = &mut association.reconfig else { return false };
    if reconfig.active.is_some() {
        return false;
    }
    let streams = core::mem::take(&mut reconfig.queued_streams);
    if streams > 0 {
        begin(association, Work::Add { outgoing: streams, incoming: 0 }, None, Origin::Peer);
        return true;
    }
    let (work, performs) = match reconfig.queued.take() {
        None => return false,
        Some(QueuedRequest::Reset(performs, streams)) => {
            (Work::Reset(StreamDirection::Outgoing, streams), Some(performs))
        }
        Some(QueuedRequest::Renumber(number, sender)) => {
            reconfig.active = Some(Active::Drain(number, sender));
            outgoing::hold(&mut association.outbound, Streams::All, &association.config);
            return true;
        }
    };
    begin(association, work, performs, Origin::Peer);
    true
}

/// Returns the peer's first TSN if all numbers are reset now (section 5.2.4 step G1).
pub(super) fn next_of_peer(association: &Association) -> Tsn {
    association.inbound.cumulative_tsn().next() + PEER_TSN_STEP
}

/// Performs the peer's reset of all numbers, once all our data is acknowledged or skipped: the peer has seen all of it.
pub(super) fn finish_drain(association: &mut Association, cx: &mut EndpointContext) {
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(Active::Drain(number, sender)) = reconfig.active else { return };
    if !outgoing::is_drained(&association.outbound) || association.outbound.has_outstanding() {
        return;
    }
    reconfig.active = None;
    if !cx.has_event_room() {
        outgoing::release_held(&mut association.outbound);
        return answer(association, number, Verdict::Is(Response::new(number, ResultCode::DENIED)));
    }
    let receiver = next_of_peer(association);
    let next_tsns = Some(NextTsns { sender, receiver });
    let response = Response { next_tsns, ..Response::new(number, ResultCode::PERFORMED) };
    answer(association, number, Verdict::Is(response));
    renumber(association, cx, sender, receiver);
}
