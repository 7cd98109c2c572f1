//! Invariants of an association's numbers after each step, as seen from outside: its status, its paths and the
//! packets that it transmits.

mod memory;
mod moves;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

use strandline_proto::authentication::ChunkTypes;
use strandline_proto::config::{AssociationConfig, Recovery};
use strandline_proto::endpoint::Endpoint;
use strandline_proto::event::{AssociationId, Event, PathChange};
use strandline_proto::reconfiguration::Outcome;
use strandline_proto::stats::{AssociationState, PathStatus, Status};
use strandline_proto::time::Time;
use strandline_wire::chunk::kind;
use strandline_wire::{Chunk, Packet, Parameter, RawChunk, Tsn};

use crate::agreed::Agreed;
use crate::authentic::{admitted, keep_agreed, key_of};
use crate::board::{data_in, on_stream_reset, set_credit};
use crate::bounds::{Events, Step};
use crate::by_address::ByAddress;
use crate::ledger;
use crate::network::Carried;
use crate::notes::Note;
use crate::relocation::outcome_of;
use crate::violation::{Violation, demand};
use memory::{Memory, counters};
use moves::{Moves, reports_stale_cookie};

/// Number of bytes that a receive buffer may hold beyond twice its size: data that fills gaps is accepted beyond the
/// limit, because it releases other data, and each held chunk costs more than its payload.
const RECEIVE_SLACK: usize = 200_000;

/// Memory in bytes that an association may take: this many times its buffers, and a fixed amount.
const MEMORY_FACTOR: usize = 3;
const MEMORY_SLACK: usize = 1_500_000;

/// Packets of new data that test whether a time-out was spurious (F-RTO).
const FRTO_PACKETS: u32 = 2;

/// An association before it transmits.
#[derive(Debug)]
struct Before {
    status: Status,
    paths: Vec<PathStatus>,
    /// Bytes of DATA transmitted for the first time, by destination.
    new_bytes: ByAddress<u32>,
    new_chunks: u32,
    /// Bytes of messages given up since, which count against the peer's window no longer.
    given_back: u32,
    /// The largest packet: larger than a path's MTU if its chunk was made for another path.
    packet_max: u32,
    /// True if a packet beyond the path MTU had more than the one chunk that made it so large.
    overfull: bool,
}

impl Before {
    fn new(status: Status, paths: Vec<PathStatus>) -> Self {
        Self {
            status,
            paths,
            new_bytes: ByAddress::default(),
            new_chunks: 0,
            given_back: 0,
            packet_max: 0,
            overfull: false,
        }
    }
}

/// Watches the associations of one host: those that something has touched. The others still have the numbers with which
/// the last check left them.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// An attacker asks for other addresses, and for resets, in the name of the peer, so that nobody can say which
    /// addresses and accounts are in use.
    pub(crate) requests_forged: bool,
    /// An attacker alters packets from and to this host.
    pub(crate) is_attacked: bool,
    memory: BTreeMap<AssociationId, Memory>,
    /// Those that a packet, a command or an event has touched and that have not come to rest.
    touched: BTreeSet<AssociationId>,
    /// True if any may have been touched: by a timer, or by a packet that belongs to none.
    any: bool,
    /// Those that were looked at in this round, and whether all were compared with the last look.
    round: Vec<AssociationId>,
    all: bool,
    /// Tags of initiators whose set-up an attacker altered. With authentication nothing is known then of what counts.
    forged: BTreeSet<u32>,
    /// The largest initial credit of streams in INITs and INIT ACKs of both sides, in bytes, by their tags.
    offers: BTreeMap<u32, u32>,
    /// Tags that two associations have had at once: an old COOKIE ECHO makes a second one.
    shared_tags: BTreeSet<u32>,
    /// The extensions of the host's associations so far, if no attacker alters their set-up.
    pub(crate) agreed: Agreed,
}

impl Watch {
    /// Returns the watch of a host that has lost its state.
    pub(crate) fn anew(&self) -> Self {
        let Self { requests_forged, is_attacked, agreed, .. } = *self;
        Self { requests_forged, is_attacked, agreed, ..Self::default() }
    }

