//! Invariants of an association's numbers after each step, as seen from outside: its status, its paths and the
//! packets that it transmits.

mod moves;
#[cfg(test)]
mod tests;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use strandline_proto::authentication::ChunkTypes;
use strandline_proto::config::{AssociationConfig, Recovery};
use strandline_proto::endpoint::Endpoint;
use strandline_proto::event::{AssociationId, Event, PathChange};
use strandline_proto::reconfiguration::Outcome;
use strandline_proto::stats::{PathStatus, Reachability, Status};
use strandline_proto::time::Time;
use strandline_wire::chunk::kind;
use strandline_wire::{Packet, Tsn};

use crate::authentic::admitted;
use crate::board::{Board, data_in};
use crate::bounds::{Bounds, Events, Step};
use crate::ledger;
use crate::network::Carried;
use crate::relocation::outcome_of;
use crate::violation::{Violation, demand};
use moves::Moves;

/// Number of bytes that a receive buffer may hold beyond twice its size: data that fills gaps is accepted beyond the
/// limit, because it releases other data, and each held chunk costs more than its payload.
const RECEIVE_SLACK: usize = 200_000;

/// Memory in bytes that an association may take: this many times its buffers, and a fixed amount.
const MEMORY_FACTOR: usize = 3;
const MEMORY_SLACK: usize = 1_500_000;

/// Packets of new data that test whether a time-out was spurious (F-RTO).
const ASKING_PACKETS: u32 = 2;

/// An association before it transmits.
#[derive(Debug)]
struct Before {
    id: AssociationId,
    status: Status,
    paths: Vec<PathStatus>,
    /// Bytes of DATA transmitted for the first time, by destination.
    new_bytes: BTreeMap<IpAddr, u32>,
    new_chunks: u32,
    /// Bytes of messages given up since, which count against the peer's window no longer.
    given_back: u32,
    /// The largest packet: larger than a path's MTU if its chunk was made for another path.
    packet_max: u32,
    /// True if a packet beyond the path MTU had more than the one chunk that made it so large.
    overfull: bool,
}

/// State of an association between steps.
#[derive(Debug, Default)]
struct Memory {
    board: Board,
    /// The bounds of each path, by the peer's address.
    bounds: BTreeMap<IpAddr, Bounds>,
    /// The path MTUs at the last check.
    mtus: BTreeMap<IpAddr, u16>,
    /// Numbers of tail-loss probes, time-outs, recoveries and undone ones, at the last check.
    counted: [u32; 4],
    /// For each path: number of time-outs so far, and the F-RTO test since the latest.
    timeouts_of: BTreeMap<IpAddr, (u16, Option<Asked>)>,
    /// True if losses were detected by time when nothing was outstanding.
    by_time: bool,
    /// The largest path MTU of each path: chunks may have been made for it.
    mtu_max: BTreeMap<IpAddr, u16>,
    /// For each path: number of time-outs so far, and packets that may still test whether the latest was spurious
    /// (RFC 5682 section 2 step 2b).
    may_ask: BTreeMap<IpAddr, (u16, u32)>,
    moves: Moves,
}

/// The F-RTO test: after T3-rtx one packet reveals what became of the others (RFC 5682).
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// The test ends when everything before this is acknowledged.
    until: Tsn,
    /// True if something has been acknowledged since.
    answered: bool,
}

fn counters(status: &Status) -> [u32; 4] {
    let stats = status.stats;
    [stats.tail_probes, stats.timeouts, stats.fast_recoveries, stats.undone]
}

impl Memory {
    /// Forgets a path that was removed: what was in flight there is sent again elsewhere.
    fn on_removed(&mut self, address: IpAddr) {
        self.board.on_removed(address);
        self.bounds.remove(&address);
        self.mtus.remove(&address);
        self.timeouts_of.remove(&address);
        self.may_ask.remove(&address);
    }

    fn events(&mut self, now: Time, status: &Status, paths: usize) -> Events {
        let counters = counters(status);
        let [probes, timeouts, recoveries, undone] =
            [0, 1, 2, 3].map(|at| counters[at].saturating_sub(self.counted[at]));
        Events {
            now,
            recoveries: status.stats.fast_recoveries,
            entered: recoveries,
            probes,
            timeouts,
            undone,
            marks_answered: status.marks_answered,
            // Events that allow a packet regardless of window and rate: probes, time-outs, fast retransmissions.
            exempt: probes + timeouts + recoveries,
            opened: false,
            several: paths > 1,
        }
    }

