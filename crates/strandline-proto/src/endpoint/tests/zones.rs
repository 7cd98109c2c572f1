//! Link-local peers on several links (RFC 4007).

use core::net::{Ipv6Addr, SocketAddrV6};

use strandline_wire::chunk::Chunk;
use strandline_wire::parameter::Parameter;

use super::*;
use crate::endpoint::Listen;
use crate::zone;

/// The interface index that each peer gives to its link.
const LINK_OF_PEERS: u32 = 9;

fn on(link: u32, host: u16) -> SocketAddr {
    SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host), 9899, 0, link).into()
}

/// A host on links 1 and 2, with the address fe80::1 on both, and a peer on each link, both with the address fe80::2.
struct Links {
    host: Endpoint,
    peers: [Endpoint; 2],
    /// Packets that the host sent.
    sent: Vec<Sent>,
}

impl Links {
    fn new(config: EndpointConfig) -> Self {
        let endpoint = |config, seed| {
            let mut endpoint = Endpoint::new(config, [seed; 32], Time::ZERO).unwrap();
            endpoint.listen(PORT).unwrap();
            endpoint
        };
        let peers = [2, 3].map(|seed| endpoint(EndpointConfig::default(), seed));
        Self { host: endpoint(config, 1), peers, sent: Vec::new() }
    }

    /// Delivers packets over the links until there are none. Those to other addresses are lost.
    fn run(&mut self) {
        let (now, mut buffer, mut idle) = (Time::ZERO, vec![0; 2048], false);
        while !core::mem::replace(&mut idle, true) {
            while let Some(sent) = self.host.poll_transmit(now, &mut buffer, 1) {
                idle = false;
                let bytes = &buffer[..sent.len];
                let source = on(LINK_OF_PEERS, 1);
                if let Some(peer) = (1..=2).find(|link| sent.destination == on(*link, 2)) {
                    let datagram = Datagram { source, destination: None, bytes, ecn: 0 };
                    self.peers[peer as usize - 1].handle_datagram(now, datagram);
                }
                let (destination, bytes) = (sent.destination, bytes.to_vec());
                self.sent.push(Sent { source, destination, bytes, fragment: false });
            }
            for (link, peer) in (1..).zip(&mut self.peers) {
                while let Some(sent) = peer.poll_transmit(now, &mut buffer, 1) {
                    idle = false;
                    if sent.destination == on(LINK_OF_PEERS, 1) {
                        let bytes = &buffer[..sent.len];
                        let destination = Some(on(0, 1).ip());
                        let datagram = Datagram { source: on(link, 2), destination, bytes, ecn: 0 };
                        self.host.handle_datagram(now, datagram);
                    }
                }
            }
        }
    }

    fn connect(&mut self, remote: SocketAddr) -> AssociationId {
        let request = Connect {
            local_port: 5000,
            peer_port: PORT,
            remotes: vec![remote],
            local: Vec::new(),
            config: None,
        };
        self.host.connect(Time::ZERO, request).unwrap()
    }

    /// Returns the addresses in the host's last INIT.
    fn named(&self) -> Vec<IpAddr> {
        let mut inits = self.sent.iter().filter(|sent| sent.kinds() == [kind::INIT]);
        let bytes = &inits.next_back().unwrap().bytes;
        let first = Packet::parse(bytes).unwrap().chunks().next().unwrap().unwrap();
        let Ok(Chunk::Init(init)) = first.parse() else { panic!("no INIT") };
        let address = |parameter: Parameter<'_>| match parameter {
            Parameter::Ipv4Address(v4) => Some(IpAddr::V4(v4)),
            Parameter::Ipv6Address(v6) => Some(IpAddr::V6(v6)),
            _ => None,
        };
        init.parameters.iter().filter_map(|raw| address(raw.unwrap().parse().unwrap())).collect()
    }
}

fn addresses(endpoint: &Endpoint, id: AssociationId) -> Vec<SocketAddr> {
    endpoint.paths(id).unwrap().iter().map(|path| path.address).collect()
}

