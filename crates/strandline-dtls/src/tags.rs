//! Verification tags: which associations were set up over which connection.
//!
//! Packets carry only the tag that their receiver chose. The tags are learned from the INIT and INIT ACK
//! chunks that pass: an association belongs to the connection that carried both. A peer is authenticated as
//! itself, not as somebody else: its packets may reach only associations of its own connection, and an
//! association's packets leave only over it.

use std::collections::HashMap;
use std::net::IpAddr;

use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::{Init, Packet, Parameter};

use crate::header::Cid;

/// Addresses kept of those that an INIT or INIT ACK names.
const NAMED_MAX: usize = 16;

/// Answers to INITs of one connection that are awaited from the engine at most.
const ANSWERS_MAX: usize = 1024;

/// Associations at most, those that a cookie may still bring included.
const LOCAL_MAX: usize = 1 << 20;

/// Tags that are checked in one step of a sweep.
const SWEEP_STEP: usize = 256;

/// Which tags belong to which connection.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    /// By the tag of packets to us.
    local: HashMap<u32, Association>,
    /// By the tag of packets to the peer.
    remote: HashMap<Remote, Owner>,
    /// Number of local tags of each connection.
    counts: HashMap<Cid, u32>,
    /// Local tags that the current sweep has yet to check.
    sweep: Vec<u32>,
}

/// An association as its packets name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Association {
    connection: Cid,
    local_port: u16,
    peer_port: u16,
    /// The tag of packets to the peer, once it is known.
    peer_tag: Option<u32>,
    /// The engine did not have the tag at the last sweep. A cookie on its way may still bring it back.
    is_unused: bool,
}

/// An association that a lost connection leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) local_tag: u32,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    /// Whether the peer has answered its INIT.
    pub(crate) is_answered: bool,
}

/// The start of a packet of the engine, by which an ICMP message names the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketStart {
    /// The SCTP port of this side.
    pub local_port: u16,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The verification tag, and of an INIT its Initiate Tag.
    pub tag: u32,
    /// Whether the packet carries an INIT.
    pub is_init: bool,
}

/// What packets to a peer carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Remote {
    tag: u32,
    local_port: u16,
    peer_port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    connection: Cid,
    /// An INIT was passed to the engine, and its answer has not come back yet.
    is_awaited: bool,
}

/// What to do with a packet from a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// It may pass.
    Pass,
    /// It may pass. It names these addresses of its sender as well.
    Named(Vec<IpAddr>),
    /// It may pass if no association of another peer has these addresses and its ports.
    Init(Vec<IpAddr>),
    /// It concerns an association of another connection, or nothing.
    Drop,
}

/// Where a packet of the engine goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outbound {
    /// Over this connection.
    Over(Cid),
    /// An INIT of a new association: over the connection with its destination.
    Init,
    /// An answer without an association, over the connection with its destination.
    Stateless,
    /// Nowhere.
    Drop,
}

impl Tags {
    /// Decides about a packet that came over a connection, and learns from it.
    pub(crate) fn on_inbound(&mut self, connection: Cid, bytes: &[u8]) -> Inbound {
        let Ok(packet) = Packet::parse(bytes) else { return Inbound::Drop };
        let tag = packet.verification_tag().0;
        let first = packet.first_kind();
        if tag == 0 {
            let Some(init) = init_of(&packet, kind::INIT) else { return Inbound::Drop };
            let remote = Remote::of_sender(&packet, init.initiate_tag.0);
            if !self.await_answer(connection, remote) {
                return Inbound::Drop;
            }
            return Inbound::Init(named(&init));
        }
        match self.local.get(&tag).copied() {
            Some(owner) if owner.connection != connection => Inbound::Drop,
            Some(_) if first == Some(kind::INIT_ACK) => {
                let Some(init) = init_of(&packet, kind::INIT_ACK) else { return Inbound::Drop };
                let remote = Remote::of_sender(&packet, init.initiate_tag.0);
                if !self.join(connection, tag, remote) {
                    return Inbound::Drop;
                }
                Inbound::Named(named(&init))
            }
            Some(_) => Inbound::Pass,
            // Only the tags of the engine's answers get an association.
            None if matches!(first, Some(kind::COOKIE_ECHO | kind::INIT_ACK)) => Inbound::Drop,
            // The engine knows no such tag. It may be the peer's own (RFC 9260 section 8.5.1).
            None => match self.remote.get(&Remote::of_sender(&packet, tag)) {
                Some(owner) if owner.connection != connection => Inbound::Drop,
                _ => Inbound::Pass,
            },
        }
    }

