//! The flight of an association as the packets on the wire show it: each chunk that was sent, whether a SACK has
//! reported it since, and whether anything indicated that it may be lost. Nothing here asks the engine.

mod abandoned;
mod arrival;
mod behind;
mod credit;
mod granted;
mod late;
mod quiet;
mod removed;
mod renumbered;
mod silence;
#[cfg(test)]
mod tests;
mod window;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use strandline_proto::config::Recovery;
use strandline_proto::time::Time;
use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::{Data, IData, Packet, RawChunk, Ssn, Tsn};

pub(crate) use self::abandoned::on_stream_reset;
use self::abandoned::{Abandoned, Of, on_timeout, reveal_skipped};
use self::behind::BehindGaps;
use self::credit::Credit;
pub(crate) use self::credit::{FORGED_CREDIT, INITIAL_MAX, set_credit};
use self::granted::Granted;
use self::late::Late;
use self::quiet::Quiet;
use self::renumbered::Renumbered;
use self::silence::{Again, Silences};
use self::window::Window;
use crate::by_address::ByAddress;
use crate::violation::{Violation, demand};

/// Miss indications that mark a chunk as lost (RFC 9260 section 7.2.4).
const MISSES: u32 = 3;

/// Number of gap blocks from which on a SACK may have been full.
const MAY_BE_ALL: usize = 16;

/// Returns the bytes of a DATA chunk including header and padding, as congestion control counts them (RFC 9260
/// section 7.2).
fn chunk_bytes(data: &Data<'_>) -> u32 {
    (strandline_wire::DATA_CHUNK_HEADER_LEN + data.payload.len().next_multiple_of(4)) as u32
}

/// A chunk that was sent and is not acknowledged cumulatively.
#[derive(Debug)]
struct Sent {
    bytes: u32,
    /// Bytes of user data.
    payload: u32,
    to: IpAddr,
    /// When it was last sent.
    at: Time,
    of: Of,
    /// True if its message was given up.
    abandoned: bool,
    /// True if a SACK acknowledged it, not necessarily the last one.
    acknowledged: bool,
    /// True if the last SACK reported it, or an earlier one as non-renegable.
    named: bool,
    /// True if an NR-SACK reported it as non-renegable.
    kept: bool,
    /// True if it was non-renegable when a SACK named the chunk before it as the last in order, which denies that, and
    /// all SACKs since have reported it nevertheless. The peer gets it again.
    denied: bool,
    /// True if a SACK acknowledged it, and none that is newer and had room to do so left it out.
    held: bool,
    /// Number of SACKs since it was sent that reported a higher TSN and not this one, or withdrew the report of an
    /// earlier SACK (RFC 9260 section 6.2.1 D iii).
    misses: u32,
    /// True if it may be retransmitted without anything that arrived, for example because T3-rtx expired.
    excused: bool,
    /// True if it was sent with a COOKIE ECHO, which T1-cookie repeats.
    in_set_up: bool,
    /// True if it was sent more than once.
    resent: bool,
    /// The other addresses to which it was sent before.
    moved_from: Vec<IpAddr>,
    /// True if an address to which it was sent is no longer the peer's: a SACK may answer either transmission.
    orphaned: bool,
    /// True if the address to which it was last sent is no longer the peer's: its acknowledgement shows
    /// nothing about any.
    forgotten: bool,
    /// True if it is lost by time (RFC 8985 section 6.2), or was before its state changed.
    late: bool,
    /// How often it was retransmitted since new data was acknowledged.
    again: Again,
}

impl Sent {
    fn on_resent(&mut self, now: Time, to: IpAddr, in_set_up: bool) {
        if self.to != to && !self.forgotten && !self.moved_from.contains(&self.to) {
            self.moved_from.push(self.to);
        }
        (self.to, self.at, self.misses) = (to, now, 0);
        (self.excused, self.in_set_up) = (false, in_set_up);
        (self.resent, self.late, self.forgotten) = (true, false, false);
    }