    /// Records that something may change an association.
    pub(crate) fn touch(&mut self, id: AssociationId) {
        self.touched.insert(id);
        if let Some(memory) = self.memory.get_mut(&id) {
            memory.touch();
        }
    }

    /// Records that something may change any association.
    pub(crate) fn touch_any(&mut self) {
        self.any = true;
    }

    /// Examines associations before they transmit. `ids` are all of them.
    pub(crate) fn before(
        &mut self,
        endpoint: &Endpoint,
        now: Time,
        ids: impl Iterator<Item = AssociationId>,
        recovery: Recovery,
    ) -> Result<(), Violation> {
        self.round.clear();
        self.all = core::mem::take(&mut self.any);
        let ids: Vec<_> = if self.all { ids.collect() } else { self.touched.iter().copied().collect() };
        for id in ids {
            self.look(endpoint, now, id, recovery)
                .map_err(|Violation(what)| Violation(format!("{id:?}: {what}")))?;
        }
        Ok(())
    }

    /// Looks at an association, unless it rests.
    fn look(
        &mut self,
        endpoint: &Endpoint,
        now: Time,
        id: AssociationId,
        recovery: Recovery,
    ) -> Result<(), Violation> {
        self.touched.remove(&id);
        let (Some(status), Some(paths)) = (endpoint.status(id), endpoint.paths(id)) else { return Ok(()) };
        if status.extensions.authentication
            && [status.local_tag, status.peer_tag].iter().any(|tag| self.forged.contains(&tag.0))
        {
            self.memory.entry(id).and_modify(|memory| memory.before = None);
            return Ok(());
        }
        let memory = self.memory.entry(id).or_default();
        if !memory.is_settled(&status, &paths) {
            memory.look(now, (status, paths), is_by_time(recovery))?;
        } else if memory.is_checked() {
            return Ok(());
        }
        self.touched.insert(id);
        self.round.push(id);
        Ok(())
    }

    /// Examines a packet that is about to arrive. `wanted` are the chunk types whose authentication the host demands;
    /// `verifies` is true if that of the packet is right. Returns the association that skips data because of it, and up
    /// to which TSN.
    pub(crate) fn arrival(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        datagram: &Carried,
        (wanted, verifies): (Option<ChunkTypes>, bool),
    ) -> Option<(AssociationId, Tsn)> {
        let Ok(packet) = Packet::parse(&datagram.bytes) else {
            self.touch_any();
            return None;
        };
        let mut skips = None;
        self.learn_offer(&packet);
        let (tag, source) = (packet.verification_tag(), datagram.source.ip());
        let first = packet.chunks().flatten().next();
        let mut receiver = None;
        for (id, memory) in &mut self.memory {
            if memory.before.as_ref().is_some_and(|before| before.status.local_tag != tag) {
                continue;
            }
            let Some(status) = endpoint.status(*id).filter(|status| status.local_tag == tag) else {
                continue;
            };
            receiver = Some(*id);
            let whole = (packet.checksum() == 0 && status.accepts_zero_checksum) || packet.verify_checksum();
            let known =
                endpoint.paths(*id).is_some_and(|paths| paths.iter().any(|path| path.address.ip() == source));
            let verifies = verifies && key_of(&packet).is_none_or(|key| memory.keys.has(key));
            if whole && verifies {
                memory.moves.on_arrival(&packet);
            }
            if whole && known && endpoint.addresses(*id).accepts(datagram.destination.ip()) {
                let wanted = wanted.filter(|_| status.extensions.authentication);
                memory.learn();
                let mut chunks = admitted(&packet, wanted, verifies);
                keep_agreed(&mut chunks, status.extensions);
                skips = skipped(&chunks, &status).map(|up_to| (*id, up_to));
                memory.board.on_arrival(now, &chunks, status.state);
            } else if whole && let Some(cookie) = first.filter(|chunk| chunk.kind == kind::COOKIE_ECHO) {
                // An old one is answered also at an address that the association no longer has.
                memory.learn();
                memory.board.on_arrival(now, &[cookie], status.state);
            }
        }
        match receiver {
            Some(id) if first.is_none_or(|chunk| chunk.kind != kind::COOKIE_ECHO) => self.touch(id),
            _ => self.touch_any(),
        }
        skips
    }

