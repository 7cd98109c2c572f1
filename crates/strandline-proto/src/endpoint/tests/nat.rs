//! Clients behind a NAT (RFC 6951 section 5.4), or behind one with the same SCTP port
//! (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4).

use strandline_wire::cause::Cause;
use strandline_wire::chunk::{Chunk, CookieEcho, Heartbeat, HeartbeatAck, Init};
use strandline_wire::number::{Ssn, Tsn};
use strandline_wire::parameter::{Parameter, Parameters};
use strandline_wire::{Data, Encode, TlvWriter};

use super::raw::{AnyChunk, RAW_PORT, init, init_ack};
use super::*;
use crate::event::{IcmpError, IcmpKind};

/// Another host behind the client's address, with the same SCTP port and its own encapsulation port.
fn neighbour(pair: &Pair, seed: u8) -> Host {
    let mut endpoint = Endpoint::new(config(1, CLIENT), [seed; 32], pair.now).unwrap();
    let remotes = vec![address(SERVER, 0)];
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
    endpoint.connect(pair.now, request).unwrap();
    let mut address = address(CLIENT, 0);
    address.set_port(40_000);
    Host { endpoint, addresses: vec![address], events: Vec::new() }
}

/// Delivers packets between the neighbour and the server until there are no more.
fn run_neighbour(pair: &mut Pair, host: &mut Host) {
    let mut buffer = vec![0; 65_536];
    while let Some(transmit) = host.endpoint.poll_transmit(pair.now, &mut buffer, 1) {
        let (source, destination) = (host.addresses[0], transmit.destination);
        let bytes = buffer[..transmit.len].to_vec();
        pair.deliver(&Sent { source, destination, bytes, fragment: false });
        while let Some(answer) = pair.wire.pop_front() {
            assert_eq!(answer.destination, host.addresses[0], "the answer goes to the port that asked");
            let datagram = Datagram { source: destination, destination: None, bytes: &answer.bytes, ecn: 0 };
            host.endpoint.handle_datagram(pair.now, datagram);
        }
    }
    host.events.extend(std::iter::from_fn(|| host.endpoint.poll_event()));
}

fn is_refused(pair: &Pair, host: &Host) -> bool {
    let ended = host
        .events
        .iter()
        .any(|(_, event)| matches!(event, Event::Closed(CloseReason::PeerAborted { code: 14, .. })));
    let packet = Packet::parse(&pair.log.last().unwrap().bytes).unwrap();
    let Some(Ok(Chunk::Abort(abort))) = packet.chunks().next().map(|raw| raw.unwrap().parse()) else {
        return false;
    };
    let cause = abort.causes.iter().next().unwrap().unwrap().parse();
    ended && cause == Ok(Cause::RestartWithNewEncapsulationPort { current: 9899, new: 40_000 })
}

#[test]
fn an_init_from_another_encapsulation_port_is_refused() {
    let (mut pair, client, server) = Pair::established();
    let mut second = neighbour(&pair, 9);
    run_neighbour(&mut pair, &mut second);
    assert!(is_refused(&pair, &second));
    // The first client does not notice.
    pair.send(CLIENT, client, 0, b"still here");
    pair.run();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "still here");
    assert!(pair.hosts[SERVER].events.is_empty() || pair.closed(SERVER).is_none());
    assert_eq!(pair.hosts[SERVER].endpoint.stats().restarts, 0);
    let paths = pair.hosts[SERVER].endpoint.paths(server).unwrap();
    assert_eq!(paths[0].address.port(), 9899);
}

