//! What the peer answers about dynamic streams, and what its own requests mean for them.

use strandline_wire::parameter::re_config::ResultCode;

use super::super::Association;
use super::super::context::EndpointContext;
use super::state::{Active, Origin, Own, Part, Reconfig, Stage, Work};
use crate::event::Event;
use crate::inbound::forward;
use crate::number::StreamId;
use crate::outbound::dynamic_streams as outgoing;
use crate::reconfiguration::{DynamicStreamsEvent, Outcome, Streams};

/// Number of times in a row that a request is repeated because the peer answers that another one is in progress.
const CROSSED_MAX: u8 = 8;

/// Returns whether all of these are dynamic streams.
pub(super) fn are_dynamic(association: &Association, streams: &Streams) -> bool {
    let first = association.extras.as_ref().and_then(|extras| extras.dynamic_from);
    let lowest = streams.list().first();
    first.zip(lowest).is_some_and(|(first, lowest)| *lowest >= first)
}

/// Returns whether the application records no more resets, so that they are denied.
pub(super) fn are_denied(association: &Association) -> bool {
    association.extras.as_ref().is_some_and(|extras| extras.denies_resets)
}

/// Returns the first dynamic stream among these, if there is one.
pub(super) fn first_dynamic(association: &Association, streams: &Streams) -> Option<StreamId> {
    let first = association.extras.as_ref()?.dynamic_from?;
    match streams {
        Streams::All => Some(first),
        Streams::Listed(list) => list.iter().copied().find(|stream| *stream >= first),
    }
}

/// Applies the peer's response to a request about dynamic streams.
pub(super) fn conclude(
    association: &mut Association,
    cx: &mut EndpointContext,
    part: Part,
    streams: &Streams,
    (result, outcome): (ResultCode, Outcome),
) {
    let last = association.outbound.next_tsn().previous();
    let Some(reconfig) = &mut association.reconfig else { return };
    let closing = &mut reconfig.closing;
    let again = result == ResultCode::ALREADY_IN_PROGRESS && closing.crossed < CROSSED_MAX;
    closing.crossed = if again { closing.crossed + 1 } else { 0 };
    match part {
        Part::ResetIncoming if again => closing.stopping.extend(streams.list()),
        Part::ResetOutgoing if again => {
            closing.drained.extend(streams.list().iter().map(|stream| (last, *stream)));
        }
        Part::ResetOutgoing => {
            let streams = streams.list().to_vec();
            let event = DynamicStreamsEvent::Closed { streams, outcome };
            cx.event(association.id, Event::DynamicStreams(event));
        }
        _ => {}
    }
}

/// Returns whether the peer has not answered yet to our request that it stop one of these streams. Until it
/// has, it must not learn that we performed its own reset of that stream: it might use the number again, and
/// take our request for one to stop the new stream.
pub(super) fn awaits_stop(reconfig: &Reconfig, streams: &Streams) -> bool {
    let Some(Active::Own(Own { origin: Origin::Closing, work: Work::Reset(_, asked), stage, .. })) =
        &reconfig.active
    else {
        return false;
    };
    let Stage::Sent(sent) = stage else { return false };
    sent.has(Part::ResetIncoming) && asked.list().iter().any(|stream| streams.contains(*stream))
}

/// Returns the event for the end of incoming streams, which are about to be reset.
pub(super) fn ended(association: &mut Association, streams: &Streams) -> Option<DynamicStreamsEvent> {
    if let Some(reconfig) = &mut association.reconfig {
        reconfig.closing.stopping.retain(|stream| !streams.contains(*stream));
        reconfig.closing.starting.retain(|(_, stream)| !streams.contains(*stream));
        outgoing::forget_starts(&mut association.outbound, streams);
    }
    let first = association.extras.as_ref()?.dynamic_from?;
    let dynamic = streams.list().iter().filter(|stream| **stream >= first);
    let streams: Vec<_> =
        dynamic.map(|stream| (*stream, forward::next_ssn(&association.inbound, *stream))).collect();
    (!streams.is_empty()).then_some(DynamicStreamsEvent::Ended { streams, unread: 0 })
}