    /// See [`Board::may_be_lost`].
    fn may_be_lost(&self, now: Time, tsn: Tsn, recovery: Recovery, late: Option<&Late>, many: bool) -> bool {
        let evident = match recovery {
            Recovery::Rfc9260 => self.misses >= MISSES,
            _ => self.late || late.is_some_and(|late| late.finds(now, self.at, tsn, many)),
        };
        evident || self.excused || self.in_set_up || self.orphaned
    }
}

/// What was sent to an address, and acknowledged there, since the last check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Bytes acknowledged, and the number of SACKs or SHUTDOWNs that did so.
    pub(crate) delivered: u32,
    pub(crate) sacks: u32,
    /// Bytes sent, the part of these sent for the first time, and packets with DATA.
    pub(crate) sent: u32,
    pub(crate) new: u32,
    pub(crate) packets: u32,
    /// True if one of these packets had a COOKIE ECHO.
    pub(crate) set_up: bool,
}

/// ECN marks that the peer reported since the last check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// When the latest of the reported packets was sent.
    pub(crate) sent_at: Option<Time>,
    /// True if that is unknown for one of them, because it was retransmitted or is acknowledged.
    pub(crate) unknown: bool,
}

/// The chunks of an association.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// The peer's tag. A new tag starts everything anew, unless the TSNs continue.
    tag: u32,
    /// TSN of the first of `chunks`.
    first: Option<Tsn>,
    chunks: VecDeque<Sent>,
    /// First TSN and chunks under the previous tag, until the first DATA or FORWARD TSN under the new one.
    earlier: Option<(Tsn, VecDeque<Sent>)>,
    traffic: ByAddress<Traffic>,
    /// Loss detection by time for each address.
    late: ByAddress<Late>,
    behind: BehindGaps,
    marks: Marks,
    /// TSN of the latest ECNE, and when it was sent if it was sent once. It counts if CWR answers it.
    echoed: Option<(Tsn, Option<Time>)>,
    /// When the packet was sent whose mark CWR answers in this step.
    answered: Option<Time>,
    /// If the last SACK may have been full: the highest TSN that it reported, and the next TSN to be sent when it
    /// arrived.
    unnamed: Option<(Tsn, Tsn)>,
    /// The smallest path MTU.
    mtu_min: u32,
    window: Window,
    /// For each address, when the latest chunk was sent that was retransmitted as lost.
    lost: ByAddress<Time>,
    quiet: ByAddress<Quiet>,
    /// Minimum flight of an address when it was last computed. It only falls with time, unless something is sent,
    /// arrives, or is excused.
    least: ByAddress<u32>,
    silences: Silences,
    renumbered: Renumbered,
    abandoned: Abandoned,
    credit: Credit,
    granted: Granted,
    /// True if losses are found by time: a full SACK revokes nothing beyond its last block.
    by_time: bool,
    /// True if a SHUTDOWN acknowledged more than all SACKs before: a SACK that acknowledges as much is newer.
    ahead: bool,
    /// The type of the chunks that acknowledge DATA, once one was sent.
    acknowledges_by: Option<u8>,
}

/// Returns the DATA chunk, or what an I-DATA chunk has in common with one: its numbers within streams are those of the
/// ledger.
pub(crate) fn data_in<'a>(chunk: &RawChunk<'a>) -> Option<Data<'a>> {
    match chunk.parse().ok()? {
        Chunk::Data(data) => Some(data),
        Chunk::IData(IData {
            tsn, stream, ppid, unordered, beginning, ending, immediate, payload, ..
        }) => Some(Data { tsn, stream, ssn: Ssn(0), ppid, unordered, beginning, ending, immediate, payload }),
        _ => None,
    }
}

/// Returns the TSN of a DATA or I-DATA chunk, or up to which a FORWARD TSN skips data.
fn numbered(chunk: &RawChunk<'_>) -> Option<Tsn> {
    match chunk.parse().ok()? {
        Chunk::Data(data) => Some(data.tsn),
        Chunk::IData(data) => Some(data.tsn),
        Chunk::ForwardTsn(forward) => Some(forward.new_cumulative_tsn()),
        Chunk::IForwardTsn(forward) => Some(forward.new_cumulative_tsn()),
        _ => None,
    }
}

