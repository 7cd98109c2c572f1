//! Packets of the peer: what they acknowledge, and what they excuse.

use strandline_proto::stats::AssociationState;
use strandline_proto::time::Time;
use strandline_wire::chunk::{Chunk, NrSack, kind};
use strandline_wire::{GapBlock, RawChunk, Tsn};

use super::behind::BehindGaps;
use super::late::Late;
use super::{Board, MAY_BE_ALL, Sent, Traffic};
use crate::by_address::ByAddress;

impl Board {
    /// Processes the chunks of a packet of the peer. In COOKIE-ECHOED, where data may have gone with the
    /// COOKIE ECHO, a SACK is processed (RFC 9260 section 6), and a SHUTDOWN is ignored (section 9.2); in
    /// COOKIE-WAIT both are. `state` is the association's state before the packet, which a chunk in it may
    /// change: DATA, too, completes the set-up.
    pub(crate) fn on_arrival(&mut self, now: Time, chunks: &[RawChunk<'_>], state: AssociationState) {
        let mut in_set_up = state.in_setup();
        self.renumbered.on_chunks(chunks.iter().copied(), false);
        self.credit.on_chunks(chunks.iter().copied(), true);
        self.granted.on_arrival(chunks.iter().copied());
        for (at, chunk) in chunks.iter().enumerate() {
            let completes = match chunk.kind {
                kind::COOKIE_ACK | kind::DATA | kind::I_DATA => state == AssociationState::CookieEchoed,
                kind::COOKIE_ECHO => at == 0,
                _ => false,
            };
            in_set_up &= !completes;
            match chunk.kind {
                kind::SACK | kind::NR_SACK if in_set_up && state == AssociationState::CookieWait => {}
                kind::SHUTDOWN if in_set_up => {}
                kind::SACK | kind::NR_SACK | kind::SHUTDOWN => {
                    if let Ok(answer) = chunk.parse() {
                        self.on_answer(now, &answer);
                    }
                }
                kind::ECNE => {
                    if let Ok(Chunk::Ecne(ecne)) = chunk.parse() {
                        self.on_ecne(ecne.lowest_tsn);
                    }
                }
                // The peer has lost the COOKIE ACK, and what followed it (RFC 9260 section 5.2.4). A copy ends no
                // silence: anybody on the way may repeat it.
                kind::COOKIE_ECHO if at == 0 => self.excuse(None),
                _ => {}
            }
        }
    }

    fn on_ecne(&mut self, tsn: Tsn) {
        let chunk = self.first.and_then(|first| self.chunks.get(tsn.distance_from(first) as usize));
        let sent_at = chunk.filter(|chunk| !chunk.resent).map(|chunk| chunk.at);
        self.marks.unknown |= sent_at.is_none();
        self.marks.sent_at = self.marks.sent_at.max(sent_at);
        self.echoed = Some((tsn, sent_at));
    }

    fn on_answer(&mut self, now: Time, answer: &Chunk<'_>) {
        self.least.clear();
        let before = self.traffic.clone();
        self.judge(now);
        match answer {
            Chunk::Sack(sack) => {
                self.on_sack(now, (sack.cumulative_tsn(), sack.a_rwnd()), sack.gap_blocks());
            }
            Chunk::NrSack(sack) => {
                self.on_sack(now, (sack.cumulative_tsn(), sack.a_rwnd()), sack.gap_blocks());
                on_kept(self, sack);
            }
            Chunk::Shutdown(shutdown) => {
                let first = self.first;
                let is_possible = self.advance(now, shutdown.cumulative_tsn);
                // If a gap block reported the next chunk, the peer has revoked that one, and perhaps the others
                // (decision 165).
                if is_possible && self.chunks.front().is_some_and(|chunk| chunk.held) {
                    let nothing = core::iter::empty::<GapBlock>();
                    self.on_blocks(now, shutdown.cumulative_tsn.next(), nothing, false);
                }
                if is_possible && self.first != first {
                    self.window.on_shutdown();
                    self.ahead = true;
                }
            }
            _ => {}
        }
        self.late.values_mut().for_each(Late::settle);
        for (of, traffic) in self.traffic.iter_mut() {
            if traffic.delivered > before.get(of).map_or(0, |before| before.delivered) {
                traffic.sacks += 1;
                self.quiet.of(of).ends(now);
                self.silences.end(now, of);
            }
        }
    }

    /// Processes a SACK or NR-SACK.
    fn on_sack(
        &mut self,
        now: Time,
        (cumulative, a_rwnd): (Tsn, u32),
        blocks: impl Iterator<Item = GapBlock> + Clone,
    ) {
        // After a reset of all numbers the peer may report its window before anything is sent with the new ones.
        self.renumber(cumulative.next());
        if self.chunks.is_empty() && self.renumbered.awaits() {
            return self.window.on_ambiguous(a_rwnd);
        }
        let first = self.first;
        if !self.advance(now, cumulative) {
            return;
        }
        // Another SACK may have overtaken it: then what it leaves out is still acknowledged (decision 165). The first
        // chunk is missing in any case. A SHUTDOWN, often in the same packet, overtakes none.
        let is_newer = core::mem::take(&mut self.ahead) || self.first != first;
        let may_be_old = !is_newer && !self.chunks.front().is_some_and(|chunk| chunk.held);
        let outstanding = self.on_blocks(now, cumulative.next(), blocks, may_be_old);
        let lowest = self.chunks.iter().find(|chunk| !chunk.abandoned).map(|lowest| lowest.bytes);
        self.window.on_sack(a_rwnd, outstanding, lowest);
    }

    /// Processes the gap blocks behind a cumulative acknowledgement of everything before `first`. With `may_be_old`
    /// what they leave out is still acknowledged. Returns the bytes that are outstanding.
    fn on_blocks(
        &mut self,
        now: Time,
        first: Tsn,
        blocks: impl Iterator<Item = GapBlock> + Clone,
        may_be_old: bool,
    ) -> i64 {
        let mut adds = !may_be_old;
        let mut named: Vec<bool> = Vec::new();
        // A block is the set of its TSNs (RFC 9260 section 3.3.4). Offset 0 is the Cumulative TSN Ack itself.
        for block in blocks.clone().filter(|block| block.start <= block.end) {
            let end = usize::from(block.end).min(self.chunks.len() + 1);
            if named.len() < end {
                named.resize(end, false);
            }
            let start = usize::from(block.start).max(1);
            named.iter_mut().take(end).skip(start - 1).for_each(|named| *named = true);
        }
        // Offset 1 would be the chunk after the cumulative TSN, the first of those left.
        let highest = named.len();
        // With this many blocks it may have been full (decision 83).
        let full = blocks.count() >= MAY_BE_ALL;
        let may_be_cut = full && self.by_time;
        self.behind.begin();
        let mut outstanding = 0;
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            // What was non-renegable once stays so (draft-tuexen-tsvwg-sctp-multipath section 4.2): an NR-SACK that
            // leaves it out was overtaken or had no room. The sender need not keep it any more (section 4.4.2), so it
            // is neither outstanding nor part of the packet that a time-out repeats.
            let reported = named.get(at).copied().unwrap_or(false);
            // Only the next one in order is sure to be missing.
            chunk.denied = reported && (chunk.denied || (at == 0 && chunk.kept));
            chunk.kept &= at > 0;
            let is_named = !chunk.denied && (chunk.kept || reported || (may_be_old && chunk.named));
            chunk.held = is_named || (chunk.held && (may_be_old || (may_be_cut && at >= highest)));
            adds |= reported && !chunk.named;
            let tsn = Tsn(first.0.wrapping_add(at as u32));
            if is_named && !chunk.acknowledged && !chunk.abandoned {
                credit(now, &mut self.traffic, &mut self.late, chunk, (tsn, self.unnamed));
            }
            let newly = is_named && !chunk.acknowledged;
            // What the address delivered was sent before data of another one was retransmitted there. What was sent
            // to it before it was removed shows nothing once it is back.
            if !chunk.forgotten && (is_named || chunk.moved_from.is_empty()) {
                self.behind.look(chunk.to, (tsn, chunk.bytes), is_named, newly);
            }
            chunk.acknowledged |= is_named;
            chunk.misses += u32::from(!is_named && (at < highest || chunk.named));
            chunk.named = is_named;
            outstanding += if is_named || chunk.abandoned { 0 } else { i64::from(chunk.payload) };
        }
        self.behind.end();
        let next = Tsn(first.0.wrapping_add(self.chunks.len() as u32));
        if adds {
            self.unnamed = full.then(|| (Tsn(first.0.wrapping_add(highest as u32).wrapping_sub(1)), next));
        }
        outstanding
    }

