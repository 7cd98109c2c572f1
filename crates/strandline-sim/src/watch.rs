//! What must hold of an association's numbers after each step, as seen from outside: its status, its paths and the
//! packets that it transmits.

use core::net::IpAddr;
use std::collections::BTreeMap;

use strandline_proto::config::AssociationConfig;
use strandline_proto::endpoint::Endpoint;
use strandline_proto::event::AssociationId;
use strandline_proto::stats::{PathStatus, Status};
use strandline_wire::chunk::kind;
use strandline_wire::{Chunk, Packet, Tsn};

use crate::network::Carried;
use crate::violation::{Violation, demand};

/// What a receive buffer may hold beyond twice its size, in bytes: what fills gaps is taken beyond the limit, because
/// it lets other data go, and each chunk held costs more than its payload.
const RECEIVE_SLACK: usize = 200_000;

/// An association before it transmits.
#[derive(Debug)]
struct Before {
    id: AssociationId,
    status: Status,
    paths: Vec<PathStatus>,
    /// Bytes of DATA transmitted for the first time, by destination.
    new_bytes: BTreeMap<IpAddr, u32>,
    new_chunks: u32,
    /// The largest packet: larger than a path's MTU if its chunk was made for another path.
    packet_max: u32,
    /// A packet beyond the path MTU had more than the one chunk that made it so large.
    overfull: bool,
}

/// What is remembered of an association between steps.
#[derive(Debug, Default)]
struct Memory {
    /// The peer's tag and the highest TSN sent under it.
    highest: Option<(u32, Tsn)>,
    /// Time-outs so far.
    timeouts: u32,
    /// Packets that may still ask whether the latest of them was needless.
    may_ask: u32,
}

/// Watches the associations of one host.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    memory: BTreeMap<AssociationId, Memory>,
    before: Vec<Before>,
}

impl Watch {
    /// Looks at associations before they transmit.
    pub(crate) fn before(&mut self, endpoint: &Endpoint, ids: impl Iterator<Item = AssociationId>) {
        self.before.clear();
        self.before.extend(ids.filter_map(|id| {
            let (status, paths) = (endpoint.status(id)?, endpoint.paths(id)?);
            Some(Before {
                id,
                status,
                paths,
                new_bytes: BTreeMap::new(),
                new_chunks: 0,
                packet_max: 0,
                overfull: false,
            })
        }));
    }

    /// Sees a packet that was transmitted.
    pub(crate) fn packet(&mut self, datagram: &Carried) {
        let Ok(packet) = Packet::parse(&datagram.bytes) else { return };
        let tag = packet.verification_tag();
        let mine = |before: &&mut Before| {
            before.status.peer_tag == tag && before.status.peer_port == packet.destination_port()
        };
        let Some(before) = self.before.iter_mut().find(mine) else { return };
        before.packet_max = before.packet_max.max(datagram.bytes.len() as u32);
        let memory = self.memory.entry(before.id).or_default();
        let chunks = packet.chunks().flatten().filter(|chunk| chunk.kind == kind::DATA).count();
        before.overfull |= datagram.fragment && chunks > 1;
        for chunk in packet.chunks().flatten() {
            let Ok(Chunk::Data(data)) = chunk.parse() else { continue };
            let highest = memory.highest.filter(|(of, _)| *of == tag.0).map(|(_, tsn)| tsn);
            if highest.is_none_or(|highest| data.tsn.is_after(highest)) {
                memory.highest = Some((tag.0, data.tsn));
                *before.new_bytes.entry(datagram.destination.ip()).or_default() += data.payload.len() as u32;
                before.new_chunks += 1;
            }
        }
    }

    /// Checks after they have transmitted.
    pub(crate) fn after(&mut self, endpoint: &Endpoint, config: &AssociationConfig) -> Result<(), Violation> {
        for before in &self.before {
            let (Some(status), Some(paths)) = (endpoint.status(before.id), endpoint.paths(before.id)) else {
                continue;
            };
            demand(!before.overfull, || {
                format!("{:?}: a packet larger than the path MTU with several chunks of DATA", before.id)
            })?;
            let probes = status.stats.tail_probes - before.status.stats.tail_probes;
            let memory = self.memory.entry(before.id).or_default();
            if core::mem::replace(&mut memory.timeouts, status.stats.timeouts) != status.stats.timeouts {
                memory.may_ask = 2;
            }
            congestion(before, &paths, probes, &mut memory.may_ask)?;
            flow(before)?;
            sums(&status, &paths)?;
            buffers(&status, config)?;
            let memory = endpoint.memory(before.id).unwrap_or_default();
            let limit =
                3 * (status.receive_buffer as usize + config.send_buffer_limit() as usize) + 1_500_000;
            demand(memory.total() <= limit, || format!("{:?} takes too much memory: {memory:?}", before.id))?;
        }
        Ok(())
    }

    /// Forgets an association that was released.
    pub(crate) fn forget(&mut self, id: AssociationId) {
        self.memory.remove(&id);
    }
}

/// RFC 9260 section 7.2.1: no new data while the flight size is cwnd or more; it may be exceeded by a packet less one
/// byte. Section 7.2.4: a fast retransmission is one packet beyond that. RFC 8985 section 7.3: so is a tail-loss probe,
/// which may be new data. RFC 5682 section 2 step 2b: after a time-out two packets of new data may ask whether it was needless. In a recovery what it lets be in flight takes the place of cwnd.
fn congestion(
    before: &Before,
    paths: &[PathStatus],
    probes: u32,
    may_ask: &mut u32,
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
        // Several paths may probe at one moment.
        let probed = probes > 0 && path.flight < limit + 2 * mtu;
        let one_packet = path.flight <= was.flight + mtu && (!sent_new || probed);
        let mut right = path.flight < limit + mtu || one_packet;
        let allowed = if was.flight < limit { limit + mtu - 1 } else { was.flight };
        let asking = path.flight.saturating_sub(allowed).div_ceil(mtu);
        if !right && asking <= *may_ask {
            *may_ask -= asking;
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

/// Section 6.1 rule A: new data fits the peer's window, but for one packet when nothing is in flight.
fn flow(before: &Before) -> Result<(), Violation> {
    let new_bytes: u32 = before.new_bytes.values().sum();
    let probe = before.status.in_flight == 0 && before.new_chunks == 1;
    demand(new_bytes <= before.status.peer_rwnd || probe, || {
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
