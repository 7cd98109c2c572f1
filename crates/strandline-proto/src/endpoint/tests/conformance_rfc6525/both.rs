//! Two of our endpoints.

use super::*;

fn pair() -> (Pair, AssociationId, AssociationId) {
    Pair::configured(|config| config.extensions.peer_requests = PeerRequests::ALL).establish()
}

fn texts(pair: &mut Pair, host: usize, id: AssociationId) -> Vec<(u16, u16, Vec<u8>)> {
    let messages = core::iter::from_fn(|| pair.recv(host, id));
    messages.map(|message| (message.stream.0, message.ssn.0, message.data.to_vec())).collect()
}

/// Every request of both sides, with data before and after it, whatever single packet is lost.
#[test]
fn every_request_survives_the_loss_of_any_packet() {
    type Go = fn(&mut Endpoint, Time, AssociationId) -> Result<(), ReconfigureError>;
    let requests: [(Go, bool); 5] = [
        (|e, now, id| e.reset_streams(now, id, StreamDirection::Outgoing, Streams::from(StreamId(1))), true),
        (|e, now, id| e.reset_streams(now, id, StreamDirection::Incoming, Streams::All), false),
        (|e, now, id| e.reset_streams(now, id, StreamDirection::Both, Streams::All), true),
        (|e, now, id| e.reset_association(now, id), true),
        (|e, now, id| e.add_streams(now, id, 5, 6), false),
    ];
    for (at, (request, resets_own)) in requests.into_iter().enumerate() {
        for lost in 0..14 {
            let (mut pair, client, server) = Pair::configured(|config| {
                config.extensions.peer_requests = PeerRequests::ALL;
                config.outbound_streams = 10;
            })
            .establish();
            for round in 0..2 {
                pair.send(CLIENT, client, 1, format!("c{round}").as_bytes());
                pair.send(SERVER, server, 1, format!("s{round}").as_bytes());
            }
            let now = pair.now;
            request(&mut pair.hosts[CLIENT].endpoint, now, client).unwrap();
            pair.send(CLIENT, client, 1, b"c2");
            pair.send(SERVER, server, 1, b"s2");
            let mut count = 0;
            pair.pass_dropping(Duration::from_secs(20), |_| {
                count += 1;
                count == lost + 1
            });
            let (to_server, to_client) = (texts(&mut pair, SERVER, server), texts(&mut pair, CLIENT, client));
            let bodies = |all: &[(u16, u16, Vec<u8>)]| {
                all.iter().map(|(_, _, text)| String::from_utf8(text.clone()).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(bodies(&to_server), ["c0", "c1", "c2"], "request {at}, packet {lost} lost");
            assert_eq!(bodies(&to_client), ["s0", "s1", "s2"], "request {at}, packet {lost} lost");
            assert_eq!(to_server[2].1, if resets_own { 0 } else { 2 }, "request {at}, packet {lost} lost");
            let done = pair.hosts[CLIENT].events.iter().any(|(_, event)| {
                matches!(
                    event,
                    Event::StreamsReset { outcome: Outcome::Performed, .. }
                        | Event::AssociationReset { outcome: Outcome::Performed, .. }
                        | Event::StreamsChanged { outcome: Outcome::Performed, .. }
                )
            });
            assert!(done, "request {at}, packet {lost} lost");
            assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
            let status = pair.hosts[CLIENT].endpoint.status(client).unwrap();
            let streams = (status.outbound_streams, status.inbound_streams);
            assert_eq!(streams, if at == 4 { (15, 16) } else { (10, 10) });
            // And the association still carries data in both directions.
            pair.send(CLIENT, client, 1, b"end");
            pair.send(SERVER, server, 1, b"end");
            pair.pass(Duration::from_secs(10));
            assert_eq!(
                (texts(&mut pair, SERVER, server).len(), texts(&mut pair, CLIENT, client).len()),
                (1, 1)
            );
        }
    }
}

/// Returns an association over which both sides have sent a message.
fn pair_with_messages() -> (Pair, AssociationId, AssociationId) {
    let (mut pair, client, server) = pair();
    pair.send(CLIENT, client, 1, b"one");
    pair.send(SERVER, server, 1, b"one");
    pair.pass(Duration::from_secs(1));
    (pair, client, server)
}

/// Returns the outcomes that both sides reported.
fn outcomes_of(pair: &Pair, of: impl Fn(&Event) -> Option<Outcome>) -> [Vec<Outcome>; 2] {
    [CLIENT, SERVER].map(|host| pair.hosts[host].events.iter().filter_map(|(_, event)| of(event)).collect())
}

/// Both sides ask for a reset of incoming streams at once: one of the requests is performed.
#[test]
fn crossing_resets_of_incoming_streams() {
    let (mut pair, client, server) = pair_with_messages();
    let now = pair.now;
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        let endpoint = &mut pair.hosts[host].endpoint;
        endpoint.reset_streams(now, id, StreamDirection::Incoming, Streams::All).unwrap();
    }
    pair.pass(Duration::from_secs(5));
    let mut found = outcomes_of(&pair, |event| match event {
        Event::StreamsReset { direction: StreamDirection::Incoming, outcome, .. } => Some(*outcome),
        _ => None,
    });
    found.sort_by_key(|outcomes| outcomes[..] == [Outcome::Failed]);
    assert_eq!(found, [[Outcome::Performed], [Outcome::Failed]]);
}

/// Both sides ask for a reset of all numbers at once: one of the requests is performed.
#[test]
fn crossing_resets_of_all_numbers() {
    let (mut pair, client, server) = pair_with_messages();
    let now = pair.now;
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        pair.hosts[host].endpoint.reset_association(now, id).unwrap();
        pair.send(host, id, 1, b"two");
    }
    pair.pass(Duration::from_secs(5));
    let mut found = outcomes_of(&pair, |event| match event {
        Event::AssociationReset { outcome, .. } => Some(*outcome),
        _ => None,
    });
    found.sort_by_key(Vec::len);
    assert_eq!(found, [vec![Outcome::Performed], vec![Outcome::Failed, Outcome::Performed]]);
    let mut bodies = |host, id| {
        let messages = texts(&mut pair, host, id).into_iter();
        messages.map(|(_, _, body)| String::from_utf8(body).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(CLIENT, client), ["one", "two"]);
    assert_eq!(bodies(SERVER, server), ["one", "two"]);
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
}

/// A message that is under way is sent to its end before the reset.
#[test]
fn a_long_message_precedes_the_reset() {
    let (mut pair, client, server) = pair();
    let long = vec![7; 200_000];
    pair.send(CLIENT, client, 1, &long);
    pair.collect();
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.reset_streams(now, client, StreamDirection::Outgoing, Streams::All).unwrap();
    pair.send(CLIENT, client, 1, b"after");
    pair.pass(Duration::from_secs(5));
    let found = texts(&mut pair, SERVER, server);
    assert_eq!(found, [(1, 0, long), (1, 0, b"after".to_vec())]);
}

/// A restart of the peer ends a request, and both sides begin anew.
#[test]
fn a_restart_during_a_reset() {
    let (mut pair, client, _) = pair();
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.reset_streams(now, client, StreamDirection::Outgoing, Streams::All).unwrap();
    pair.send(CLIENT, client, 1, b"held");
    pair.collect();
    pair.wire.clear();
    // The server's process begins anew and connects to the client.
    let association = Arc::clone(&pair.hosts[SERVER].endpoint.context.config.association);
    let config = EndpointConfig { association, ..config(1, SERVER) };
    pair.hosts[SERVER].endpoint = Endpoint::new(config, [77; 32], now).unwrap();
    let remotes = vec![address(CLIENT, 0)];
    let request = Connect { local_port: PORT, peer_port: 5000, remotes, local: Vec::new(), config: None };
    let server = pair.hosts[SERVER].endpoint.connect(now, request).unwrap();
    pair.run();
    let found: Vec<_> = pair.hosts[CLIENT].events.iter().map(|(_, event)| event.clone()).collect();
    assert_eq!(found[0], reset(StreamDirection::Outgoing, Streams::All, Outcome::Failed, 0));
    assert!(matches!(&found[1], Event::SendFailed(failed) if failed.data == "held"));
    assert!(matches!(found[2], Event::Restarted { .. }));
    pair.hosts[CLIENT].endpoint.reset_streams(now, client, StreamDirection::Outgoing, Streams::All).unwrap();
    pair.send(CLIENT, client, 1, b"new");
    pair.pass(Duration::from_secs(5));
    assert_eq!(texts(&mut pair, SERVER, server), [(1, 0, b"new".to_vec())]);
}