impl Board {
    /// Handles a change of the peer's tag before a packet is sent. After a restart of the peer TSNs begin anew. If
    /// both sides have sent an INIT and the other one counts (RFC 9260 section 5.2.4 action B), they continue, and
    /// the peer may have nothing of what was sent under the tag of its earlier INIT: all of that may be
    /// retransmitted. Under the tag in between nothing may have been sent.
    pub(crate) fn on_tag(&mut self, packet: &Packet<'_>) {
        let tag = packet.verification_tag().0;
        if self.tag != tag {
            let chunks = core::mem::take(&mut self.chunks);
            let earlier = self.first.map(|first| (first, chunks)).or_else(|| self.earlier.take());
            let abandoned = core::mem::take(&mut self.abandoned);
            let credit = core::mem::take(&mut self.credit);
            let by_time = self.by_time;
            *self = Self { tag, earlier, abandoned, credit, by_time, ..Self::default() };
        }
        if self.earlier.is_none() {
            return;
        }
        let next = packet.chunks().flatten().find_map(|chunk| numbered(&chunk));
        let Some((next, (first, mut chunks))) = next.and_then(|next| Some((next, self.earlier.take()?)))
        else {
            return;
        };
        if next.distance_from(first) as usize <= chunks.len() {
            for chunk in &mut chunks {
                chunk.excused = true;
                (chunk.acknowledged, chunk.named, chunk.kept, chunk.held) = (false, false, false, false);
                chunk.denied = false;
            }
            (self.first, self.chunks) = (Some(first), chunks);
        } else {
            self.credit.restart();
        }
    }

    /// Records a packet that is sent.
    pub(crate) fn on_departure(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        to: IpAddr,
        recovery: Recovery,
    ) -> Result<(), Violation> {
        let set_up = packet.chunks().flatten().next().is_some_and(|chunk| chunk.kind == kind::COOKIE_ECHO);
        let mut any = false;
        self.renumbered.on_chunks(packet.chunks().flatten(), true);
        self.credit.on_chunks(packet.chunks().flatten(), false);
        self.granted.on_departure(packet.chunks().flatten())?;
        for chunk in packet.chunks().flatten() {
            let parsed = chunk.parse();
            if let (Some(data), Ok(parsed)) = (data_in(&chunk), &parsed) {
                any = true;
                let of = self.abandoned.identify(parsed);
                self.on_data(now, &data, of, (to, set_up), recovery)?;
                continue;
            }
            if matches!(chunk.kind, kind::SACK | kind::NR_SACK) {
                let before = *self.acknowledges_by.get_or_insert(chunk.kind);
                demand(before == chunk.kind, || {
                    format!("chunk type {} after {before}: SACK and NR-SACK in one association", chunk.kind)
                })?;
            }
            match parsed {
                Ok(Chunk::ForwardTsn(forward)) => self.on_forward_tsn(now, &forward, to)?,
                Ok(Chunk::IForwardTsn(forward)) => self.on_i_forward_tsn(now, &forward, to)?,
                Ok(Chunk::Cwr(cwr)) => {
                    let echoed = self.echoed.filter(|(tsn, _)| *tsn == cwr.lowest_tsn);
                    self.answered = echoed.and_then(|(_, sent_at)| sent_at).or(self.answered);
                }
                _ => {}
            }
        }
        let traffic = self.traffic.of(to);
        traffic.packets += u32::from(any);
        traffic.set_up |= set_up;
        Ok(())
    }

