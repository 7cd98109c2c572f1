#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use super::*;
use crate::perf::protocol::tests::parameters;

fn test(direction: Direction, bits_per_second: Option<u64>) -> Test {
    Test {
        role: Role::Client,
        transport: Transport::Sctp,
        parameters: Parameters { direction, bits_per_second, ..parameters() },
        encapsulation: None,
        other: ("10.0.0.2".to_owned(), 7009),
        token: "ab".to_owned(),
        connected: Vec::new(),
    }
}

/// Returns a report of ten seconds of traffic.
fn side(bytes_sent: u64, bytes_received: u64) -> SideReport {
    let passed = |bytes: u64| Passed { seconds: 10.0, bytes, messages: 0 };
    let flow =
        FlowReport { sent: passed(bytes_sent), received: passed(bytes_received), ..FlowReport::default() };
    SideReport { flows: vec![flow], ..SideReport::default() }
}

fn outcome(own: SideReport, peer: Option<SideReport>) -> Outcome {
    Outcome { own, peer, failure: None, interrupted: false, path_changes: Vec::new() }
}

#[test]
fn a_rate_stands_beside_what_came_of_it() {
    // Messages of 1,000 bytes, 100 per second.
    let asked = Some(800_000);
    let rates = |test: &Test, outcome: &Outcome| {
        let end = test.end(outcome);
        ["rate_asked", "rate_reached"].map(|name| end.get(name).and_then(Value::as_f64))
    };
    let reached = outcome(side(1_000_000, 0), Some(side(0, 900_000)));
    assert_eq!(rates(&test(Direction::Up, asked), &reached), [Some(100.0), Some(90.0)]);
    // One direction is behind.
    let both = outcome(side(1_000_000, 500_000), Some(side(600_000, 1_000_000)));
    assert_eq!(rates(&test(Direction::Both, asked), &both), [Some(100.0), Some(50.0)]);
    // Of a failed test only one side is known.
    let failed = outcome(side(800_000, 0), None);
    assert_eq!(rates(&test(Direction::Up, asked), &failed), [Some(100.0), Some(80.0)]);
    assert_eq!(rates(&test(Direction::Up, None), &reached), [None, None], "as fast as it goes");
}