    /// Advances the cumulative acknowledgement. Returns false if it is old, or covers data that was never sent.
    fn advance(&mut self, now: Time, cumulative: Tsn) -> bool {
        let Some(first) = self.first else { return false };
        let steps = cumulative.next().distance_from(first) as usize;
        if steps > self.chunks.len() {
            return false;
        }
        for (at, chunk) in self.chunks.drain(..steps).enumerate() {
            if !chunk.acknowledged && !chunk.abandoned {
                let tsn = Tsn(first.0.wrapping_add(at as u32));
                credit(now, &mut self.traffic, &mut self.late, &chunk, (tsn, self.unnamed));
            }
        }
        self.first = Some(cumulative.next());
        self.on_skipped(now, cumulative);
        for late in self.late.values_mut() {
            late.on_cumulative(cumulative);
        }
        if self.chunks.is_empty() {
            // An idle association resets its state. It isn't if messages that never existed are outstanding.
            let is_idle = !self.abandoned.has_unseen();
            for late in self.late.values_mut() {
                let recovers_until = late.recovers_until.filter(|_| !is_idle);
                late.rest();
                late.recovers_until = recovers_until;
            }
            self.behind = BehindGaps::default();
        }
        true
    }
}

/// Records what an NR-SACK that was processed reports as non-renegable.
fn on_kept(board: &mut Board, sack: &NrSack<'_>) {
    if board.first != Some(sack.cumulative_tsn().next()) {
        return;
    }
    for block in sack.non_renegable() {
        let (start, end) = (usize::from(block.start).max(1), usize::from(block.end));
        let count = (end + 1).saturating_sub(start);
        let chunks = board.chunks.iter_mut().skip(start - 1).take(count);
        chunks.filter(|chunk| !chunk.denied).for_each(|chunk| chunk.kept = true);
    }
}

fn credit(
    now: Time,
    traffic: &mut ByAddress<Traffic>,
    late: &mut ByAddress<Late>,
    chunk: &Sent,
    (tsn, unnamed): (Tsn, Option<(Tsn, Tsn)>),
) {
    if chunk.forgotten {
        return;
    }
    traffic.of(chunk.to).delivered += chunk.bytes;
    let unnamed = unnamed.is_some_and(|(named, next)| tsn.is_after(named) && tsn.is_before(next));
    let path = late.of(chunk.to);
    if unnamed && !chunk.resent {
        path.may_measure(now, chunk.at);
    }
    path.on_acknowledged(now, (chunk.at, tsn), chunk.resent || unnamed);
    // It may have been the packet that asked for the fate of everything else sent there (decision 92).
    for before in chunk.moved_from.iter().filter(|before| **before != chunk.to) {
        late.of(*before).on_acknowledged(now, (chunk.at, tsn), true);
    }
}
