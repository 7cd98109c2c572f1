//! Streams that are opened and closed at run time: many of them share a request.
//!
//! A stream that is closed waits until all of it is acknowledged. The next Outgoing SSN Reset Request lists
//! all streams that wait for nothing else. The peer is asked to stop others by an Incoming SSN Reset Request.
//! Both alternate, since one request is in flight at a time (section 5.1.1).

use std::collections::{BTreeSet, VecDeque};

use strandline_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN};

use super::super::abandon;
use super::super::context::EndpointContext;
use super::super::features::Extensions;
use super::super::{Association, State, auth};
use super::reconfig_mut;
use super::request::{begin, progress_own};
use super::state::{Active, Origin, Own, Stage, Work};
use super::waiting::Closing;
use crate::number::{StreamId, Tsn};
use crate::outbound::Outbound;
use crate::outbound::dynamic_streams as outgoing;
use crate::outbound::reconfigure::is_acked;
use crate::outbound::scheduling;
use crate::path::proven_len;
use crate::reconfiguration::{OpenedBy, StreamDirection, Streams};
use crate::time::Time;

/// Maximum number of streams in one request: all stacks take that many.
const LISTED_MAX: usize = 512;

/// Bytes of a packet with a request besides the list: the headers of RE-CONFIG and of its parameter (RFC 6525
/// section 4.1), and padding.
const AROUND_LIST: usize = COMMON_HEADER_LEN + CHUNK_HEADER_LEN + 16 + 2;

/// Returns the maximum number of streams in a request that arrives whole, as far as is known.
fn listed_max(association: &Association) -> usize {
    let index = association.paths.data_path().unwrap_or(association.control_path);
    let len = proven_len(association.paths.get(index), &association.config);
    (len.saturating_sub(AROUND_LIST + auth::reserve(association)) / 2).min(LISTED_MAX)
}

/// Maximum number of streams that are abandoned at a time.
const ABANDONED_MAX: usize = 256;

/// Makes the streams from `first` on dynamic.
pub(crate) fn begin_dynamic(association: &mut Association, first: StreamId) {
    association.extras.get_or_insert_default().dynamic_from = Some(first);
    outgoing::begin(&mut association.outbound, first);
}

/// Sets whether the peer's requests to reset streams are denied.
pub(crate) fn deny_resets(association: &mut Association, denies: bool) {
    association.extras.get_or_insert_default().denies_resets = denies;
}

/// Closes an outgoing stream: it is reset once all that was given is acknowledged. Its value for the
/// scheduler is forgotten once all of it is sent.
pub(crate) fn close(association: &mut Association, cx: &mut EndpointContext, now: Time, stream: StreamId) {
    enqueue(association, stream);
    progress_own(association, cx, now);
}

fn enqueue(association: &mut Association, stream: StreamId) {
    let last = association.outbound.next_tsn().previous();
    if outgoing::close(&mut association.outbound, stream) {
        scheduling::forget_value(&mut association.outbound, stream);
        reconfig_mut(association).closing.drained.push_back((last, stream));
    } else {
        reconfig_mut(association);
    }
}

/// Gives up what is not acknowledged of an outgoing stream, and closes it.
pub(crate) fn reset(association: &mut Association, cx: &mut EndpointContext, now: Time, stream: StreamId) {
    reconfig_mut(association).closing.abandoning.insert(stream);
    progress_own(association, cx, now);
}

/// Asks the peer to stop sending on an incoming stream. If this side has opened it, with a message to come or
/// under way, the peer must get that first: it might take the request for one that concerns the stream before
/// with the same number.
pub(crate) fn stop(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    stream: StreamId,
    by: OpenedBy,
) {
    if by == OpenedBy::Peer {
        reconfig_mut(association).closing.stopping.insert(stream);
    } else if outgoing::start(&mut association.outbound, stream) {
        let last = association.outbound.next_tsn().previous();
        reconfig_mut(association).closing.starting.push_back((last, stream));
    } else {
        // Without the state nothing would notice that the stream has started.
        reconfig_mut(association);
    }
    progress_own(association, cx, now);
}

/// Asks for more streams as soon as no other request is in flight.
pub(crate) fn add(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    outgoing: u16,
    incoming: u16,
) {
    reconfig_mut(association).closing.wanted = Some((outgoing, incoming));
    progress_own(association, cx, now);
}

/// Returns whether outgoing streams are still being closed: a shutdown waits for them.
pub(crate) fn is_closing(association: &Association) -> bool {
    let Some(reconfig) = association.reconfig.as_ref() else { return false };
    let Closing { drained, abandoning, .. } = &reconfig.closing;
    let resets = matches!(&reconfig.active,
        Some(Active::Own(Own { origin: Origin::Closing, work: Work::Reset(direction, _), .. }))
            if direction.is_outgoing());
    let may = association.features.has(Extensions::RE_CONFIG);
    may && (resets || !drained.is_empty() || (!abandoning.is_empty() && association.features.skips()))
}

