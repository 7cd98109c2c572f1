//! HEARTBEATs to addresses that peers list and that may belong to other hosts (RFC 9260 section 5.4).

use strandline_wire::Encode;

use super::raw::AnyChunk;
use super::*;
use crate::endpoint::Reconfigure;
use crate::reconfiguration::{StreamDirection, Streams};
use crate::stats::{PathStatus, Reachability};

/// A server and `associations` associations with it from one client, all of which list two addresses.
fn crowd(associations: u16, drop: fn(&Sent) -> bool) -> Pair {
    let mut pair = Pair::with(config(2, CLIENT), config(1, SERVER));
    for local_port in 0..associations {
        let local_port = 10_000 + local_port;
        let remotes = vec![address(SERVER, 0)];
        let request = Connect { local_port, peer_port: PORT, remotes, local: Vec::new(), config: None };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    }
    pair.pass_dropping(Duration::from_millis(1), drop);
    pair
}

/// The client's second address belongs to another host.
fn foreign(sent: &Sent) -> bool {
    sent.destination.ip() == address(CLIENT, 1).ip()
}

fn count(pair: &Pair, which: impl Fn(&Sent) -> bool) -> usize {
    pair.log.iter().filter(|sent| which(sent)).count()
}

#[test]
fn many_associations_send_few_to_one_address() {
    let mut pair = crowd(1000, foreign);
    assert_eq!(count(&pair, foreign), 5);
    let mut before = 5;
    for second in 1..=600 {
        pair.pass_dropping(Duration::from_secs(1), foreign);
        let sent = count(&pair, foreign);
        assert!(sent - before <= 10, "{} in second {second}", sent - before);
        before = sent;
    }
    assert!(before <= 5 + 5 * 600, "{before} in ten minutes");
    assert_eq!(pair.hosts[SERVER].endpoint.stats().established, 1000);
}

#[test]
fn a_crowd_of_honest_peers_is_confirmed() {
    let mut pair = crowd(1000, |_| false);
    pair.pass(Duration::from_secs(10));
    let server = &pair.hosts[SERVER];
    let accepted = server.events.iter().filter(|(_, event)| matches!(event, Event::Established { .. }));
    let paths: Vec<_> = accepted.map(|(id, _)| server.endpoint.paths(*id).unwrap()).collect();
    let active = |path: &PathStatus| path.state == Reachability::Active;
    let both = paths.iter().filter(|paths| paths.len() == 2 && paths.iter().all(active));
    assert_eq!(both.count(), 1000);
}

#[test]
fn foreign_addresses_get_three_times_the_bytes() {
    let mut pair = Pair::with(config(8, CLIENT), config(1, SERVER));
    pair.connect();
    let others = |sent: &Sent| {
        sent.source.ip() == address(SERVER, 0).ip() && sent.destination.ip() != address(CLIENT, 0).ip()
    };
    let on_the_wire = |sent: &Sent| sent.bytes.len() + 28;
    for _ in 0..1000 {
        pair.pass_dropping(Duration::from_secs(1), others);
        let sum = |which: &dyn Fn(&Sent) -> bool| -> usize {
            pair.log.iter().filter(|sent| which(sent)).map(on_the_wire).sum()
        };
        let (sent, got) = (sum(&others), sum(&|sent| sent.destination.ip() == address(SERVER, 0).ip()));
        assert!(sent <= 3 * got, "{sent} bytes for {got}");
    }
    assert!(count(&pair, others) > 7, "each was asked");
}

#[test]
fn all_associations_together_have_a_limit() {
    let server = EndpointConfig { verification_rate_max: 40, ..config(1, SERVER) };
    let mut pair = Pair::with(config(8, CLIENT), server);
    let others = |sent: &Sent| {
        sent.source.ip() == address(SERVER, 0).ip()
            && sent.kinds() == [kind::HEARTBEAT]
            && sent.destination.ip() != address(CLIENT, 0).ip()
    };
    for local_port in 10_000..10_100 {
        let request = Connect {
            local_port,
            peer_port: PORT,
            remotes: vec![address(SERVER, 0)],
            local: Vec::new(),
            config: None,
        };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    }
    pair.pass_dropping(Duration::from_millis(1), others);
    assert_eq!(count(&pair, others), 2, "one peer gets a quarter");
    pair.pass_dropping(Duration::from_secs(60), others);
    let sent = count(&pair, others);
    assert!(sent <= 2 + 10 * 60 && sent > 100, "{sent} in a minute");
}

/// A client whose second address is unconfirmed, from which all its packets come, and what it and the server do.
type Act = fn(&mut Pair, AssociationId, AssociationId);

/// Only HEARTBEATs, and answers to them, go to an unconfirmed address (section 5.4). Answers to packets from it go to a
/// confirmed one.
#[test]
fn answers_to_unconfirmed_addresses_go_to_confirmed_ones() {
    let acts: [(u8, Act); 4] = [
        (kind::ERROR, |pair, client, _| {
            let status = pair.hosts[CLIENT].endpoint.status(client).unwrap();
            let unknown = AnyChunk { kind: 0xfd, flags: 0, value: b"what is this?" };
            let sent = pair.forge(CLIENT, (status.local_port, PORT), status.peer_tag, |packet| {
                unknown.encode_value(packet.push_raw(unknown.kind(), 0, unknown.value_len()).unwrap());
            });
            pair.wire.push_back(sent);
        }),
        (kind::RE_CONFIG, |pair, client, _| {
            let request = Reconfigure::ResetStreams(StreamDirection::Outgoing, Streams::All);
            request.ask(&mut pair.hosts[CLIENT].endpoint, pair.now, client).unwrap();
        }),
        (kind::SHUTDOWN_ACK, |pair, client, server| {
            pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
            pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
        }),
        (kind::SHUTDOWN_COMPLETE, |pair, _, server| {
            pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
        }),
    ];
    for (answer, act) in acts {
        let mut pair = Pair::with(config(2, CLIENT), config(1, SERVER));
        let client = pair.connect();
        pair.pass_dropping(Duration::from_millis(1), foreign);
        let server = pair.accepted();
        pair.log.clear();
        act(&mut pair, client, server);
        pair.collect();
        let mut answers = 0;
        while let Some(mut sent) = pair.wire.pop_front() {
            if sent.source == address(CLIENT, 0) {
                sent.source = address(CLIENT, 1);
            }
            let kinds = sent.kinds();
            if foreign(&sent) {
                assert!(matches!(kinds[..], [kind::HEARTBEAT] | [kind::HEARTBEAT_ACK]), "{kinds:?}");
                continue;
            }
            answers += usize::from(sent.source == address(SERVER, 0) && kinds.contains(&answer));
            pair.deliver(&sent);
        }
        assert!(answers > 0, "{answer}");
    }
}
