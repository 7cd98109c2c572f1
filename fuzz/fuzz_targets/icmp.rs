//! ICMP messages to an endpoint whose association is being set up, or established with two paths: forged ones change
//! nothing, an MTU stays within its limits, every call ends, and unless the peer was reported as unreachable, data
//! still arrives.
#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, Datagram, IcmpError, IcmpKind, SendInfo};
use strandline_proto::stats::AssociationState;
use strandline_proto::time::Time;

/// Bytes of a packet that name its association: ports and tag.
const IDENTITY: usize = 8;
/// Steps of 100 ms until a message must have arrived: several time-outs.
const STEPS: u32 = 3_000;

struct World {
    client: Endpoint,
    server: Endpoint,
    id: AssociationId,
    here: SocketAddr,
    there: SocketAddr,
    now: Time,
    /// Packets of the client: the INIT, and the last one.
    init: Vec<u8>,
    last: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let here = "192.0.2.1:9899".parse().expect("an address");
        let there = "192.0.2.2:9899".parse().expect("an address");
        let listed = ["192.0.2.2", "198.51.100.2"].map(|text| text.parse().expect("an address"));
        let config = EndpointConfig { local_addresses: listed.into(), ..EndpointConfig::default() };
        let mut client =
            Endpoint::new(EndpointConfig::default(), [1; 32], Time::ZERO).expect("defaults are valid");
        let mut server = Endpoint::new(config, [2; 32], Time::ZERO).expect("two addresses are valid");
        server.listen(7).expect("a free port");
        let id = client.connect(Time::ZERO, Connect::to(there, 7)).expect("a new association");
        let mut world =
            Self { client, server, id, here, there, now: Time::ZERO, init: Vec::new(), last: Vec::new() };
        world.transmit(false);
        world.init.clone_from(&world.last);
        world
    }

    /// Sends what the client has to send; to the server, or nowhere.
    fn transmit(&mut self, delivered: bool) {
        let mut buffer = [0; 65_536];
        for round in 0.. {
            assert!(round < 10_000, "poll_transmit does not end");
            let Some(sent) = self.client.poll_transmit(self.now, &mut buffer, 1) else { break };
            self.last = buffer[..sent.len].to_vec();
            if delivered {
                let datagram = Datagram { source: self.here, destination: None, bytes: &self.last, ecn: 0 };
                self.server.handle_datagram(self.now, datagram);
            }
        }
        while self.client.poll_event().is_some() {}
    }

    /// Lets packets pass in both directions, and time.
    fn exchange(&mut self) {
        self.transmit(true);
        let mut buffer = [0; 65_536];
        while let Some(sent) = self.server.poll_transmit(self.now, &mut buffer, 1) {
            let datagram =
                Datagram { source: self.there, destination: None, bytes: &buffer[..sent.len], ecn: 0 };
            self.client.handle_datagram(self.now, datagram);
        }
        while self.server.poll_event().is_some() {}
        self.now += Duration::from_millis(100);
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }

    fn state(&self) -> Option<AssociationState> {
        self.client.status(self.id).map(|status| status.state)
    }

    fn is_alive(&self) -> bool {
        self.state().is_some_and(|state| state != AssociationState::Closed)
    }

    /// A message of eight bytes: the kind, the destination, the packet that is quoted and how much of it, a change of
    /// one byte of the quote, and the MTU.
    fn message(&mut self, bytes: [u8; 8]) -> IcmpKind {
        let [kind, destination, len, at, change, high, low, packet] = bytes;
        let mut quoted = if packet % 2 == 0 { self.last.clone() } else { self.init.clone() };
        quoted.truncate(usize::from(len));
        if let Some(byte) = quoted.get_mut(usize::from(at)) {
            *byte ^= change;
        }
        let kind = match kind % 5 {
            0 => IcmpKind::PacketTooBig { mtu: u32::from(u16::from_be_bytes([high, low])) },
            1 => IcmpKind::PacketTooBig { mtu: u32::from_be_bytes([high, low, len, at]) },
            2 => IcmpKind::ProtocolUnreachable,
            3 => IcmpKind::HostUnreachable,
            _ => IcmpKind::NoRoute,
        };
        let destinations = [self.there, SocketAddr::new([198, 51, 100, 2].into(), 9899), self.here];
        let destination = destinations[usize::from(destination) % destinations.len()];
        let (counted, paths) = (self.client.stats().icmp, self.client.paths(self.id));
        self.client.handle_icmp(self.now, IcmpError { destination, kind, quoted: &quoted });
        let identity = quoted.get(..IDENTITY);
        let is_real = identity.is_some()
            && (identity == self.init.get(..IDENTITY) || identity == self.last.get(..IDENTITY));
        if !is_real {
            assert_eq!(self.client.stats().icmp, counted, "a forged message counts");
            let same = |a: &_, b: &_| format!("{a:?}") == format!("{b:?}");
            assert!(same(&self.client.paths(self.id), &paths), "a forged message changes a path");
        }
        for path in self.client.paths(self.id).into_iter().flatten() {
            assert!((256..=1500).contains(&path.mtu), "an MTU of {}", path.mtu);
        }
        kind
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((begin, messages)) = bytes.split_first() else { return };
    let mut world = World::new();
    if begin % 2 == 0 {
        // The first INIT is lost, so that there is a quote of it while an answer is awaited.
        for _ in 0..100 {
            world.exchange();
        }
        assert_eq!(world.state(), Some(AssociationState::Established));
    }
    let _ = world.client.send(world.now, world.id, SendInfo::default(), vec![0; 9000].into());
    world.transmit(false);
    let mut harmless = true;
    for message in messages.chunks_exact(8).take(64) {
        let Ok(message) = message.try_into() else { continue };
        harmless &=
            matches!(world.message(message), IcmpKind::PacketTooBig { .. } | IcmpKind::HostUnreachable);
        world.client.handle_timeout(world.now);
        world.transmit(false);
    }
    let mut arrived = 0;
    for _ in 0..STEPS {
        if arrived >= 9000 || !world.is_alive() {
            break;
        }
        world.exchange();
        for message in world.server_messages() {
            arrived += message;
        }
    }
    assert!(!harmless || arrived == 9000, "{arrived} bytes have arrived: {:?}", world.state());
});

impl World {
    /// Reads what has arrived at the server, and returns the lengths.
    fn server_messages(&mut self) -> Vec<usize> {
        let Some(id) = self.server.find(7, self.here.ip(), self.client_port()) else { return Vec::new() };
        let mut lengths = Vec::new();
        while let Some(message) = self.server.recv(self.now, id) {
            lengths.push(message.data.len());
        }
        lengths
    }

    fn client_port(&self) -> u16 {
        self.client.status(self.id).map_or(0, |status| status.local_port)
    }
}