    /// Learns of a message that was given up.
    pub(crate) fn on_event(&mut self, now: Time, id: AssociationId, event: &Event) {
        self.touch(id);
        if let Event::SendFailed(failed) = event
            && ledger::is_abandoned(failed)
        {
            let memory = self.memory.entry(id).or_default();
            memory.learn();
            let bytes = memory.board.on_abandoned(now, failed.info.ppid);
            if let Some(before) = &mut memory.before {
                before.given_back += bytes;
            }
        }
        match event {
            Event::PathChanged { address, change: PathChange::Removed } => {
                self.memory.entry(id).or_default().on_removed(address.ip());
            }
            Event::Restarted { .. } => self.memory.entry(id).or_default().moves = Moves::default(),
            Event::AssociationReset { outcome: Outcome::Performed, local_tsn, .. } => {
                let memory = self.memory.entry(id).or_default();
                if memory.moves.may_be_sourceless() {
                    memory.board.expect_renumbering(*local_tsn);
                }
            }
            _ => {}
        }
        if let Some((request, outcome)) = outcome_of(event) {
            self.memory.entry(id).or_default().moves.on_outcome(request, outcome);
        }
    }

    /// Learns what an application has done.
    pub(crate) fn on_note(&mut self, now: Time, id: AssociationId, note: Note) {
        let memory = self.memory.entry(id).or_default();
        memory.keys.learn(now, note);
        if let Note::Reset(stream) = note {
            on_stream_reset(&mut memory.board, stream);
        }
    }

    /// Examines a transmitted packet.
    pub(crate) fn packet(
        &mut self,
        now: Time,
        datagram: &Carried,
        recovery: Recovery,
    ) -> Result<(), Violation> {
        let Ok(packet) = Packet::parse(&datagram.bytes) else { return Ok(()) };
        self.learn_offer(&packet);
        let Some(id) = self.sender_of(&packet, datagram.destination) else { return Ok(()) };
        let of = |Violation(what)| Violation(format!("{id:?}: {what}"));
        let rested = !self.round.contains(&id);
        if rested {
            self.round.push(id);
        }
        self.touch(id);
        // Of two associations under one tag it is not certain which one sends, also once one of them has ended.
        let tag = packet.verification_tag().0;
        if self.memory.values().filter(|memory| is_of(memory, &packet)).count() > 1 {
            self.shared_tags.insert(tag);
        }
        let is_alone = !self.shared_tags.contains(&tag);
        let Some(memory) = self.memory.get_mut(&id) else { return Ok(()) };
        memory.learn();
        if rested {
            memory.look_again(now, is_by_time(recovery)).map_err(of)?;
        }
        let Some(before) = &mut memory.before else { return Ok(()) };
        before.packet_max = before.packet_max.max(datagram.bytes.len() as u32);
        let to = datagram.destination.ip();
        let is_forward = |kind| matches!(kind, kind::FORWARD_TSN | kind::I_FORWARD_TSN);
        let forwards = packet.chunks().flatten().any(|chunk| is_forward(chunk.kind));
        demand(!forwards || before.status.extensions.partial_reliability, || {
            format!("{id:?}: FORWARD TSN to a peer that does not support it")
        })?;
        if let Some(key) = key_of(&packet).filter(|_| is_alone && !reports_stale_cookie(&packet)) {
            memory.keys.check(now, key).map_err(of)?;
        }
        let moves = memory.moves.on_departure(&packet, datagram);
        if is_alone && !self.requests_forged {
            moves.map_err(of)?;
        }
        memory.board.on_tag(&packet);
        let agreed = before.status.extensions.stream_credit && !self.requests_forged;
        let [offer, own] =
            [packet.verification_tag(), before.status.local_tag].map(|tag| self.offers.get(&tag.0).copied());
        set_credit(&mut memory.board, (agreed, self.is_attacked), offer, own);
        let mut next = memory.board.next_tsn();
        memory.board.on_departure(now, &packet, to, recovery).map_err(of)?;
        let chunks = packet.chunks().flatten().filter(|chunk| data_in(chunk).is_some()).count();
        before.overfull |= datagram.fragment.is_some() && chunks > 1;
        for chunk in packet.chunks().flatten() {
            let Some(data) = data_in(&chunk) else { continue };
            if next.is_none_or(|next| !data.tsn.is_before(next)) {
                next = Some(data.tsn.next());
                *before.new_bytes.of(to) += data.payload.len() as u32;
                before.new_chunks += 1;
            }
        }
        Ok(())
    }