#[test]
fn a_cookie_from_another_encapsulation_port_is_refused() {
    let mut pair = Pair::new();
    let mut second = neighbour(&pair, 9);
    // The second client gets its cookie before the first has its association.
    let mut buffer = vec![0; 2048];
    let transmit = second.endpoint.poll_transmit(pair.now, &mut buffer, 1).unwrap();
    let (source, destination) = (second.addresses[0], transmit.destination);
    pair.deliver(&Sent { source, destination, bytes: buffer[..transmit.len].to_vec(), fragment: false });
    let init_ack = pair.wire.pop_front().unwrap();
    let client = pair.connect();
    pair.run();
    let datagram = Datagram { source: destination, destination: None, bytes: &init_ack.bytes, ecn: 0 };
    second.endpoint.handle_datagram(pair.now, datagram);
    run_neighbour(&mut pair, &mut second);
    assert!(is_refused(&pair, &second));
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
}

#[test]
fn a_restart_from_the_same_port_is_taken() {
    let (mut pair, _, server) = Pair::established();
    let mut again = neighbour(&pair, 9);
    again.addresses[0].set_port(9899);
    run_neighbour(&mut pair, &mut again);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().restarts, 1);
    assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
}

/// RFC 6951 section 5.4: packets of an association go to the port that its latest ones came from, once the
/// NAT has mapped them to another. Packets without the verification tag, and INIT chunks, show nothing about
/// that.
#[test]
fn association_follows_its_encapsulation_port() {
    let (mut pair, client, server) = Pair::established();
    pair.hosts[CLIENT].addresses[0].set_port(50_001);
    pair.send(CLIENT, client, 0, b"from the new port");
    pair.send(SERVER, server, 0, b"an answer");
    let log = pair.log.len();
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "from the new port");
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "an answer");
    let port = |pair: &Pair| pair.hosts[SERVER].endpoint.paths(server).unwrap()[0].address.port();
    assert_eq!(port(&pair), 50_001);
    let last = pair.log[log..].iter().rfind(|sent| sent.source == address(SERVER, 0)).unwrap();
    assert_eq!(last.destination.port(), 50_001, "the acknowledgement");

    let tag = pair.log[log..].iter().find(|sent| sent.source.port() == 50_001).unwrap().tag();
    let data = Data::whole(Tsn(1), StreamId(0), Ssn(9), b"x");
    for wrong in [VerificationTag(tag.0 ^ 1), VerificationTag(0)] {
        let mut forged = pair.forge(CLIENT, (5000, PORT), wrong, |packet| assert!(packet.push(&data)));
        forged.source.set_port(6666);
        pair.deliver(&forged);
        assert_eq!(port(&pair), 50_001, "{wrong:?}");
    }
    let mut second = neighbour(&pair, 9);
    run_neighbour(&mut pair, &mut second);
    assert_eq!(port(&pair), 50_001, "an INIT");
    // A late error message of the NAT about the old port.
    let data =
        pair.log.iter().find(|sent| has(kind::DATA)(sent) && sent.source == address(SERVER, 0)).unwrap();
    for kind in [IcmpKind::ProtocolUnreachable, IcmpKind::HostUnreachable, IcmpKind::NoRoute] {
        let error = IcmpError { destination: address(CLIENT, 0), kind, quoted: &data.bytes };
        pair.hosts[SERVER].endpoint.handle_icmp(pair.now, error);
        let path = pair.hosts[SERVER].endpoint.paths(server).unwrap()[0].clone();
        assert_eq!((pair.state(SERVER, server), path.error_count), ("ESTABLISHED", 0), "{kind:?}");
    }
    // A late copy of its own INIT gets no ABORT, which would have its tag.
    let init = pair.log.iter().find(|sent| has(kind::INIT)(sent)).unwrap().clone();
    pair.deliver(&init);
    assert_eq!(pair.wire.pop_front().map(|sent| sent.kinds()), None);
    pair.send(SERVER, server, 0, b"still there");
    pair.run();
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "still there");
}

/// An address that many hosts have, such as that of a container bridge, and the public ones of two NATs.
const COMMON: [u8; 4] = [172, 17, 0, 1];
const NATS: [[u8; 4]; 2] = [[203, 0, 113, 1], [203, 0, 113, 2]];

