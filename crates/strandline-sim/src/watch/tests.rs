//! What may exceed cwnd, with made-up numbers.

use strandline_proto::config::EndpointConfig;

use super::*;
use crate::pair::{Pair, Side};

const MTU: u32 = 1500;

/// Checks two paths with a packet in flight each, a window of one, and `packets` packets of new data on each beyond
/// that. T3-rtx of both has expired.
fn asks(packets: [u32; 2]) -> Result<(), Violation> {
    let config = EndpointConfig::default;
    let mut pair = Pair::new(config(), config(), strandline_netem::LinkConfig::default());
    let (a, _) = pair.connect();
    let endpoint = &pair.side(Side::A).endpoint;
    let (status, mut path) =
        (endpoint.status(a).expect("it stands"), endpoint.paths(a).expect("it stands")[0].clone());
    (path.cwnd, path.flight, path.mtu, path.timeouts, path.recovery_window) = (MTU, MTU, MTU as u16, 1, None);
    let mut was = [path.clone(), path];
    for (number, path) in was.iter_mut().enumerate() {
        path.address.set_ip([10, 0, 0, number as u8].into());
    }
    let mut paths = was.clone();
    for (path, packets) in paths.iter_mut().zip(packets) {
        path.flight += packets * MTU;
    }
    let new_bytes = paths.iter().map(|path| (path.address.ip(), 1)).collect();
    let before = Before {
        status,
        paths: was.to_vec(),
        new_bytes,
        new_chunks: packets.iter().sum(),
        packet_max: MTU,
        given_back: 0,
        overfull: false,
    };
    let mut left = ByAddress::default();
    let asking = may_ask(&mut left, &paths);
    assert!(asking.iter().all(|(_, packets)| *packets == ASKING_PACKETS) && asking.len() == 2);
    congestion(&before, &paths, 0, &mut left)?;
    assert!(
        may_ask(&mut left, &paths).iter().all(|(_, packets)| *packets < ASKING_PACKETS),
        "once for a time-out"
    );
    Ok(())
}

/// Without another path each one tests for itself whether its time-out was spurious (RFC 5682).
#[test]
fn each_path_may_ask_with_two_packets() {
    asks([2, 2]).expect("two each");
    for packets in [[3, 1], [1, 3], [3, 3]] {
        let Violation(text) = asks(packets).expect_err("three on one");
        assert!(text.contains("beyond cwnd"), "{text}");
    }
}
