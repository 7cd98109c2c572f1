//! The credit that this side grants to the streams of its peer (docs/stream-credit.md), as the packets on the
//! wire show it: nothing beyond it is acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::parameter::re_config::{Combination, NextTsns, ReConfigParameter, Response, ResultCode};
use strandline_wire::{GapBlock, RawChunk, Tsn};

use super::credit::INITIAL_MAX;
use crate::violation::{Violation, demand};

/// A request that begins new accounts once it is performed.
#[derive(Debug)]
enum Reset {
    /// Of these streams of the peer, or of all, after this TSN.
    Streams(Option<Vec<u16>>, Tsn),
    /// Of all numbers, TSNs included.
    All,
}

/// What arrived and was granted on each stream of the peer. Data that is given up has other sums, which end
/// the accounts.
#[derive(Debug, Default)]
pub(super) struct Granted {
    /// True if both sides have agreed on credit, and nobody forges packets of the peer.
    agreed: bool,
    initial: Option<u32>,
    /// The largest limit of each stream that was told.
    limits: BTreeMap<u16, u32>,
    /// Bytes that were acknowledged since the stream was last reset.
    accepted: BTreeMap<u16, u32>,
    /// Stream and length of the chunks that arrived and are not acknowledged, by TSN.
    arrived: BTreeMap<u32, (u16, u32)>,
    /// Requests without a final response, of this side and of the peer, by number.
    asked: BTreeMap<(bool, u32), Reset>,
    answered: BTreeSet<(bool, u32)>,
    /// The Cumulative TSN Ack that was sent last, or that a reset shows.
    cumulative: Option<Tsn>,
    /// Stream and length of the chunks beyond it that the latest SACK reports, by TSN.
    named: BTreeMap<u32, (u16, u32)>,
    ended: bool,
}

impl Granted {
    /// Sets what the set-up has agreed on. `initial` is this side's offer in bytes, if it is known.
    pub(super) fn set(&mut self, agreed: bool, initial: Option<u32>) {
        self.agreed = agreed;
        self.initial = initial;
    }

