//! Requests of the peer (RFC 6525 section 5.2).

use strandline_wire::parameter::re_config::{
    IncomingSsnReset, NextTsns, OutgoingSsnReset, ReConfigParameter, Response, ResultCode, StreamList,
};

use super::super::Association;
use super::super::context::Shared;
use super::request::{acknowledge_part, begin};
use super::state::{Active, Asked, Deferred, Own, Part, Stage, Verdict, Work};
use super::{answer, reconfig_mut, renumber, report_streams};
use crate::event::Event;
use crate::inbound::{Barred, reconfigure as incoming};
use crate::number::{RequestNumber, StreamId};
use crate::outbound::reconfigure as outgoing;
use crate::reconfiguration::{Outcome, StreamDirection, Streams};
use crate::time::Time;

/// Maximum number of streams that we list in an Outgoing SSN Reset Request.
const OUTGOING_LISTED_MAX: usize = 512;

/// Distance between our TSNs before and after a reset that the peer asks for. With it, the peer cannot take our new
/// DATA for old DATA before it knows of the reset: such a TSN is too far ahead.
const TSN_STEP: u32 = 1 << 16;

/// Distance between the peer's TSNs before and after a reset (section 5.2.4 step G1).
const PEER_TSN_STEP: u32 = 1 << 31;

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
    cx: &mut Shared,
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
        ReConfigParameter::IncomingSsnReset(reset) => on_incoming_reset(association, reset),
        ReConfigParameter::SsnTsnReset(_) => on_renumber_request(association, number),
        ReConfigParameter::AddOutgoingStreams(add) => {
            acknowledge_part(association, cx, Part::AddIncoming, None);
            Some(on_add_outgoing(association, cx, add.streams))
        }
        ReConfigParameter::AddIncomingStreams(add) => Some(on_add_incoming(association, add.streams)),
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
    cx: &mut Shared,
    _now: Time,
    reset: &OutgoingSsnReset<'_>,
) -> Option<ResultCode> {
    let allowed = association.config.extensions.peer_requests.reset_streams;
    acknowledge_part(association, cx, Part::ResetIncoming, Some(reset.response));
    let reconfig = reconfig_mut(association);
    let wanted = reconfig.consented.take_if(|number| *number == reset.response).is_some();
    if !allowed && !wanted {
        return Some(ResultCode::DENIED);
    }
    let renumbers = reconfig.sent().is_some_and(|sent| sent.has(Part::Renumber));
    let waits = reconfig.deferred.is_some();
    let streams = Streams::from(reset.streams);
    if !exist(&streams, association.inbound.streams()) {
        return Some(ResultCode::WRONG_SSN);
    }
    if !reset.last_tsn.is_after(association.inbound.cumulative_tsn()) {
        return Some(reset_incoming(association, cx, &streams));
    }
    if waits || renumbers {
        return Some(ResultCode::ALREADY_IN_PROGRESS);
    }
    incoming::set_barred(&mut association.inbound, Some(Barred::Beyond(streams.clone(), reset.last_tsn)));
    let deferred = Deferred { number: reset.request, streams, last: reset.last_tsn };
    reconfig_mut(association).deferred = Some(deferred);
    None
}

/// Steps E3 and E5.
fn reset_incoming(association: &mut Association, cx: &mut Shared, streams: &Streams) -> ResultCode {
    let Some(unread) = incoming::reset_streams(&mut association.inbound, streams) else {
        return ResultCode::WRONG_SSN;
    };
    let event = Event::StreamsReset {
        direction: StreamDirection::Incoming,
        streams: streams.clone(),
        outcome: Outcome::Performed,
        unread,
    };
    cx.event_if_room(association.id, event);
    ResultCode::PERFORMED
}

/// Performs a reset that waited for data, once it has arrived.
pub(super) fn finish_deferred(association: &mut Association, cx: &mut Shared) {
    let cumulative = association.inbound.cumulative_tsn();
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(deferred) = reconfig.deferred.take_if(|deferred| !deferred.last.is_after(cumulative)) else {
        return;
    };
    incoming::set_barred(&mut association.inbound, None);
    let result = reset_incoming(association, cx, &deferred.streams);
    answer(association, deferred.number, Verdict::Is(Response::new(deferred.number, result)));
}

