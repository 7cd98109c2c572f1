//! Addresses that are not the peer's: this host's own, other hosts', and those that nothing can be sent to.

use strandline_wire::cause::Causes;
use strandline_wire::chunk::Abort;

use super::*;
use crate::endpoint::{Listen, LocalAddresses};
use crate::event::{IcmpError, IcmpKind, PathChange};
use crate::stats::Reachability;

/// The server also has the client's second address, and packets to it come back.
fn shared_address(known: bool, local_port: u16) -> (Pair, AssociationId, AssociationId) {
    let own_addresses = if known { vec![address(CLIENT, 1).ip()] } else { Vec::new() };
    let mut pair = Pair::with(config(2, CLIENT), EndpointConfig { own_addresses, ..config(1, SERVER) });
    let shared = pair.hosts[CLIENT].addresses.pop().unwrap();
    pair.hosts[SERVER].addresses.push(shared);
    let remotes = vec![address(SERVER, 0)];
    let request = Connect { local_port, peer_port: PORT, remotes, local: Vec::new(), config: None };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.run();
    let server = pair.accepted();
    (pair, client, server)
}

fn to_shared(pair: &Pair) -> Vec<Vec<u8>> {
    let shared = address(CLIENT, 1).ip();
    pair.log.iter().filter(|sent| sent.destination.ip() == shared).map(Sent::kinds).collect()
}

#[test]
fn own_packets_that_come_back_are_not_answered() {
    for local_port in [5000, PORT] {
        let (mut pair, client, server) = shared_address(false, local_port);
        pair.pass(Duration::from_secs(120));
        assert_eq!(pair.state(SERVER, server), "ESTABLISHED", "from port {local_port}");
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
        assert_eq!(pair.hosts[SERVER].endpoint.stats().looped, 1);
        assert_eq!(to_shared(&pair), [[kind::HEARTBEAT]], "and nothing more goes there");
        assert!(!pair.log.iter().any(has(kind::ABORT)));
    }
}

/// The first address of the peer is one of this host, where no port or this association itself would answer the INIT.
/// It is dropped, and the next address is tried at once.
#[test]
fn own_init_that_comes_back_is_not_answered() {
    const OTHER_PORT: u16 = 7777;
    for (local_port, peer_port) in [(5000, OTHER_PORT), (PORT, PORT)] {
        let mut pair = Pair::with(config(2, CLIENT), config(1, SERVER));
        pair.hosts[SERVER].endpoint.listen(OTHER_PORT).unwrap();
        let own = address(CLIENT, 1);
        let remotes = vec![own, address(SERVER, 0)];
        let request = Connect { local_port, peer_port, remotes, local: Vec::new(), config: None };
        let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.collect();
        let mut init = pair.wire.pop_front().unwrap();
        assert_eq!((init.kinds(), init.destination), (vec![kind::INIT], own));
        init.source = own;
        pair.deliver(&init);
        pair.run();
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "from port {local_port} to {peer_port}");
        let server = pair.accepted();
        assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
        assert_eq!(pair.hosts[CLIENT].endpoint.stats().looped, 1);
        assert!(!pair.log.iter().any(has(kind::ABORT)));
    }
}

#[test]
fn own_addresses_in_an_init_are_not_adopted() {
    let (mut pair, _, server) = shared_address(true, 5000);
    pair.pass(Duration::from_secs(120));
    assert_eq!(pair.hosts[SERVER].endpoint.paths(server).unwrap().len(), 1);
    assert!(to_shared(&pair).is_empty());
    assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
}

