//! Partial reliability (RFC 3758, RFC 7496): which messages are abandoned, and what the peer is told to skip.
//!
//! The state exists once a message with a limit was given. [`abandon_due`] examines the messages whose lifetime is over
//! and the chunks that were marked as lost since the last time, before anything is transmitted. FORWARD TSN reports the
//! abandoned chunks behind the Cumulative TSN Ack Point, which count as outstanding until the peer acknowledges that.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::{forward_tsn, i_forward_tsn};

use super::interleaving::{self, Interleaving, SkippedMessages};
use super::messages::{Message, MessageKey, Messages};
use super::recovery::ack::PathAck;
use super::recovery::rack::Rack;
use super::recovery::send_window::SendWindow;
use super::sent::outstanding::{Outstanding, Skipped, State};
use super::{Busy, Outbound};
use crate::event::{FailedMessage, FailureCause, SendInfo};
use crate::number::{Ssn, StreamId, Tsn};
use crate::path_index::{PathIndex, PerPath};
use crate::reliability::{Limit, Reliability};
use crate::time::Time;

/// Granularity of lifetimes: messages that expire together are abandoned together.
const EXPIRY_STEP: Duration = Duration::from_millis(1);

/// Maximum number of TSNs that one FORWARD TSN skips: a limit of the work for each. The next ones follow once the peer
/// has acknowledged it.
const SKIPPED_MAX: usize = 4096;

/// Number of index entries of messages that have left which are kept beyond the number of messages.
const OUTDATED_MAX: usize = 64;

/// Time between two FORWARD TSNs for the same TSN, in nanoseconds, if no round-trip time is known (rule F3 allows 500
/// ms).
const REPEAT_NS: u64 = 200_000_000;

/// Number of times that answers repeat a FORWARD TSN, at intervals that double. From then on only T3-rtx
/// does: a peer that never acknowledges one must not keep an exchange of answers going.
const REPEATS_MAX: u8 = 2;

/// State of an association that was given messages with limits.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// The limits of messages. An entry of a message that has left is replaced by the next one with its key.
    terms: BTreeMap<MessageKey, Terms>,
    /// When lifetimes end. An entry of a message that has left is skipped when its time comes.
    expiries: BTreeSet<(Time, MessageKey)>,
    /// Messages whose lifetime ended during the set-up, after a part of them was sent with a COOKIE ECHO.
    ended_in_setup: Vec<(Time, MessageKey)>,
    /// Messages with a priority, the lowest last. An entry of a message that has left is skipped.
    priorities: BTreeSet<(u32, MessageKey)>,
    /// Number of retransmissions of outstanding chunks, by TSN, if the message limits it.
    resent: BTreeMap<u32, u16>,
    /// The marks that were examined: see [`Outstanding::marks`].
    marks: u32,
    forward: Forward,
}

/// Whether chunks that were sent may be abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skipping {
    /// The peer can be told to skip them.
    Agreed,
    /// Once the association is established.
    NotYet,
    /// The peer does not support it.
    Never,
}

/// The limit of one message.
#[derive(Debug, Clone, Copy)]
struct Terms {
    reliability: Reliability,
    /// When it is abandoned; `Time::MAX` if its lifetime is not limited.
    expires_at: Time,
}

impl Terms {
    fn new(now: Time, reliability: Reliability) -> Self {
        let Limit::Lifetime { millis } = reliability.limit() else {
            return Self { reliability, expires_at: Time::MAX };
        };
        let end_ns = (now + Duration::from_millis(u64::from(millis))).as_nanos();
        let step_ns = EXPIRY_STEP.as_nanos() as u64;
        let expires_at = Time::from_nanos(end_ns.checked_next_multiple_of(step_ns).unwrap_or(u64::MAX));
        Self { reliability, expires_at }
    }

    fn number(&self) -> Option<u32> {
        match self.reliability.limit() {
            Limit::Priority { number } => Some(number),
            _ => None,
        }
    }
}

