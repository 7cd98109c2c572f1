//! Interoperability with usrsctp over UDP encapsulation on the loopback interface. `make test-deps` builds
//! the peer.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig, StreamScheduler};
use strandline_proto::endpoint::{Connect, Reconfigure};
use strandline_proto::event::{Event, SendInfo};
use strandline_proto::number::{Ppid, StreamId};
use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection, Streams};
use strandline_proto::reliability::Reliability;
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::session::Session;
use strandline_tests::traffic::{Planned, plan, unordered};
use strandline_wire::chunk::kind;

const SCTP_PORT: u16 = 5001;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns an endpoint on its own UDP port.
fn driver(seed: u8) -> Driver {
    Driver::udp(SocketAddr::new(LOCALHOST, 0), EndpointConfig::default(), seed)
}

/// Returns a session in which usrsctp echoes and this side connects.
fn connected(seed: u8) -> Session {
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = driver(seed);
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

/// Returns a session in which usrsctp connects with these further arguments and this side listens.
fn accepted(seed: u8, mode: &str) -> Session {
    let udp_port = free_udp_port();
    let mut driver = driver(seed);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let own = driver.local_addr().port();
    let peer = PeerProcess::usrsctp(&format!(
        "{mode} -c 127.0.0.1 -b 127.0.0.1 -u {udp_port} -U {own} -p {SCTP_PORT}"
    ));
    let id = driver.accept();
    Session { driver, peer, id }
}

/// Returns an endpoint that asks for ECN.
fn with_ecn(seed: u8) -> Driver {
    let mut association = AssociationConfig::default();
    association.extensions.ecn = true;
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed)
}

/// usrsctp agrees to ECN.
#[test]
fn ecn_is_agreed_on() {
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = with_ecn(20);
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.exchange(&plan(200, 1000, 3));
    assert!(session.driver.ecn_capable_sent > 0, "it agrees");
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

/// The network marks some of usrsctp's packets: it answers each ECNE with CWR, and everything arrives.
#[test]
fn marks_are_answered() {
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = with_ecn(23);
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.exchange(&plan(20, 1000, 3));
    session.driver.mark_every(10);
    session.exchange(&plan(300, 1000, 3));
    session.driver.mark_every(0);
    let status = session.driver.endpoint.status(id).expect("it lives");
    assert!(status.stats.marks_received > 0, "{status:?}");
    assert!(session.driver.kinds_received.contains(&kind::CWR), "{:?}", session.driver.kinds_received);
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

/// The network marks all packets: the window falls to one packet, and each then waits for this side's delayed
/// SACK.
#[test]
fn nothing_but_marks_is_slow_and_goes_on() {
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = with_ecn(24);
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.exchange(&plan(20, 1000, 3));
    session.driver.mark_every(1);
    session.exchange(&plan(20, 1000, 3));
    session.driver.mark_every(0);
    session.exchange(&plan(200, 1000, 3));
    session.shut_down();
}

/// A default endpoint sends nothing that usrsctp would have to report as unrecognised.
#[test]
fn nothing_is_reported_to_a_default_endpoint() {
    let mut session = connected(21);
    session.exchange_many_kinds();
    assert_eq!(session.driver.ecn_capable_sent, 0);
    for never in [kind::ERROR, kind::ABORT, kind::ECNE] {
        assert!(!session.driver.kinds_received.contains(&never), "chunk type {never}");
    }
    session.shut_down();
}

#[test]
fn small_messages_on_many_streams() {
    let mut session = connected(1);
    session.exchange(&plan(2000, 64, 200));
    session.shut_down();
}

#[test]
fn unordered_messages() {
    let mut session = connected(2);
    session.exchange(&unordered(500, 300, 3));
    session.shut_down();
}

#[test]
fn large_messages_both_ways() {
    let mut session = connected(3);
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

#[test]
fn messages_of_every_length_around_a_fragment() {
    let mut session = connected(4);
    let of_its_length = |planned: Planned| Planned { length: 1150 + planned.number as usize, ..planned };
    let plan: Vec<_> = plan(240, 0, 1).into_iter().map(of_its_length).collect();
    session.exchange(&plan);
    session.shut_down();
}

#[test]
fn usrsctp_connects_and_messages_return() {
    for (seed, count, how) in [(5, 500, "-l 100 -s 50"), (6, 3, "-l 1048576 -s 2")] {
        let mut session = accepted(seed, &format!("call -n {count} {how}"));
        session.echo(count);
        session.shut_down();
    }
}

#[test]
fn usrsctp_shuts_down() {
    accepted(7, "send -n 100 -l 2000 -s 4").is_shut_down();
}

/// Messages are given before the set-up: they go with one COOKIE ECHO, or with as many as they need.
#[test]
fn messages_on_the_cookie_echo_arrive() {
    for (seed, messages) in [(8, plan(5, 200, 5)), (15, plan(9, 1000, 3))] {
        let udp_port = free_udp_port();
        let _peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
        let mut driver = driver(seed);
        let request = Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT);
        let id = driver.endpoint.connect(driver.now(), request).expect("the request is valid");
        driver.exchange(id, &messages);
    }
}

#[test]
fn losses_in_both_directions() {
    let mut session = connected(9);
    session.exchange_with_losses();
    session.shut_down();
}

#[test]
fn losses_during_setup_and_shutdown() {
    for seed in 10..13 {
        let udp_port = free_udp_port();
        let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT} -T 200"));
        let mut config = EndpointConfig::default();
        let mut timing = (*config.association).clone();
        timing.rto_initial = Duration::from_millis(250);
        timing.rto_min = Duration::from_millis(250);
        timing.rto_max = Duration::from_millis(500);
        timing.init_retrans_max = 30;
        timing.association_retrans_max = 30;
        timing.shutdown_guard = Some(Duration::from_secs(25));
        config.association = timing.into();
        let mut driver = Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed);
        driver.lose(250);
        let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
        let mut session = Session { driver, peer, id };
        session.exchange(&plan(3, 100, 1));
        session.shut_down();
    }
}