    /// Decides about a packet of the engine, and learns from it.
    pub(crate) fn on_outbound(&mut self, bytes: &[u8]) -> Outbound {
        let Ok(packet) = Packet::parse(bytes) else { return Outbound::Drop };
        let tag = packet.verification_tag().0;
        if tag == 0 {
            let Some(init) = init_of(&packet, kind::INIT) else { return Outbound::Drop };
            return match self.local.get(&init.initiate_tag.0) {
                Some(owner) => Outbound::Over(owner.connection),
                None => Outbound::Init,
            };
        }
        let remote = Remote { tag, local_port: packet.source_port(), peer_port: packet.destination_port() };
        let first = packet.first_kind();
        match self.remote.get(&remote).copied() {
            Some(Owner { connection, is_awaited }) => {
                if first == Some(kind::INIT_ACK)
                    && let Some(init) = init_of(&packet, kind::INIT_ACK)
                {
                    if !self.join(connection, init.initiate_tag.0, remote) {
                        return Outbound::Drop;
                    }
                } else if is_awaited && first == Some(kind::ABORT) {
                    self.remote.remove(&remote);
                }
                Outbound::Over(connection)
            }
            None if matches!(first, Some(kind::ABORT | kind::SHUTDOWN_COMPLETE | kind::ERROR)) => {
                Outbound::Stateless
            }
            None => Outbound::Drop,
        }
    }

    /// Assigns the association of an INIT of ours to the connection that carries it.
    pub(crate) fn assign(&mut self, init: &[u8], connection: Cid) {
        let Ok(packet) = Packet::parse(init) else { return };
        let Some(chunk) = init_of(&packet, kind::INIT) else { return };
        let (local_port, peer_port) = (packet.source_port(), packet.destination_port());
        let association = Association { connection, local_port, peer_port, peer_tag: None, is_unused: false };
        self.insert(chunk.initiate_tag.0, association);
    }

    /// Returns the connection of the association with a tag of ours.
    pub(crate) fn connection_of(&self, local_tag: u32) -> Option<Cid> {
        self.local.get(&local_tag).map(|owner| owner.connection)
    }

    /// Returns whether a connection has associations.
    pub(crate) fn has_some(&self, connection: Cid) -> bool {
        self.counts.contains_key(&connection)
    }

    /// Returns the starts of packets to the peers of a connection's associations.
    pub(crate) fn packets_of(&self, connection: Cid) -> impl Iterator<Item = PacketStart> {
        let of = self.remote.iter().filter(move |(_, owner)| owner.connection == connection);
        of.map(|(&Remote { tag, local_port, peer_port }, _)| PacketStart {
            local_port,
            peer_port,
            tag,
            is_init: false,
        })
    }

    /// Returns the starts of a connection's INITs that have not been answered.
    pub(crate) fn inits_of(&self, connection: Cid) -> impl Iterator<Item = PacketStart> {
        let is_init = move |owner: &Association| owner.connection == connection && owner.peer_tag.is_none();
        let of = self.local.iter().filter(move |(_, owner)| is_init(owner));
        of.map(|(tag, &Association { local_port, peer_port, .. })| PacketStart {
            local_port,
            peer_port,
            tag: *tag,
            is_init: true,
        })
    }

    /// Forgets an association that its connection gives up.
    pub(crate) fn give_up(&mut self, local_tag: u32) -> Option<Orphan> {
        let owner = self.local.get(&local_tag).copied()?;
        self.remove(local_tag);
        Some(Orphan::new(local_tag, &owner))
    }

    /// Forgets a connection. Returns the associations that belonged to it.
    pub(crate) fn forget(&mut self, connection: Cid) -> Vec<Orphan> {
        self.remote.retain(|_, owner| owner.connection != connection);
        self.counts.remove(&connection);
        let gone = self.local.extract_if(|_, owner| owner.connection == connection);
        gone.map(|(local_tag, owner)| Orphan::new(local_tag, &owner)).collect()
    }

    /// Begins to look for tags that the engine no longer has, unless that is under way. Two sweeps must be
    /// further apart than a cookie lives.
    pub(crate) fn begin_sweep(&mut self) {
        if self.sweep.is_empty() {
            self.sweep.extend(self.local.keys());
            self.remote.retain(|_, owner| !owner.is_awaited);
        }
    }

