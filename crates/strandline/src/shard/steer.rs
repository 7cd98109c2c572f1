//! Finds the shard that a packet belongs to. The carrier steers by the same rule, so the answer is nearly
//! always this shard; the exceptions are packets that the carrier can't classify or delivered to the wrong
//! shard.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;

use strandline_io::Steering;
use strandline_proto::endpoint::find_named;
use strandline_proto::event::{Datagram, IcmpError};
use strandline_proto::time::Time;
use strandline_proto::zone;
use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::number::VerificationTag;
use strandline_wire::{Init, Packet, Parameter};

use super::post::{Item, Mail, Post};
use crate::engine::Engine;

/// Limit of addresses read from an INIT; more than the engine takes.
const ADDRESSES_MAX: usize = 16;

/// A shard's view of the other shards.
#[derive(Debug)]
pub(crate) struct Steer {
    index: u16,
    rule: Arc<Steering>,
    post: Arc<Post>,
}

/// The sender of an INIT: its addresses and ports.
struct Sender {
    addresses: Vec<IpAddr>,
    port: u16,
    local_port: u16,
}

impl Steer {
    pub(crate) fn new(index: u16, rule: Arc<Steering>, post: Arc<Post>) -> Self {
        Self { index, rule, post }
    }

    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// Publishes how many associations of the engine have peers that have several addresses, or had others.
    pub(crate) fn note_multihomed(&self, engine: &Engine) {
        self.post.set_multihomed(self.index, engine.multihomed_count());
    }

    /// Handles an ICMP message: the sockets of a reuseport group receive each other's.
    pub(crate) fn handle_icmp(
        &self,
        engine: &mut Engine,
        now: Time,
        error: IcmpError<'_>,
        to_wake: &mut Vec<Waker>,
    ) {
        let known = Packet::parse(error.quoted).is_ok_and(|packet| {
            let (local_port, peer_port) = (packet.source_port(), packet.destination_port());
            engine.find(local_port, zone::key(error.destination), peer_port).is_some()
        });
        if !known {
            self.post.broadcast(self.index, &error, to_wake);
        }
        engine.handle_icmp(now, error);
    }

    /// Returns whether a packet is one of another process that shares the address: it came in a train of
    /// datagrams that the kernel steers by the first. Dropped, it counts as lost in the network; answered, it
    /// would end an association.
    fn is_foreign(&self, bytes: &[u8]) -> bool {
        let Some(own) = self.rule.generation() else { return false };
        let is_reflected = || Packet::parse(bytes).is_ok_and(|packet| has_reflected_tag(&packet));
        self.rule.generation_of(bytes).is_some_and(|of| of != own)
            && (self.rule.is_sealed() || !is_reflected())
    }

    /// Returns `None` if a packet belongs to this shard, otherwise the shard to ask and the set of shards visited
    /// so far.
    fn elsewhere(
        &self,
        engine: &Engine,
        now: Time,
        datagram: &Datagram<'_>,
        visited: u64,
    ) -> Option<(u16, u64)> {
        let Ok(packet) = Packet::parse(datagram.bytes) else { return None };
        let tag = packet.verification_tag().0;
        if tag == 0 {
            // Excess INITs stay here unread: the engine drops them.
            let ours = !engine.has_time_for_init(now, datagram.source.ip());
            return if ours { None } else { self.init_elsewhere(engine, &packet, datagram, visited) };
        }
        if has_reflected_tag(&packet) {
            // The tag is the peer's own and says nothing.
            let (local, source) = (packet.destination_port(), zone::key(datagram.source));
            if engine.find(local, source, packet.source_port()).is_some() {
                return None;
            }
            return self.next(visited, None);
        }
        let owner = self.rule.place_of_tag(tag);
        if owner != self.index && visited == 0 {
            return Some((owner, visited));
        }
        // The tag is unknown and the packet comes from this host: a shard may have sent it to a peer's address
        // that is also this host's. The sending shard must see it; answering it would end that shard's
        // association. A COOKIE ECHO carries the tag of an association that is about to be created here.
        let lost = !begins_with_cookie_echo(&packet)
            && !engine.has_tag(VerificationTag(tag))
            && engine.is_from_here(datagram);
        if !lost || engine.has_sent(&packet, datagram) { None } else { self.next(visited, None) }
    }

