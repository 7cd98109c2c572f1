//! Order within streams (RFC 9260 sections 6.5 and 6.6): whole messages that arrived before their turn wait here.

use std::collections::BTreeMap;

use super::interleaved::Interleaved;
use super::renege::DroppedTsns;
use super::window::HELD_COST;
use crate::event::Message;
use crate::number::{Ssn, StreamId, Tsn};
use crate::reconfiguration::Streams;
use crate::stream_numbers::StreamNumbers;

/// The position of an ordered message in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is the next one.
    Now,
    /// Others come first.
    Later,
    /// Its SSN was used before.
    Past,
}

/// A message that arrived before its turn.
#[derive(Debug)]
struct Early {
    message: Message,
    /// The TSN of its last fragment, if its first one is beyond the cumulative TSN.
    last: Tsn,
}

/// What the order of streams needs only at times.
#[derive(Debug, Default)]
struct Waiting {
    /// Waiting messages by stream and SSN. The next SSN of a stream is looked up exactly, so their order does not
    /// matter.
    messages: BTreeMap<(StreamId, u16), Early>,
    /// Messages that are not accepted yet, because the peer reconfigures streams.
    barred: Option<Barred>,
    /// What was received in I-DATA chunks, if these are sent instead of DATA. Their messages have an order of
    /// their own.
    interleaved: Option<Box<Interleaved>>,
}

/// Messages of the peer that must not be accepted before a reconfiguration is complete (RFC 6525).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Barred {
    /// Messages on these streams beyond this TSN: the streams are reset once everything up to it has arrived (section
    /// 5.2.2 step E2).
    Beyond(Streams, Tsn),
    /// Ordered messages whose SSN may be one of either numbering: the peer may have set all numbers back already, as it
    /// was asked to.
    Past(Overtaking),
}

/// Messages that arrive while the peer's response to a reset of all numbers is awaited: each was sent before
/// the reset or after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overtaking {
    /// The cumulative TSN when the peer was asked: what has arrived up to it precedes the reset.
    pub(super) since: Tsn,
    /// The highest TSN that had arrived then, or that precedes the reset for certain: what is missing up to it was sent
    /// before, too.
    highest: Tsn,
    /// The TSN of the latest message with SSN 0 on each stream where it was the next one, or of a FORWARD TSN
    /// that skipped messages of the stream. If it turns out to follow the reset, the stream is not set back.
    begun: BTreeMap<StreamId, Tsn>,
    /// For each stream the new cumulative TSN of the latest FORWARD TSN that skipped an SSN or MID which is
    /// past by the old numbering, and that number. It counts if the chunk turns out to follow the reset.
    skipped: BTreeMap<StreamId, (Tsn, u32)>,
}

impl Overtaking {
    pub(super) const fn new(since: Tsn, highest: Tsn) -> Self {
        Self { since, highest, begun: BTreeMap::new(), skipped: BTreeMap::new() }
    }

    /// True if this TSN was sent before the peer was asked, or before one that precedes the reset.
    pub(super) fn is_known(&self, tsn: Tsn) -> bool {
        !tsn.is_after(self.highest)
    }

    /// True if the message was sent before the reset for certain: its TSN is known, or since the last known
    /// one there were not as many TSNs as a message with this SSN needs.
    pub(super) fn precedes(&self, ssn: Ssn, tsn: Tsn) -> bool {
        self.precedes_number(u32::from(ssn.0), tsn)
    }

    /// As [`precedes`](Self::precedes), for an SSN or MID.
    pub(super) fn precedes_number(&self, number: u32, tsn: Tsn) -> bool {
        self.is_known(tsn) || number >= tsn.distance_from(self.highest)
    }

    /// Records a TSN that precedes the reset.
    fn on_preceding(&mut self, tsn: Tsn) {
        if !self.is_known(tsn) {
            self.highest = tsn;
        }
    }

    /// Records that a message with this SSN or MID, which is the next one of its stream, is accepted, or that
    /// those up to it are skipped with the new cumulative TSN `tsn`. A FORWARD TSN never skips messages of
    /// both numberings: the peer performs the reset once everything from before is acknowledged.
    fn on_begun(&mut self, stream: StreamId, number: u32, tsn: Tsn) {
        if self.precedes_number(number, tsn) {
            self.on_preceding(tsn);
        } else {
            self.begun.insert(stream, tsn);
        }
    }