    /// Forgets some of the tags that the engine has not had for two sweeps. Returns whether there are more to check.
    pub(crate) fn sweep(&mut self, mut is_used: impl FnMut(u32) -> bool) -> bool {
        for _ in 0..SWEEP_STEP {
            let Some(tag) = self.sweep.pop() else { return false };
            let Some(owner) = self.local.get_mut(&tag) else { continue };
            if is_used(tag) {
                owner.is_unused = false;
            } else if !std::mem::replace(&mut owner.is_unused, true) {
                // A cookie may be on its way.
            } else {
                self.remove(tag);
            }
        }
        !self.sweep.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.local.is_empty() && self.remote.is_empty()
    }

    fn insert(&mut self, tag: u32, association: Association) {
        self.remove(tag);
        *self.counts.entry(association.connection).or_default() += 1;
        self.local.insert(tag, association);
    }

    fn remove(&mut self, tag: u32) {
        let Some(old) = self.local.remove(&tag) else { return };
        if let Some(count) = self.counts.get_mut(&old.connection) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&old.connection);
            }
        }
        if let Some(peer_tag) = old.peer_tag {
            let Association { local_port, peer_port, .. } = old;
            self.remote.remove(&Remote { tag: peer_tag, local_port, peer_port });
        }
    }

    /// Expects the engine's answer to an INIT. Returns false if the peer's tag belongs to another connection,
    /// or too many answers are awaited.
    fn await_answer(&mut self, connection: Cid, remote: Remote) -> bool {
        match self.remote.get(&remote) {
            Some(owner) => owner.connection == connection,
            None => {
                // The engine answers at once: more are left only if it does not answer at all.
                if self.remote.len() >= self.local.len() + ANSWERS_MAX {
                    self.remote.retain(|_, owner| !owner.is_awaited);
                }
                self.remote.insert(remote, Owner { connection, is_awaited: true });
                true
            }
        }
    }

    /// Notes both tags of an association. Returns false if one belongs to another connection, or there are too many.
    fn join(&mut self, connection: Cid, local: u32, remote: Remote) -> bool {
        if self.remote.get(&remote).is_some_and(|owner| owner.connection != connection)
            || self.local.get(&local).is_some_and(|owner| owner.connection != connection)
            || self.local.len() >= LOCAL_MAX
        {
            return false;
        }
        let Remote { tag, local_port, peer_port } = remote;
        let peer_tag = Some(tag);
        self.insert(local, Association { connection, local_port, peer_port, peer_tag, is_unused: false });
        self.remote.insert(remote, Owner { connection, is_awaited: false });
        true
    }
}

impl Orphan {
    fn new(local_tag: u32, owner: &Association) -> Self {
        let Association { local_port, peer_port, peer_tag, .. } = *owner;
        Self { local_tag, local_port, peer_port, is_answered: peer_tag.is_some() }
    }
}

impl PacketStart {
    /// Returns the first bytes of the packet, up to the Initiate Tag of an INIT (RFC 9260 sections 3.1 and 3.3.2).
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 20] {
        let ([l0, l1], [p0, p1]) = (self.local_port.to_be_bytes(), self.peer_port.to_be_bytes());
        let [t0, t1, t2, t3] = self.tag.to_be_bytes();
        match self.is_init {
            true => [l0, l1, p0, p1, 0, 0, 0, 0, 0, 0, 0, 0, kind::INIT, 0, 0, 0, t0, t1, t2, t3],
            false => [l0, l1, p0, p1, t0, t1, t2, t3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

impl Remote {
    /// The sender of a packet, and a tag that it chose.
    fn of_sender(packet: &Packet<'_>, tag: u32) -> Self {
        Self { tag, local_port: packet.destination_port(), peer_port: packet.source_port() }
    }
}

fn init_of<'a>(packet: &Packet<'a>, wanted: u8) -> Option<Init<'a>> {
    let first = packet.chunks().next()?.ok().filter(|chunk| chunk.kind == wanted)?;
    match first.parse().ok()? {
        Chunk::Init(init) | Chunk::InitAck(init) => Some(init),
        _ => None,
    }
}

fn named(init: &Init<'_>) -> Vec<IpAddr> {
    let address = |parameter: Parameter<'_>| match parameter {
        Parameter::Ipv4Address(v4) => Some(IpAddr::V4(v4)),
        Parameter::Ipv6Address(v6) => Some(IpAddr::V6(v6)),
        _ => None,
    };
    let parameters = init.parameters.iter().map_while(Result::ok);
    parameters.filter_map(|raw| address(raw.parse().ok()?)).take(NAMED_MAX).collect()
}

#[cfg(test)]
mod tests;