/// An address moves from the server's host to the client's and back. The one that the configuration names stays.
#[test]
fn addresses_of_the_host_come_and_go() {
    let [named, moved, other] =
        [address(SERVER, 0), address(CLIENT, 1), address(SERVER, 2)].map(|at| at.ip());
    let server = EndpointConfig { own_addresses: vec![named], ..config(1, SERVER) };
    let mut pair = Pair::with(config(2, CLIENT), server);
    for (round, (own, others, paths)) in [
        (&[moved, other][..], &[][..], 1),
        (&[other], &[], 2),
        (&[], &[moved, other], 1),
        (&[], &[other], 2),
        (&[named, other], &[moved], 1),
        (&[], &[], 2),
    ]
    .into_iter()
    .enumerate()
    {
        LocalAddresses::set_of_host(&mut pair.hosts[SERVER].endpoint, own, others);
        let local_port = 5000 + round as u16;
        let request = Connect { local_port, ..Connect::to(address(SERVER, 0), PORT) };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.run();
        let server = pair.accepted();
        let server_paths = pair.hosts[SERVER].endpoint.paths(server).unwrap();
        assert_eq!(server_paths.len(), paths, "round {round}: {own:?}, {others:?}");
        pair.hosts[SERVER].events.clear();
        let listen = |address| Listen { port: 100 + round as u16, addresses: vec![address] };
        let endpoint = &mut pair.hosts[SERVER].endpoint;
        assert_eq!(endpoint.listen(listen(other)).is_ok(), own.contains(&other), "round {round}");
        assert!(endpoint.listen(Listen { port: 200 + round as u16, addresses: vec![named] }).is_ok());
    }
}

#[test]
fn own_addresses_in_init_ack_are_not_adopted() {
    let client = EndpointConfig { own_addresses: vec![address(SERVER, 1).ip()], ..config(1, CLIENT) };
    // The host has two addresses, so that it accepts addresses of any family.
    let (pair, client, _) = Pair::with(client, config(2, SERVER)).establish();
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap().len(), 1);
}

#[test]
fn peer_on_this_host_may_have_its_addresses() {
    let own_addresses = vec![address(CLIENT, 0).ip(), address(CLIENT, 1).ip(), address(SERVER, 0).ip()];
    let server = EndpointConfig { own_addresses, ..config(1, SERVER) };
    let (mut pair, _, server) = Pair::with(config(2, CLIENT), server).establish();
    pair.pass(Duration::from_secs(2));
    let paths = pair.hosts[SERVER].endpoint.paths(server).unwrap();
    let confirmed = paths.iter().filter(|path| path.state == Reachability::Active);
    assert_eq!((paths.len(), confirmed.count()), (2, 2));
}

#[test]
fn an_endpoint_connects_to_itself() {
    let own = EndpointConfig { own_addresses: vec![address(CLIENT, 0).ip()], ..config(1, CLIENT) };
    let mut pair = Pair::with(own, config(1, SERVER));
    let request = Connect { local_port: 5000, ..Connect::to(address(CLIENT, 0), PORT) };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.send(CLIENT, client, 0, b"to myself");
    pair.pass(Duration::from_secs(60));
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let (server, _) = *pair.hosts[CLIENT].events.iter().find(|(id, _)| *id != client).unwrap();
    assert_eq!(pair.recv(CLIENT, server).unwrap().data, "to myself");
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
}

#[test]
fn own_association_hears_that_its_end_is_gone() {
    let own = EndpointConfig { own_addresses: vec![address(CLIENT, 0).ip()], ..config(1, CLIENT) };
    let mut pair = Pair::with(own, config(1, SERVER));
    let request = Connect { local_port: 5000, ..Connect::to(address(CLIENT, 0), PORT) };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.pass(Duration::from_secs(1));
    let (server, _) = *pair.hosts[CLIENT].events.iter().find(|(id, _)| *id != client).unwrap();
    pair.hosts[CLIENT].endpoint.abort(pair.now, server, Vec::new().into()).unwrap();
    pair.pass_dropping(Duration::from_millis(1), has(kind::ABORT));
    pair.send(CLIENT, client, 0, b"anybody there?");
    pair.pass(Duration::from_secs(5));
    let aborted = |(id, event): &(AssociationId, Event)| {
        *id == client && matches!(event, Event::Closed(CloseReason::PeerAborted { .. }))
    };
    assert!(pair.hosts[CLIENT].events.iter().any(aborted), "{:?}", pair.hosts[CLIENT].events);
}