#[test]
fn this_side_aborts() {
    connected(15).abort("LOST");
}

#[test]
fn usrsctp_aborts() {
    connected(16).is_aborted();
}

#[test]
fn usrsctp_restarts() {
    let udp_port = free_udp_port();
    let mut driver = driver(17);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let own = driver.local_addr().port();
    let start = || {
        PeerProcess::usrsctp(&format!(
            "call -n 20 -l 500 -c 127.0.0.1 -b 127.0.0.1 -B 6001 -u {udp_port} -U {own} -p {SCTP_PORT}"
        ))
    };
    let first = start();
    let id = driver.accept();
    let mut session = Session { driver, peer: first, id };
    session.echo(20);
    let Session { driver, peer, id } = session;
    peer.vanish();
    let mut session = Session { driver, peer: start(), id };
    session.restarted();
    session.echo(20);
    session.shut_down();
}

#[test]
fn this_side_restarts() {
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let there = SocketAddr::new(LOCALHOST, udp_port);
    let request = || Connect { local_port: 6002, ..Connect::to(there, SCTP_PORT) };
    let mut first = driver(18);
    let own = first.local_addr();
    let id = first.connect(request());
    first.exchange(id, &plan(20, 500, 1));
    drop(first);
    let mut second = Driver::udp(own, EndpointConfig::default(), 19);
    let id = second.connect(request());
    let mut session = Session { driver: second, peer, id };
    session.expect("RESTART");
    session.exchange(&plan(20, 500, 1));
    session.shut_down();
}

/// An endpoint that performs every request to reconfigure streams.
fn reconfiguring(seed: u8) -> Driver {
    let mut association = AssociationConfig::default();
    association.extensions.peer_requests = PeerRequests::ALL;
    association.outbound_streams = 50;
    association.inbound_streams_max = 100;
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed)
}