/// The state of FORWARD TSN.
#[derive(Debug, Default)]
struct Forward {
    /// The Advanced.Peer.Ack.Point, if it is beyond the Cumulative TSN Ack Point.
    point: Option<Tsn>,
    /// The latest one that was sent: its new cumulative TSN, `point` at the time, when, and on which path.
    sent: Option<(Tsn, Tsn, Time, PathIndex)>,
    /// Its length in bytes.
    len: u32,
    /// How often it was repeated.
    repeats: u8,
    due: bool,
}

/// The messages that were abandoned.
#[derive(Debug)]
pub(crate) struct Abandoned {
    pub(crate) failed: Vec<FailedMessage>,
    /// Bytes that left the flight of each path, including headers and padding.
    pub(crate) flight: PerPath<u32>,
    /// Bytes that left the send buffer.
    pub(crate) bytes: usize,
    /// True if the application must be told that there is room again.
    pub(crate) writable: bool,
}

/// The messages to be abandoned, in the order of keys.
#[derive(Debug, Default)]
pub(super) struct Due(Vec<(MessageKey, FailureCause)>);

impl Due {
    pub(super) fn add(&mut self, key: MessageKey, cause: FailureCause) {
        if let Err(at) = self.0.binary_search_by_key(&key, |(known, _)| *known) {
            self.0.insert(at, (key, cause));
        }
    }

    fn contains(&self, key: MessageKey) -> bool {
        self.0.binary_search_by_key(&key, |(known, _)| *known).is_ok()
    }
}

impl Partial {
    /// Records a message with a limit, which is given at `now`.
    pub(super) fn on_pushed(
        &mut self,
        now: Time,
        key: MessageKey,
        reliability: Reliability,
        messages: &Messages,
    ) {
        let terms = Terms::new(now, reliability);
        self.terms.insert(key, terms);
        if terms.expires_at != Time::MAX {
            self.expiries.insert((terms.expires_at, key));
        }
        if let Some(number) = terms.number() {
            self.priorities.insert((number, key));
        }
        let most = 2 * messages.len() + OUTDATED_MAX;
        let Self { terms, expiries, priorities, .. } = self;
        if terms.len().max(expiries.len()).max(priorities.len()) > most {
            terms.retain(|key, _| {
                messages.get(*key).is_some_and(|message| message.is_limited() && message.len() > 0)
            });
            expiries.retain(|(at, key)| terms.get(key).is_some_and(|terms| terms.expires_at == *at));
            priorities
                .retain(|(number, key)| terms.get(key).is_some_and(|terms| terms.number() == Some(*number)));
        }
    }

    /// Returns the limit of a message that has one.
    pub(super) fn reliability(&self, key: MessageKey) -> Reliability {
        self.terms.get(&key).map_or(Reliability::FULL, |terms| terms.reliability)
    }

    fn terms(&self, key: MessageKey, message: &Message) -> Option<&Terms> {
        self.terms.get(&key).filter(|_| message.is_limited())
    }

