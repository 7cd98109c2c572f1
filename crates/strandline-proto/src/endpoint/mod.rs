//! An SCTP endpoint: the associations of one carrier, with look-up in O(1) and one timing wheel for all of them.

mod addresses;
mod asconf;
mod budget;
mod commands;
mod cookie_echo;
mod demux;
mod diagnostics;
mod dry_reports;
mod dynamic_streams;
mod gaps;
mod icmp;
mod input;
mod key_change;
mod linear_hash;
mod listen;
mod local_addresses;
mod look_up;
mod operation;
mod out_of_the_blue;
mod own_packets;
mod ports;
mod reconfigure;
mod stream_credit;
mod stream_value;
mod table;
mod used_cookies;

#[cfg(test)]
mod tests;

use core::net::IpAddr;
use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use strandline_wire::Packet;
use strandline_wire::number::VerificationTag;

pub use self::addresses::Addresses;
use self::budget::InitBudget;
pub use self::commands::{Connect, Listen};
use self::demux::{Demux, PeerKey, entry_of, path_of};
pub use self::dry_reports::DryReports;
pub use self::dynamic_streams::DynamicStreams;
pub use self::gaps::Gaps;
pub use self::key_change::KeyChange;
use self::local_addresses::EarlierLists;
pub use self::local_addresses::LocalAddresses;
pub use self::look_up::find_named;
pub use self::operation::Operation;
use self::ports::Ports;
pub use self::reconfigure::Reconfigure;
pub use self::stream_credit::StreamCredits;
pub use self::stream_value::StreamValue;
use self::table::Table;
use self::used_cookies::{PeerInit, UsedCookies};
use crate::association::context::{EndpointContext, LongSetUps, PacketQueue, Popped, Route};
use crate::association::cookie::CookieKeys;
use crate::association::host_addresses::HostAddresses;
use crate::association::keys::KeyRing;
use crate::association::{Association, PRESERVATIVE_MAX};
use crate::config::EndpointConfig;
use crate::error::ConfigError;
use crate::event::{AssociationId, Event, Transmit};
use crate::inbound::Arena;
use crate::inbound::i_data::charged_bytes;
use crate::memory::Memory;
use crate::path::{KnownPaths, VerificationBudget};
use crate::path_index::PathIndex;
use crate::receive_queue::ReceiveQueue;
use crate::stats::{Buffers, EndpointStats};
use crate::time::Time;
use crate::timer::TimerWheel;
use crate::zone;

/// Maximum number of queued packets that belong to associations. Excess packets are dropped, and the timers of their
/// associations send them again.
const CONTROL_MAX: usize = 1 << 16;

/// The state machine of SCTP: datagrams and time in, datagrams and events out.
///
/// The contract of the caller:
///
/// - Pass in what arrives ([`handle_datagram`](Self::handle_datagram), [`handle_icmp`](Self::handle_icmp)) and what the
///   application wants ([`connect`](Self::connect), [`send`](Self::send), ...).
/// - Call [`handle_timeout`](Self::handle_timeout) at the time that [`poll_timeout`](Self::poll_timeout) returns.
/// - After any of these calls, call [`poll_event`](Self::poll_event) and [`poll_transmit`](Self::poll_transmit) until
///   they return `None`.
/// - Time never goes backwards from call to call.
///
/// The endpoint reads no clock, never sleeps or locks, and does no I/O. The same calls with the same seed have the same
/// results.
///
/// ```
/// use strandline_proto::config::EndpointConfig;
/// use strandline_proto::endpoint::{Connect, Endpoint};
/// use strandline_proto::event::{Datagram, Event, SendInfo};
/// use strandline_proto::time::Time;
///
/// let now = Time::ZERO;
/// let mut client = Endpoint::new(EndpointConfig::default(), [1; 32], now)?;
/// let mut server = Endpoint::new(EndpointConfig::default(), [2; 32], now)?;
/// server.listen(7)?;
/// let there = "192.0.2.2:9899".parse()?;
/// let here = "192.0.2.1:9899".parse()?;
/// let id = client.connect(now, Connect::to(there, 7))?;
/// client.send(now, id, SendInfo::default(), "hello".into())?;
///
/// // A network without delay: each side handles what the other one transmits.
/// let mut buffer = vec![0; 2048];
/// for _ in 0..8 {
///     while let Some(t) = client.poll_transmit(now, &mut buffer, 1) {
///         server.handle_datagram(now, Datagram { source: here, destination: None, bytes: &buffer[..t.len], ecn: 0 });
///     }
///     while let Some(t) = server.poll_transmit(now, &mut buffer, 1) {
///         client.handle_datagram(now, Datagram { source: there, destination: None, bytes: &buffer[..t.len], ecn: 0 });
///     }
/// }
/// let Some((accepted, Event::Established { incoming: true, .. })) = server.poll_event() else {
///     return Err("nobody connected".into());
/// };
/// assert_eq!(server.recv(now, accepted).ok_or("nothing came")?.data, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    table: Table,
    demux: Demux,
    ports: Ports,
    used_cookies: UsedCookies,
    /// Local addresses that INIT ACKs have listed which may still be answered.
    earlier_lists: EarlierLists,
    inits: InitBudget,
    wheel: TimerWheel,
    /// Slots of the associations that may have something to send.
    ready: VecDeque<u32>,
    /// Number of registered associations whose peer has more than one address, or had others.
    multihomed: u32,
    /// True while datagrams that arrived together are handled.
    in_train: bool,
    /// The association that the latest of these datagrams was for, if it is not updated yet.
    update_due: Option<u32>,
    context: EndpointContext,
}