#[test]
fn peers_with_one_address_on_two_links() {
    let mut links = Links::new(EndpointConfig::default());
    let ids = [1, 2].map(|link| links.connect(on(link, 2)));
    links.run();
    for (link, id) in (1..).zip(ids) {
        let status = links.host.status(id).unwrap();
        assert_eq!((status.state.name(), status.primary), ("ESTABLISHED", on(link, 2)));
        assert_eq!(addresses(&links.host, id), [on(link, 2)]);
        assert_eq!(links.host.find(5000, zone::key(on(link, 2)), PORT), Some(id));
        assert!(links.host.request_heartbeat(Time::ZERO, id, zone::key(on(link, 2))).is_ok());
        assert!(links.host.request_heartbeat(Time::ZERO, id, on(link, 2).ip()).is_ok(), "it has just one");
        assert!(links.host.request_heartbeat(Time::ZERO, id, zone::key(on(3, 2))).is_err());
    }
}

#[test]
fn peers_on_two_links_set_up_associations() {
    let mut links = Links::new(EndpointConfig::default());
    for peer in &mut links.peers {
        let remotes = vec![on(LINK_OF_PEERS, 1)];
        let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
        peer.connect(Time::ZERO, request).unwrap();
    }
    links.run();
    let mut up = Vec::new();
    while let Some((id, event)) = links.host.poll_event() {
        if matches!(event, Event::Established { incoming: true, .. }) {
            up.extend(addresses(&links.host, id));
        }
    }
    assert_eq!(up, [on(1, 2), on(2, 2)]);
}

/// A listener, or an association, that is bound to fe80::1 of the first link.
#[test]
fn bound_addresses_are_those_of_a_link() {
    let bound = vec![zone::key(on(1, 1))];
    let mut links = Links::new(EndpointConfig::default());
    links.host.listen(Listen { port: PORT + 1, addresses: bound.clone() }).unwrap();
    let ids = [0, 1].map(|peer| {
        let remotes = vec![on(LINK_OF_PEERS, 1)];
        let to = (5000, PORT + 1);
        let request = Connect { local_port: to.0, peer_port: to.1, remotes, local: Vec::new(), config: None };
        links.peers[peer].connect(Time::ZERO, request).unwrap()
    });
    links.run();
    let states = [0, 1].map(|peer| links.peers[peer].status(ids[peer]).unwrap().state.name());
    assert_eq!(states, ["ESTABLISHED", "CLOSED"]);
    let request = Connect { local: bound, ..Connect::to(on(1, 2), PORT) };
    let id = links.host.connect(Time::ZERO, request).unwrap();
    links.run();
    assert_eq!(links.host.status(id).unwrap().state.name(), "ESTABLISHED");
}

#[test]
fn link_local_addresses_stay_on_their_link() {
    let global: IpAddr = "2001:db8::1".parse().unwrap();
    let local_addresses = vec![zone::key(on(1, 1)), zone::key(on(2, 3)), global];
    let mut links = Links::new(EndpointConfig { local_addresses, ..EndpointConfig::default() });
    links.connect("[2001:db8::2]:9899".parse().unwrap());
    links.run();
    assert_eq!(links.named(), [global]);
    links.connect(on(1, 2));
    links.run();
    assert_eq!(links.named(), [on(1, 1).ip(), global]);
    let (id, _) = links.peers[0].poll_event().unwrap();
    assert_eq!(addresses(&links.peers[0], id), [on(LINK_OF_PEERS, 1), SocketAddr::new(global, 9899)]);
}

#[test]
fn own_addresses_are_those_of_a_link() {
    let own_addresses = vec![zone::key(on(1, 1))];
    let mut links = Links::new(EndpointConfig { own_addresses, ..EndpointConfig::default() });
    links.peers = [2, 3].map(|seed| {
        let local_addresses = vec![on(0, 2).ip(), on(0, 1).ip()];
        let config = EndpointConfig { local_addresses, ..EndpointConfig::default() };
        let mut endpoint = Endpoint::new(config, [seed; 32], Time::ZERO).unwrap();
        endpoint.listen(PORT).unwrap();
        endpoint
    });
    let ids = [1, 2].map(|link| links.connect(on(link, 2)));
    links.run();
    // Both peers list fe80::1, which the host has on the first link.
    assert_eq!(addresses(&links.host, ids[0]), [on(1, 2)]);
    assert_eq!(addresses(&links.host, ids[1]), [on(2, 2), on(2, 1)]);
}