    /// Steers an INIT to the shard that has an association with its sender, otherwise to its home. The shard that the
    /// carrier chose is both, unless the sender has several addresses, or a peer of another shard has or had: then all
    /// shards are visited.
    fn init_elsewhere(
        &self,
        engine: &Engine,
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
        visited: u64,
    ) -> Option<(u16, u64)> {
        let sender = sender_of(packet, datagram.source.ip())?;
        let home = home(&self.rule, sender.addresses.iter().copied(), sender.port, sender.local_port);
        let only_here = home == self.index && sender.addresses.len() == 1 && visited == 0;
        if only_here && !self.post.multihomed_elsewhere(self.index) {
            return None;
        }
        let source = zone::key(datagram.source);
        let named = |address: &IpAddr| {
            let key = zone::named_by(*address, source);
            key.is_some_and(|key| find_named(engine, sender.local_port, key, sender.port).is_some())
        };
        let known = engine.find(sender.local_port, source, sender.port).is_some();
        if known || sender.addresses.iter().any(named) || engine.has_sent(packet, datagram) {
            return None;
        }
        self.next(visited, Some(home))
    }

    /// Returns the next shard to ask, the home last. `None` if all have been visited and this one keeps the
    /// packet.
    fn next(&self, visited: u64, home: Option<u16>) -> Option<(u16, u64)> {
        let visited = visited | 1 << self.index;
        let places = self.rule.places();
        let ring = (1..places).map(|step| (self.index + step) % places);
        let next = ring.filter(|place| visited & (1 << place) == 0).min_by_key(|place| Some(*place) == home);
        match (next, home) {
            (Some(next), _) => Some((next, visited)),
            (None, Some(home)) if home != self.index => Some((home, visited)),
            _ => None,
        }
    }
}

fn begins_with_cookie_echo(packet: &Packet<'_>) -> bool {
    packet.chunks().next().is_some_and(|first| first.is_ok_and(|chunk| chunk.kind == kind::COOKIE_ECHO))
}

/// Returns the home shard of an association. It depends on the smallest of the peer's addresses, so that it
/// doesn't depend on the source address of a packet.
pub(crate) fn home(
    rule: &Steering,
    addresses: impl Iterator<Item = IpAddr>,
    peer_port: u16,
    local_port: u16,
) -> u16 {
    addresses.min().map_or(0, |smallest| rule.home(smallest, peer_port, local_port))
}

/// Returns whether the packet has an ABORT or SHUTDOWN COMPLETE with the T bit (RFC 9260 section 8.5.1). Control
/// chunks may come before an ABORT (section 3.3.7).
fn has_reflected_tag(packet: &Packet<'_>) -> bool {
    for raw in packet.chunks().map_while(Result::ok) {
        match raw.kind {
            kind::ABORT | kind::SHUTDOWN_COMPLETE => return raw.flags & 1 != 0,
            kind::DATA => return false,
            _ => {}
        }
    }
    false
}

fn is_init(bytes: &[u8]) -> bool {
    Packet::parse(bytes).is_ok_and(|packet| packet.verification_tag().0 == 0)
}