/// Returns a session in which usrsctp echoes, with losses of 3 %: this side connects, or usrsctp does.
fn with_reconfiguration(seed: u8, connects: bool) -> Session {
    let udp_port = free_udp_port();
    let mut driver = reconfiguring(seed);
    let (peer, id) = if connects {
        let peer = PeerProcess::usrsctp(&format!("echo -v -u {udp_port} -p {SCTP_PORT}"));
        let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
        (peer, id)
    } else {
        driver.endpoint.listen(SCTP_PORT).expect("the port is free");
        let own = driver.local_addr().port();
        let peer = PeerProcess::usrsctp(&format!(
            "send -v -n 1 -c 127.0.0.1 -b 127.0.0.1 -u {udp_port} -U {own} -p {SCTP_PORT}"
        ));
        (peer, driver.accept())
    };
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session.driver.lose(30);
    session
}

/// Waits for a reset of streams in this direction.
fn streams_reset(session: &mut Session, wanted: StreamDirection) -> Outcome {
    session.driver.event("StreamsReset", |_, event| match event {
        Event::StreamsReset { direction, outcome, .. } if *direction == wanted => Some(*outcome),
        _ => None,
    })
}

/// Sends messages on a stream. Returns their SSNs as usrsctp reports them.
fn ssns_at_the_peer(session: &mut Session, stream: u16, count: usize) -> Vec<String> {
    for _ in 0..count {
        let info = SendInfo::on(StreamId(stream)).ppid(Ppid(1));
        let now = session.driver.now();
        session.driver.endpoint.send(now, session.id, info, vec![0].into()).expect("there is room");
    }
    let wanted = format!("RX len=1 stream={stream} ");
    let lines = (0..count).map(|_| session.expect(&wanted));
    lines.map(|line| line.split_once("ssn=").map_or(String::new(), |(_, ssn)| ssn.to_owned())).collect()
}

/// Our resets of outgoing streams, ours of incoming ones, usrsctp's of either, and a reset of all numbers by each.
#[test]
fn streams_are_reset_under_losses() {
    for (seed, connects) in [(40, true), (41, false)] {
        let mut session = with_reconfiguration(seed, connects);
        let id = session.id;
        for _ in 0..3 {
            assert_eq!(ssns_at_the_peer(&mut session, 7, 3), ["0", "1", "2"]);
            let now = session.driver.now();
            let streams = Streams::from(StreamId(7));
            let asked = Reconfigure::ResetStreams(StreamDirection::Outgoing, streams.clone()).ask(
                &mut session.driver.endpoint,
                now,
                id,
            );
            assert_eq!(asked, Ok(()));
            assert_eq!(streams_reset(&mut session, StreamDirection::Outgoing), Outcome::Performed);
            session.expect("RESET flags=1 streams=1");
            assert_eq!(ssns_at_the_peer(&mut session, 7, 2), ["0", "1"]);
            // usrsctp asks us to reset the stream.
            session.peer.tell("reset in 7");
            assert_eq!(streams_reset(&mut session, StreamDirection::Outgoing), Outcome::Performed);
            session.expect("RESET flags=1 streams=1");
        }
        // The other direction: usrsctp's stream, at its own request and at ours.
        session.peer.tell("reset out 3");
        assert_eq!(streams_reset(&mut session, StreamDirection::Incoming), Outcome::Performed);
        session.expect("RESET flags=2 streams=1");
        let now = session.driver.now();
        let asked = Reconfigure::ResetStreams(StreamDirection::Incoming, StreamId(4).into()).ask(
            &mut session.driver.endpoint,
            now,
            id,
        );
        assert_eq!(asked, Ok(()));
        assert_eq!(streams_reset(&mut session, StreamDirection::Incoming), Outcome::Performed);
        session.shut_down();
    }
}

/// Sends messages without losses, and waits until usrsctp has them. If it `echoes` them, waits until they have come back
/// and are acknowledged. Losses begin afterwards.
fn number_messages(session: &mut Session, echoes: bool) {
    session.driver.lose(0);
    assert_eq!(ssns_at_the_peer(session, 7, 3), ["0", "1", "2"]);
    let id = session.id;
    let mut missing = if echoes { 3_i32 } else { 0 };
    session.driver.until("the echoes", |driver| {
        let now = driver.now();
        while driver.endpoint.recv(now, id).is_some() {
            missing -= 1;
        }
        let status = driver.endpoint.status(id)?;
        (missing <= 0 && status.unacknowledged_bytes == 0).then_some(())
    });
    session.driver.run_for(2 * AssociationConfig::default().sack_delay);
    session.driver.lose(30);
}

