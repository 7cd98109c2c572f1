//! The credit that the peer's streams have, as their receiver counts it (docs/stream-credit.md).
//!
//! A stream may hold `window` bytes that were accepted and not read. What it may send in all is told to the
//! peer as a limit of the bytes accepted since the set-up, or since the stream was reset, modulo 2^32: what
//! was read, and the window.
//!
//! Data that the peer abandons is counted by it and not here. Therefore each credit also says how much was
//! accepted up to the cumulative TSN, and the peer finds the difference.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::stream_credit::{self, Credit};

use super::Inbound;
use super::tsn_map::{Place, TsnMap};
use crate::config::StreamCredit;
use crate::event::Message;
use crate::number::{StreamId, Tsn};
use crate::reconfiguration::Streams;
use crate::time::Time;

/// A stream is granted more once this fraction of its window was read.
const GRANT_DIVISOR: u32 = 4;

/// A window doubles if that fraction was read within this fraction of a round-trip time: a reader that keeps
/// up must not wait for credit.
const GROWTH_DIVISOR: u32 = 2;

/// The round-trip time until one is measured.
const RTT_UNKNOWN: Duration = Duration::from_millis(20);

/// Minimum round-trip time for the growth of a window: programs don't react faster.
const RTT_MIN: Duration = Duration::from_millis(2);

/// A peer that does not send small fragments may leave up to this fraction of the initial credit unused.
const TIGHT_DIVISOR: u32 = 2;

/// Maximum number of chunks that are noted while the peer is asked to reset all numbers: as many as may be in flight.
const RECENT_MAX: usize = 65_536;

/// Maximum number of streams that one STREAM BLOCKED may name.
const ASKED_MAX: usize = 128;

/// Maximum number of credits that are preferred to gap blocks in a packet.
const PREFERRED_MAX: usize = 16;

/// The account of a stream. Sums are modulo 2^32.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// Bytes that were accepted.
    accepted: u32,
    /// Those of them beyond the cumulative TSN.
    beyond: u32,
    /// Those of them that are not held any more: read, or abandoned.
    read: u32,
    /// The largest limit that the peer was told.
    limit: u32,
    /// Bytes that may be held.
    window: u32,
    /// When the peer was last told a larger limit.
    granted_at: Time,
    /// The TSN of the first chunk that was accepted, or an earlier one that arrived later. The peer ignores
    /// credit of before.
    first: Tsn,
}

impl Account {
    const fn new(window: u32, first: Tsn) -> Self {
        Self { accepted: 0, beyond: 0, read: 0, limit: window, window, granted_at: Time::ZERO, first }
    }

    /// Returns by how much the limit may grow.
    const fn gain(&self) -> u32 {
        self.read.wrapping_add(self.window).wrapping_sub(self.limit)
    }

    const fn is_due(&self) -> bool {
        self.gain() >= self.window / GRANT_DIVISOR
    }
}

/// The accounts of all streams of an association.
#[derive(Debug)]
pub(crate) struct Credits {
    /// The window of a stream in bytes: its first one, and the largest.
    initial: u32,
    max: u32,
    /// Bytes by which all windows together exceed their first ones, and may exceed them.
    grown: u32,
    growth_max: u32,
    /// The application reports what was read; otherwise it is what `recv` returned.
    by_report: bool,
    /// The streams that were used, up to 65,536.
    accounts: BTreeMap<StreamId, Account>,
    /// Chunks beyond the cumulative TSN `counted_to`.
    beyond: BTreeMap<u32, (StreamId, u16)>,
    counted_to: Tsn,
    /// Streams whose limits the peer must be told.
    due: BTreeSet<StreamId>,
    /// Streams whose limits the peer was told while it may ignore them, because a TSN before their first one
    /// was missing. They are due again once that is no longer so.
    ignored: BTreeSet<StreamId>,
    /// The chunks that arrived since the peer was asked to reset all numbers, until it has answered.
    recent: Option<VecDeque<(Tsn, StreamId, u16)>>,
}

impl Credits {
    /// `initial` is the credit that the peer was told in the set-up, in units of 1,024 bytes.
    pub(super) fn new(initial_kib: u16, config: Option<StreamCredit>, cumulative: Tsn) -> Self {
        let initial = u32::from(initial_kib) << 10;
        Self {
            initial,
            max: config.map_or(initial, |config| config.max).max(initial),
            grown: 0,
            growth_max: config.map_or(0, |config| config.growth_max),
            by_report: false,
            accounts: BTreeMap::new(),
            beyond: BTreeMap::new(),
            counted_to: cumulative,
            due: BTreeSet::new(),
            ignored: BTreeSet::new(),
            recent: None,
        }
    }