/// Time after which an address is given up: Path.Max.Retrans + 1 HEARTBEATs, with an RTO that doubles.
const GIVEN_UP_SECS: u64 = 130;

/// A hand-made client at an address, which lists another one.
struct Listing {
    pair: Pair,
}

impl Listing {
    fn say(&mut self, from: [u8; 4], tag: VerificationTag, chunk: &impl Encode) -> Vec<Sent> {
        let mut sent = self.pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(chunk)));
        sent.source = SocketAddr::from((from, 9899));
        self.pair.deliver(&sent);
        self.pair.wire.drain(..).collect()
    }

    /// Sets up an association whose INIT lists `COMMON`. Returns the chunk types of the last answer.
    fn set_up(&mut self, from: [u8; 4], peer_tag: u32) -> (Vec<u8>, VerificationTag) {
        let mut buffer = [0; 16];
        let mut writer = TlvWriter::new(&mut buffer);
        assert!(writer.push(&Parameter::Ipv4Address(COMMON.into())));
        let initiate_tag = VerificationTag(peer_tag);
        let init = Init { initiate_tag, parameters: Parameters::new(writer.finish()), ..init(Tsn(1)) };
        let answer = self.say(from, VerificationTag(0), &init).swap_remove(0);
        if answer.kinds() != [kind::INIT_ACK] {
            return (answer.kinds(), VerificationTag(0));
        }
        let (tag, _, cookie) = init_ack(&answer);
        let answers = self.say(from, tag, &CookieEcho { cookie: &cookie });
        (answers[0].kinds(), tag)
    }

    fn counts(&self) -> (usize, u64) {
        let endpoint = &self.pair.hosts[SERVER].endpoint;
        (endpoint.association_count(), endpoint.stats().restarts)
    }
}

/// Clients behind different NATs with one SCTP port, which list the same private address: it is no client's
/// until it has answered there, and once it is given up never.
#[test]
fn clients_that_list_one_private_address_are_two() {
    for wait in [0, GIVEN_UP_SECS] {
        let mut server = Listing { pair: Pair::new() };
        assert_eq!(server.set_up(NATS[0], 1).0, [kind::COOKIE_ACK]);
        server.pair.pass_dropping(Duration::from_secs(wait), |_| true);
        assert_eq!(server.counts(), (1, 0));
        assert_eq!(server.set_up(NATS[1], 2).0, [kind::COOKIE_ACK], "after {wait} s");
        assert_eq!(server.counts(), (2, 0));
        assert!(server.pair.closed(SERVER).is_none());
    }
}

/// A host whose address another one lists can set up its association, once the server knows that it is not the other
/// one's (RFC 5062 section 2).
#[test]
fn address_that_was_given_up_is_free() {
    let mut server = Listing { pair: Pair::new() };
    server.set_up(NATS[0], 1);
    server.pair.pass_dropping(Duration::from_secs(GIVEN_UP_SECS), |_| true);
    assert_eq!(server.set_up(COMMON, 2).0, [kind::COOKIE_ACK]);
    assert_eq!(server.counts(), (2, 0));
    // Its next INIT is that of a restart of its own association.
    assert_eq!(server.set_up(COMMON, 3).0, [kind::COOKIE_ACK]);
    assert_eq!(server.counts(), (2, 1));
    // Packets with the tag of the first one are still its packets.
    let unknown = AnyChunk { kind: 0xfd, flags: 0, value: b"?" };
    assert!(server.say(COMMON, VerificationTag(77), &unknown).iter().all(|sent| sent.tag().0 != 1));
}