#[test]
fn abort_from_this_host_gives_its_address_up() {
    let abort = Abort { tag_reflected: true, causes: Causes::new(&[]) };
    // The host that has the address sees our HEARTBEAT as out of the blue and answers by rule 8 of section 8.4.
    let (mut pair, _, server) = Pair::with(config(2, CLIENT), config(1, SERVER)).drop_second();
    let ports = (5000, PORT);
    let tag = pair.hosts[SERVER].endpoint.status(server).unwrap().peer_tag;
    let mut sent = pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&abort)));
    // It comes from an address of this host that the peer has too.
    (sent.source, sent.destination) = (address(CLIENT, 1), address(CLIENT, 1));
    pair.hosts[CLIENT].addresses.pop();
    pair.hosts[SERVER].addresses.push(address(CLIENT, 1));
    pair.deliver(&sent);
    pair.log.clear();
    pair.pass_dropping(Duration::from_secs(60), on_second);
    assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
    assert!(!pair.log.iter().any(on_second));
    // From the confirmed address it counts.
    (sent.source, sent.destination) = (address(CLIENT, 0), address(SERVER, 0));
    pair.deliver(&sent);
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
}

fn on_second(sent: &Sent) -> bool {
    [address(CLIENT, 1).ip(), address(SERVER, 1).ip()].contains(&sent.destination.ip())
}

impl Pair {
    /// Returns an association whose second addresses are unreachable.
    fn drop_second(mut self) -> (Self, AssociationId, AssociationId) {
        let client = self.connect();
        self.pass_dropping(Duration::from_millis(100), on_second);
        let server = self.accepted();
        (self, client, server)
    }

    /// Delivers an ICMP error about a packet that the host sent.
    fn icmp(&mut self, host: usize, sent: &Sent, kind: IcmpKind) {
        let error = IcmpError { destination: sent.destination, kind, quoted: &sent.bytes };
        self.hosts[host].endpoint.handle_icmp(self.now, error);
        self.collect();
    }

    fn latest_to(&self, to: SocketAddr) -> Sent {
        self.log.iter().rev().find(|sent| sent.destination == to).expect("a packet to there").clone()
    }
}

fn two_paths() -> (Pair, AssociationId, AssociationId) {
    let (mut pair, client, server) = Pair::with(config(2, CLIENT), config(2, SERVER)).establish();
    pair.pass(Duration::from_secs(3));
    (pair, client, server)
}

#[test]
fn port_unreachable_on_one_path_moves_its_data() {
    for kind in [IcmpKind::ProtocolUnreachable, IcmpKind::NoRoute] {
        let (mut pair, client, server) = two_paths();
        pair.hosts[CLIENT].events.clear();
        pair.send(CLIENT, client, 0, b"by the other way");
        pair.collect();
        let lost = pair.wire.pop_front().unwrap();
        pair.icmp(CLIENT, &lost, kind);
        pair.run();
        assert_eq!(pair.recv(SERVER, server).unwrap().data, "by the other way");
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
        let change = Event::PathChanged { address: address(SERVER, 0), change: PathChange::Inactive };
        assert!(pair.hosts[CLIENT].events.contains(&(client, change)));
        // A repetition changes nothing. The failure of the last working path ends the association or is retried.
        pair.icmp(CLIENT, &lost, kind);
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
        let other = pair.latest_to(address(SERVER, 1));
        pair.icmp(CLIENT, &other, kind);
        let ends = (kind == IcmpKind::ProtocolUnreachable).then_some(CloseReason::Unreachable);
        assert_eq!(pair.closed(CLIENT), ends.as_ref());
    }
}