/// Reads the sender's addresses and ports from an INIT. `None` if it is not a valid INIT: the engine counts it.
fn sender_of(packet: &Packet<'_>, source: IpAddr) -> Option<Sender> {
    let first = packet.chunks().next()?.ok()?;
    let Ok(Chunk::Init(Init { parameters, .. })) = first.parse() else { return None };
    let mut addresses = vec![source];
    for parameter in parameters.iter().map_while(Result::ok) {
        let address = match parameter.parse() {
            Ok(Parameter::Ipv4Address(v4)) => IpAddr::V4(v4),
            Ok(Parameter::Ipv6Address(v6)) => IpAddr::V6(v6),
            _ => continue,
        };
        if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    Some(Sender { addresses, port: packet.source_port(), local_port: packet.destination_port() })
}

/// Sorts received packets between shards, and reads the shard's mailbox. Owned by the driver.
#[derive(Debug)]
pub(crate) struct Sorter {
    steer: Arc<Steer>,
    /// Letters that arrived.
    inbox: Mail,
    /// Letters to each of the shards, gathered before delivery.
    outgoing: Vec<Mail>,
    registered: Option<Waker>,
}

impl Sorter {
    pub(crate) fn new(steer: Arc<Steer>) -> Self {
        let outgoing = (0..steer.rule.places()).map(|_| Mail::default()).collect();
        Self { steer, inbox: Mail::default(), outgoing, registered: None }
    }

    /// Fetches letters. If there are none, the task is woken by the next. Returns whether there are some.
    pub(crate) fn fetch(&mut self, waker: &Waker) -> bool {
        if !self.registered.as_ref().is_some_and(|registered| registered.will_wake(waker)) {
            self.steer.post.register(self.steer.index, waker);
            self.registered = Some(waker.clone());
        }
        self.steer.post.fetch(self.steer.index, &mut self.inbox)
    }

    /// Passes packets that arrived together to the engine if they belong to this shard.
    pub(crate) fn take(&mut self, engine: &mut Engine, now: Time, train: Datagram<'_>, segment_size: usize) {
        let packets = || train.bytes.chunks(segment_size.max(1)).map(|bytes| Datagram { bytes, ..train });
        let is_here = |packet: Datagram<'_>| {
            !self.steer.is_foreign(packet.bytes) && self.steer.elsewhere(engine, now, &packet, 0).is_none()
        };
        if packets().all(is_here) {
            return engine.handle_datagrams(now, train, segment_size);
        }
        for packet in packets() {
            self.sort(engine, now, &packet, 0);
        }
    }

    /// Passes a packet to the engine, or queues it for the shard that it belongs to. `visited` is the set of
    /// shards visited so far.
    fn sort(&mut self, engine: &mut Engine, now: Time, packet: &Datagram<'_>, visited: u64) {
        if self.steer.is_foreign(packet.bytes) {
            return;
        }
        let Some((to, visited)) = self.steer.elsewhere(engine, now, packet, visited) else {
            return engine.handle_datagram(now, *packet);
        };
        if is_init(packet.bytes) && !engine.charge_init(now, packet.source.ip()) {
            return;
        }
        if let Some(mail) = self.outgoing.get_mut(usize::from(to)) {
            mail.push_datagram(packet, visited);
        }
    }

    /// Handles the letters from other shards.
    pub(crate) fn read(&mut self, engine: &mut Engine, now: Time) {
        let inbox = std::mem::take(&mut self.inbox);
        for item in inbox.iter() {
            match item {
                Item::Icmp(error) => engine.handle_icmp(now, error),
                Item::Datagram { datagram, visited } => self.sort(engine, now, &datagram, visited),
            }
        }
        self.inbox = inbox;
    }

    /// Returns whether an encrypted datagram belongs to this shard, and otherwise queues it for the one that it names.
    pub(crate) fn keeps_sealed(&mut self, datagram: &Datagram<'_>) -> bool {
        if self.steer.is_foreign(datagram.bytes) {
            return false;
        }
        let to = self.steer.rule.place_of(datagram.source.ip(), datagram.bytes);
        if to == self.steer.index {
            return true;
        }
        if let Some(mail) = self.outgoing.get_mut(usize::from(to)) {
            mail.push_datagram(datagram, 0);
        }
        false
    }

    /// Handles the encrypted datagrams that other shards handed over.
    pub(crate) fn read_sealed(&mut self, mut each: impl FnMut(&Datagram<'_>)) {
        for item in self.inbox.iter() {
            if let Item::Datagram { datagram, .. } = item {
                each(&datagram);
            }
        }
    }

    /// Delivers the gathered letters, and publishes the number of associations whose peers have or had several
    /// addresses.
    pub(crate) fn send(&mut self, engine: &Engine, to_wake: &mut Vec<Waker>) {
        self.steer.note_multihomed(engine);
        for (to, mail) in (0..).zip(&mut self.outgoing) {
            if !mail.is_empty() {
                self.steer.post.deliver(self.steer.index, to, mail, to_wake);
            }
        }
    }
}

impl Drop for Sorter {
    fn drop(&mut self) {
        self.steer.post.close(self.steer.index);
    }
}

#[cfg(test)]
mod tests;