/// A confirmed address identifies its association (section 5.1.2 D): an INIT from elsewhere that lists it is one of a
/// restart with new addresses.
#[test]
fn confirmed_address_identifies_the_association() {
    let mut server = Listing { pair: Pair::new() };
    let (_, tag) = server.set_up(NATS[0], 1);
    server.pair.pass_dropping(Duration::from_secs(1), |_| true);
    let to_common =
        |sent: &&Sent| sent.destination.ip() == IpAddr::from(COMMON) && has(kind::HEARTBEAT)(sent);
    let asked = server.pair.log.iter().rfind(to_common).expect("a HEARTBEAT").clone();
    let packet = Packet::parse(&asked.bytes).unwrap();
    let Some(Ok(Chunk::Heartbeat(heartbeat))) = packet.chunks().next().map(|raw| raw.unwrap().parse()) else {
        panic!("no HEARTBEAT")
    };
    server.say(COMMON, tag, &HeartbeatAck(Heartbeat { info: heartbeat.info }));
    assert_eq!(server.set_up(NATS[1], 2).0, [kind::ABORT]);
    assert_eq!(server.counts(), (1, 0));
}

/// An INIT of another client at the client's address, as it comes over raw IP (port 0) or from an
/// encapsulation port. Returns the answer.
fn init_from(pair: &mut Pair, port: u16) -> Sent {
    let mut other = neighbour(pair, 9);
    let mut buffer = vec![0; 2048];
    let transmit = other.endpoint.poll_transmit(pair.now, &mut buffer, 1).unwrap();
    let mut source = address(CLIENT, 0);
    source.set_port(port);
    let (destination, bytes) = (transmit.destination, buffer[..transmit.len].to_vec());
    pair.deliver(&Sent { source, destination, bytes, fragment: false });
    pair.wire.pop_front().expect("an answer")
}

/// draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4 rules 4 to 6: an INIT for an association that comes over
/// UDP instead of raw IP, or the other way round, gets an ABORT the way that it came; one that comes as the
/// association's packets do is processed.
#[test]
fn rules_4_to_6_of_inits_with_and_without_encapsulation() {
    for (own, new) in [(0, 9899), (0, 0), (9899, 0)] {
        let mut pair = Pair::new();
        for host in [CLIENT, SERVER] {
            pair.hosts[host].addresses[0].set_port(own);
        }
        let remotes = vec![pair.hosts[SERVER].addresses[0]];
        let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
        let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.run();
        let server = pair.accepted();
        let answer = init_from(&mut pair, new);
        assert_eq!(answer.destination.port(), new, "the answer goes the way that the INIT came");
        if own == new {
            assert_eq!(answer.kinds(), [kind::INIT_ACK]);
            continue;
        }
        let packet = Packet::parse(&answer.bytes).unwrap();
        let Chunk::Abort(abort) = packet.chunks().next().unwrap().unwrap().parse().unwrap() else {
            panic!("{:?}", answer.kinds())
        };
        let cause = abort.causes.iter().next().unwrap().unwrap().parse();
        assert_eq!(cause, Ok(Cause::RestartWithNewEncapsulationPort { current: own, new }));
        let paths = pair.hosts[SERVER].endpoint.paths(server).unwrap();
        assert_eq!(paths[0].address.port(), own, "rules 1 to 3: it changes no port");
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    }
}

/// Section 3: answers to packets out of the blue are encapsulated if the packets were, and not otherwise.
#[test]
fn section_3_answers_out_of_the_blue_come_back_alike() {
    for port in [0, 9899, 40_000] {
        let mut pair = Pair::new();
        let data = Data::whole(Tsn(1), StreamId(0), Ssn(0), b"out of the blue");
        let mut sent =
            pair.forge(CLIENT, (9, PORT), VerificationTag(5), |packet| assert!(packet.push(&data)));
        sent.source.set_port(port);
        pair.deliver(&sent);
        let answer = pair.wire.pop_front().expect("an answer");
        assert_eq!((answer.kinds(), answer.destination.port()), (vec![kind::ABORT], port));
        assert_eq!(init_from(&mut pair, port).destination.port(), port);
    }
}
