//! Streams that are opened and closed at run time: when one of them is sent to its end, and giving one up.

use std::collections::BTreeSet;

use super::interleaving;
use super::messages::Message;
use super::partial::{Abandoned, Due, Skipping, abandon};
use super::scheduling::change;
use super::send_queue::queue::stream_under_way;
use super::send_queue::stream_tracking::{StreamTracking, Unsent};
use super::sent::outstanding::Record;
use super::{Busy, Outbound, queue_settings};
use crate::config::AssociationConfig;
use crate::event::FailureCause;
use crate::number::StreamId;
use crate::reconfiguration::Streams;
use crate::time::Time;

/// Counts messages of streams from `first` on, so that these can be closed.
pub(crate) fn begin(outbound: &mut Outbound, first: StreamId) {
    change(outbound, |settings| settings.set_dynamic_from(first));
    let Some(Busy { queue, messages, .. }) = outbound.busy.as_deref_mut() else { return };
    let mut counting = StreamTracking::counting(first);
    if let Some(unsent) = counting.unsent.as_mut() {
        messages.unsent().for_each(|(_, message)| unsent.on_pushed(message.info.stream, message.len()));
    }
    queue.tracking.get_or_insert_default().unsent = counting.unsent;
}

fn unsent(outbound: &mut Outbound) -> Option<&mut Unsent> {
    outbound.busy.as_mut()?.queue.tracking.as_mut()?.unsent.as_mut()
}

/// Returns true if all that was given of a dynamic stream has TSNs. Otherwise [`take_drained`] returns the
/// stream later.
pub(crate) fn close(outbound: &mut Outbound, stream: StreamId) -> bool {
    unsent(outbound).is_none_or(|unsent| unsent.close(stream))
}

/// Returns streams of which all that was given has got TSNs since they were closed.
pub(crate) fn take_drained(outbound: &mut Outbound) -> Vec<StreamId> {
    unsent(outbound).map(|unsent| core::mem::take(&mut unsent.drained)).unwrap_or_default()
}

/// Returns true if all of a message of a dynamic stream has TSNs. Otherwise [`take_started`] returns the
/// stream once one has, or was abandoned.
pub(crate) fn start(outbound: &mut Outbound, stream: StreamId) -> bool {
    let begun = match interleaving::state(&outbound.numbers) {
        Some(interleaving) => interleaving.begun(stream),
        None => usize::from(outbound.numbers.next(stream).0),
    };
    unsent(outbound).map_or(begun > 0, |unsent| unsent.start(stream, begun))
}

/// Returns streams of which a message has got all of its TSNs, or was abandoned, since they were awaited.
pub(crate) fn take_started(outbound: &mut Outbound) -> Vec<StreamId> {
    unsent(outbound).map(|unsent| core::mem::take(&mut unsent.started)).unwrap_or_default()
}

/// Awaits none of these streams any more.
pub(crate) fn forget_starts(outbound: &mut Outbound, streams: &Streams) {
    if let Some(unsent) = unsent(outbound) {
        unsent.forget_starts(|stream| streams.contains(stream));
    }
}

/// Returns true if these streams can be abandoned now: each may need two TSNs, and none of them may lie
/// between the fragments of a message in DATA chunks (RFC 9260 section 6.9).
pub(crate) fn can_abandon(outbound: &Outbound, streams: &BTreeSet<StreamId>) -> bool {
    let Some(Busy { queue, sent, messages, .. }) = outbound.busy.as_deref() else { return true };
    let under_way = stream_under_way(queue, messages);
    sent.outstanding.room() > 2 * streams.len() && under_way.is_none_or(|stream| streams.contains(&stream))
}

/// Gives up all messages of streams that the peer has not acknowledged. The peer is made to skip one more on
/// each stream, which was never given: so it notices, even if it has all of the others. If the peer can't
/// skip messages, only unsent ones are abandoned.
pub(crate) fn abandon_streams(
    outbound: &mut Outbound,
    now: Time,
    streams: &BTreeSet<StreamId>,
    skipping: Skipping,
    config: &AssociationConfig,
) -> Option<Abandoned> {
    let numbers = &mut outbound.numbers;
    let create = || Box::new(Busy::new(outbound.idle_next, outbound.learnt, queue_settings(numbers), config));
    let busy = outbound.busy.get_or_insert_with(create);
    busy.partial.get_or_insert_default();
    let agreed = skipping == Skipping::Agreed;
    let concerns = |message: &Message| streams.contains(&message.info.stream);
    let mut due = Due::default();
    for (key, message) in busy.messages.unsent() {
        if concerns(message) && (agreed || !message.is_begun()) {
            due.add(key, FailureCause::StreamReset);
        }
    }
    let sent = busy.sent.outstanding.range(0, usize::MAX).filter_map(Record::message);
    for key in sent.filter(|_| agreed) {
        if busy.messages.get(key).is_some_and(concerns) {
            due.add(key, FailureCause::StreamReset);
        }
    }
    let abandoned = abandon(outbound, now, due);
    if agreed {
        streams.iter().for_each(|stream| skip_one(outbound, *stream));
        if let Some(Busy { sent, partial: Some(partial), .. }) = outbound.busy.as_deref_mut() {
            partial.advance(now, sent, false);
        }
    }
    abandoned
}

/// Assigns a TSN and the next number of the stream to a message that does not exist, and that the peer must skip.
fn skip_one(outbound: &mut Outbound, stream: StreamId) {
    let Outbound { busy: Some(busy), numbers, .. } = outbound else { return };
    let outstanding = &mut busy.sent.outstanding;
    let interleaved = interleaving::state(numbers).is_some();
    let ssn = if interleaved { Default::default() } else { numbers.take(stream) };
    if outstanding.push_abandoned(Some((stream, ssn)))
        && let Some(state) = interleaving::state_mut(numbers)
    {
        state.assign(outstanding, (stream, false), 0, true);
    }
}
