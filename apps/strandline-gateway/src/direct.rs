//! What earlier direct connections tell of the networks of their destinations. No I/O.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::mapping::Direct;

/// Networks that are known; the one updated of longest ago is forgotten first.
const NETWORKS_MAX: usize = 1024;
/// What is older is forgotten.
const KEPT: Duration = Duration::from_secs(600);
/// After a failure no connection is tried for the shortest of these times, twice as long after each further one.
const FAILED_MIN: Duration = Duration::from_secs(10);
const FAILED_MAX: Duration = Duration::from_secs(600);
/// Bytes below which the rate of a connection says nothing.
const BYTES_MIN: u64 = 256 << 10;

/// An IPv4 network of 24 bits, or an IPv6 network of 64.
type Network = (bool, u64);

fn network(ip: IpAddr) -> Network {
    match ip.to_canonical() {
        IpAddr::V4(ip) => (true, u64::from(ip.to_bits() >> 8)),
        IpAddr::V6(ip) => (false, (ip.to_bits() >> 64) as u64),
    }
}

#[derive(Debug, Clone, Copy)]
struct Known {
    updated: Instant,
    failed_until: Option<Instant>,
    pause: Duration,
    rtt: Option<Duration>,
    rate: Option<f64>,
}

/// Networks to which there were direct connections.
#[derive(Debug, Default)]
pub(crate) struct DirectNetworks(Mutex<HashMap<Network, Known>>);

/// What a connection has moved in one direction: the bytes, and how fast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    pub(crate) per_sec: f64,
}

impl DirectNetworks {
    /// Returns what is known of an address's network.
    pub(crate) fn look(&self, ip: IpAddr, now: Instant) -> Direct {
        let networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            networks.get(&network(ip)).filter(|known| now.saturating_duration_since(known.updated) < KEPT);
        let Some(known) = known else { return Direct::default() };
        let has_failed = known.failed_until.is_some_and(|until| now < until);
        Direct { has_failed, rtt: known.rtt, rate: known.rate }
    }

    /// Notes that a connection could not be made.
    pub(crate) fn on_failed(&self, ip: IpAddr, now: Instant) {
        self.change(ip, now, |known| {
            known.pause = (known.pause * 2).clamp(FAILED_MIN, FAILED_MAX);
            known.failed_until = Some(now + known.pause);
        });
    }

    /// Notes that a connection was made, and the round-trip time of its handshake.
    pub(crate) fn on_connected(&self, ip: IpAddr, rtt: Duration, now: Instant) {
        self.change(ip, now, |known| {
            (known.pause, known.failed_until) = (Duration::ZERO, None);
            // A server that was slow once is not far.
            known.rtt = Some(known.rtt.map_or(rtt, |before| before.min(rtt)));
        });
    }

    /// Notes what a connection has done: its round-trip time as the kernel knows it, and its bytes.
    pub(crate) fn on_moved(&self, ip: IpAddr, rtt: Option<Duration>, moved: [Moved; 2], now: Instant) {
        let large = moved.into_iter().filter(|moved| moved.bytes >= BYTES_MIN);
        let rate = large.map(|moved| moved.per_sec).max_by(f64::total_cmp);
        self.change(ip, now, |known| {
            known.rtt = known.rtt.into_iter().chain(rtt).min();
            // Half of what was better before: a path may have become slower.
            let before = known.rate.map(|rate| rate / 2.0);
            known.rate = rate.map(|rate| before.map_or(rate, |before| before.max(rate))).or(known.rate);
        });
    }

    fn change(&self, ip: IpAddr, now: Instant, change: impl FnOnce(&mut Known)) {
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let network = network(ip);
        if networks.len() >= NETWORKS_MAX && !networks.contains_key(&network) {
            let oldest = networks.iter().min_by_key(|(_, known)| known.updated).map(|(network, _)| *network);
            oldest.and_then(|oldest| networks.remove(&oldest));
        }
        let new = Known { updated: now, failed_until: None, pause: Duration::ZERO, rtt: None, rate: None };
        let known = networks.entry(network).or_insert(new);
        if now.saturating_duration_since(known.updated) >= KEPT {
            *known = new;
        }
        known.updated = now;
        change(known);
    }
}

#[cfg(test)]
mod tests;
