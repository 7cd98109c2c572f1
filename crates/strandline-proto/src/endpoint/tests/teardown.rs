//! RFC 9260 section 9.

use super::*;

#[test]
fn a_graceful_shutdown_is_three_packets() {
    let (mut pair, client, server) = Pair::established();
    pair.log.clear();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    assert_eq!(pair.kinds(), [[kind::SHUTDOWN], [kind::SHUTDOWN_ACK], [kind::SHUTDOWN_COMPLETE]]);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
    assert!(pair.hosts[SERVER].events.iter().any(|(_, event)| *event == Event::PeerShutdown));
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        pair.hosts[host].endpoint.release(id);
        assert_eq!(pair.hosts[host].endpoint.association_count(), 0);
        assert!(pair.hosts[host].endpoint.status(id).is_none());
    }
}

#[test]
fn queued_data_of_both_sides_is_delivered_first() {
    let (mut pair, client, server) = Pair::established();
    let large = vec![7; 100_000];
    pair.send(CLIENT, client, 1, &large);
    pair.send(SERVER, server, 2, &large);
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    let refused = pair.hosts[CLIENT].endpoint.send(pair.now, client, SendInfo::default(), "late".into());
    assert_eq!(refused, Err(crate::error::SendError::Closed));
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
    assert_eq!(pair.recv(SERVER, server).unwrap().data, large);
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, large);
}

#[test]
fn each_lost_shutdown_packet_is_recovered() {
    for lost in [kind::SHUTDOWN, kind::SHUTDOWN_ACK, kind::SHUTDOWN_COMPLETE] {
        let (mut pair, client, _) = Pair::established();
        pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
        let mut first = true;
        pair.pass_dropping(Duration::from_secs(20), |sent| has(lost)(sent) && core::mem::take(&mut first));
        assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown), "{lost} lost");
        assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown), "{lost} lost");
    }
}

#[test]
fn both_sides_shut_down_at_once() {
    let (mut pair, client, server) = Pair::established();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
}

#[test]
fn shutdown_acknowledging_unsent_data_acknowledges_nothing() {
    let (mut pair, client, server) = Pair::established();
    let status = pair.hosts[CLIENT].endpoint.status(client).unwrap();
    pair.send(CLIENT, client, 0, b"in flight");
    pair.collect();
    let data = pair.wire.pop_front().unwrap();
    let ports = (status.peer_port, status.local_port);
    let shutdown =
        strandline_wire::Shutdown { cumulative_tsn: strandline_wire::Tsn(status_tsn(&data).0 + 1000) };
    let forged = pair.forge(SERVER, ports, status.local_tag, |packet| assert!(packet.push(&shutdown)));
    pair.deliver(&forged);
    assert_eq!(pair.state(CLIENT, client), "SHUTDOWN-RECEIVED");
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 9);
    pair.deliver(&data);
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "in flight");
}

/// TSN of the first DATA chunk.
fn status_tsn(sent: &Sent) -> strandline_wire::Tsn {
    let packet = Packet::parse(&sent.bytes).unwrap();
    let data = packet.chunks().find_map(|raw| match raw.unwrap().parse() {
        Ok(strandline_wire::Chunk::Data(data)) => Some(data.tsn),
        _ => None,
    });
    data.expect("DATA")
}

#[test]
fn a_shutdown_without_answer_is_given_up() {
    let (mut pair, client, _) = Pair::established();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.log.clear();
    pair.pass_dropping(Duration::from_secs(2000), |_| true);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    let shutdowns = pair.log.iter().filter(|sent| has(kind::SHUTDOWN)(sent)).count();
    assert!((2..=11).contains(&shutdowns), "{shutdowns}");
}

#[test]
fn init_in_shutdown_ack_sent_repeats_shutdown_ack() {
    let (mut pair, client, server) = Pair::established();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run_dropping(has(kind::SHUTDOWN_COMPLETE));
    assert_eq!(pair.state(SERVER, server), "SHUTDOWN-ACK-SENT");
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
    pair.hosts[CLIENT].endpoint.release(client);
    pair.log.clear();
    let again = pair.connect();
    pair.pass(Duration::from_secs(10));
    // INIT -> SHUTDOWN ACK -> (out of the blue) SHUTDOWN COMPLETE; the next INIT creates the new association.
    assert_eq!(pair.kinds()[..3], [[kind::INIT], [kind::SHUTDOWN_ACK], [kind::SHUTDOWN_COMPLETE]]);
    assert_eq!(pair.state(CLIENT, again), "ESTABLISHED");
}

#[test]
fn an_abort_tells_the_peer_why() {
    let (mut pair, client, _) = Pair::established();
    pair.send(CLIENT, client, 0, b"never read");
    pair.hosts[CLIENT].endpoint.abort(pair.now, client, "enough".into()).unwrap();
    pair.run();
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Aborted));
    let reason = CloseReason::PeerAborted { code: 12, reason: "enough".into() };
    assert_eq!(pair.closed(SERVER), Some(&reason));
    assert!(pair.hosts[CLIENT].events.iter().any(|(_, event)| matches!(event, Event::SendFailed(_))));
}

#[test]
fn shutdown_during_set_up_follows_the_data() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"one");
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "one");
}