    /// True if the number is the same in either numbering: `ahead` TSNs beyond the cumulative TSN a message
    /// that follows a reset beyond that has a lower one. So the message precedes the reset, or everything of
    /// its stream since the reset has arrived, and its stream has begun anew where it was at 0.
    pub(super) fn agrees(&self, stream: StreamId, number: u32, ahead: u32) -> bool {
        number >= ahead && !self.skipped.contains_key(&stream)
    }

    /// Records a message that is accepted and has another number than 0. If it has the same one in either
    /// numbering, or is the next one without a gap before it, and followed the reset, then so would the first
    /// one by the new numbering. Was that neither accepted nor skipped, it precedes the reset.
    fn on_unbarred(&mut self, stream: StreamId, number: u32, tsn: Tsn) {
        let begun = self.begun.contains_key(&stream) || self.skipped.contains_key(&stream);
        if !begun || self.precedes_number(number, tsn) {
            self.on_preceding(tsn);
        }
    }

    /// Returns the streams that have begun anew with the peer's first TSN after the reset or a later one.
    pub(super) fn begun_from(&self, first: Tsn) -> Vec<StreamId> {
        let after = self.begun.iter().filter(|(_, tsn)| tsn.is_at_or_after(first));
        after.map(|(stream, _)| *stream).collect()
    }

    /// Returns what was skipped by the new numbering, if the peer's first TSN after the reset is `first`.
    pub(super) fn skipped_from(&self, first: Tsn) -> Vec<(StreamId, u32)> {
        let after = self.skipped.iter().filter(|(_, (tsn, _))| tsn.is_at_or_after(first));
        after.map(|(stream, (_, number))| (*stream, *number)).collect()
    }
}

/// The order of all streams.
#[derive(Debug, Default)]
pub(super) struct StreamOrder {
    numbers: StreamNumbers<Waiting>,
}

impl StreamOrder {
    /// True if this is the next SSN of the stream.
    #[inline]
    pub(super) fn is_next(&self, stream: StreamId, ssn: Ssn) -> bool {
        self.numbers.next(stream) == ssn
    }

    /// Returns the turn of a message whose first TSN lies `ahead` beyond the cumulative TSN.
    ///
    /// As many as 65,534 messages of a stream may be in flight before this one, more than serial arithmetic can
    /// distinguish from the past. But each of them has a missing TSN, so an SSN that claims to be further ahead than
    /// that is past.
    #[inline]
    pub(super) fn turn(&self, stream: StreamId, ssn: Ssn, ahead: u32) -> Turn {
        match ssn.distance_from(self.numbers.next(stream)) {
            0 => Turn::Now,
            early if early < 1 << 15 || u32::from(early) <= ahead => Turn::Later,
            _ => Turn::Past,
        }
    }

    /// Records that the stream's next message was delivered.
    #[inline]
    pub(super) fn advance(&mut self, stream: StreamId) {
        self.numbers.take(stream);
    }