    fn on_data(
        &mut self,
        now: Time,
        data: &Data<'_>,
        of_message: Of,
        (to, in_set_up): (IpAddr, bool),
        recovery: Recovery,
    ) -> Result<(), Violation> {
        self.least.clear();
        let (bytes, payload, tsn) = (chunk_bytes(data), data.payload.len() as u32, data.tsn);
        self.renumber(tsn);
        let first = *self.first.get_or_insert(tsn);
        demand(!tsn.is_before(first), || format!("{tsn:?} is sent again and was acknowledged long ago"))?;
        let at = tsn.distance_from(first) as usize;
        reveal_skipped(self, now, to, at);
        demand(at <= self.chunks.len(), || format!("{tsn:?} is sent, which leaves TSNs out"))?;
        self.abandoned.check(tsn, of_message)?;
        let traffic = self.traffic.of(to);
        traffic.sent += bytes;
        let Some(known) = self.chunks.get(at) else {
            traffic.new += bytes;
            self.window.on_new_data(payload);
            self.quiet.of(to).ends(now);
            self.abandoned.on_new_data(to, of_message);
            self.credit.on_new_data(tsn, data.stream.0, payload)?;
            self.chunks.push_back(Sent { in_set_up, ..Sent::new(now, to, of_message, (bytes, payload)) });
            return Ok(());
        };
        demand(!known.kept, || format!("{tsn:?} is sent again, which the peer never revokes"))?;
        demand(!known.named, || format!("{tsn:?} is sent again, which the last SACK acknowledged"))?;
        let (of, mut explained) = (known.to, in_set_up || self.may_be_lost(now, known, tsn, recovery));
        let (sent_at, excused) = (known.at, in_set_up || known.excused || known.in_set_up);
        if !explained {
            // The loss of another chunk may have begun a recovery that was not seen yet.
            self.judge(now);
            explained = self.chunks.get(at).is_some_and(|known| self.may_be_lost(now, known, tsn, recovery));
        }
        if explained {
            self.recovers(of);
            if !excused {
                let lost = self.lost.get(of).map_or(sent_at, |lost| sent_at.max(*lost));
                self.lost.insert(of, lost);
            }
        } else {
            self.probe(now, tsn, of)?;
        }
        let quiet = self.quiet.of(to);
        if of == to {
            quiet.ends(now)
        } else {
            quiet.ends_for_another(now)
        }
        if let Some(known) = self.chunks.get_mut(at) {
            if in_set_up {
                known.again = Again::default();
            } else if !known.forgotten {
                self.silences.on_again(now, (of, tsn), sent_at, &mut known.again)?;
            }
            known.on_resent(now, to, in_set_up);
        }
        Ok(())
    }

    /// Begins to count at this TSN, if all numbers were reset to it while nothing was outstanding.
    fn renumber(&mut self, tsn: Tsn) {
        let continues = self.first.is_none_or(|first| first == tsn);
        // A SACK or SHUTDOWN may have begun the new numbers already. They begin once.
        if !self.chunks.is_empty() || !self.renumbered.take(tsn) || continues {
            return;
        }
        self.first = Some(tsn);
        self.unnamed = None;
        self.behind = BehindGaps::default();
        self.late.values_mut().for_each(Late::rest);
    }

    /// Allows the numbers to begin anew at this TSN: the response that says so could not be sent, and is repeated.
    pub(crate) fn expect_renumbering(&mut self, tsn: Tsn) {
        self.renumbered.expect(tsn);
    }

