//! Any bytes as a message of the control exchange.

use super::args::Transport;
use super::protocol::{
    Direction, FLOWS_MAX, Length, Message, Parameters, Role, SideReport, TURN_MIB_MAX, decode, encode,
};
use super::report::Test;
use super::session::Outcome;
use super::text::summary;

/// A message that was read is written so that it can be read, a test that is taken keeps to all limits, and
/// whatever figures the other side reports, there is a report of them.
pub fn run(bytes: &[u8]) {
    let Ok(message) = decode(bytes) else { return };
    assert!(encode(&message).is_ok_and(|bytes| decode(&bytes).is_ok()));
    match message {
        Message::Test(parameters) => test(&parameters),
        Message::Finished(report) => {
            for (role, direction) in [(Role::Client, Direction::Both), (Role::Server, Direction::Up)] {
                for transport in [Transport::Sctp, Transport::Tcp] {
                    reported(&report, role, direction, transport, bytes.len());
                }
            }
        }
        _ => {}
    }
}

fn test(parameters: &Parameters) {
    if parameters.validate().is_err() {
        return;
    }
    assert!((1..=FLOWS_MAX).contains(&parameters.flows) && parameters.turn_mib() <= TURN_MIB_MAX);
    assert!(parameters.message_bits() > 0.0);
    if let Length::Bytes(bytes) = parameters.length {
        let sum: u64 = (0..parameters.flows).filter_map(|flow| parameters.bytes_of_flow(flow)).sum();
        assert_eq!(sum, bytes);
    }
}

fn reported(peer: &SideReport, role: Role, direction: Direction, transport: Transport, len: usize) {
    let parameters = Parameters {
        direction,
        length: Length::Seconds(1.0),
        omit_seconds: 0.0,
        message_bytes: 1000,
        streams: 1,
        flows: 2,
        unordered: false,
        nagle: false,
        no_copy: false,
        byte_stream: false,
        pauses: true,
        bits_per_second: Some(1_000_000),
    };
    let test = Test {
        role,
        transport,
        parameters,
        encapsulation: Some("udp"),
        other: ("192.0.2.1".to_owned(), 5001),
        token: "ab".to_owned(),
        connected: Vec::new(),
    };
    let peer = Some(peer.clone());
    let own = SideReport::default();
    let outcome = Outcome { own, peer, failure: None, interrupted: false, path_changes: Vec::new() };
    assert!(serde_json::to_vec(&test.report(Vec::new(), &outcome)).is_ok());
    // A number such as 1e308 is written out in full.
    assert!(summary(&test, &outcome).len() <= 4096 * len + 4096);
}