    /// Records the initial credit of streams that a set-up offers.
    fn learn_offer(&mut self, packet: &Packet<'_>) {
        let first = packet.chunks().flatten().next().and_then(|chunk| chunk.parse().ok());
        let Some(Chunk::Init(set_up) | Chunk::InitAck(set_up)) = first else { return };
        for parameter in set_up.parameters.iter().flatten() {
            if let Ok(Parameter::StreamCredit { initial_kib }) = parameter.parse() {
                let offer = self.offers.entry(set_up.initiate_tag.0).or_default();
                *offer = (*offer).max(u32::from(initial_kib) << 10);
            }
        }
    }

    /// Returns the association that a packet belongs to.
    fn sender_of(&self, packet: &Packet<'_>, to: SocketAddr) -> Option<AssociationId> {
        let is_of = |memory: &Memory| is_of(memory, packet);
        let has_path = |memory: &Memory| {
            let before = memory.before.as_ref();
            before.is_some_and(|before| before.paths.iter().any(|path| path.address == to))
        };
        let of = |id: &AssociationId| self.memory.get(id).filter(|memory| is_of(memory));
        let sends = |id: &&AssociationId| of(id).is_some();
        // An old COOKIE ECHO from an address that the peer has deleted makes another association with the same tag.
        let sends_there = |id: &&AssociationId| of(id).is_some_and(has_path);
        let any = |has: &dyn Fn(&Memory) -> bool| {
            self.memory.iter().find(|(_, memory)| is_of(memory) && has(memory)).map(|(id, _)| *id)
        };
        let there = self.round.iter().find(sends_there).copied().or_else(|| any(&has_path));
        there.or_else(|| self.round.iter().find(sends).copied()).or_else(|| any(&|_| true))
    }

    /// Checks associations after they transmitted.
    pub(crate) fn after(
        &mut self,
        endpoint: &Endpoint,
        now: Time,
        config: &AssociationConfig,
    ) -> Result<(), Violation> {
        let round = core::mem::take(&mut self.round);
        for (id, memory) in &mut self.memory {
            let looked_at = round.contains(id);
            if !looked_at && !self.all {
                continue;
            }
            let (Some(status), Some(paths)) = (endpoint.status(*id), endpoint.paths(*id)) else { continue };
            // A timer may have changed what no packet shows.
            if !looked_at && memory.has_known(&status, &paths) {
                continue;
            }
            let Some(before) = memory.before.take() else { continue };
            let of = |Violation(what)| Violation(format!("{id:?}: {what}"));
            check(&before, memory, now, (&status, &paths), config).map_err(of)?;
            if status.state == AssociationState::Established && !self.is_attacked {
                self.agreed.note(status.extensions, config);
            }
            let held = endpoint.memory(*id).unwrap_or_default();
            let sizes = status.receive_buffer as usize + config.send_buffer_limit() as usize;
            let limit = MEMORY_FACTOR * sizes + MEMORY_SLACK;
            demand(held.total() <= limit, || format!("{id:?} takes too much memory: {held:?}"))?;
            memory.on_checked(before, &status, &paths);
            self.touched.insert(*id);
        }
        self.round = round;
        Ok(())
    }

    /// Records that an attacker altered the set-up of the initiator with this tag.
    pub(crate) fn distrust(&mut self, tag: u32) {
        self.forged.insert(tag);
        self.touch_any();
    }

    /// Forgets an association that was released.
    pub(crate) fn forget(&mut self, id: AssociationId) {
        self.memory.remove(&id);
        self.touched.remove(&id);
    }
}

/// True if a packet that is sent has the tag and port of this association's peer.
fn is_of(memory: &Memory, packet: &Packet<'_>) -> bool {
    let (tag, port) = (packet.verification_tag(), packet.destination_port());
    let before = memory.before.as_ref();
    before.is_some_and(|before| before.status.peer_tag == tag && before.status.peer_port == port)
}