    /// Allows the retransmissions that T3-rtx justifies: everything on its path, or a single packet if there is no
    /// other path or the peer's window is closed. Returns whether the peer's window has opened.
    fn excuse(&mut self, events: Events, paths: &[PathStatus], by_time: bool) -> bool {
        let mut known = 0;
        for path in paths {
            let mtu_max = self.mtu_max.entry(path.address.ip()).or_default();
            *mtu_max = path.mtu.max(*mtu_max);
        }
        for path in paths {
            let address = path.address.ip();
            let (before, asked) = self.timeouts_of.get(&address).copied().unwrap_or_default();
            let delivered = self.board.has_delivered(address);
            let mut asked = asked.filter(|asked| !self.board.has_passed(asked.until));
            if let Some(asked) = &mut asked {
                asked.answered |= delivered;
            }
            if path.timeouts > before {
                known += u32::from(path.timeouts - before);
                // If the test failed, it is not tried again.
                if by_time && paths.len() == 1 && asked.is_none_or(|asked| !asked.answered) {
                    self.board.excuse_first(address, self.mtu_after_timeout(path, paths));
                } else {
                    self.board.excuse(Some(address));
                }
                asked = self.board.next_tsn().map(|until| Asked { until, answered: delivered });
            }
            self.timeouts_of.insert(address, (path.timeouts, asked));
        }
        // A window that opens is probed like a closed one (section 6.1 rule A).
        let opened = self.board.take_opened();
        if opened || events.timeouts > known {
            // A probe of a closed window is no error of a path, and its path is unknown.
            for path in paths.iter().filter(|_| by_time) {
                let mtu = self.mtu_after_timeout(path, paths);
                self.board.excuse_first(path.address.ip(), mtu);
            }
            if !by_time && events.timeouts > known {
                self.board.excuse(None);
            }
        }
        opened
    }

    /// Returns the largest packet that may retransmit what timed out on a path: that of another active path (RFC 9260
    /// section 6.4.1), whose MTU counts then (section 6.3.3 E3). If there is none, it stays, or a path that works no
    /// better takes it.
    fn mtu_after_timeout(&self, of: &PathStatus, paths: &[PathStatus]) -> u32 {
        let is_active = |path: &PathStatus| path.state == Reachability::Active;
        let others = paths.iter().filter(|path| path.address != of.address);
        let any = others.clone().any(is_active);
        let stays = (!any).then_some(of);
        let taking = others.filter(|path| if any { is_active(path) } else { !is_active(of) }).chain(stays);
        let mtu_of = |path: &PathStatus| self.mtu_max.get(&path.address.ip()).copied().unwrap_or(path.mtu);
        taking.map(mtu_of).max().map_or(0, u32::from)
    }

    /// Updates the state with everything since the last check.
    fn before(
        &mut self,
        now: Time,
        status: &Status,
        paths: &[PathStatus],
        by_time: bool,
    ) -> Result<(), Violation> {
        let mut events = self.events(now, status, paths.len());
        // Another loss recovery is adopted when nothing is outstanding.
        if self.board.is_idle() {
            self.by_time = by_time;
        }
        events.opened = self.excuse(events, paths, by_time && self.by_time);
        let marks = self.board.take_marks();
        self.board.set_mtu_min(paths.iter().map(|path| u32::from(path.mtu)).min().unwrap_or(0));
        for path in paths {
            let address = path.address.ip();
            // A router refused longer packets, so that all of them are retransmitted (RFC 9260 section 10).
            if self.mtus.insert(address, path.mtu).is_some_and(|mtu| path.mtu < mtu) {
                self.board.excuse(Some(address));
                self.board.end_silence(now, address);
                self.bounds.entry(address).or_default().on_refused();
            }
            if events.undone > 0 {
                self.board.end_silence(now, address);
            }
            self.board.set_times(now, address, path.srtt, path.rto);
            let delivered = self.board.take_delivered(address);
            self.bounds.entry(address).or_default().before(delivered, path, events, marks)?;
        }
        Ok(())
    }
}

/// Watches the associations of one host.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    memory: BTreeMap<AssociationId, Memory>,
    before: Vec<Before>,
    /// Tags of initiators whose set-up an attacker altered. With authentication nothing is known then of what counts.
    forged: BTreeSet<u32>,
}