#[test]
fn an_unreachable_unconfirmed_address_is_given_up() {
    for kind in [IcmpKind::ProtocolUnreachable, IcmpKind::NoRoute] {
        let (mut pair, _, server) = Pair::with(config(2, CLIENT), config(1, SERVER)).drop_second();
        let probe = pair.latest_to(address(CLIENT, 1));
        pair.icmp(SERVER, &probe, kind);
        pair.log.clear();
        pair.pass_dropping(Duration::from_secs(100), on_second);
        assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
        assert!(!pair.log.iter().any(on_second));
    }
}

#[test]
fn the_next_address_is_tried_at_once() {
    for kind in [IcmpKind::ProtocolUnreachable, IcmpKind::NoRoute, IcmpKind::HostUnreachable] {
        let mut pair = Pair::new();
        let nobody: SocketAddr = "203.0.113.9:9899".parse().unwrap();
        let remotes = vec![nobody, address(SERVER, 0)];
        let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
        let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.collect();
        let init = pair.wire.pop_front().unwrap();
        pair.icmp(CLIENT, &init, kind);
        pair.run();
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "{kind:?}");
    }
}

/// Returns a COOKIE ECHO with DATA in flight to the first of the server's two addresses.
fn echoing() -> (Pair, AssociationId, Sent) {
    let mut pair = Pair::with(config(1, CLIENT), config(2, SERVER));
    let remotes = vec![address(SERVER, 0), address(SERVER, 1)];
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.send(CLIENT, client, 0, &[7; 500]);
    pair.collect();
    while let Some(sent) = pair.wire.pop_front() {
        if sent.kinds()[0] == kind::COOKIE_ECHO {
            return (pair, client, sent);
        }
        pair.deliver(&sent);
        pair.collect();
    }
    panic!("no COOKIE ECHO: {:?}", pair.state(CLIENT, client));
}

#[test]
fn a_cookie_echo_moves_to_the_next_address() {
    for kind in [IcmpKind::NoRoute, IcmpKind::HostUnreachable] {
        let (mut pair, client, lost) = echoing();
        assert_eq!(lost.kinds(), [kind::COOKIE_ECHO, kind::DATA]);
        pair.icmp(CLIENT, &lost, kind);
        let other = pair.wire.pop_front().unwrap();
        assert_eq!((other.destination, other.kinds()), (address(SERVER, 1), lost.kinds()));
        // This one is lost as well, and T1-cookie repeats it.
        pair.pass(Duration::from_secs(3));
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "{kind:?}");
        let server = pair.accepted();
        assert_eq!(pair.recv(SERVER, server).unwrap().data, [7; 500][..]);
    }
}

#[test]
fn with_no_route_the_set_up_ends() {
    let mut pair = Pair::new();
    let remotes = vec!["203.0.113.9:9899".parse().unwrap(), "203.0.113.10:9899".parse().unwrap()];
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
    pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.collect();
    while let Some(init) = pair.wire.pop_front() {
        pair.icmp(CLIENT, &init, IcmpKind::NoRoute);
    }
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::NoRoute));
    assert_eq!(pair.log.len(), 2, "each was tried once");
}

#[test]
fn an_address_given_up_is_probed_when_heard() {
    let (mut pair, client, server) = Pair::with(config(2, CLIENT), config(2, SERVER)).drop_second();
    pair.pass_dropping(Duration::from_secs(500), on_second);
    pair.log.clear();
    pair.pass_dropping(Duration::from_secs(500), on_second);
    assert!(!pair.log.iter().any(on_second), "neither side probes any more");
    // The path works, and one side is asked to probe it.
    pair.hosts[CLIENT].endpoint.request_heartbeat(pair.now, client, address(SERVER, 1).ip()).unwrap();
    pair.pass(Duration::from_secs(5));
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        let paths = pair.hosts[host].endpoint.paths(id).unwrap();
        assert!(paths.iter().all(|path| path.state == Reachability::Active), "{paths:?}");
    }
}