/// True if losses are detected by time.
fn is_by_time(recovery: Recovery) -> bool {
    recovery != Recovery::Rfc9260
}

/// Checks an association after it transmitted.
fn check(
    before: &Before,
    memory: &mut Memory,
    now: Time,
    (status, paths): (&Status, &[PathStatus]),
    config: &AssociationConfig,
) -> Result<(), Violation> {
    demand(!before.overfull, || "a packet larger than the path MTU with several chunks of DATA".to_owned())?;
    let probes = status.stats.tail_probes - before.status.stats.tail_probes;
    let frto_packets = frto_packets(&mut memory.frto_packets, paths);
    congestion(before, paths, probes, &mut memory.frto_packets)?;
    flow(before, status, memory.board.a_rwnd())?;
    sending(before, memory, now, (status, paths), config, &frto_packets)?;
    sums(status, paths)?;
    buffers(status, config)
}

/// Checks what [`Board`] and [`Bounds`] demand.
fn sending(
    before: &Before,
    memory: &mut Memory,
    now: Time,
    (status, paths): (&Status, &[PathStatus]),
    config: &AssociationConfig,
    frto_packets: &[(IpAddr, u32)],
) -> Result<(), Violation> {
    let events = memory.events(now, status, paths.len());
    // A packet allowed by a probe or a time-out may be sent later.
    if paths.iter().any(|path| memory.board.traffic(path.address.ip()).sent > 0) {
        memory.counted = counters(status);
    }
    memory.board.set_rto_max(config.rto_max);
    // A path on which ECN was given up answers marks and does nothing else.
    let marked = memory.board.take_answered().filter(|_| status.stats.ecn_failures == 0);
    for path in paths {
        let address = path.address.ip();
        let traffic = memory.board.traffic(address);
        let least = memory.board.in_flight_least(now, address, config.recovery, path.flight);
        // The set-up has its own timers.
        demand(path.flight >= least || status.state.in_setup(), || {
            format!("{least} bytes are on their way at least: {path:?}")
        })?;
        let Some(was) = before.paths.iter().find(|was| was.address.ip() == address) else { continue };
        let mtu = u32::from(path.mtu.max(was.mtu)).max(before.packet_max);
        let lost = memory.board.take_lost(address);
        let bounds = memory.bounds.of(address);
        let exempt = events.exempt
            + frto_packets.iter().find(|(of, _)| *of == address).map_or(0, |(_, packets)| *packets);
        let events = Events { exempt, gave_up: before.given_back > 0, ..events };
        bounds.after(Step { was, path, traffic, mtu, events, config, lost, marked })?;
    }
    memory.board.end_step();
    Ok(())
}

/// Updates the packets that each path may use for F-RTO: with no other path several paths may test at once. Returns
/// the initial number for each.
fn frto_packets(of: &mut ByAddress<(u16, u32)>, paths: &[PathStatus]) -> Vec<(IpAddr, u32)> {
    let mut asking = Vec::new();
    for path in paths {
        let (timeouts, packets) = of.of(path.address.ip());
        if core::mem::replace(timeouts, path.timeouts) != path.timeouts {
            *packets = FRTO_PACKETS;
        }
        if *packets > 0 {
            asking.push((path.address.ip(), *packets));
        }
    }
    asking
}

