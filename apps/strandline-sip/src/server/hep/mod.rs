//! Copies of messages for a collector such as Homer (HEP version 3). The server doesn't wait for the
//! collector: copies that it doesn't accept in time are dropped and counted.

mod packet;

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::codec::header_lines;
use crate::transaction::{Flow, Protocol};

use packet::Packet;

/// Maximum number of copies that wait for the collector.
const WAITING_MAX: usize = 4096;
/// Maximum size of these copies, in bytes.
const BYTES_MAX: usize = 32 << 20;
/// The pause before reconnecting to the collector.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout for connecting to it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Protocol numbers of IP, as assigned by IANA.
const IP_TCP: u8 = 6;
const IP_UDP: u8 = 17;
const IP_SCTP: u8 = 132;

/// Settings for the collector.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HepSettings {
    pub(super) collector: SocketAddr,
    /// Whether to use TCP instead of UDP.
    pub(super) tcp: bool,
    pub(super) capture_id: u32,
    pub(super) password: Vec<u8>,
    /// The share of calls to copy: either all messages of a call are copied, or none.
    pub(super) sample: f64,
    /// Whether to mask credentials.
    pub(super) blank_credentials: bool,
}

/// Counters of copies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HepCounters {
    pub(super) sent: u64,
    /// Copies that exceeded the limits or could not be sent.
    pub(super) dropped: u64,
}

/// Makes copies.
pub(super) struct Hep {
    settings: HepSettings,
    /// The listening address for each protocol.
    local: Vec<(Protocol, SocketAddr)>,
    queue: Sender<Vec<u8>>,
    shared: Rc<Shared>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shared {
    counters: Cell<HepCounters>,
    waiting_bytes: Cell<usize>,
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut HepCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

impl Hep {
    /// Starts sending copies, until this is dropped. `last` holds earlier counts.
    pub(super) fn start(
        settings: HepSettings,
        local: Vec<(Protocol, SocketAddr)>,
        last: HepCounters,
    ) -> Self {
        let (queue, waiting) = channel(WAITING_MAX);
        let shared = Rc::new(Shared { counters: Cell::new(last), ..Shared::default() });
        tokio::task::spawn_local(serve(settings.collector, settings.tcp, waiting, Rc::clone(&shared)));
        Self { settings, local, queue, shared, hasher: RandomState::new() }
    }

    pub(super) fn counters(&self) -> HepCounters {
        self.shared.counters.get()
    }

    /// Copies a message that was received or is being sent.
    pub(super) fn copy(&self, flow: &Flow, bytes: &[u8], is_incoming: bool, at: Duration) {
        if !self.is_sampled(bytes) {
            return;
        }
        // In a flood, no copy is made only to be dropped.
        let waiting = self.shared.waiting_bytes.get();
        if self.queue.capacity() == 0 || waiting + bytes.len() > BYTES_MAX {
            self.shared.count(|counters| counters.dropped += 1);
            return;
        }
        let peer = SocketAddr::new(flow.peer.ip().to_canonical(), flow.peer.port());
        let local = self.local(flow.protocol, peer.ip());
        let (source, destination) = if is_incoming { (peer, local) } else { (local, peer) };
        let blanked = self.settings.blank_credentials.then(|| blank_credentials(bytes)).flatten();
        let packet = Packet {
            protocol: match flow.protocol {
                Protocol::Udp => IP_UDP,
                Protocol::Sctp => IP_SCTP,
                Protocol::Tcp | Protocol::Tls | Protocol::Ws | Protocol::Wss => IP_TCP,
            },
            source,
            destination,
            at,
            capture_id: self.settings.capture_id,
            password: &self.settings.password,
            payload: blanked.as_deref().unwrap_or(bytes),
        };
        let written = packet.write().filter(|packet| waiting + packet.len() <= BYTES_MAX);
        let queued = written.and_then(|packet| {
            let len = packet.len();
            self.queue.try_send(packet).ok().map(|()| self.shared.waiting_bytes.set(waiting + len))
        });
        if queued.is_none() {
            self.shared.count(|counters| counters.dropped += 1);
        }
    }

    /// All messages of a call are sampled, or none: the Call-ID decides.
    fn is_sampled(&self, bytes: &[u8]) -> bool {
        if self.settings.sample >= 1.0 {
            return true;
        }
        let is = |name: &[u8]| name.eq_ignore_ascii_case(b"call-id") || name.eq_ignore_ascii_case(b"i");
        let call_id = header_lines(bytes).find(|(name, _)| is(name)).map_or(&b""[..], |(_, value)| value);
        let hash = self.hasher.hash_one(call_id.trim_ascii());
        // A number from 0 to 1 with as many bits as an `f64` has.
        let share =
            (hash >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 / (1u64 << f64::MANTISSA_DIGITS) as f64;
        share < self.settings.sample
    }

    fn local(&self, protocol: Protocol, peer: IpAddr) -> SocketAddr {
        let listening = self.local.iter().find(|(one, _)| *one == protocol).map(|(_, address)| *address);
        let port = listening.map_or(0, |address| address.port());
        match listening.map(|address| address.ip()).filter(|ip| ip.is_ipv4() == peer.is_ipv4()) {
            Some(ip) => SocketAddr::new(ip, port),
            None if peer.is_ipv4() => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            None => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        }
    }
}

/// Masks the credentials of Authorization and Proxy-Authorization with asterisks. Returns `None` if there are
/// none.
fn blank_credentials(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut blanked: Option<Vec<u8>> = None;
    let is = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"authorization") || name.eq_ignore_ascii_case(b"proxy-authorization")
    };
    for (_, value) in header_lines(bytes).filter(|(name, _)| is(name)) {
        let start = value.as_ptr() as usize - bytes.as_ptr() as usize;
        let copy = blanked.get_or_insert_with(|| bytes.to_vec());
        let place = copy.get_mut(start..start + value.len()).unwrap_or(&mut []);
        // White space is kept, including folding, so that the length and all positions stay the same.
        place.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = b'*');
    }
    blanked
}

async fn serve(collector: SocketAddr, tcp: bool, mut waiting: Receiver<Vec<u8>>, shared: Rc<Shared>) {
    let mut way = None;
    while let Some(packet) = waiting.recv().await {
        shared.waiting_bytes.set(shared.waiting_bytes.get().saturating_sub(packet.len()));
        if way.is_none() {
            way = match open(collector, tcp).await {
                Ok(open) => Some(open),
                Err(error) => {
                    tracing::debug!(%error, %collector, "connecting to the HEP collector failed");
                    shared.count(|counters| counters.dropped += 1);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
        }
        let sent = match &mut way {
            Some(Way::Udp(socket)) => socket.send(&packet).await.map(|_| ()),
            Some(Way::Tcp(stream)) => stream.write_all(&packet).await,
            None => Ok(()),
        };
        match sent {
            Ok(()) => shared.count(|counters| counters.sent += 1),
            Err(error) => {
                tracing::debug!(%error, %collector, "sending to the HEP collector failed");
                shared.count(|counters| counters.dropped += 1);
                way = None;
            }
        }
    }
}

enum Way {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

async fn open(collector: SocketAddr, tcp: bool) -> std::io::Result<Way> {
    if tcp {
        let stream = tokio::time::timeout(TIMEOUT, TcpStream::connect(collector)).await??;
        return Ok(Way::Tcp(stream));
    }
    let any: IpAddr =
        if collector.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(collector).await?;
    Ok(Way::Udp(socket))
}

#[cfg(test)]
mod tests;