impl Endpoint {
    /// Creates an endpoint without associations. `seed` must be random: tags, keys and nonces are derived from it.
    ///
    /// # Errors
    /// Fails if a parameter is out of range.
    pub fn new(config: EndpointConfig, seed: [u8; 32], now: Time) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut rng = ChaCha8Rng::from_seed(seed);
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        let cookies = CookieKeys::new(key, config.cookie_key_lifetime, now);
        let tie_key = (rng.next_u64(), rng.next_u64());
        let demux = Demux::new((rng.next_u64(), rng.next_u64()));
        let init_keys = (rng.next_u64(), rng.next_u64());
        let replies = PacketQueue::new(config.replies_max);
        let ports = Ports::new(config.ephemeral_ports);
        let known = KnownPaths::new(config.known_paths_max, (rng.next_u64(), rng.next_u64()));
        let host_addresses = HostAddresses::of(&config);
        // A separate stream, so that adding these keys does not change the runs that a simulator's seed stands for.
        let mut stream = ChaCha8Rng::from_seed(seed);
        stream.set_stream(1);
        let keys = (stream.next_u64(), stream.next_u64());
        let cookie_lifetime = config.association.cookie_lifetime + PRESERVATIVE_MAX;
        let used_cookies = UsedCookies::new(cookie_lifetime, (stream.next_u64(), stream.next_u64()));
        let verification = VerificationBudget::new(config.verification_rate_max, config.shard, keys, now);
        let receive_queue = ReceiveQueue::new(config.receive_queue_bytes);
        let memory = Memory::new(config.account.clone(), config.receive_bytes_max, config.send_bytes_max);
        Ok(Self {
            table: Table::default(),
            demux,
            ports,
            used_cookies,
            earlier_lists: EarlierLists::default(),
            inits: InitBudget::new(config.init_rate_max, init_keys, now),
            wheel: TimerWheel::new(now),
            ready: VecDeque::new(),
            multihomed: 0,
            in_train: false,
            update_due: None,
            context: EndpointContext {
                config,
                rng,
                events: VecDeque::new(),
                arena: Arena::default(),
                cookies,
                tie_key,
                keys: KeyRing::default(),
                control: PacketQueue::new(CONTROL_MAX),
                replies,
                stats: EndpointStats::default(),
                memory,
                receive_queue,
                known,
                host_addresses,
                taken: Vec::new(),
                verification,
                long_set_ups: LongSetUps::default(),
            },
        })
    }

    /// Processes expired timers. Call it at the time that `poll_timeout` returns, or later.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(slot) = self.wheel.pop_expired(now) {
            let Some(association) = self.table.at_mut(slot) else { continue };
            association.handle_timeout(&mut self.context, now);
            self.update_after_change(now, slot);
        }
    }

    /// Returns when to call `handle_timeout` next, or `None` if no timer is pending. The time may be earlier than the
    /// first real deadline.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    /// Returns the next notification.
    pub fn poll_event(&mut self) -> Option<(AssociationId, Event)> {
        let (id, event) = self.context.events.pop_front()?;
        let event = match event {
            Event::PathChanged { address, change } => {
                Event::PathChanged { address: zone::outward(address), change }
            }
            other => other,
        };
        Some((id, event))
    }

    /// Builds the next burst of packets into `buffer`, which must have at least 2,048 bytes: up to `segments_max`
    /// packets of one size to one destination.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8], segments_max: usize) -> Option<Transmit> {
        let transmit = self.next_transmit(now, buffer, segments_max.max(1))?;
        diagnostics::sent(&transmit, buffer);
        Some(Transmit { destination: zone::outward(transmit.destination), ..transmit })
    }

    fn next_transmit(&mut self, now: Time, buffer: &mut [u8], segments_max: usize) -> Option<Transmit> {
        let EndpointContext { control, stats, .. } = &mut self.context;
        if let Some(transmit) = Self::pop_packets(control, stats, buffer, segments_max) {
            return Some(transmit);
        }
        while let Some(slot) = self.ready.pop_front() {
            let Some(association) = self.table.at_mut(slot) else { continue };
            association.flags_mut().queued = false;
            let zero_checksum = association.sends_zero_checksum();
            let burst = association.poll_transmit(&mut self.context, now, buffer, segments_max);
            if let Some(transmit) = burst {
                let packets = packets_in(&transmit);
                self.context.stats.packets_sent += packets;
                self.context.stats.zero_checksums_sent += if zero_checksum { packets } else { 0 };
                // Other associations get their turn before the rest of this one.
                self.queue(slot);
                self.reschedule(slot);
                return Some(transmit);
            }
            self.reschedule(slot);
        }
        let EndpointContext { replies, stats, .. } = &mut self.context;
        Self::pop_packets(replies, stats, buffer, segments_max)
    }

    /// True if [`poll_transmit`](Self::poll_transmit) may return a packet.
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        !self.ready.is_empty() || !self.context.control.is_empty() || !self.context.replies.is_empty()
    }

    #[inline]
    fn pop_packets(
        queue: &mut PacketQueue,
        stats: &mut EndpointStats,
        buffer: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        if queue.is_empty() {
            return None; // Most of the time.
        }
        Self::pop_some_packets(queue, stats, buffer, segments_max)
    }

    fn pop_some_packets(
        queue: &mut PacketQueue,
        stats: &mut EndpointStats,
        buffer: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        let Popped { route, len, segment_size, fragment } = queue.pop_burst(buffer, segments_max)?;
        let Route { destination, source } = route;
        let transmit = Transmit { destination, source, len, segment_size, fragment, ecn_capable: false };
        stats.packets_sent += packets_in(&transmit);
        let packets = buffer.get(..len).unwrap_or_default().chunks(segment_size.max(1));
        let unchecked = |bytes: &[u8]| Packet::parse(bytes).is_ok_and(|packet| packet.checksum() == 0);
        stats.zero_checksums_sent += packets.filter(|bytes| unchecked(bytes)).count() as u64;
        Some(transmit)
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let dropped = self.context.control.dropped + self.context.replies.dropped;
        EndpointStats { replies_dropped: dropped, ..self.context.stats }
    }

    /// Records that `datagrams` found the carrier's receive queue full. The windows of flows over short paths become
    /// smaller for some seconds ([`EndpointConfig::receive_queue_bytes`]).
    pub fn note_receive_drops(&mut self, now: Time, datagrams: u32) {
        if datagrams > 0 {
            self.context.stats.receive_queue_drops += u64::from(datagrams);
            self.context.receive_queue.on_drops(now);
        }
    }

    /// Returns the fill level and the limits of the buffers of all associations.
    #[must_use]
    pub fn buffers(&self) -> Buffers {
        self.context.buffers()
    }

    /// Returns the number of associations that are not released yet, including ended ones.
    #[must_use]
    pub fn association_count(&self) -> usize {
        self.table.len()
    }

    fn queue(&mut self, slot: u32) {
        if let Some(association) = self.table.at_mut(slot)
            && !core::mem::replace(&mut association.flags_mut().queued, true)
        {
            self.ready.push_back(slot);
        }
    }

    /// Updates everything that depends on an association after it was changed: the queue of senders, its timer, and,
    /// once it has ended, the look-up tables.
    fn update_after_change(&mut self, now: Time, slot: u32) {
        let Some(association) = self.table.at_mut(slot) else { return };
        if association.state.is_closed() {
            return self.retire(now, slot);
        }
        if !association.flags().queued && association.wants_transmit(now) {
            association.flags_mut().queued = true;
            self.ready.push_back(slot);
        }
        let at = association.next_deadline();
        self.schedule(slot, at);
    }

    /// Moves the association's timer if its deadline has become earlier. A later deadline leaves the timer alone: it
    /// fires early, and the association keeps waiting. The timers of a busy association therefore cost nothing.
    fn reschedule(&mut self, slot: u32) {
        let Some(association) = self.table.at(slot) else { return };
        let at = association.next_deadline();
        self.schedule(slot, at);
    }

    #[inline]
    fn schedule(&mut self, slot: u32, at: Time) {
        if at == Time::MAX {
            return;
        }
        let scheduled = self.wheel.deadline(slot).unwrap_or(Time::MAX);
        if at >= scheduled {
            return; // Most of the time.
        }
        let at = self.wheel.rounded(at);
        if at < scheduled {
            self.wheel.schedule(slot, at);
        }
    }

    /// Removes an ended association from the look-up tables. It stays in the table until the application releases it.
    fn retire(&mut self, now: Time, slot: u32) {
        if self.table.at(slot).is_some_and(|association| association.flags().registered) {
            self.note_end(now, slot);
        }
        self.unregister(slot);
        self.wheel.cancel(slot);
        self.remove_finished(slot);
    }

    /// Notes what must be known of an association that has ended.
    fn note_end(&mut self, now: Time, slot: u32) {
        let Some(association) = self.table.at(slot) else { return };
        association.leave_behind(&mut self.context, now);
        if !self.context.config.owns_all_ports {
            self.ports.note_end(now, association.local_port);
        }
        self.used_cookies.insert_ended(now, association);
    }

    fn remove_finished(&mut self, slot: u32) {
        if self.table.at(slot).is_some_and(Association::is_finished) {
            if let Some(association) = self.table.at(slot) {
                self.context.memory.on_read(charged_bytes(&association.inbound));
            }
            self.table.remove(slot);
        }
    }

    /// Adds an association to the look-up tables.
    fn register(&mut self, slot: u32) {
        let Some(association) = self.table.at_mut(slot) else { return };
        association.flags_mut().registered = true;
        let tag = association.local_tag;
        let (local_port, paths) = (association.local_port, association.paths.indices());
        self.context.memory.on_association();
        self.multihomed += u32::from(has_other_addresses(association));
        self.demux.insert_tag(tag, slot);
        self.ports.add_association(local_port);
        for path in paths {
            self.register_address(slot, path);
        }
    }

    fn register_address(&mut self, slot: u32, path: PathIndex) {
        let table = &self.table;
        let Some(key) = table.at(slot).and_then(|association| key_of(association, path)) else {
            return;
        };
        let rehash = |entry: u32| {
            let found = key_of_entry(table, entry);
            // Every entry belongs to a registered association, so the fallback is never used.
            found.unwrap_or(key)
        };
        self.demux.insert_peer(&key, entry_of(slot, path), rehash);
    }

    /// Removes an association from the look-up tables.
    fn unregister(&mut self, slot: u32) {
        let Some(association) = self.table.at_mut(slot) else { return };
        if !core::mem::take(&mut association.flags_mut().registered) {
            return;
        }
        self.context.memory.on_association_gone();
        self.demux.remove_tag(association.local_tag);
        self.ports.remove_association(association.local_port);
        self.multihomed = self.multihomed.saturating_sub(u32::from(has_other_addresses(association)));
        for path in association.paths.indices() {
            if let Some(key) = key_of(association, path) {
                self.demux.remove_peer(&key, entry_of(slot, path));
            }
        }
    }

    /// Runs an operation that may change the association's tag or addresses, and updates the look-up tables if it does.
    fn with_reindex<T>(
        &mut self,
        now: Time,
        slot: u32,
        run: impl FnOnce(&mut Association, &mut EndpointContext) -> T,
    ) -> Option<T> {
        let before = self.table.at(slot).and_then(Identity::of);
        let was_registered = self.table.at(slot)?.flags().registered;
        if before.is_none() {
            self.unregister(slot);
        }
        let association = self.table.at_mut(slot)?;
        // Nearly every set-up is that of a peer with one address.
        let first = PeerInit::of_set_up(association).next();
        let several = before
            .is_none()
            .then(|| (PeerInit::of_set_up(association).collect::<Vec<_>>(), addresses_of(association)));
        let result = run(association, &mut self.context);
        let is_readdressed = match (&several, before) {
            (Some((_, addresses)), _) => addresses_of(association) != *addresses,
            (None, Some(before)) => {
                association.paths.has_several() || association.paths.by_address(before.key.address).is_none()
            }
            (None, None) => false,
        };
        association.flags_mut().readdressed |= is_readdressed;
        if is_readdressed {
            let inits = several.as_ref().map_or(first.as_slice(), |(inits, _)| inits);
            self.used_cookies.insert_left(now, inits, association);
        }
        let (is_closed, after) = (association.state.is_closed(), Identity::of(association));
        if let Some(before) = before.filter(|_| is_closed || before != after) {
            before.unregister(self, slot);
        }
        if is_closed && was_registered {
            self.note_end(now, slot);
        }
        if !is_closed && (before.is_none() || before != after) {
            self.register(slot);
        }
        self.update_after_change(now, slot);
        Some(result)
    }
}