/// Gives streams up, and notes those that are sent to their ends.
pub(super) fn advance(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let drained = outgoing::take_drained(&mut association.outbound);
    if !drained.is_empty() {
        drained.iter().for_each(|stream| scheduling::forget_value(&mut association.outbound, *stream));
        let last = association.outbound.next_tsn().previous();
        let closing = &mut reconfig_mut(association).closing;
        closing.drained.extend(drained.into_iter().map(|stream| (last, stream)));
    }
    let started = outgoing::take_started(&mut association.outbound);
    if !started.is_empty() {
        let last = association.outbound.next_tsn().previous();
        let closing = &mut reconfig_mut(association).closing;
        closing.starting.extend(started.into_iter().map(|stream| (last, stream)));
    }
    let Association { outbound, reconfig: Some(reconfig), state, .. } = association else { return };
    let closing = &mut reconfig.closing;
    while let Some((_, stream)) = pop_acked(&mut closing.starting, outbound) {
        closing.stopping.insert(stream);
    }
    if closing.abandoning.is_empty() || !state.sends_data() {
        return;
    }
    // Of a stream that is being reset, the next use has no numbers yet.
    let resetting = match &reconfig.active {
        Some(Active::Own(Own { work: Work::Reset(direction, streams), .. })) if direction.is_outgoing() => {
            Some(streams)
        }
        _ => None,
    };
    let may = |stream: &&StreamId| resetting.is_none_or(|streams| !streams.contains(**stream));
    let streams: BTreeSet<_> = closing.abandoning.iter().filter(may).take(ABANDONED_MAX).copied().collect();
    if streams.is_empty() || !outgoing::can_abandon(outbound, &streams) {
        return; // It is tried again when something was sent and acknowledged.
    }
    closing.abandoning.retain(|stream| !streams.contains(stream));
    abandon::abandon_streams(association, cx, now, &streams);
    if association.state.is_closed() {
        return;
    }
    // Without a message to skip, the end would look like that of a complete stream.
    if association.features.skips() {
        streams.into_iter().for_each(|stream| enqueue(association, stream));
    }
}

/// Takes the first stream of a queue if all that was sent before it was queued is acknowledged.
fn pop_acked(queue: &mut VecDeque<(Tsn, StreamId)>, outbound: &Outbound) -> Option<(Tsn, StreamId)> {
    let (last, _) = queue.front()?;
    if !is_acked(outbound, *last) {
        return None;
    }
    queue.pop_front()
}

/// Begins the next request, if nothing else is active. Returns true if it did.
pub(super) fn start(association: &mut Association) -> bool {
    if !association.state.sends_data() || !association.features.has(Extensions::RE_CONFIG) {
        return false;
    }
    let may_ask = matches!(association.state, State::Established);
    let listed_max = listed_max(association);
    let Association { outbound, reconfig: Some(reconfig), .. } = association else { return false };
    if reconfig.active.is_some() {
        return false;
    }
    let closing = &mut reconfig.closing;
    if let Some((outgoing, incoming)) = closing.wanted.take_if(|_| may_ask) {
        begin(association, Work::Add { outgoing, incoming }, None, Origin::Application);
        return true;
    }
    let resets = closing.drained.front().is_some_and(|(last, _)| is_acked(outbound, *last));
    let asks = may_ask && !closing.stopping.is_empty();
    let direction = match (resets, asks) {
        (false, false) => return false,
        (true, true) if closing.alternates => StreamDirection::Incoming,
        (true, _) => StreamDirection::Outgoing,
        (false, true) => StreamDirection::Incoming,
    };
    closing.alternates = direction.is_outgoing();
    let mut latest = None;
    let streams: Streams = if direction.is_outgoing() {
        let next = || pop_acked(&mut closing.drained, outbound);
        let taken = core::iter::from_fn(next).take(listed_max).inspect(|(last, _)| latest = Some(*last));
        taken.map(|(_, stream)| stream).collect()
    } else {
        core::iter::from_fn(|| closing.stopping.pop_first()).take(listed_max).collect()
    };
    if closing.drained.is_empty() {
        closing.drained = VecDeque::new();
    }
    begin(association, Work::Reset(direction, streams), None, Origin::Closing);
    let active = association.reconfig.as_mut().and_then(|reconfig| reconfig.active.as_mut());
    if let Some(Active::Own(own)) = active {
        // All data before it is acknowledged.
        own.stage = Stage::Waiting(latest);
    }
    true
}