/// All numbers begin anew at our request, while packets are lost. usrsctp grants our request while DATA of its own is
/// missing here, which is then never delivered: so nothing is on its way when we ask.
#[test]
fn all_numbers_are_reset_under_losses() {
    for (seed, connects) in [(42, true), (43, false), (46, true), (47, false), (48, true), (49, false)] {
        let mut session = with_reconfiguration(seed, connects);
        let id = session.id;
        let renumbered = |session: &mut Session| {
            session.driver.event("AssociationReset", |_, event| match event {
                Event::AssociationReset { outcome, .. } => Some(*outcome),
                _ => None,
            })
        };
        number_messages(&mut session, connects);
        let now = session.driver.now();
        assert_eq!(Reconfigure::ResetAssociation.ask(&mut session.driver.endpoint, now, id), Ok(()));
        assert_eq!(renumbered(&mut session), Outcome::Performed);
        session.expect("RENUMBERED flags=0");
        number_messages(&mut session, connects);
        session.shut_down();
    }
}

/// Each side adds streams in both directions.
#[test]
fn streams_are_added_under_losses() {
    for (seed, connects) in [(44, true), (45, false)] {
        let mut session = with_reconfiguration(seed, connects);
        let id = session.id;
        let until = |session: &mut Session, outbound: u16, inbound: u16| {
            session.driver.until("the number of streams", |driver| {
                let status = driver.endpoint.status(id)?;
                (status.outbound_streams == outbound && status.inbound_streams == inbound).then_some(())
            });
        };
        let now = session.driver.now();
        assert_eq!(
            Reconfigure::AddStreams { outgoing: 5, incoming: 0 }.ask(&mut session.driver.endpoint, now, id),
            Ok(())
        );
        until(&mut session, 55, 100);
        assert_eq!(ssns_at_the_peer(&mut session, 54, 2), ["0", "1"]);
        session.peer.tell("add 0 6");
        until(&mut session, 61, 100);
        assert_eq!(ssns_at_the_peer(&mut session, 60, 2), ["0", "1"]);
        // Beyond the limit.
        session.peer.tell("add 1 0");
        session.expect("STREAMS flags=4");
        session.shut_down();
    }
}

/// Returns a session with I-DATA, in which this side connects or usrsctp does.
fn interleaving(seed: u8, connects: bool) -> Session {
    let mut association = AssociationConfig::default();
    association.extensions.interleaving = true;
    association.stream_scheduler = StreamScheduler::RoundRobin;
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let driver = Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed);
    Session::usrsctp(driver, connects, SCTP_PORT, "-i")
}

fn interleaves(session: &Session) -> bool {
    let status = session.driver.endpoint.status(session.id);
    status.is_some_and(|status| status.extensions.interleaving)
}

/// Messages of several streams alternate fragment by fragment, ordered and unordered, also under losses.
#[test]
fn interleaved_messages_return() {
    let mut session = interleaving(60, true);
    assert!(interleaves(&session));
    session.exchange(&plan(300, 20_000, 7));
    session.exchange(&unordered(200, 5000, 3));
    session.exchange(&plan(1000, 64, 200));
    session.driver.lose(30);
    session.exchange(&plan(100, 20_000, 7));
    session.exchange(&unordered(60, 5000, 3));
    session.driver.lose(0);
    session.shut_down();
}

#[test]
fn usrsctp_connects_and_interleaves() {
    let mut session = interleaving(61, false);
    assert!(interleaves(&session));
    session.driver.lose(30);
    session.echo(200);
    session.driver.lose(0);
    session.shut_down();
}

/// Without the option usrsctp doesn't offer I-DATA, and DATA is used.
#[test]
fn interleaving_needs_both_sides() {
    let mut association = AssociationConfig::default();
    association.extensions.interleaving = true;
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = Driver::udp(SocketAddr::new(LOCALHOST, 0), config, 62);
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    assert!(!interleaves(&session));
    session.exchange(&plan(20, 20_000, 3));
    session.shut_down();
}

