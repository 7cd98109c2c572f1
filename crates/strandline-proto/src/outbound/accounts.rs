//! The accounts of outgoing streams with credit (docs/stream-credit.md), as their sender keeps them.
//!
//! A stream sends new data while its sum is below the limit that the peer granted. Retransmissions need no
//! credit, since their bytes were counted before.

use std::collections::BTreeMap;

use strandline_wire::chunk::stream_credit::Credit;

use crate::number::{StreamId, Tsn};
use crate::reconfiguration::Streams;

/// Maximum distance of a TSN from the first one that an account remembers: farther away it would seem to lie ahead.
const FIRST_MAX: u32 = 1 << 29;

/// The account of a stream. Sums are modulo 2^32.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// Bytes that got a TSN.
    sent: u32,
    /// Those of them up to the Cumulative TSN Ack Point.
    acked: u32,
    /// Those of them that the peer did not accept, because they were abandoned, as far as is known.
    skipped: u32,
    /// The largest value of `sent` that is granted.
    limit: u32,
    /// The stream's first TSN, or one that is `FIRST_MAX` after it or later: credit from before it is of
    /// another account.
    first: Tsn,
}

/// The accounts of all streams of an association.
#[derive(Debug)]
pub(super) struct Accounts {
    /// The credit of a stream that was not used, in bytes.
    initial: u32,
    /// The streams that were used, up to 65,536.
    streams: BTreeMap<StreamId, Account>,
    /// The TSN at which the first TSNs of the accounts were last moved.
    moved: Tsn,
}

impl Accounts {
    /// `next` is the TSN of the next chunk.
    pub(super) const fn new(initial: u32, next: Tsn) -> Self {
        Self { initial, streams: BTreeMap::new(), moved: next }
    }

    /// Returns the credit of a stream that was not used, in bytes.
    pub(super) const fn initial(&self) -> u32 {
        self.initial
    }

    /// Changes the initial credit, which is all that streams have so far.
    pub(super) fn set_initial(&mut self, initial: u32) {
        self.initial = initial;
        self.streams.values_mut().for_each(|account| account.limit = initial);
    }

    /// Returns the bytes that a stream may send.
    pub(super) fn room(&self, stream: StreamId) -> u32 {
        self.streams.get(&stream).map_or(self.initial, |account| {
            // What the peer does not accept as part of an account may have exceeded it.
            let room = account.limit.wrapping_sub(account.sent);
            if room > i32::MAX as u32 { 0 } else { room }
        })
    }

    /// Records `len` bytes that get a TSN.
    pub(super) fn on_sent(&mut self, stream: StreamId, tsn: Tsn, len: u16) {
        if tsn.distance_from(self.moved) > FIRST_MAX {
            self.move_firsts(tsn);
        }
        let new = Account { sent: 0, acked: 0, skipped: 0, limit: self.initial, first: tsn };
        let account = self.streams.entry(stream).or_insert(new);
        account.sent = account.sent.wrapping_add(u32::from(len));
    }

    #[cold]
    fn move_firsts(&mut self, tsn: Tsn) {
        self.moved = tsn;
        let far = |account: &&mut Account| tsn.distance_from(account.first) > FIRST_MAX;
        self.streams
            .values_mut()
            .filter(far)
            .for_each(|account| account.first = Tsn(tsn.0.wrapping_sub(FIRST_MAX)));
    }

    /// Records that the Cumulative TSN Ack Point passes a chunk.
    pub(super) fn on_acked(&mut self, stream: StreamId, len: u16) {
        if let Some(account) = self.streams.get_mut(&stream) {
            account.acked = account.acked.wrapping_add(u32::from(len));
        }
    }

    /// Begins new accounts for streams that are reset.
    pub(super) fn reset(&mut self, streams: &Streams) {
        self.streams.retain(|stream, _| !streams.contains(*stream));
    }

    /// Takes a credit of the peer, which has everything up to `cumulative`. `is_current`: that is the
    /// Cumulative TSN Ack Point. Returns true if the stream may send more.
    pub(super) fn take(&mut self, credit: Credit, cumulative: Tsn, is_current: bool) -> bool {
        let Some(account) = self.streams.get_mut(&credit.stream) else { return false };
        if cumulative.is_before(account.first) {
            return false;
        }
        if is_current {
            let skipped = account.acked.wrapping_sub(credit.accepted);
            if skipped.wrapping_sub(account.skipped) <= i32::MAX as u32 {
                account.skipped = skipped;
            }
        }
        let limit = credit.limit.wrapping_add(account.skipped);
        let gain = limit.wrapping_sub(account.limit);
        if gain == 0 || gain > i32::MAX as u32 {
            return false;
        }
        account.limit = limit;
        true
    }

    /// Returns the heap bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.streams.len() * size_of::<(StreamId, Account)>()
    }
}
