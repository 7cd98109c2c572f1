//! Tests of the two harnesses, and of an association's first steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;
use std::sync::Arc;

use strandline_netem::LinkConfig;
use strandline_proto::config::{EndpointConfig, Recovery};
use strandline_proto::event::{CloseReason, Event};
use strandline_sim::manual::ManualPeer;
use strandline_sim::pair::{Fate, Pair, Side, with_chunk};
use strandline_wire::chunk::kind;

fn pair() -> Pair {
    let link = LinkConfig::with_delay(Duration::from_millis(10));
    Pair::new(EndpointConfig::default(), EndpointConfig::default(), link)
}

#[test]
fn set_up_takes_two_round_trips() {
    let mut pair = pair();
    pair.connect();
    assert_eq!(pair.now.as_nanos(), 40_000_000, "{:#?}", pair.printed());
    let kinds: Vec<Vec<u8>> = pair.captured().iter().map(|packet| packet.chunk_kinds()).take(4).collect();
    assert_eq!(kinds, [[kind::INIT], [kind::INIT_ACK], [kind::COOKIE_ECHO], [kind::COOKIE_ACK]]);
}

#[test]
fn a_lost_packet_is_sent_again() {
    let mut pair = pair();
    let (a, b) = pair.connect();
    pair.drop_next(Side::A, with_chunk(kind::DATA));
    pair.send(Side::A, a, 3, "once more");
    pair.settle();
    let messages = pair.recv_all(Side::B, b);
    assert_eq!(messages.len(), 1, "{:#?}", pair.printed());
    assert_eq!(messages[0].data, "once more");
    assert_eq!(messages[0].stream.0, 3);
}

#[test]
fn a_duplicated_packet_is_delivered_once() {
    let mut pair = pair();
    let (a, b) = pair.connect();
    pair.filter(|_, _| Fate::Duplicate);
    pair.send(Side::A, a, 0, "twice");
    pair.settle();
    assert_eq!(pair.recv_all(Side::B, b).len(), 1);
}

#[test]
fn a_delayed_packet_is_overtaken() {
    // RACK would declare it lost, and retransmit it, before it arrives.
    let mut config = EndpointConfig::default();
    Arc::make_mut(&mut config.association).recovery = Recovery::Rfc9260;
    let link = LinkConfig::with_delay(Duration::from_millis(10));
    let mut pair = Pair::new(config, EndpointConfig::default(), link);
    let (a, b) = pair.connect();
    let mut first = true;
    pair.filter(move |side, packet| {
        let data = packet.chunks().flatten().any(|chunk| chunk.kind == kind::DATA);
        if side == Side::A && data && core::mem::take(&mut first) {
            Fate::Delay(Duration::from_millis(100))
        } else {
            Fate::Pass
        }
    });
    pair.send(Side::A, a, 0, "one");
    pair.run_for(Duration::from_millis(1));
    pair.send(Side::A, a, 0, "two");
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.recv(Side::B, b), None, "the first is missing");
    pair.run_for(Duration::from_millis(50));
    let data: Vec<_> = pair.recv_all(Side::B, b).into_iter().map(|message| message.data).collect();
    assert_eq!(data, ["one", "two"]);
}

#[test]
fn shutdown_ends_both_sides() {
    let mut pair = pair();
    let (a, b) = pair.connect();
    pair.send(Side::B, b, 0, "last words");
    let now = pair.now;
    pair.a.endpoint.shutdown(now, a).unwrap();
    pair.settle();
    assert!(pair.events(Side::A).contains(&Event::Closed(CloseReason::Shutdown)), "{:#?}", pair.printed());
    assert!(pair.events(Side::B).contains(&Event::Closed(CloseReason::Shutdown)));
    assert_eq!(pair.recv(Side::A, a).unwrap().data, "last words");
}

#[test]
fn a_crashed_side_forgets() {
    let mut pair = pair();
    let (_, b) = pair.connect();
    pair.crash(Side::A);
    assert_eq!(pair.a.endpoint.association_count(), 0);
    pair.send(Side::B, b, 0, "anybody there?");
    pair.settle();
    let ended = |event: &Event| matches!(event, Event::Closed(CloseReason::PeerAborted { .. }));
    assert!(pair.events(Side::B).iter().any(ended), "out of the blue: {:#?}", pair.printed());
}

#[test]
fn the_hand_written_peer_can_be_either_side() {
    let (mut manual, id) = ManualPeer::accepted(EndpointConfig::default());
    let data = manual.data(1, 0, b"by hand");
    manual.handle(&data);
    assert_eq!(manual.recv(id).unwrap().data, "by hand");

    let (mut manual, id) = ManualPeer::connected(EndpointConfig::default());
    let data = manual.data(1, 0, b"by hand");
    let mut sent = manual.handle(&data);
    assert_eq!(manual.recv(id).unwrap().data, "by hand");
    sent.extend(manual.advance(Duration::from_millis(500)));
    assert_eq!(sent.iter().filter(|sent| sent.chunk_kinds().contains(&kind::SACK)).count(), 1, "{sent:?}");
}
