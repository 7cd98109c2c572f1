//! RFC 7053 section 4, RFC 9260 section 6.1: the I bit, with which a sender asks for an immediate acknowledgement.

use super::*;

/// Returns for each TSN that A sent whether it has the I bit.
fn asks(pair: &Pair) -> Vec<bool> {
    let sent = pair.captured().iter().filter(|captured| captured.from == Side::A);
    sent.flat_map(|captured| data(captured).into_iter().map(|data| data.immediate).collect::<Vec<_>>())
        .collect()
}

fn connected(
    change: impl Fn(&mut AssociationConfig),
    peer: impl Fn(&mut AssociationConfig),
) -> (Pair, AssociationId, AssociationId) {
    let mut pair = Pair::new(endpoint(change), endpoint(peer), link(ms(30), 100));
    let (a, b) = pair.connect();
    // The first data is acknowledged at once in any case.
    pair.send(Side::A, a, 0, "first");
    pair.settle();
    pair.recv_all(Side::B, b);
    pair.clear_captured();
    (pair, a, b)
}

/// Returns how long after the current time B acknowledged.
fn sack_after(pair: &mut Pair) -> Duration {
    let began = pair.now;
    let is_sack =
        |captured: &Captured| captured.from == Side::B && captured.chunk_kinds().contains(&kind::SACK);
    pair.run_until(ms(1000), |pair| pair.captured().iter().any(is_sack));
    let at = pair.captured().iter().find(|captured| is_sack(captured)).expect("it acknowledges").at;
    at.since(began)
}

#[test]
fn a_lone_packet_waits_unless_the_user_asks() {
    let (mut pair, a, _) = connected(|_| (), |_| ());
    pair.send(Side::A, a, 0, "no hurry");
    assert!(sack_after(&mut pair) >= ms(230));
    pair.clear_captured();
    let now = pair.now;
    let info = SendInfo::default().immediate();
    pair.a.endpoint.send(now, a, info, "now".into()).unwrap();
    assert!(sack_after(&mut pair) < ms(32));
    assert_eq!(asks(&pair), [true]);
}

/// An answer after a pause has the I bit: a round-trip time without delayed acknowledgement shows when the answer is
/// lost.
#[test]
fn a_lone_answer_after_a_pause_asks() {
    let (mut pair, a, b) = connected(|_| (), |_| ());
    // The first question is acknowledged at once, not by the answer.
    pair.send(Side::B, b, 0, "anybody there?");
    pair.settle();
    for _ in 0..5 {
        pair.run_for(ms(1000));
        pair.send(Side::B, b, 0, "how much?");
        pair.run_for(ms(40));
        pair.recv_all(Side::A, a);
        pair.clear_captured();
        pair.send(Side::A, a, 0, "so much");
        assert!(sack_after(&mut pair) < ms(32));
        assert_eq!(asks(&pair), [true]);
    }
    assert!(pair.a.endpoint.paths(a).unwrap()[0].srtt.unwrap() < ms(100));
    // With a series of questions the next one carries the acknowledgement.
    for _ in 0..5 {
        pair.clear_captured();
        pair.send(Side::B, b, 0, "and this?");
        pair.run_for(ms(40));
        pair.send(Side::A, a, 0, "and so on");
        pair.run_for(ms(40));
        assert_eq!(asks(&pair), [false]);
    }
}

#[test]
fn the_packet_that_fills_the_congestion_window_asks() {
    let (mut pair, a, _) = connected(|config| config.burst_max = 0, |_| ());
    let window = pair.a.endpoint.paths(a).unwrap()[0].cwnd as usize;
    for _ in 0..40 {
        pair.send(Side::A, a, 0, vec![1; FULL]);
    }
    pair.run_for(ms(1));
    let asked = asks(&pair);
    assert!(asked.len() >= window / 1500 && asked.len() < 40, "{asked:?}");
    assert!(asked[asked.len() - 1] && !asked[0], "{asked:?}");
}

/// With a large flight, acknowledgements of earlier data arrive anyway, and none is requested.
#[test]
fn a_large_window_asks_for_nothing() {
    let (mut pair, a, b) = connected(|_| (), |_| ());
    stream(&mut pair, a, b, ms(2000));
    pair.clear_captured();
    stream(&mut pair, a, b, ms(1000));
    assert!(pair.a.endpoint.paths(a).unwrap()[0].cwnd > 100_000);
    assert!(asks(&pair).iter().all(|asked| !asked));
}

#[test]
fn the_packet_that_fills_the_peers_window_asks() {
    let small = |config: &mut AssociationConfig| {
        config.receive_buffer = Some(6000);
        config.partial_delivery_point = 3000;
    };
    let (mut pair, a, _) = connected(|config| config.burst_max = 0, small);
    for _ in 0..10 {
        pair.send(Side::A, a, 0, vec![1; 1000]);
    }
    pair.run_for(ms(20));
    let asked = asks(&pair);
    assert!(asked.len() <= 6 && asked[asked.len() - 1], "{asked:?}");
}

#[test]
fn the_last_of_a_full_send_buffer_asks() {
    let (mut pair, a, _) = connected(|config| config.send_buffer = Some(3000), |_| ());
    let now = pair.now;
    for _ in 0..2 {
        pair.send(Side::A, a, 0, vec![1; FULL]);
    }
    assert!(pair.a.endpoint.send(now, a, SendInfo::default(), vec![1; FULL].into()).is_err());
    pair.run_for(ms(1));
    assert_eq!(asks(&pair), [false, true]);
}

#[test]
fn all_before_the_shutdown_ask() {
    let (mut pair, a, _) = connected(|_| (), |_| ());
    let now = pair.now;
    pair.send(Side::A, a, 0, "last");
    pair.a.endpoint.shutdown(now, a).unwrap();
    pair.run_for(ms(1));
    assert_eq!(asks(&pair), [true]);
}

/// The last packet is lost: the tail-loss probe and the packet after a time-out have the I bit.
#[test]
fn probes_and_what_follows_a_time_out_ask() {
    let (mut pair, a, _) = connected(|_| (), |_| ());
    pair.drop_some(Side::A, 6, strandline_sim::pair::with_chunk(kind::DATA));
    pair.send(Side::A, a, 0, vec![1; FULL]);
    pair.run_for(ms(10_000));
    let asked = asks(&pair);
    assert!(asked.len() >= 6 && !asked[0], "{asked:?}");
    assert!(asked[1..].iter().all(|asked| *asked), "{asked:?}");
}