    /// True if the stream's credit has room for `len` bytes.
    pub(super) fn admits(&self, stream: StreamId, len: usize) -> bool {
        let room = self.accounts.get(&stream).map_or(self.initial, |a| a.limit.wrapping_sub(a.accepted));
        len <= room as usize
    }

    /// True if the peer may wait for credit of the stream: what is held of an incomplete message must then be
    /// read, because the rest of it will not come before.
    pub(super) fn is_tight(&self, stream: StreamId) -> bool {
        let room = |account: &Account| account.limit.wrapping_sub(account.accepted);
        self.accounts.get(&stream).is_some_and(|account| room(account) < self.initial / TIGHT_DIVISOR)
    }

    /// Records an accepted chunk.
    pub(super) fn on_accepted(&mut self, stream: StreamId, tsn: Tsn, len: usize, place: Place) {
        let account = self.accounts.entry(stream).or_insert_with(|| Account::new(self.initial, tsn));
        // A chunk is at most as long as its length field can say.
        let len = len as u16;
        if tsn.is_before(account.first) && account.beyond == account.accepted {
            account.first = tsn;
        }
        account.accepted = account.accepted.wrapping_add(u32::from(len));
        if place == Place::Ahead {
            account.beyond += u32::from(len);
            self.beyond.insert(tsn.0, (stream, len));
        } else {
            self.announce_again(stream);
        }
        if let Some(recent) = &mut self.recent {
            if recent.len() == RECENT_MAX {
                recent.pop_front();
            }
            recent.push_back((tsn, stream, len));
        }
    }

    /// Records that the cumulative TSN has reached a chunk of the stream.
    fn announce_again(&mut self, stream: StreamId) {
        if self.ignored.remove(&stream) {
            self.due.insert(stream);
        }
    }

    /// Records that `len` bytes of a stream are not held any more. Returns true if the peer must be told.
    pub(super) fn on_gone(&mut self, stream: StreamId, len: usize) -> bool {
        let Some(account) = self.accounts.get_mut(&stream) else { return false };
        // What was held before a restart or reset is of another account.
        let held = account.accepted.wrapping_sub(account.read);
        account.read = account.read.wrapping_add(u32::try_from(len).unwrap_or(u32::MAX).min(held));
        account.is_due() && self.due.insert(stream)
    }

    /// Records that an accepted chunk beyond the cumulative TSN was dropped, and is expected again.
    pub(super) fn on_dropped(&mut self, stream: StreamId, tsn: Tsn, len: usize) {
        let (Some(account), Some(_)) = (self.accounts.get_mut(&stream), self.beyond.remove(&tsn.0)) else {
            return;
        };
        account.accepted = account.accepted.wrapping_sub(len as u32);
        account.beyond = account.beyond.saturating_sub(len as u32);
    }

    /// Forgets the noted chunks that were dropped.
    pub(super) fn forget_missing(&mut self, map: &TsnMap) {
        if let Some(recent) = &mut self.recent {
            recent.retain(|(tsn, ..)| map.contains(*tsn));
        }
    }

    /// As [`on_gone`](Self::on_gone), for a message that `recv` returned.
    pub(super) fn on_received(&mut self, stream: StreamId, len: usize) -> bool {
        !self.by_report && self.on_gone(stream, len)
    }

    /// Counts the chunks up to the cumulative TSN.
    pub(super) fn count_up_to(&mut self, cumulative: Tsn) {
        if !cumulative.is_after(self.counted_to) {
            return;
        }
        let (from, to) = (self.counted_to.next().0, cumulative.0);
        self.counted_to = cumulative;
        if from <= to {
            self.count_range(from..=to);
        } else {
            self.count_range(from..=u32::MAX);
            self.count_range(0..=to);
        }
    }

    fn count_range(&mut self, range: core::ops::RangeInclusive<u32>) {
        while let Some((&tsn, &(stream, len))) = self.beyond.range(range.clone()).next() {
            self.beyond.remove(&tsn);
            if let Some(account) = self.accounts.get_mut(&stream) {
                account.beyond = account.beyond.saturating_sub(u32::from(len));
            }
            self.announce_again(stream);
        }
    }