/// What the look-up tables know of a registered association with one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    tag: VerificationTag,
    path: PathIndex,
    key: PeerKey,
}

impl Identity {
    /// Returns `None` if the association has several paths or had other ones, or is not in the tables.
    fn of(association: &Association) -> Option<Self> {
        let mut paths = association.paths.indices().into_iter();
        let (path, None) = (paths.next()?, paths.next()) else { return None };
        if has_other_addresses(association) {
            return None;
        }
        let key = key_of(association, path)?;
        association.flags().registered.then_some(Self { tag: association.local_tag, path, key })
    }

    /// Removes the association from the look-up tables, where it has this identity.
    fn unregister(self, endpoint: &mut Endpoint, slot: u32) {
        if let Some(association) = endpoint.table.at_mut(slot) {
            association.flags_mut().registered = false;
        }
        endpoint.context.memory.on_association_gone();
        endpoint.demux.remove_tag(self.tag);
        endpoint.ports.remove_association(self.key.local_port);
        endpoint.demux.remove_peer(&self.key, entry_of(slot, self.path));
    }
}

/// True if the peer's next INIT may come from an address that another engine is responsible for: the peer has several
/// addresses, or had others.
fn has_other_addresses(association: &Association) -> bool {
    association.paths.has_several() || association.flags().readdressed
}

/// Returns the peer's addresses, sorted.
fn addresses_of(association: &Association) -> Vec<IpAddr> {
    let mut addresses: Vec<_> = association.paths.iter().map(|(_, path)| path.remote.ip()).collect();
    addresses.sort_unstable();
    addresses
}

/// Returns the key of a path in the address table.
fn key_of(association: &Association, path: PathIndex) -> Option<PeerKey> {
    let address = association.paths.find(path)?.remote.ip();
    Some(PeerKey { address, peer_port: association.peer_port, local_port: association.local_port })
}

/// Returns the key of an entry of the address table.
fn key_of_entry(table: &Table, entry: u32) -> Option<PeerKey> {
    key_of(table.at(demux::slot_of(entry))?, path_of(entry)?)
}

/// Returns the number of packets in a burst.
fn packets_in(transmit: &Transmit) -> u64 {
    transmit.len.div_ceil(transmit.segment_size.max(1)) as u64
}