impl Watch {
    /// Examines associations before they transmit.
    pub(crate) fn before(
        &mut self,
        endpoint: &Endpoint,
        now: Time,
        ids: impl Iterator<Item = AssociationId>,
        recovery: Recovery,
    ) -> Result<(), Violation> {
        self.before.clear();
        for id in ids {
            let (Some(status), Some(paths)) = (endpoint.status(id), endpoint.paths(id)) else { continue };
            if status.extensions.authentication
                && [status.local_tag, status.peer_tag].iter().any(|tag| self.forged.contains(&tag.0))
            {
                continue;
            }
            let by_time = recovery != Recovery::Rfc9260;
            let looked_at = self.memory.entry(id).or_default().before(now, &status, &paths, by_time);
            looked_at.map_err(|Violation(what)| Violation(format!("{id:?}: {what}")))?;
            self.before.push(Before {
                id,
                status,
                paths,
                new_bytes: BTreeMap::new(),
                new_chunks: 0,
                given_back: 0,
                packet_max: 0,
                overfull: false,
            });
        }
        Ok(())
    }

    /// Examines a packet that is about to arrive. `wanted` are the chunk types whose authentication the host demands;
    /// `verifies` is true if that of the packet is right.
    pub(crate) fn arrival(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        datagram: &Carried,
        (wanted, verifies): (Option<ChunkTypes>, bool),
    ) {
        let Ok(packet) = Packet::parse(&datagram.bytes) else { return };
        let (tag, source) = (packet.verification_tag(), datagram.source.ip());
        for (id, memory) in &mut self.memory {
            let Some(status) = endpoint.status(*id).filter(|status| status.local_tag == tag) else {
                continue;
            };
            let whole = (packet.checksum() == 0 && status.accepts_zero_checksum) || packet.verify_checksum();
            let known =
                endpoint.paths(*id).is_some_and(|paths| paths.iter().any(|path| path.address.ip() == source));
            if whole && verifies {
                memory.moves.on_arrival(&packet);
            }
            if whole && known && endpoint.addresses(*id).accepts(datagram.destination.ip()) {
                let wanted = wanted.filter(|_| status.extensions.authentication);
                memory.board.on_arrival(now, &admitted(&packet, wanted, verifies), status.state);
            }
        }
    }

