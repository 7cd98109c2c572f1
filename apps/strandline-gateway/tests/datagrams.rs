//! Datagrams over a path that loses some.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::{Gateway, Home, accept, at_last, free_address, patient, read_exactly};
use crate::slow_path::path;

/// A datagram whose packets the path loses.
const LOST: [u8; 100] = [b'L'; 100];
/// Type of an I-FORWARD-TSN chunk (RFC 8260), by which a sender says that it gave messages up.
const I_FORWARD_TSN: u8 = 194;

/// Two gateways, a server for datagrams behind them, and a client. The path between loses some datagrams of the client.
struct Lossy {
    _far: Gateway,
    near: Gateway,
    server: UdpSocket,
    client: UdpSocket,
    /// Whether the path loses datagrams, and how many packets it has lost.
    loses: Arc<AtomicBool>,
    lost: Arc<AtomicUsize>,
    /// Whether the near gateway has said that it gave some up.
    has_given_up: Arc<AtomicBool>,
}

impl Lossy {
    fn new(name: &str, lifetime_ms: u32) -> Self {
        let [server, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let to = server.local_addr().unwrap();
        let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow-udp {to}"));
        let (loses, lost) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicUsize>::default());
        let has_given_up = Arc::<AtomicBool>::default();
        let path_state = (Arc::clone(&loses), Arc::clone(&lost), Arc::clone(&has_given_up));
        let up = move |packet: &[u8]| {
            path_state.2.fetch_or(has_chunk(packet, I_FORWARD_TSN), Ordering::Relaxed);
            let is_lost =
                path_state.0.load(Ordering::Relaxed) && packet.windows(32).any(|part| part == &LOST[..32]);
            path_state.1.fetch_add(usize::from(is_lost), Ordering::Relaxed);
            !is_lost
        };
        let peer = path(far.listens().parse().unwrap(), up, |_| true);
        let forward = format!(
            "[[forward]]\nprotocol = \"udp\"\nlisten = \"0\"\nto = \"{to}\"\nlifetime_ms = {lifetime_ms}\n"
        );
        let home = Home::new(name);
        let file = home.write("near.toml", &forward);
        let near = Gateway::start(&format!("--peer far={peer} --config {file} --admin 127.0.0.1:0"));
        client.connect(near.listener(0)).unwrap();
        server.set_nonblocking(true).unwrap();
        let lossy = Self { _far: far, near, server, client, loses, lost, has_given_up };
        lossy.pass("the flow is there", |datagram| datagram == b"short");
        lossy
    }

    /// Sends short datagrams until one has arrived of which the closure returns true.
    fn pass(&self, what: &str, is_it: impl FnMut(&[u8]) -> bool) {
        self.send_until(what, b"short", is_it);
    }

    fn send_until(&self, what: &str, datagram: &[u8], mut is_it: impl FnMut(&[u8]) -> bool) {
        let mut room = [0; 200];
        at_last(what, || {
            self.client.send(datagram).unwrap();
            while let Ok(len) = self.server.recv(&mut room) {
                if is_it(&room[..len]) {
                    return true;
                }
            }
            false
        });
    }
}

/// Returns whether a packet (RFC 9260 section 3) has a chunk of this type.
fn has_chunk(packet: &[u8], kind: u8) -> bool {
    let mut rest = packet.get(12..).unwrap_or_default();
    while let [first, _, high, low, ..] = *rest {
        if first == kind {
            return true;
        }
        let len = usize::from(u16::from_be_bytes([high, low])).max(4).next_multiple_of(4);
        rest = rest.get(len..).unwrap_or_default();
    }
    false
}

/// Datagrams have no order: later ones pass those that were lost, which are sent again.
#[test]
fn a_lost_datagram_delays_no_other() {
    let lossy = Lossy::new("unordered", 600_000);
    for _ in 0..3 {
        lossy.client.send(&LOST).unwrap();
    }
    lossy.client.send(b"later").unwrap();
    let mut arrived = 0;
    lossy.pass("later ones arrive", |datagram| {
        arrived += usize::from(datagram == b"short");
        arrived > 3
    });
    lossy.loses.store(false, Ordering::Relaxed);
    let mut found = 0;
    lossy.pass("each of the lost ones arrives", |datagram| {
        found += usize::from(datagram == LOST);
        found == 3
    });
    let mut arrived = 0;
    lossy.pass("they came once", |datagram| {
        assert_ne!(datagram, LOST);
        arrived += 1;
        arrived > 3
    });
}

/// Datagrams that were lost are not sent again after their lifetime.
#[test]
fn datagrams_are_given_up_in_time() {
    let lossy = Lossy::new("lifetime", 1);
    // On a busy host the lifetime of some is over before they are sent.
    at_last("some are lost", || {
        lossy.client.send(&LOST).unwrap();
        lossy.lost.load(Ordering::Relaxed) >= 3
    });
    at_last("the peer is told", || lossy.has_given_up.load(Ordering::Relaxed));
    at_last("all are given up", || lossy.near.status()["associations"][0]["unacknowledged_messages"] == 0);
    // What the path still has arrives before this.
    lossy.send_until("the path is empty", b"behind", |datagram| datagram == b"behind");
    lossy.loses.store(false, Ordering::Relaxed);
    let mut arrived = 0;
    lossy.pass("later ones arrive", |datagram| {
        assert_ne!(datagram, LOST);
        arrived += 1;
        arrived > 3
    });
}

/// Datagrams from many addresses, at the near gateway's socket and at one that it has at the far gateway, take
/// nothing from connections.
#[test]
fn floods_leave_connections_alone() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (to, udp_to, at_far) = (server.local_addr().unwrap(), udp.local_addr().unwrap(), free_address());
    let home = Home::new("flood");
    let limits = home.write("limits.toml", "[limits]\nconnections_max = 16\n");
    let far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --allow {to} --allow-udp {udp_to} --allow-listen-udp {at_far} \
         --admin 127.0.0.1:0 --config {limits}"
    ));
    let near = Gateway::start(&format!(
        "--peer far={} --forward 0={to} --forward udp/0={udp_to} --reverse udp/{at_far}={udp_to} \
         --admin 127.0.0.1:0 --config {limits}",
        far.listens()
    ));
    let strangers: Vec<_> = (0..40).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for (begun_at, socket) in [(&near, near.listener(1)), (&far, at_far)] {
        let ended = || metric(begun_at, "connection_ends_total{end=\"flow_limit\"}");
        at_last("flows are displaced", || {
            strangers.iter().for_each(|stranger| drop(stranger.send_to(b"flood", socket)));
            ended() > 100
        });
    }
    let mut open = Vec::new();
    for _ in 0..14 {
        let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
        client.write_all(b"x").unwrap();
        let mut served = accept(&server);
        assert_eq!(read_exactly(&mut served, 1), b"x");
        open.push((client, served));
    }
    for gateway in [&near, &far] {
        assert_eq!(metric(gateway, "connection_ends_total{end=\"limit\"}"), 0, "no alert");
    }
}

/// Returns a number of the metrics, 0 if it is not there.
pub fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.admin("metrics");
    let start = format!("strandline_gateway_{name} ");
    metrics.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |number| number.parse().unwrap())
}