/// Messages of ours that are given up, after retransmissions or a time (RFC 3758, RFC 7496).
#[test]
fn messages_given_up_under_losses() {
    let limits = [Reliability::retransmissions(0), Reliability::lifetime(Duration::from_millis(20))];
    for (limit, seed) in limits.into_iter().zip(50..) {
        let udp_port = free_udp_port();
        let peer = PeerProcess::usrsctp(&format!("sink -v -u {udp_port} -p {SCTP_PORT}"));
        let mut driver = driver(seed);
        let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
        let mut session = Session { driver, peer, id };
        session.expect("UP");
        assert!(
            session.driver.endpoint.status(id).is_some_and(|status| status.extensions.partial_reliability)
        );
        session.send_with_limits(&plan(600, 2000, 3), limit);
        session.shut_down();
    }
}

/// Messages that usrsctp gives up.
#[test]
fn messages_given_up_by_usrsctp() {
    for (limit, seed) in ["-R 0", "-L 20"].into_iter().zip(70..) {
        let session = accepted(seed, &format!("send -n 600 -l 2000 -s 3 {limit}"));
        session.receive_with_limits(&plan(600, 2000, 3), true);
    }
}

/// Interleaved messages that are given up: both sides skip them with I-FORWARD-TSN (RFC 8260 section 2.3.1).
#[test]
fn interleaved_messages_given_up() {
    let endpoint = |seed| {
        let mut association = AssociationConfig::default();
        association.extensions.interleaving = true;
        let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
        Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed)
    };
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("sink -v -i -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = endpoint(110);
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    assert!(interleaves(&session));
    session.send_with_limits(&plan(600, 2000, 3), Reliability::retransmissions(0));
    session.shut_down();

    let mut driver = endpoint(111);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let (own, udp_port) = (driver.local_addr().port(), free_udp_port());
    let peer = PeerProcess::usrsctp(&format!(
        "send -i -n 600 -l 2000 -s 3 -R 0 -c 127.0.0.1 -b 127.0.0.1 -u {udp_port} -U {own} -p {SCTP_PORT}"
    ));
    let id = driver.accept();
    let session = Session { driver, peer, id };
    assert!(interleaves(&session));
    session.receive_with_limits(&plan(600, 2000, 3), true);
}

/// Messages of low priority make room for others (RFC 7496 section 4.1), and usrsctp skips them.
#[test]
fn messages_give_way_to_priority() {
    let association = AssociationConfig { send_buffer: Some(64 << 10), ..AssociationConfig::default() };
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let mut driver = Driver::udp(SocketAddr::new(LOCALHOST, 0), config, 112);
    let udp_port = free_udp_port();
    let peer = PeerProcess::usrsctp(&format!("sink -v -u {udp_port} -p {SCTP_PORT}"));
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session.driver.lose(1000);
    // What is in flight keeps its room in the send buffer until it is acknowledged.
    let plan = plan(45, 2000, 3);
    for (index, planned) in plan.iter().enumerate() {
        let priority = if index < 30 { 9 } else { 1 };
        let info = planned.info().reliability(Reliability::priority(priority));
        session.driver.send(id, info, planned.data());
        session.driver.run_for(Duration::from_millis(1));
    }
    session.driver.lose(0);
    session.expect("RX len=2000 stream=2 ppid=45");
    session
        .driver
        .until("the failed messages are reported", |driver| (!driver.failed.is_empty()).then_some(()));
    assert!(session.driver.failed.iter().all(|ppid| *ppid <= 30), "{:?}", session.driver.failed);
    session.shut_down();
}

/// A NAT gives this side another UDP port (RFC 6951 section 5.4): usrsctp sends to it, also what was under way.
#[test]
fn usrsctp_follows_another_port() {
    let mut session = connected(113);
    session.exchange(&plan(100, 2000, 3));
    for _ in 0..3 {
        session.driver.rebind();
        session.exchange(&plan(300, 2000, 3));
    }
    session.shut_down();
}
