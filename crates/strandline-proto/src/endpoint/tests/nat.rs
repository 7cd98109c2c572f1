//! Clients behind a NAT (RFC 6951 section 5.4), or behind one with the same SCTP port
//! (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4).

use strandline_wire::Data;
use strandline_wire::cause::Cause;
use strandline_wire::chunk::Chunk;
use strandline_wire::number::{Ssn, Tsn};

use super::*;

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

/// RFC 6951 section 5.4: packets of an association go to the port that its latest ones came from, once the NAT has mapped
/// them to another. Packets without the verification tag, and INIT chunks, show nothing about that.
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
    pair.send(SERVER, server, 0, b"still there");
    pair.run();
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "still there");
}