/// Section 5.2.3. Returns `None` if our request follows.
fn on_incoming_reset(association: &mut Association, reset: &IncomingSsnReset<'_>) -> Option<ResultCode> {
    let allowed = association.config.extensions.peer_requests.reset_streams && association.state.sends_data();
    let streams = Streams::from(reset.streams);
    if !allowed || streams.list().len() > OUTGOING_LISTED_MAX {
        return Some(ResultCode::DENIED);
    }
    if !exist(&streams, association.outbound.streams()) {
        return Some(ResultCode::WRONG_SSN);
    }
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
    if reconfig.asked.is_some() || reconfig.sent().is_some_and(|sent| sent.needs_peer()) {
        return Some(ResultCode::ALREADY_IN_PROGRESS);
    }
    reconfig.asked = Some(Asked::Reset(reset.request, streams));
    None
}

/// Section 5.2.4. Returns `None` if the reset waits until our data is acknowledged.
fn on_renumber_request(association: &mut Association, number: RequestNumber) -> Option<ResultCode> {
    if !association.config.extensions.peer_requests.reset_association || !association.state.sends_data() {
        return Some(ResultCode::DENIED);
    }
    let reconfig = reconfig_mut(association);
    let busy = reconfig.asked.is_some() || reconfig.deferred.is_some();
    if busy || reconfig.sent().is_some_and(|sent| sent.needs_peer()) {
        return Some(ResultCode::ALREADY_IN_PROGRESS);
    }
    reconfig.asked = Some(Asked::Renumber(number));
    None
}

/// Section 5.2.5.
fn on_add_outgoing(association: &mut Association, cx: &mut Shared, count: u16) -> ResultCode {
    let most = association.config.inbound_streams_max;
    let allowed = association.config.extensions.peer_requests.add_streams;
    let reconfig = reconfig_mut(association);
    let wanted = reconfig.wanted_streams >= count;
    let fits = association.inbound.streams().checked_add(count).is_some_and(|streams| streams <= most);
    if !(allowed || wanted) || !fits {
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
fn on_add_incoming(association: &mut Association, count: u16) -> ResultCode {
    let requests = association.config.extensions.peer_requests;
    let most = requests.outbound_streams_max;
    let fits = association.outbound.streams().checked_add(count).is_some_and(|streams| streams <= most);
    if !requests.add_streams || !association.state.sends_data() || !fits {
        return ResultCode::DENIED;
    }
    let reconfig = reconfig_mut(association);
    match () {
        () if count == 0 => ResultCode::NOTHING_TO_DO,
        () if reconfig.asked.is_some() => ResultCode::ALREADY_IN_PROGRESS,
        () => {
            reconfig.asked = Some(Asked::Add(count));
            ResultCode::PERFORMED
        }
    }
}

/// Begins what the peer asked for, if nothing else is active. Returns true if something began.
pub(super) fn start_asked(association: &mut Association) -> bool {
    let Some(reconfig) = &mut association.reconfig else { return false };
    if reconfig.active.is_some() {
        return false;
    }
    let (work, performs) = match reconfig.asked.take() {
        None => return false,
        Some(Asked::Reset(number, streams)) => {
            (Work::Reset(StreamDirection::Outgoing, streams), Some(number))
        }
        Some(Asked::Add(count)) => (Work::Add { outgoing: count, incoming: 0 }, None),
        Some(Asked::Renumber(number)) => {
            reconfig.active = Some(Active::Drain(number));
            outgoing::hold(&mut association.outbound, Streams::All, &association.config);
            return true;
        }
    };
    begin(association, work, performs, false);
    true
}

/// Performs the peer's reset of all numbers, once all our data is acknowledged: the peer has seen all of it.
pub(super) fn finish_drain(association: &mut Association, cx: &mut Shared) {
    let Some(reconfig) = &mut association.reconfig else { return };
    let Some(Active::Drain(number)) = reconfig.active else { return };
    if !outgoing::is_drained(&association.outbound) || association.outbound.unacknowledged_bytes() > 0 {
        return;
    }
    reconfig.active = None;
    let sender = association.outbound.next_tsn() + TSN_STEP;
    let receiver = association.inbound.cumulative_tsn().next() + PEER_TSN_STEP;
    let next_tsns = Some(NextTsns { sender, receiver });
    let response = Response { next_tsns, ..Response::new(number, ResultCode::PERFORMED) };
    answer(association, number, Verdict::Is(response));
    renumber(association, cx, sender, receiver);
}