    /// Marks chunks that are lost by time, and begins the recovery of their addresses.
    fn judge(&mut self, now: Time) {
        let Some(first) = self.first else { return };
        let (behind, mtu_min, unnamed) = (&self.behind, self.mtu_min, self.unnamed);
        let mut recovers = Vec::new();
        // Chunks of one address mostly follow one another.
        let mut of = None;
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            let tsn = Tsn(first.0.wrapping_add(at as u32));
            // What a complete SACK leaves out that an earlier one acknowledged counts as outstanding again, and may
            // be found late although the next SACK acknowledges it before it is sent again.
            let is_withdrawn = !chunk.named && unnamed.is_none_or(|(named, _)| !tsn.is_after(named));
            if chunk.acknowledged && !is_withdrawn {
                continue;
            }
            if chunk.late {
                // The sender may detect it only now, because it ignores answers that came implausibly early.
                recovers.push(chunk.to);
                continue;
            }
            let late = match of {
                Some((to, late)) if to == chunk.to => late,
                _ => of.insert((chunk.to, self.late.get(chunk.to))).1,
            };
            if late.is_some_and(|late| late.finds(now, chunk.at, tsn, behind.are_many(chunk.to, mtu_min))) {
                chunk.late |= !chunk.acknowledged;
                recovers.push(chunk.to);
            }
        }
        recovers.dedup();
        recovers.into_iter().for_each(|of| self.recovers(of));
    }

    /// Begins a recovery, which lasts until everything sent so far is acknowledged, with the TSNs of messages that
    /// never existed.
    fn recovers(&mut self, of: IpAddr) {
        let end = recovery_end(self);
        self.late.of(of).recovers_until = end;
    }

    /// Checks the retransmission of a chunk that nothing indicates as lost: a tail-loss probe, after two round trips
    /// in which nothing was sent to its address or acknowledged there (RFC 8985 section 7.2). If it was a probe
    /// before, another path may take it (decision 35).
    fn probe(&mut self, now: Time, tsn: Tsn, of: IpAddr) -> Result<(), Violation> {
        let quiet = self.quiet.of(of);
        let Quiet { since, srtt, .. } = *quiet;
        let due = quiet.probe_is_due(now);
        quiet.ends(now);
        demand(due, || {
            format!("{tsn:?} is sent again for no reason; {of} is quiet since {since:?}, {srtt:?}")
        })
    }

    /// Sets the round-trip time and the RTO of an address.
    pub(crate) fn set_times(&mut self, now: Time, of: IpAddr, srtt: Option<Duration>, rto: Duration) {
        self.quiet.of(of).srtt = srtt;
        self.silences.set_rto(now, of, rto);
    }

    /// Sets RTO.Max.
    pub(crate) fn set_rto_max(&mut self, rto_max: Duration) {
        self.silences.set(rto_max);
    }

    /// Ends the silence of an address: its retransmission had a reason other than the peer's silence, or its RTO
    /// follows from the measurements again.
    pub(crate) fn end_silence(&mut self, now: Time, of: IpAddr) {
        self.silences.end(now, of);
    }

    /// Sets the smallest path MTU.
    pub(crate) fn set_mtu_min(&mut self, mtu_min: u32) {
        if self.mtu_min != mtu_min {
            self.least.clear();
        }
        self.mtu_min = mtu_min;
    }

    /// True if something indicates that the chunk may be lost: by RFC 8985 section 6.2 one that was sent later to the
    /// same address has arrived, and the reordering window has passed; by RFC 9260 section 7.2.4 three SACKs missed
    /// it; or it is excused.
    fn may_be_lost(&self, now: Time, chunk: &Sent, tsn: Tsn, recovery: Recovery) -> bool {
        let late = self.late.get(chunk.to);
        chunk.may_be_lost(now, tsn, recovery, late, self.behind.are_many(chunk.to, self.mtu_min))
    }

    /// Allows the retransmission of everything outstanding: a router refused it, the peer restarted, or T3-rtx
    /// expired.
    pub(crate) fn excuse(&mut self, to: Option<IpAddr>) {
        on_timeout(self);
        self.least.clear();
        let mut recovers = Vec::new();
        for chunk in self.chunks.iter_mut().filter(|chunk| to.is_none_or(|to| chunk.to == to)) {
            chunk.excused = true;
            recovers.push(chunk.to);
        }
        recovers.dedup();
        recovers.into_iter().for_each(|of| self.recovers(of));
    }

    /// Allows retransmissions after T3-rtx of the only path expired, if losses are detected by time: as many
    /// of the lowest chunks as fit a packet of `mtu` bytes, on the path that it takes. The answer shows the
    /// fate of the others (RFC 5682 section 3.1 step 1). Chunks that an earlier SACK acknowledged and the
    /// last one may have had no room for do not count: the sender need not assume that the peer revoked them.
    pub(crate) fn excuse_first(&mut self, to: IpAddr, mtu: u32) {
        on_timeout(self);
        self.least.clear();
        let mut room = mtu;
        for chunk in &mut self.chunks {
            if chunk.to != to || chunk.forgotten || chunk.named || chunk.abandoned {
                continue;
            }
            if chunk.held {
                chunk.excused = true;
                continue;
            }
            if chunk.bytes > room && room < mtu {
                break;
            }
            room = room.saturating_sub(chunk.bytes);
            chunk.excused = true;
        }
        self.recovers(to);
    }

    /// Returns true once if the peer's window had no room for the lowest chunk or for a probe, and has opened since
    /// the last call.
    pub(crate) fn take_opened(&mut self) -> bool {
        self.window.take_opened()
    }

    /// True if nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the next TSN; `None` before the first.
    pub(crate) fn next_tsn(&self) -> Option<Tsn> {
        self.first.map(|first| Tsn(first.0.wrapping_add(self.chunks.len() as u32)))
    }

    /// True if everything before `tsn` is acknowledged.
    pub(crate) fn has_passed(&self, tsn: Tsn) -> bool {
        self.first.is_some_and(|first| !first.is_before(tsn))
    }

    /// Returns the minimum flight of an address: the outstanding chunks that nothing indicates as lost. May be larger
    /// if it stays below `flight`.
    pub(crate) fn in_flight_least(&mut self, now: Time, to: IpAddr, recovery: Recovery, flight: u32) -> u32 {
        if let Some(least) = self.least.get(to).filter(|least| **least <= flight) {
            return *least;
        }
        let mut least = least_at(self, now, to, recovery);
        if least > flight {
            // The loss of chunks that were given up may have begun a recovery, which no retransmission shows.
            self.judge(now);
            least = least_at(self, now, to, recovery);
        }
        self.least.insert(to, least);
        least
    }

    /// Returns the window in the last SACK; `None` before the first.
    pub(crate) fn a_rwnd(&self) -> Option<u32> {
        self.window.a_rwnd()
    }

    pub(crate) fn traffic(&self, of: IpAddr) -> Traffic {
        self.traffic.get(of).copied().unwrap_or_default()
    }

    /// Returns when the latest chunk was sent that was retransmitted as lost since the last call.
    pub(crate) fn take_lost(&mut self, of: IpAddr) -> Option<Time> {
        self.lost.remove(of)
    }

    pub(crate) fn take_marks(&mut self) -> Marks {
        core::mem::take(&mut self.marks)
    }

    /// Returns when the packet was sent for whose mark the window has shrunk, according to CWR in this step.
    pub(crate) fn take_answered(&mut self) -> Option<Time> {
        self.answered.take()
    }

    /// True if anything sent to the address was acknowledged since the last check, a FORWARD TSN included.
    pub(crate) fn has_delivered(&self, of: IpAddr) -> bool {
        self.traffic.get(of).is_some_and(|traffic| traffic.sacks > 0)
    }

    pub(crate) fn take_delivered(&mut self, of: IpAddr) -> (u32, u32) {
        let Some(traffic) = self.traffic.get_mut(of) else { return (0, 0) };
        (core::mem::take(&mut traffic.delivered), core::mem::take(&mut traffic.sacks))
    }

    /// Forgets what was sent.
    pub(crate) fn end_step(&mut self) {
        for traffic in self.traffic.values_mut() {
            *traffic = Traffic { delivered: traffic.delivered, sacks: traffic.sacks, ..Traffic::default() };
        }
    }
}

/// Returns the TSN before which everything is acknowledged at the end of a recovery that begins now; `None` before the
/// first TSN.
pub(crate) fn recovery_end(board: &Board) -> Option<Tsn> {
    board.next_tsn().map(|next| board.abandoned.beyond_unseen(next))
}

/// Sets whether losses are found by time.
pub(crate) fn set_by_time(board: &mut Board, by_time: bool) {
    board.by_time = by_time;
}

/// Returns the bytes outstanding at an address that nothing indicates as lost.
fn least_at(board: &Board, now: Time, to: IpAddr, recovery: Recovery) -> u32 {
    let Some(first) = board.first else { return 0 };
    let (late, many) = (board.late.get(to), board.behind.are_many(to, board.mtu_min));
    let tsns = (0..).map(|at| Tsn(first.0.wrapping_add(at)));
    let outstanding = |chunk: &Sent| !chunk.acknowledged && !chunk.abandoned && chunk.to == to;
    let all = board.chunks.iter().zip(tsns).filter(|(chunk, _)| outstanding(chunk));
    all.filter(|(chunk, tsn)| !chunk.may_be_lost(now, *tsn, recovery, late, many))
        .map(|(chunk, _)| chunk.bytes)
        .sum()
}