/// Checks the congestion window. RFC 9260 section 7.2.1: no new data while the flight is cwnd or more; it may be
/// exceeded by a packet less one byte. Section 7.2.4: a fast retransmission is one packet beyond that. RFC 8985
/// section 7.3: so is a tail-loss probe, which may be new data. RFC 5682 section 2 step 2b: after a time-out two
/// packets of new data may test whether it was spurious. In a recovery its own window replaces cwnd; [`Bounds`]
/// checks how large that may be.
fn congestion(
    before: &Before,
    paths: &[PathStatus],
    probes: u32,
    frto_packets: &mut ByAddress<(u16, u32)>,
) -> Result<(), Violation> {
    for path in paths {
        let Some(was) = before.paths.iter().find(|was| was.address.ip() == path.address.ip()) else {
            continue;
        };
        if path.flight <= was.flight {
            continue;
        }
        let mtu = u32::from(path.mtu.max(was.mtu)).max(before.packet_max);
        let limit = path.recovery_window.unwrap_or(path.cwnd);
        let sent_new = before.new_bytes.get(path.address.ip()).is_some();
        // Several paths may probe at one instant.
        let probed = probes > 0 && path.flight < limit + 2 * mtu;
        let one_packet = path.flight <= was.flight + mtu && (!sent_new || probed);
        let mut right = path.flight < limit + mtu || one_packet;
        let allowed = if was.flight < limit { limit + mtu - 1 } else { was.flight };
        let asking = path.flight.saturating_sub(allowed).div_ceil(mtu);
        let left = frto_packets.get_mut(path.address.ip()).map(|(_, packets)| packets);
        if let Some(left) = left.filter(|left| !right && asking <= **left) {
            *left -= asking;
            right = true;
        }
        demand(right, || {
            format!("flight beyond cwnd (new data: {sent_new})\n before {was:?}\n after {path:?}")
        })?;
    }
    Ok(())
}

/// Checks section 6.1 rule A: new data fits the peer's window, except for one packet when nothing is in flight.
/// `a_rwnd` is the window in the last SACK.
fn flow(before: &Before, status: &Status, a_rwnd: Option<u32>) -> Result<(), Violation> {
    let new_bytes: u32 = before.new_bytes.values().sum();
    let probe = before.status.in_flight == 0 && before.new_chunks == 1;
    let fits = a_rwnd.is_none_or(|a_rwnd| new_bytes == 0 || status.in_flight <= a_rwnd);
    demand(fits || probe, || {
        format!(
            "{new_bytes} new bytes, with which {} are in flight beyond a window of {a_rwnd:?}",
            status.in_flight
        )
    })?;
    let room = before.status.peer_rwnd.saturating_add(before.given_back);
    demand(new_bytes <= room || probe, || {
        format!("{new_bytes} new bytes beyond the peer's window: {:?}", before.status)
    })
}

fn sums(status: &Status, paths: &[PathStatus]) -> Result<(), Violation> {
    // A path counts DATA chunks with header and padding, the association their payload.
    let flight: u32 = paths.iter().map(|path| path.flight).sum();
    demand(flight >= status.in_flight && (flight == 0) == (status.in_flight == 0), || {
        format!("the paths' flights are not the association's: {status:?} {paths:?}")
    })?;
    demand(status.in_flight as usize <= status.send_buffered, || {
        format!("more is in flight than in the send buffer: {status:?}")
    })?;
    demand(paths.iter().filter(|path| path.primary).count() == 1, || {
        format!("not one primary path: {paths:?}")
    })
}

fn buffers(status: &Status, config: &AssociationConfig) -> Result<(), Violation> {
    let limit = status.receive_buffer as usize;
    demand(status.receive_buffered as usize <= 2 * limit + RECEIVE_SLACK, || {
        format!("the receive buffer of {limit} bytes is exceeded: {status:?}")
    })?;
    let within =
        status.a_rwnd <= status.receive_buffer && status.receive_buffer <= config.receive_buffer_limit();
    demand(within, || format!("a window beyond the receive buffer, or that beyond its limit: {status:?}"))
}

/// Returns up to which TSN a FORWARD TSN among the chunks that an association processes skips data, if it does.
fn skipped(chunks: &[RawChunk<'_>], status: &Status) -> Option<Tsn> {
    use AssociationState::{Established, ShutdownPending, ShutdownSent};
    let receives = matches!(status.state, Established | ShutdownPending | ShutdownSent);
    let agreed = status.extensions;
    let up_to = |chunk: &RawChunk<'_>| match chunk.parse() {
        Ok(Chunk::ForwardTsn(forward)) if !agreed.interleaving => Some(forward.new_cumulative_tsn()),
        Ok(Chunk::IForwardTsn(forward)) if agreed.interleaving => Some(forward.new_cumulative_tsn()),
        _ => None,
    };
    chunks.iter().rev().find_map(up_to).filter(|_| receives && agreed.partial_reliability)
}