    /// True if a message waits, some are barred, or none may arrive in DATA chunks: a message needs a closer
    /// look even if its turn has come.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.numbers.state().is_some_and(|waiting| {
            !waiting.messages.is_empty() || waiting.barred.is_some() || waiting.interleaved.is_some()
        })
    }

    /// Expects messages in I-DATA chunks, or in DATA chunks. Nothing may have arrived.
    pub(super) fn set_interleaved(&mut self, interleaved: bool) {
        if interleaved || self.numbers.state().is_some() {
            self.numbers.state_or_default().interleaved = interleaved.then(Box::default);
        }
    }

    /// True if the peer's streams have credit.
    #[inline]
    pub(super) fn has_credits(&self) -> bool {
        self.numbers.state().is_some_and(|waiting| {
            waiting.interleaved.as_ref().is_some_and(|interleaved| interleaved.credits.is_some())
        })
    }

    /// Returns what was received in I-DATA chunks, if these are expected.
    pub(super) fn interleaved(&self) -> Option<&Interleaved> {
        self.numbers.state()?.interleaved.as_deref()
    }

    /// Returns what was received in I-DATA chunks, if these are expected.
    pub(super) fn interleaved_mut(&mut self) -> Option<&mut Interleaved> {
        self.numbers.state_mut()?.interleaved.as_deref_mut()
    }

    /// True if a message waits for its turn.
    pub(super) fn has_messages(&self) -> bool {
        self.numbers.state().is_some_and(|waiting| !waiting.messages.is_empty())
    }

    /// True if a message waits on one of these streams.
    pub(super) fn has_messages_of(&self, streams: &Streams) -> bool {
        let waits = |waiting: &Waiting| waiting.messages.keys().any(|(stream, _)| streams.contains(*stream));
        self.numbers.state().is_some_and(waits)
    }

    /// Bars messages, or none any more.
    pub(super) fn set_barred(&mut self, barred: Option<Barred>) {
        if barred.is_some() || self.numbers.state().is_some() {
            self.numbers.state_or_default().barred = barred;
        }
    }

    /// True if the message must not be accepted now. Its first TSN lies `ahead` beyond the cumulative TSN.
    pub(super) fn is_barred(&self, stream: StreamId, ssn: Ssn, tsn: Tsn, ahead: u32) -> bool {
        match self.barred() {
            None => false,
            Some(Barred::Beyond(streams, last)) => tsn.is_after(*last) && streams.contains(stream),
            // Without a gap everything before the message has arrived and has been accepted: whatever its
            // numbering, it is the next message of its stream.
            Some(Barred::Past(overtaking)) => match self.turn(stream, ssn, ahead) {
                Turn::Past => true,
                Turn::Now if ahead == 1 => false,
                Turn::Now | Turn::Later => {
                    !overtaking.precedes(ssn, tsn) && !overtaking.agrees(stream, ssn.0.into(), ahead)
                }
            },
        }
    }

    /// Returns which messages are barred.
    pub(super) fn barred(&self) -> Option<&Barred> {
        self.numbers.state()?.barred.as_ref()
    }

    /// Returns what is known of messages that may have overtaken the response to a reset of all numbers.
    pub(super) fn overtaking(&self) -> Option<&Overtaking> {
        match self.barred()? {
            Barred::Past(overtaking) => Some(overtaking),
            Barred::Beyond(..) => None,
        }
    }

    /// Returns what is known of messages that may have overtaken the response to a reset of all numbers, to be updated.
    fn overtaking_mut(&mut self) -> Option<&mut Overtaking> {
        match self.numbers.state_mut()?.barred.as_mut()? {
            Barred::Past(overtaking) => Some(overtaking),
            Barred::Beyond(..) => None,
        }
    }

    /// Records the peer's first TSN after the reset of all numbers that is awaited.
    pub(super) fn on_next_tsn_known(&mut self, next: Tsn) {
        if let Some(overtaking) = self.overtaking_mut() {
            overtaking.on_preceding(next.previous());
        }
    }

    /// Records that a message with this SSN or MID, which is the next one of its stream, is accepted, or that
    /// those up to it are skipped with the new cumulative TSN `tsn`.
    pub(super) fn on_begun(&mut self, stream: StreamId, number: u32, tsn: Tsn) {
        if let Some(overtaking) = self.overtaking_mut() {
            overtaking.on_begun(stream, number, tsn);
        }
    }

    /// Records that a message is not barred which has another SSN or MID than 0.
    pub(super) fn on_unbarred(&mut self, stream: StreamId, number: u32, tsn: Tsn) {
        if let Some(overtaking) = self.overtaking_mut() {
            overtaking.on_unbarred(stream, number, tsn);
        }
    }

    /// Records that a FORWARD TSN up to `last` skips an SSN or MID that is past: by the old numbering that
    /// has no effect.
    pub(super) fn on_past_skipped(&mut self, stream: StreamId, last: Tsn, number: u32) {
        if let Some(overtaking) = self.overtaking_mut()
            && !overtaking.is_known(last)
        {
            overtaking.skipped.insert(stream, (last, number));
        }
    }

    /// Sets the next SSNs back to 0, except on streams that have begun with the peer's first TSN after the reset or a
    /// later one. Messages that wait and precede the reset are lost. Nothing is barred any more.
    pub(super) fn go_on(&mut self, first: Tsn) {
        let barred = self.numbers.state_mut().and_then(|waiting| waiting.barred.take());
        let (begun, skipped) = match barred {
            Some(Barred::Past(overtaking)) => {
                let skipped = overtaking.skipped_from(first);
                (overtaking.begun, skipped)
            }
            _ => Default::default(),
        };
        let after = begun.into_iter().filter(|(_, tsn)| tsn.is_at_or_after(first));
        let kept: Vec<_> = after.map(|(stream, _)| (stream, self.numbers.next(stream))).collect();
        self.numbers.reset(&Streams::All);
        for (stream, ssn) in kept {
            self.numbers.set(stream, ssn);
        }
        for (stream, number) in skipped {
            let after = Ssn(number as u16).next();
            if self.numbers.next(stream).is_before(after) {
                self.numbers.set(stream, after);
            }
        }
        if let Some(waiting) = self.numbers.state_mut() {
            waiting.messages.retain(|_, early| early.message.tsn.is_at_or_after(first));
        }
    }

    /// Sets the next SSNs of streams back to 0.
    pub(super) fn reset(&mut self, streams: &Streams) {
        self.numbers.reset(streams);
    }

    /// Drops everything that waits, and keeps the numbers.
    pub(super) fn close(&mut self) {
        self.drop_messages();
        self.set_barred(None);
        if let Some(interleaved) = self.interleaved_mut() {
            interleaved.close();
        }
    }

    /// Drops all messages that wait.
    pub(super) fn drop_messages(&mut self) {
        if let Some(waiting) = self.numbers.state_mut() {
            waiting.messages.clear();
        }
    }

    /// Stores a message until its turn. `last` is the TSN of its last fragment, if its first one is beyond
    /// the cumulative TSN. Returns false if a message with its SSN is already waiting.
    pub(super) fn wait(&mut self, message: Message, last: Tsn) -> bool {
        let (key, early) = ((message.stream, message.ssn.0), Early { message, last });
        self.numbers.state_or_default().messages.insert(key, early).is_none()
    }

    /// Calls `add` with the first TSN of each message that waits, and its cost.
    pub(super) fn each_waiting(&self, add: &mut impl FnMut(Tsn, usize)) {
        let messages = self.numbers.state().into_iter().flat_map(|waiting| waiting.messages.values());
        messages.for_each(|early| add(early.message.tsn, early.message.data.len() + HELD_COST));
    }

    /// Returns what the window is charged for messages that wait, in bytes.
    pub(super) fn waiting_cost(&self) -> usize {
        let mut cost = 0;
        self.each_waiting(&mut |_, bytes| cost += bytes);
        cost
    }

    /// Drops messages that wait beyond a gap.
    pub(super) fn renege(&mut self, what: &mut DroppedTsns<'_>) {
        let Some(waiting) = self.numbers.state_mut() else { return };
        waiting.messages.retain(|_, Early { message, last }| {
            let dropped = what.takes(message.tsn);
            if dropped {
                what.on_dropped(message.tsn, message.data.len() + HELD_COST);
                for ahead in 1..=last.distance_from(message.tsn) {
                    what.on_dropped(message.tsn + ahead, 0);
                }
            }
            !dropped
        });
    }

    /// Takes the message whose turn has come on a stream.
    pub(super) fn take_next(&mut self, stream: StreamId) -> Option<Message> {
        let key = (stream, self.numbers.next(stream).0);
        self.numbers.state_mut()?.messages.remove(&key).map(|early| early.message)
    }

    /// Takes the first message that waits on a stream, up to an SSN.
    pub(super) fn take_up_to(&mut self, stream: StreamId, last: Ssn) -> Option<Message> {
        let (next, last) = (self.numbers.next(stream).0, last.0);
        let messages = &mut self.numbers.state_mut()?.messages;
        let first_in = |from: u16, to: u16| messages.range((stream, from)..=(stream, to)).next();
        let found = if next <= last {
            first_in(next, last)
        } else {
            first_in(next, u16::MAX).or_else(|| first_in(0, last))
        };
        let key = *found?.0;
        messages.remove(&key).map(|early| early.message)
    }

    /// Returns the SSN of the stream's next message.
    pub(super) fn next(&self, stream: StreamId) -> Ssn {
        self.numbers.next(stream)
    }

    /// Sets the SSN of the stream's next message.
    pub(super) fn go_to(&mut self, stream: StreamId, ssn: Ssn) {
        self.numbers.set(stream, ssn);
    }

    /// Frees the memory for waiting messages if none waits.
    pub(super) fn release_idle(&mut self) {
        if !self.has_waiting() {
            self.numbers.release_idle();
        }
    }

    /// Returns the heap bytes of the records, and of the held payload.
    pub(super) fn heap_bytes(&self) -> (usize, usize) {
        let Some(waiting) = self.numbers.state() else { return (0, 0) };
        let records = waiting.messages.len() * size_of::<((StreamId, u16), Early)>();
        let begun = self.overtaking().map_or(0, |overtaking| overtaking.begun.len());
        let records = records + begun * size_of::<(StreamId, Tsn)>();
        let payload = waiting.messages.values().map(|early| early.message.data.len()).sum();
        (self.numbers.heap_bytes() + records, payload)
    }
}

#[cfg(test)]
mod tests;