    /// Learns of a message that was given up.
    pub(crate) fn on_event(&mut self, now: Time, id: AssociationId, event: &Event) {
        if let Event::SendFailed(failed) = event
            && ledger::is_abandoned(failed)
        {
            let memory = self.memory.entry(id).or_default();
            let bytes = memory.board.on_abandoned(now, failed.info.ppid);
            if let Some(before) = self.before.iter_mut().find(|before| before.id == id) {
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

    /// Examines a transmitted packet.
    pub(crate) fn packet(
        &mut self,
        now: Time,
        datagram: &Carried,
        recovery: Recovery,
    ) -> Result<(), Violation> {
        let Ok(packet) = Packet::parse(&datagram.bytes) else { return Ok(()) };
        let tag = packet.verification_tag();
        let mine = |before: &&mut Before| {
            before.status.peer_tag == tag && before.status.peer_port == packet.destination_port()
        };
        let Some(before) = self.before.iter_mut().find(mine) else { return Ok(()) };
        before.packet_max = before.packet_max.max(datagram.bytes.len() as u32);
        let memory = self.memory.entry(before.id).or_default();
        let to = datagram.destination.ip();
        let is_forward = |kind| matches!(kind, kind::FORWARD_TSN | kind::I_FORWARD_TSN);
        let forwards = packet.chunks().flatten().any(|chunk| is_forward(chunk.kind));
        demand(!forwards || before.status.extensions.partial_reliability, || {
            format!("{:?}: FORWARD TSN to a peer that does not support it", before.id)
        })?;
        let moves = memory.moves.on_departure(&packet, datagram);
        moves.map_err(|Violation(what)| Violation(format!("{:?}: {what}", before.id)))?;
        memory.board.on_tag(&packet);
        let mut next = memory.board.next_tsn();
        let known = memory.board.on_departure(now, &packet, to, recovery);
        known.map_err(|Violation(what)| Violation(format!("{:?}: {what}", before.id)))?;
        let chunks = packet.chunks().flatten().filter(|chunk| data_in(chunk).is_some()).count();
        before.overfull |= datagram.fragment.is_some() && chunks > 1;
        for chunk in packet.chunks().flatten() {
            let Some(data) = data_in(&chunk) else { continue };
            if next.is_none_or(|next| !data.tsn.is_before(next)) {
                next = Some(data.tsn.next());
                *before.new_bytes.entry(to).or_default() += data.payload.len() as u32;
                before.new_chunks += 1;
            }
        }
        Ok(())
    }

    /// Checks associations after they transmitted.
    pub(crate) fn after(
        &mut self,
        endpoint: &Endpoint,
        now: Time,
        config: &AssociationConfig,
    ) -> Result<(), Violation> {
        for before in &self.before {
            let (Some(status), Some(paths)) = (endpoint.status(before.id), endpoint.paths(before.id)) else {
                continue;
            };
            let of = |Violation(what)| Violation(format!("{:?}: {what}", before.id));
            demand(!before.overfull, || {
                format!("{:?}: a packet larger than the path MTU with several chunks of DATA", before.id)
            })?;
            let probes = status.stats.tail_probes - before.status.stats.tail_probes;
            let remembered = self.memory.entry(before.id).or_default();
            let may_ask = may_ask(&mut remembered.may_ask, &paths);
            congestion(before, &paths, probes, &mut remembered.may_ask)?;
            flow(before, &status, remembered.board.a_rwnd())?;
            sending(before, remembered, now, (&status, &paths), config, &may_ask).map_err(of)?;
            sums(&status, &paths)?;
            buffers(&status, config)?;
            let memory = endpoint.memory(before.id).unwrap_or_default();
            let sizes = status.receive_buffer as usize + config.send_buffer_limit() as usize;
            let limit = MEMORY_FACTOR * sizes + MEMORY_SLACK;
            demand(memory.total() <= limit, || format!("{:?} takes too much memory: {memory:?}", before.id))?;
        }
        Ok(())
    }

    /// Records that an attacker altered the set-up of the initiator with this tag.
    pub(crate) fn distrust(&mut self, tag: u32) {
        self.forged.insert(tag);
    }

    /// Forgets an association that was released.
    pub(crate) fn forget(&mut self, id: AssociationId) {
        self.memory.remove(&id);
    }
}

/// Checks what [`Board`] and [`Bounds`] demand.
fn sending(
    before: &Before,
    memory: &mut Memory,
    now: Time,
    (status, paths): (&Status, &[PathStatus]),
    config: &AssociationConfig,
    may_ask: &[(IpAddr, u32)],
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
        let bounds = memory.bounds.entry(address).or_default();
        let exempt =
            events.exempt + may_ask.iter().find(|(of, _)| *of == address).map_or(0, |(_, packets)| *packets);
        let events = Events { exempt, ..events };
        bounds.after(Step { was, path, traffic, mtu, events, config, lost, marked })?;
    }
    memory.board.end_step();
    Ok(())
}

/// Updates the packets that each path may use for F-RTO: with no other path several paths may test at once. Returns
/// the initial number for each.
fn may_ask(of: &mut BTreeMap<IpAddr, (u16, u32)>, paths: &[PathStatus]) -> Vec<(IpAddr, u32)> {
    let mut asking = Vec::new();
    for path in paths {
        let (timeouts, packets) = of.entry(path.address.ip()).or_default();
        if core::mem::replace(timeouts, path.timeouts) != path.timeouts {
            *packets = ASKING_PACKETS;
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
    may_ask: &mut BTreeMap<IpAddr, (u16, u32)>,
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
        let sent_new = before.new_bytes.contains_key(&path.address.ip());
        // Several paths may probe at one instant.
        let probed = probes > 0 && path.flight < limit + 2 * mtu;
        let one_packet = path.flight <= was.flight + mtu && (!sent_new || probed);
        let mut right = path.flight < limit + mtu || one_packet;
        let allowed = if was.flight < limit { limit + mtu - 1 } else { was.flight };
        let asking = path.flight.saturating_sub(allowed).div_ceil(mtu);
        let left = may_ask.get_mut(&path.address.ip()).map(|(_, packets)| packets);
        if let Some(left) = left.filter(|left| !right && asking <= **left) {
            *left -= asking;
            right = true;
        }
        demand(right, || {
            format!(
                "{:?}: flight beyond cwnd (new data: {sent_new})\n before {was:?}\n after {path:?}",
                before.id
            )
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
            "{:?}: {new_bytes} new bytes, with which {} are in flight beyond a window of {a_rwnd:?}",
            before.id, status.in_flight
        )
    })?;
    let room = before.status.peer_rwnd.saturating_add(before.given_back);
    demand(new_bytes <= room || probe, || {
        format!("{:?}: {new_bytes} new bytes beyond the peer's window: {:?}", before.id, before.status)
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