    /// Records that a chunk of a message is retransmitted.
    pub(super) fn on_resent(&mut self, tsn: Tsn, key: MessageKey, message: &Message) {
        let limit = self.terms(key, message).map(|terms| terms.reliability.limit());
        if let Some(Limit::Retransmissions { .. }) = limit {
            let count = self.resent.entry(tsn.0).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Returns why a lost chunk must not be retransmitted, if so.
    fn exhausted(&self, now: Time, tsn: Tsn, key: MessageKey, message: &Message) -> Option<FailureCause> {
        let terms = self.terms(key, message)?;
        match terms.reliability.limit() {
            Limit::Retransmissions { max } => {
                let count = self.resent.get(&tsn.0).copied().unwrap_or(0);
                (count >= max).then_some(FailureCause::RetransmissionsExhausted)
            }
            Limit::Lifetime { .. } => (terms.expires_at <= now).then_some(FailureCause::Expired),
            Limit::None | Limit::Priority { .. } => None,
        }
    }

    /// True if a chunk may be sent again to probe for the loss of others.
    pub(super) fn may_probe(&self, now: Time, tsn: Tsn, key: MessageKey, message: &Message) -> bool {
        self.exhausted(now, tsn, key, message).is_none()
    }

    /// Takes the next message out whose lifetime is over.
    fn pop_expired(&mut self, now: Time) -> Option<MessageKey> {
        let first = self.expiries.first().filter(|(at, _)| *at <= now).copied()?;
        self.expiries.remove(&first);
        Some(first.1)
    }

    /// Finds the FORWARD TSN that `cumulative` acknowledges, and informs its path. Called before a SACK is processed.
    ///
    /// After a time-out whose first packet is abandoned, the FORWARD TSN goes in its place and asks what became of the
    /// others.
    pub(super) fn on_cumulative(
        &mut self,
        now: Time,
        cumulative: Tsn,
        rack: Option<&mut Rack>,
        paths: &mut PerPath<PathAck>,
    ) {
        let sent = self.forward.sent.take_if(|(tsn, ..)| cumulative.is_at_or_after(*tsn));
        let Some((tsn, _, at, path)) = sent else { return };
        paths[path].acked.skipped = true;
        if let Some(rack) = rack {
            let path = rack.path(path);
            // An answer that comes sooner than any can is for the data.
            let in_time = now.since(at).as_nanos() as u64 >= path.min_rtt_ns() / 2;
            path.frto.holds(at, tsn, in_time);
        }
    }

    /// Updates the Advanced.Peer.Ack.Point (rules C1 to C3). `repeats` is true after a SACK that may show that the peer
    /// has not received the latest FORWARD TSN.
    pub(super) fn advance(&mut self, now: Time, sent: &SendWindow, repeats: bool) {
        let outstanding = &sent.outstanding;
        let count = outstanding.abandoned_first(SKIPPED_MAX);
        let cumulative = outstanding.cumulative_ack();
        self.resent.retain(|tsn, _| Tsn(*tsn).is_after(cumulative));
        let forward = &mut self.forward;
        forward.point = count.checked_sub(1).map(|last| outstanding.tsn(last));
        let Some(point) = forward.point else {
            *forward = Forward::default();
            return;
        };
        let known_ns = sent.rack.as_ref().map_or(0, |rack| rack.round_trip_ns());
        let repeat_ns = if known_ns == 0 { REPEAT_NS } else { known_ns.min(REPEAT_NS) };
        forward.due |= match forward.sent {
            Some((tsn, advanced, at, _)) if advanced == point && tsn.is_after(cumulative) => {
                let repeat_ns = repeat_ns << forward.repeats.min(REPEATS_MAX);
                repeats && forward.repeats < REPEATS_MAX && now.since(at).as_nanos() as u64 >= repeat_ns
            }
            _ => true,
        };
    }
}

/// Returns the limit of a message that has one.
pub(super) fn limit(partial: Option<&Partial>, key: MessageKey) -> Reliability {
    partial.map_or(Reliability::FULL, |partial| partial.reliability(key))
}

fn partial(outbound: &Outbound) -> Option<&Partial> {
    outbound.busy.as_deref()?.partial.as_deref()
}

/// True if messages with limits were given since the association was last idle.
pub(crate) fn is_partial(outbound: &Outbound) -> bool {
    partial(outbound).is_some()
}

/// Returns when [`abandon_due`] is due because a lifetime ends.
pub(crate) fn expiry_deadline(outbound: &Outbound) -> Time {
    partial(outbound).and_then(|partial| partial.expiries.first()).map_or(Time::MAX, |(at, _)| *at)
}

/// True if a FORWARD TSN must be sent.
#[inline]
pub(crate) fn forward_due(outbound: &Outbound) -> bool {
    partial(outbound).is_some_and(|partial| partial.forward.due)
}

/// True if the peer has not acknowledged that it skips what was abandoned.
pub(crate) fn forward_pending(outbound: &Outbound) -> bool {
    partial(outbound).is_some_and(|partial| partial.forward.point.is_some())
}

/// Returns the length of the FORWARD TSN that was sent on a path and is not acknowledged, in bytes; 0 if there is none.
pub(crate) fn forward_len(outbound: &Outbound, path: PathIndex) -> u32 {
    let Some(Forward { sent: Some((.., at)), len, .. }) = partial(outbound).map(|partial| &partial.forward)
    else {
        return 0;
    };
    if *at == path { *len } else { 0 }
}

/// Sends the FORWARD TSN again after an expiry of T3-rtx (rule A5).
pub(crate) fn forward_again(outbound: &mut Outbound) {
    if let Some(partial) = outbound.busy.as_mut().and_then(|busy| busy.partial.as_mut()) {
        partial.forward.due |= partial.forward.point.is_some();
    }
}

/// Forgets a FORWARD TSN that was sent on a path that is removed: another path may get its index.
#[cold]
pub(super) fn forget_path(outbound: &mut Outbound, path: PathIndex) {
    let Some(partial) = outbound.busy.as_mut().and_then(|busy| busy.partial.as_mut()) else { return };
    let Forward { sent, len, .. } = &mut partial.forward;
    if sent.take_if(|(.., at)| *at == path).is_some() {
        *len = 0;
    }
}

/// Writes a FORWARD TSN (rules C3 and C4), or an I-FORWARD-TSN if messages are sent in I-DATA chunks, for as
/// many abandoned chunks as their streams fit. Returns false if there is no room for one.
pub(crate) fn write_forward(
    outbound: &mut Outbound,
    (now, path): (Time, PathIndex),
    packet: &mut PacketBuilder<'_>,
) -> bool {
    let interleaving = interleaving::state(&outbound.numbers);
    let Some(Busy { sent, partial: Some(partial), .. }) = outbound.busy.as_deref_mut() else { return false };
    let outstanding = &sent.outstanding;
    let count = outstanding.abandoned_first(SKIPPED_MAX);
    let before = packet.len();
    let written = match interleaving {
        Some(interleaving) => write_i_forward(interleaving, outstanding.skipped(count), packet),
        None => write_plain_forward(outstanding.skipped(count), packet),
    };
    match written {
        // What did not fit follows once the peer has acknowledged this.
        Written::Up(point) => {
            let forward = &mut partial.forward;
            forward.due = false;
            let again = forward.sent.is_some_and(|(_, advanced, ..)| Some(advanced) == forward.point);
            forward.repeats = if again { forward.repeats.saturating_add(1) } else { 0 };
            forward.sent = forward.point.map(|advanced| (point, advanced, now, path));
            forward.len = (packet.len() - before) as u32;
            true
        }
        Written::NothingToSkip => {
            partial.forward.due = false;
            false
        }
        Written::NoRoom => false,
    }
}

/// What became of a FORWARD TSN or I-FORWARD-TSN.
enum Written {
    /// It is written with this new cumulative TSN.
    Up(Tsn),
    NothingToSkip,
    NoRoom,
}

impl Written {
    fn of(point: Option<Tsn>, write: impl FnOnce(Tsn) -> bool) -> Self {
        match point {
            None => Self::NothingToSkip,
            Some(point) if write(point) => Self::Up(point),
            Some(_) => Self::NoRoom,
        }
    }
}

fn write_plain_forward(
    chunks: impl Iterator<Item = (Tsn, Skipped)>,
    packet: &mut PacketBuilder<'_>,
) -> Written {
    let streams_max = forward_tsn::streams_in(packet.remaining());
    // The highest SSN of each stream: those of a stream ascend with the TSNs.
    let mut streams = BTreeMap::<StreamId, Ssn>::new();
    let mut point = None;
    for (tsn, skipped) in chunks {
        if let Some((stream, ssn)) = skipped {
            if streams.len() >= streams_max && !streams.contains_key(&stream) {
                break;
            }
            streams.insert(stream, ssn);
        }
        point = Some(tsn);
    }
    Written::of(point, |point| {
        forward_tsn::write(packet, point, streams.iter().map(|(stream, ssn)| (*stream, *ssn)))
    })
}

/// Does the same with MIDs (RFC 8260 section 2.3.1).
fn write_i_forward(
    interleaving: &Interleaving,
    chunks: impl Iterator<Item = (Tsn, Skipped)>,
    packet: &mut PacketBuilder<'_>,
) -> Written {
    let entries_max = i_forward_tsn::entries_in(packet.remaining());
    let mut messages = SkippedMessages::default();
    let mut point = None;
    for (tsn, _) in chunks {
        if !interleaving.skipped(tsn).is_none_or(|message| messages.add(message, entries_max)) {
            break;
        }
        point = Some(tsn);
    }
    Written::of(point, |point| messages.write(packet, point))
}

/// Gives up what may not be transmitted any more: unsent messages whose lifetime is over, and messages with a
/// lost chunk that must not be retransmitted. If the peer does not skip what was sent, only unsent ones.
pub(crate) fn abandon_due(outbound: &mut Outbound, now: Time, skipping: Skipping) -> Option<Abandoned> {
    let Busy { sent, messages, partial, .. } = outbound.busy.as_deref_mut()?;
    let partial = partial.as_deref_mut()?;
    let agreed = skipping == Skipping::Agreed;
    if agreed && !partial.ended_in_setup.is_empty() {
        partial.expiries.extend(partial.ended_in_setup.drain(..));
    }
    let outstanding = &mut sent.outstanding;
    let mut due = Due::default();
    let mut examine = agreed && outstanding.marks() != partial.marks;
    while let Some(key) = partial.pop_expired(now) {
        let Some(message) = messages.get(key) else { continue };
        let due_at = partial.terms(key, message).map(|terms| terms.expires_at).filter(|at| *at <= now);
        let Some(due_at) = due_at.filter(|_| message.len() > 0) else {
            continue; // It has left, and another one may have its place.
        };
        if !message.is_begun() || (agreed && message.rest().len > 0) {
            due.add(key, FailureCause::Expired);
        } else if skipping == Skipping::NotYet {
            partial.ended_in_setup.push((due_at, key));
        } else {
            examine |= agreed;
        }
    }
    if examine && outstanding.marked() > 0 {
        let cumulative = outstanding.cumulative_ack();
        for (index, record) in outstanding.lost() {
            let Some(key) = record.message() else { continue };
            let Some(message) = messages.get(key) else { continue };
            let tsn = cumulative + 1 + index as u32;
            if let Some(cause) = partial.exhausted(now, tsn, key, message) {
                due.add(key, cause);
            }
        }
    }
    if agreed {
        partial.marks = outstanding.marks();
    }
    (!due.0.is_empty()).then(|| abandon(outbound, now, due))?
}

/// Gives up messages of a lower priority than that of a message of `len` bytes which the send buffer has no
/// room for, the lowest ones first, until there is room. Returns `None` if that cannot make room.
pub(crate) fn abandon_lower(
    outbound: &mut Outbound,
    now: Time,
    (info, len, messages_max): (&SendInfo, usize, usize),
    agreed: bool,
) -> Option<Abandoned> {
    let Busy { queue, messages, partial, .. } = outbound.busy.as_deref_mut()?;
    let partial = partial.as_deref_mut()?;
    let above = Terms::new(now, info.reliability).number();
    let mut due = Due::default();
    let (mut bytes, mut count) = (0, 0);
    for (number, key) in partial.priorities.iter().rev() {
        if above.is_some_and(|above| *number <= above)
            || queue.has_room_after((len, messages_max), bytes, count)
        {
            break;
        }
        let Some(message) = messages.get(*key) else { continue };
        if partial.terms(*key, message).and_then(Terms::number) != Some(*number) {
            continue;
        }
        // Of a message that was sent to its end it is not known here whether it has left.
        let rest = message.rest().len;
        if message.len() == 0 || rest == 0 || (message.is_begun() && !agreed) {
            continue;
        }
        // What waits for credit does not count against the send buffer.
        if queue.parked().is_some_and(|parked| parked.contains(message.info.stream)) {
            continue;
        }
        bytes += rest;
        count += usize::from(!message.is_begun());
        due.add(*key, FailureCause::LowPriority);
    }
    if due.0.is_empty() || !queue.has_room_after((len, messages_max), bytes, count) {
        return None;
    }
    partial.priorities.retain(|(_, key)| !due.contains(*key));
    abandon(outbound, now, due)
}

/// Gives messages up: what was not sent of them leaves the queue, and their outstanding chunks are abandoned together
/// (rule A3).
pub(super) fn abandon(outbound: &mut Outbound, now: Time, mut due: Due) -> Option<Abandoned> {
    let Outbound { window, busy, numbers, .. } = outbound;
    let mut interleaving = interleaving::state_mut(numbers);
    let Busy { queue, sent, messages, partial } = busy.as_deref_mut()?;
    let partial = partial.as_deref_mut()?;
    due.0.retain(|(key, _)| {
        let ends = messages.get(*key).is_none_or(|message| {
            !message.is_begun()
                || message.rest().len == 0
                || push_abandoned(&mut sent.outstanding, interleaving.as_deref_mut(), message)
        });
        if !ends {
            partial.expiries.insert((now + EXPIRY_STEP, *key));
        }
        ends
    });
    let mut flight = PerPath::default();
    let (in_flight, acknowledged_later) = abandon_chunks(&mut sent.outstanding, messages, &due, &mut flight);
    if sent.outstanding.marked() == 0 {
        // What the exempt packet of Fast Recovery was for. Losses found later wait for cwnd (RFC 9260 section 7.2.4).
        sent.fast_recovery.on_first_packet();
    }
    let unsent = queue.remove(messages, |key| due.contains(key));
    let bytes = acknowledged_later + unsent;
    queue.on_delivered(bytes);
    window.give_back(in_flight);
    let fail = |(key, cause): &(_, _)| messages.fail(*key, *cause, |key| partial.reliability(key));
    let failed = due.0.iter().filter_map(fail).collect();
    partial.advance(now, sent, false);
    Some(Abandoned { failed, flight, bytes, writable: queue.take_writable() })
}

/// Abandons the outstanding chunks of messages. Returns the bytes of user data of those in flight, and of all.
fn abandon_chunks(
    outstanding: &mut Outstanding,
    messages: &Messages,
    due: &Due,
    flight: &mut PerPath<u32>,
) -> (u32, usize) {
    let (mut in_flight, mut all) = (0, 0);
    for index in 0..outstanding.len() {
        let key = outstanding.get(index).and_then(|record| record.message());
        let Some(key) = key.filter(|key| due.contains(*key)) else { continue };
        let skipped = messages.get(key).and_then(place);
        let Some(record) = outstanding.abandon(index, skipped) else { continue };
        all += usize::from(record.len);
        if record.state() == State::InFlight {
            flight[record.path] += record.chunk_len();
            in_flight += u32::from(record.len);
        }
    }
    (in_flight, all)
}

/// Assigns a TSN to the rest of a message that is abandoned. Returns false if too much is outstanding.
fn push_abandoned(
    outstanding: &mut Outstanding,
    interleaving: Option<&mut Interleaving>,
    message: &Message,
) -> bool {
    if !outstanding.push_abandoned(place(message)) {
        return false;
    }
    if let Some(interleaving) = interleaving {
        let _ = interleaving.assign(outstanding, (message.info.stream, message.info.unordered), 0, true);
    }
    true
}

/// Returns the place of a message in its stream; `None` if it is unordered.
fn place(message: &Message) -> Option<(StreamId, Ssn)> {
    (!message.info.unordered).then_some((message.info.stream, message.ssn))
}

#[cfg(test)]
mod tests;