    /// Raises the limit of a stream, and its window if its reader waits for credit. Returns what the peer is told.
    fn grant(&mut self, now: Time, rtt: Duration, stream: StreamId) -> Credit {
        let Some(account) = self.accounts.get_mut(&stream) else {
            // What the peer sent was abandoned before anything arrived.
            return Credit { stream, accepted: 0, limit: self.initial };
        };
        let since = now.since(account.granted_at);
        if account.is_due() {
            let larger = account.window.saturating_mul(2).min(self.max).max(account.window);
            let grown = self.grown.saturating_add(larger - account.window);
            if since < rtt / GROWTH_DIVISOR && grown <= self.growth_max {
                (account.window, self.grown) = (larger, grown);
            }
            account.granted_at = now;
        }
        account.limit = account.read.wrapping_add(account.window);
        let accepted = account.accepted.wrapping_sub(account.beyond);
        Credit { stream, accepted, limit: account.limit }
    }

    /// Begins new accounts for streams that are reset.
    pub(super) fn reset(&mut self, streams: &Streams) {
        let (initial, grown) = (self.initial, &mut self.grown);
        self.accounts.retain(|stream, account| {
            let keeps = !streams.contains(*stream);
            *grown = grown.saturating_sub(if keeps { 0 } else { account.window - initial });
            keeps
        });
        self.due.retain(|stream| !streams.contains(*stream));
        self.ignored.retain(|stream| !streams.contains(*stream));
        self.beyond.retain(|_, (stream, _)| !streams.contains(*stream));
    }

    /// Notes chunks from now on for [`go_on`](Self::go_on).
    pub(super) fn note(&mut self) {
        self.recent = Some(VecDeque::new());
    }

    /// Ends that.
    pub(super) fn forget_recent(&mut self) {
        self.recent = None;
    }

    /// Handles a reset of all numbers after which the peer's first TSN is `next`, and nothing has arrived.
    pub(super) fn renumber(&mut self, next: Tsn) {
        self.reset(&Streams::All);
        self.recent = None;
        self.counted_to = next.previous();
    }

    /// Handles a reset of all numbers with the TSN `first`: what was accepted from there on is of the new accounts. It
    /// counts as read, so that what was read of it is not missing.
    pub(super) fn go_on(&mut self, first: Tsn) {
        let recent = self.recent.take().unwrap_or_default();
        self.reset(&Streams::All);
        self.counted_to = first.previous();
        for (tsn, stream, len) in recent.into_iter().filter(|(tsn, ..)| tsn.is_at_or_after(first)) {
            self.on_accepted(stream, tsn, usize::from(len), Place::Ahead);
            self.on_gone(stream, usize::from(len));
        }
    }

    /// Returns the heap bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.accounts.len() * size_of::<(StreamId, Account)>()
            + self.beyond.len() * size_of::<(u32, StreamId, u16)>()
            + (self.due.len() + self.ignored.len()) * size_of::<StreamId>()
            + self.recent.as_ref().map_or(0, |recent| recent.capacity() * size_of::<(Tsn, StreamId, u16)>())
    }
}

/// Counts the credit of the peer's streams from now on, or not. Nothing may have arrived. `initial_kib` is
/// what the peer was told, in units of 1,024 bytes.
pub(crate) fn set_credit(inbound: &mut Inbound, initial_kib: Option<u16>, config: Option<StreamCredit>) {
    let cumulative = inbound.map.cumulative();
    if let Some(interleaved) = inbound.order.interleaved_mut() {
        let new = |initial| Box::new(Credits::new(initial, config, cumulative));
        interleaved.credits = initial_kib.map(new);
    }
}

fn credits_of(inbound: &mut Inbound) -> Option<&mut Credits> {
    inbound.order.interleaved_mut()?.credits.as_deref_mut()
}

/// Handles a message that `recv` returns. Returns true if the peer must be told of new credit.
#[cold]
#[inline(never)]
pub(super) fn on_received(inbound: &mut Inbound, stream: StreamId, len: usize) -> bool {
    credits_of(inbound).is_some_and(|credits| credits.on_received(stream, len))
}

