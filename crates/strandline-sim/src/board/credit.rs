//! The credit of streams (docs/stream-credit.md) as the packets on the wire show it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::parameter::re_config::{Combination, ReConfigParameter, Response, ResultCode};
use strandline_wire::{RawChunk, Tsn};

use super::Board;
use crate::violation::{Violation, demand};

/// The largest initial credit of a stream in any run, in bytes.
pub(crate) const INITIAL_MAX: u32 = 64 << 10;

/// The reserved bits of a forged credit. A receiver ignores them; they tell the checker that its account has ended.
pub(crate) const FORGED_CREDIT: u16 = 0xf096;

/// The account of a stream since it was last reset.
#[derive(Debug)]
struct Account {
    first: Tsn,
    sent: u32,
    limit: u32,
    /// TSNs and lengths of what no report has covered, the sum of the rest, and up to where that goes.
    uncovered: VecDeque<(Tsn, u32)>,
    covered: u32,
    covers: Tsn,
}

impl Account {
    fn new(first: Tsn, limit: u32) -> Self {
        Self { first, sent: 0, limit, uncovered: VecDeque::new(), covered: 0, covers: first.previous() }
    }

    /// Returns how much was sent up to a TSN; `None` if an earlier report covers more.
    fn sent_up_to(&mut self, cumulative: Tsn) -> Option<u32> {
        if cumulative.is_before(self.covers) {
            return None;
        }
        self.covers = cumulative;
        while self.uncovered.front().is_some_and(|(tsn, _)| !tsn.is_after(cumulative)) {
            let (_, len) = self.uncovered.pop_front().unwrap_or((cumulative, 0));
            self.covered = self.covered.wrapping_add(len);
        }
        Some(self.covered)
    }
}

/// A request that begins new accounts once it is performed.
#[derive(Debug)]
enum Reset {
    /// Of these streams.
    Streams(Vec<u16>),
    All,
}

/// What was sent and granted on each stream. Data that is given up has other sums, which end the account.
#[derive(Debug, Default)]
pub(super) struct Credit {
    accounts: BTreeMap<u16, Account>,
    /// The limit of new accounts, as the peer has offered it; `None` if that is not known.
    initial: Option<u32>,
    /// Requests without a final response, of this side and of the peer, by number.
    asked: BTreeMap<u32, Reset>,
    asked_by_peer: BTreeMap<u32, Reset>,
    /// Requests with a final response, by direction of that: it may be repeated.
    answered: BTreeSet<(bool, u32)>,
    ended: bool,
    /// True if both sides have agreed on credit.
    agreed: bool,
    /// True if an attacker sends packets in the names of both sides.
    attacked: bool,
}

/// Sets what the set-up has agreed on about credit of streams, if nobody forges requests, and whether an attacker sends
/// packets in the names of both sides. `initial` and `own` are the offers of the peer and of this side in bytes, if
/// they are known.
pub(crate) fn set_credit(
    board: &mut Board,
    (agreed, attacked): (bool, bool),
    initial: Option<u32>,
    own: Option<u32>,
) {
    board.credit.set(agreed, initial);
    board.credit.attacked = attacked;
    board.granted.set(agreed, if attacked { Some(u32::MAX) } else { own });
}

impl Credit {
    /// Sets what the set-up has agreed on. `initial` is the peer's offer in bytes, if it is known.
    pub(super) fn set(&mut self, agreed: bool, initial: Option<u32>) {
        self.agreed = agreed;
        self.initial = initial;
    }

    /// Begins new accounts, after a restart. Requests may have gone since, in either direction.
    pub(super) fn restart(&mut self) {
        self.accounts.clear();
        self.ended = false;
    }

    /// Records new data.
    pub(super) fn on_new_data(&mut self, tsn: Tsn, stream: u16, len: u32) -> Result<(), Violation> {
        let initial = self.initial.unwrap_or(INITIAL_MAX);
        let account = self.accounts.entry(stream).or_insert_with(|| Account::new(tsn, initial));
        account.sent = account.sent.wrapping_add(len);
        account.uncovered.push_back((tsn, len));
        let (sent, limit) = (account.sent, account.limit);
        demand(self.ended || !self.agreed || sent <= limit.max(initial), || {
            format!("stream {stream} sends {sent} bytes, with credit for {limit}")
        })
    }

    /// Records the chunks of a packet in either direction.
    pub(super) fn on_chunks<'a>(&mut self, chunks: impl Iterator<Item = RawChunk<'a>>, arrives: bool) {
        for chunk in chunks {
            match chunk.kind {
                kind::I_FORWARD_TSN => self.ended = true,
                kind::RE_CONFIG => self.on_re_config(&chunk, arrives),
                kind::STREAM_CREDIT if arrives => self.on_credit(&chunk),
                _ => {}
            }
        }
    }

    fn on_credit(&mut self, chunk: &RawChunk<'_>) {
        let Ok(Chunk::StreamCredit(credit)) = chunk.parse() else { return };
        // A forged one changes what the sender believes was accepted.
        let reserved = FORGED_CREDIT.to_be_bytes();
        self.ended |= chunk.as_bytes().windows(2).any(|bytes| bytes == reserved);
        let cumulative = credit.cumulative_tsn();
        for entry in credit.credits() {
            // One from before the first byte of the account is about an earlier account (section 4.1).
            let account = self.accounts.get_mut(&entry.stream.0);
            if let Some(account) = account.filter(|account| !cumulative.is_before(account.first)) {
                account.limit = account.limit.max(entry.limit);
                // The sender counts from what its peer has accepted. A forged jump makes that less than what was sent.
                let sent = account.sent_up_to(cumulative);
                self.ended |= self.attacked && sent.is_some_and(|sent| sent != entry.accepted);
            }
        }
    }

    /// Resets begin new accounts: those that were asked for, with the response that says so (section 4.5).
    fn on_re_config(&mut self, chunk: &RawChunk<'_>, arrives: bool) {
        let Ok(Chunk::ReConfig(re_config)) = chunk.parse() else { return };
        let Ok(combination) = Combination::of(re_config.parameters) else { return };
        for parameter in combination.iter() {
            let asked = if arrives { &mut self.asked_by_peer } else { &mut self.asked };
            match parameter {
                // A reset of the peer's own streams concerns what it sends.
                ReConfigParameter::OutgoingSsnReset(request) if !arrives => {
                    let streams = request.streams.iter().map(|stream| stream.0).collect();
                    let all = request.streams.is_all();
                    asked.insert(request.request.0, if all { Reset::All } else { Reset::Streams(streams) });
                }
                ReConfigParameter::SsnTsnReset(request) => {
                    asked.insert(request.request.0, Reset::All);
                }
                ReConfigParameter::Response(response) => self.on_response(&response, arrives),
                _ => {}
            }
        }
    }

    fn on_response(&mut self, response: &Response, arrives: bool) {
        let asked = if arrives { &mut self.asked } else { &mut self.asked_by_peer };
        let number = response.response.0;
        if response.result == ResultCode::IN_PROGRESS
            || !asked.contains_key(&number)
            || !self.answered.insert((arrives, number))
        {
            return;
        }
        match asked.remove(&number) {
            Some(Reset::All) if response.result == ResultCode::PERFORMED => self.accounts.clear(),
            Some(Reset::Streams(streams)) if response.result == ResultCode::PERFORMED => {
                for stream in &streams {
                    self.accounts.remove(stream);
                }
            }
            // Whether an answer of another kind leaves the sums as they are is not known here.
            Some(_) => self.ended = true,
            None => {}
        }
    }
}