    /// Records the chunks of a packet that arrives.
    pub(super) fn on_arrival<'a>(&mut self, chunks: impl Iterator<Item = RawChunk<'a>>) {
        for chunk in chunks {
            match chunk.parse() {
                Ok(Chunk::IData(data)) => {
                    let known = self.cumulative.is_some_and(|cumulative| !data.tsn.is_after(cumulative));
                    if !known && !self.named.contains_key(&data.tsn.0) {
                        let of = (data.stream.0, data.payload.len() as u32);
                        self.arrived.entry(data.tsn.0).or_insert(of);
                    }
                }
                Ok(Chunk::IForwardTsn(_)) => self.ended = true,
                Ok(Chunk::ReConfig(_)) => self.on_re_config(&chunk, true),
                _ => {}
            }
        }
    }

    /// Checks the chunks of a packet that departs.
    pub(super) fn on_departure<'a>(
        &mut self,
        chunks: impl Iterator<Item = RawChunk<'a>>,
    ) -> Result<(), Violation> {
        for chunk in chunks {
            match chunk.parse() {
                Ok(Chunk::Sack(sack)) => self.on_sack(sack.cumulative_tsn(), sack.gap_blocks())?,
                Ok(Chunk::NrSack(sack)) => self.on_sack(sack.cumulative_tsn(), sack.gap_blocks())?,
                Ok(Chunk::StreamCredit(credit)) => {
                    for entry in credit.credits() {
                        let limit = self.limits.entry(entry.stream.0).or_default();
                        *limit = entry.limit.max(*limit);
                    }
                }
                _ if chunk.kind == kind::RE_CONFIG => self.on_re_config(&chunk, false),
                _ => {}
            }
        }
        Ok(())
    }

    fn on_sack(&mut self, cumulative: Tsn, blocks: impl Iterator<Item = GapBlock>) -> Result<(), Violation> {
        self.cumulative = Some(cumulative);
        let blocks: Vec<_> = blocks.collect();
        let is_named = |tsn: u32| {
            let beyond = Tsn(tsn).distance_from(cumulative);
            Tsn(tsn).is_after(cumulative)
                && blocks.iter().any(|block| (block.start.into()..=block.end.into()).contains(&beyond))
        };
        let is_acked = |tsn: u32| !Tsn(tsn).is_after(cumulative) || is_named(tsn);
        // A full receiver discards what it has reported, which a later SACK leaves out. It accepts that once more when
        // it is sent again (RFC 9260 section 6.2).
        let withdrawn: Vec<_> = self.named.keys().copied().filter(|tsn| !is_acked(*tsn)).collect();
        for tsn in withdrawn {
            let Some((stream, len)) = self.named.remove(&tsn) else { continue };
            self.arrived.insert(tsn, (stream, len));
            let accepted = self.accepted.entry(stream).or_default();
            *accepted = accepted.saturating_sub(len);
        }
        let acked: Vec<_> = self.arrived.keys().copied().filter(|tsn| is_acked(*tsn)).collect();
        self.named.retain(|tsn, _| Tsn(*tsn).is_after(cumulative));
        for tsn in acked {
            let Some((stream, len)) = self.arrived.remove(&tsn) else { continue };
            if Tsn(tsn).is_after(cumulative) {
                self.named.insert(tsn, (stream, len));
            }
            let accepted = self.accepted.entry(stream).or_default();
            *accepted = accepted.wrapping_add(len);
            let initial = self.initial.unwrap_or(INITIAL_MAX);
            let limit = self.limits.get(&stream).copied().unwrap_or_default().max(initial);
            demand(self.ended || !self.agreed || *accepted <= limit, || {
                format!("{accepted} bytes of stream {stream} are acknowledged, with credit for {limit}")
            })?;
        }
        Ok(())
    }

    fn on_re_config(&mut self, chunk: &RawChunk<'_>, arrives: bool) {
        let Ok(Chunk::ReConfig(re_config)) = chunk.parse() else { return };
        let Ok(combination) = Combination::of(re_config.parameters) else { return };
        for parameter in combination.iter() {
            match parameter {
                ReConfigParameter::OutgoingSsnReset(request) if arrives => {
                    let listed = request.streams.iter().map(|stream| stream.0).collect();
                    let streams = (!request.streams.is_all()).then_some(listed);
                    let key = (true, request.request.0);
                    self.asked.insert(key, Reset::Streams(streams, request.last_tsn));
                }
                ReConfigParameter::SsnTsnReset(request) => {
                    self.asked.insert((arrives, request.request.0), Reset::All);
                }
                ReConfigParameter::Response(response) => self.on_response(&response, arrives),
                _ => {}
            }
        }
    }

    fn on_response(&mut self, response: &Response, arrives: bool) {
        let key = (!arrives, response.response.0);
        if response.result == ResultCode::IN_PROGRESS
            || !self.asked.contains_key(&key)
            || !self.answered.insert(key)
        {
            return;
        }
        match self.asked.remove(&key) {
            Some(_) if response.result != ResultCode::PERFORMED => self.ended |= response.result.is_success(),
            Some(Reset::All) => {
                self.limits.clear();
                self.accepted.clear();
                self.arrived.clear();
                self.named.clear();
                // Copies of what was sent under the earlier numbers may arrive before the next SACK.
                let own = |next: NextTsns| if arrives { next.sender } else { next.receiver };
                self.cumulative = response.next_tsns.map(|next| own(next).previous());
            }
            Some(Reset::Streams(streams, last)) => {
                let concerns = |stream: &u16| streams.as_ref().is_none_or(|streams| streams.contains(stream));
                self.limits.retain(|stream, _| !concerns(stream));
                self.accepted.retain(|stream, _| !concerns(stream));
                self.arrived.retain(|tsn, (stream, _)| Tsn(*tsn).is_after(last) || !concerns(stream));
                // So may copies of what was sent before the reset.
                if self.cumulative.is_none_or(|cumulative| last.is_after(cumulative)) {
                    self.cumulative = Some(last);
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