/// As [`on_received`], for several messages.
#[cold]
#[inline(never)]
pub(super) fn on_received_many(inbound: &mut Inbound, messages: &[Message]) -> bool {
    let receive = |due, message: &Message| on_received(inbound, message.stream, message.data.len()) | due;
    messages.iter().fold(false, receive)
}

/// Sets whether the application reports what it has read, instead of reading what `recv` returns.
pub(crate) fn set_by_report(inbound: &mut Inbound, by_report: bool) {
    if let Some(credits) = credits_of(inbound) {
        credits.by_report = by_report;
    }
}

/// Counts everything as read: the application discards it, and what `recv` returns from now on.
pub(crate) fn discard(inbound: &mut Inbound) {
    let Some(credits) = credits_of(inbound) else { return };
    credits.by_report = false;
    let Credits { accounts, due, .. } = credits;
    for (stream, account) in accounts {
        account.read = account.accepted;
        if account.is_due() {
            due.insert(*stream);
        }
    }
    if !due.is_empty() {
        inbound.sack.request();
    }
}

/// Returns whether the application reports what it has read.
pub(crate) fn is_by_report(inbound: &Inbound) -> bool {
    let interleaved = inbound.order.interleaved();
    interleaved.and_then(|held| held.credits.as_ref()).is_some_and(|credits| credits.by_report)
}

/// Handles the application's report that it has read `len` bytes of a stream.
pub(crate) fn on_reported(inbound: &mut Inbound, stream: StreamId, len: usize) {
    if credits_of(inbound).is_some_and(|credits| credits.by_report && credits.on_gone(stream, len)) {
        inbound.sack.request();
    }
}

/// Handles the peer's notice that streams wait for credit: it is told their limits again. It repeats what is ignored
/// because it names too many.
pub(crate) fn on_blocked(inbound: &mut Inbound, streams: impl Iterator<Item = StreamId>) {
    let count = inbound.streams;
    let Some(credits) = credits_of(inbound) else { return };
    credits.due.extend(streams.filter(|stream| stream.0 < count).take(ASKED_MAX));
    inbound.sack.request();
}

/// Appends a SACK or NR-SACK, as [`write_sack`](Inbound::write_sack) does, and the credits that the peer must
/// be told. Some of them are preferred to gap blocks.
pub(crate) fn write_sack(
    inbound: &mut Inbound,
    now: Time,
    packet: &mut PacketBuilder<'_>,
    len_max: usize,
    keeps: bool,
) -> bool {
    if !inbound.order.has_credits() {
        return inbound.write_sack(now, packet, len_max, keeps);
    }
    let cumulative = inbound.map.cumulative();
    let due = credits_of(inbound).map_or(0, |credits| {
        credits.count_up_to(cumulative);
        credits.due.len()
    });
    let reserve = if due == 0 { 0 } else { stream_credit::len_of(due.min(PREFERRED_MAX)) };
    let room = packet.remaining().saturating_sub(reserve);
    let written = inbound.write_sack(now, packet, len_max.min(room), keeps);
    if written && due > 0 {
        write_credits(inbound, now, packet);
    }
    written
}

/// Appends the credits that the peer must be told to a packet with a SACK, as many as fit. Another SACK is due for the
/// rest.
#[cold]
fn write_credits(inbound: &mut Inbound, now: Time, packet: &mut PacketBuilder<'_>) {
    let cumulative = inbound.map.cumulative();
    let rtt = inbound.flow.as_ref().and_then(|flow| flow.rtt_min()).unwrap_or(RTT_UNKNOWN).max(RTT_MIN);
    let Some(credits) = credits_of(inbound) else { return };
    let fits = stream_credit::entries_in(packet.remaining());
    let told: Vec<StreamId> = credits.due.iter().copied().take(fits).collect();
    let granted: Vec<Credit> = told.iter().map(|stream| credits.grant(now, rtt, *stream)).collect();
    let written = stream_credit::write(packet, cumulative, granted.iter().copied());
    debug_assert_eq!(written, granted.len(), "as many as fit");
    for stream in &told {
        credits.due.remove(stream);
        let is_known = |account: &Account| !cumulative.is_before(account.first) || account.beyond == 0;
        if !credits.accounts.get(stream).is_none_or(is_known) {
            credits.ignored.insert(*stream);
        }
    }
    // Each of these SACKs tells of other streams.
    if !credits.due.is_empty() && !told.is_empty() {
        inbound.sack.request();
    }
}

#[cfg(test)]
mod tests;
