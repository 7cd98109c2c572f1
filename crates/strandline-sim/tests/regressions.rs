//! Faults that the simulator found, as small tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;
use std::sync::Arc;

use strandline_netem::{Change, LinkConfig};
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::event::Event;
use strandline_sim::pair::{Pair, Side};
use strandline_wire::chunk::kind;

/// A link that silently drops packets longer than `size_max`.
fn black_hole(size_max: usize) -> LinkConfig {
    LinkConfig { size_max, ..LinkConfig::with_delay(Duration::from_millis(10)) }
}

fn with(change: impl FnOnce(&mut AssociationConfig)) -> EndpointConfig {
    let mut association = AssociationConfig::default();
    change(&mut association);
    EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() }
}

#[test]
fn black_hole_below_base_mtu_is_found() {
    let mut pair = Pair::new(EndpointConfig::default(), EndpointConfig::default(), black_hole(700));
    let (a, b) = pair.connect();
    pair.send(Side::A, a, 0, vec![7; 690]);
    pair.send(Side::A, a, 0, vec![8; 5000]);
    let mut got = Vec::new();
    pair.run_until(Duration::from_secs(60), |pair| {
        got.extend(pair.recv_all(Side::B, b));
        got.len() == 2
    });
    let lens: Vec<usize> = got.iter().map(|message| message.data.len()).collect();
    assert_eq!(lens, [690, 5000], "{:#?}", pair.printed());
}

#[test]
fn unanswered_cookie_echo_leaves_its_data() {
    let mut pair = Pair::new(EndpointConfig::default(), EndpointConfig::default(), black_hole(700));
    let a = pair.start();
    pair.send(Side::A, a, 0, vec![1; 1000]);
    let up =
        |pair: &mut Pair| pair.events(Side::A).iter().any(|event| matches!(event, Event::Established { .. }));
    assert!(pair.run_until(Duration::from_secs(30), up), "{:#?}", pair.printed());
    let echoes: Vec<Vec<u8>> = pair.captured().iter().map(|packet| packet.chunk_kinds()).collect();
    assert!(echoes.contains(&vec![kind::COOKIE_ECHO, kind::DATA]));
    assert!(echoes.contains(&vec![kind::COOKIE_ECHO]));
}

#[test]
fn oversized_chunk_goes_alone() {
    let config = with(|association| association.path_mtu_initial = 1500);
    let mut pair = Pair::new(config, EndpointConfig::default(), black_hole(1500));
    let (a, b) = pair.connect();
    let from = pair.addresses(Side::A)[0].ip();
    let to = pair.addresses(Side::B)[0].ip();
    // Everything is lost while the path shrinks.
    pair.network.link(from, to).change(Change::SizeMax(1200));
    pair.send(Side::A, a, 0, vec![1; 4000]);
    let mut got = Vec::new();
    pair.run_until(Duration::from_secs(60), |pair| {
        got.extend(pair.recv_all(Side::B, b));
        !got.is_empty()
    });
    assert_eq!(got.len(), 1, "{:#?}", pair.printed());
    let fragmented: Vec<_> =
        pair.captured().iter().filter(|packet| packet.datagram.fragment.is_some()).collect();
    assert!(!fragmented.is_empty());
    for packet in fragmented {
        assert_eq!(packet.chunk_kinds(), [kind::DATA]);
    }
}

#[test]
fn window_below_the_next_message_is_probed() {
    // The first message leaves less room than the second needs, and its reader is slow.
    let config = with(|association| {
        association.receive_buffer = Some(3000);
        association.partial_delivery_point = 3000;
    });
    let mut pair = Pair::new(EndpointConfig::default(), config, black_hole(1500));
    let (a, b) = pair.connect();
    pair.send(Side::A, a, 0, vec![1; 2500]);
    pair.send(Side::A, a, 0, vec![2; 1100]);
    // The window updates are lost.
    pair.run_for(Duration::from_secs(1));
    let from = pair.addresses(Side::B)[0].ip();
    let to = pair.addresses(Side::A)[0].ip();
    pair.network.link(from, to).cut();
    // The buffer is small: messages are delivered in parts.
    let read = |pair: &mut Pair| -> usize {
        pair.recv_all(Side::B, b).iter().map(|message| message.data.len()).sum()
    };
    let mut got = read(&mut pair);
    pair.run_for(Duration::from_millis(100));
    pair.network.link(from, to).heal();
    pair.run_until(Duration::from_secs(30), |pair| {
        got += read(pair);
        got == 3600
    });
    assert_eq!(got, 3600, "{:#?}", pair.printed());
}
