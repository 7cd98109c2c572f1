//! Made-up traces, each of which breaks one bound, beside one that keeps it.

use strandline_proto::stats::PathStatus;

use super::*;
use crate::pair::{Pair, Side};

const MTU: u32 = 1500;

/// A path in use, with these numbers.
fn path(cwnd: u32, flight: u32) -> PathStatus {
    let config = strandline_proto::config::EndpointConfig::default;
    let mut pair = Pair::new(config(), config(), strandline_netem::LinkConfig::default());
    let (a, _) = pair.connect();
    let mut path = pair.side(Side::A).endpoint.paths(a).expect("it stands")[0].clone();
    (path.cwnd, path.ssthresh, path.flight, path.mtu) = (cwnd, cwnd, flight, MTU as u16);
    (path.congestion, path.pacing_rate, path.srtt) = ("cubic", None, Some(Duration::from_millis(60)));
    (path.recovery_window, path.error_count) = (None, 0);
    path
}

fn events(ms: u64) -> Events {
    let now = Time::ZERO + Duration::from_millis(ms);
    Events { now, recoveries: 0, probes: 0, timeouts: 0, undone: 0, exempt: 0, several: false }
}

/// As many packets of new data leave.
fn send(bounds: &mut Bounds, was: &PathStatus, packets: u32, events: Events) -> Result<(), Violation> {
    let sent = packets * MTU;
    let mut path = was.clone();
    path.flight += sent;
    let traffic = Traffic { sent, new: sent, packets, ..Traffic::default() };
    let config = AssociationConfig::default();
    bounds.after(Step { was, path: &path, traffic, mtu: MTU, events, config: &config, lost: None })
}

/// A SACK for a packet.
fn acknowledged(bounds: &mut Bounds, path: &PathStatus, packets: u32, events: Events) {
    bounds.before((packets * MTU, 1), path, events);
}

fn is_about(outcome: Result<(), Violation>, what: &str) {
    let Violation(text) = outcome.expect_err("it breaks a bound");
    assert!(text.contains(what), "{text}");
}

#[test]
fn a_burst_beyond_what_was_acknowledged_and_the_limit() {
    let was = path(100 * MTU, 50 * MTU);
    // An eighth of the window may go, 12 packets here, and one more that begins within.
    for (packets, keeps) in [(13, true), (15, false)] {
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        let outcome = send(&mut bounds, &was, packets, events(1));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "burst") }
    }
}

#[test]
fn more_than_the_rate_over_time() {
    let mut was = path(100 * MTU, 10 * MTU);
    was.pacing_rate = Some(1_000_000);
    for (each_ms, keeps) in [(1, true), (3, false)] {
        let mut bounds = Bounds::default();
        let mut outcome = Ok(());
        for step in 0..100 {
            let events = events(2 * step);
            acknowledged(&mut bounds, &was, 1, events);
            // 1,500 or 4,500 bytes in each 2 ms, in which the rate makes 2,000.
            outcome = outcome.and_then(|()| send(&mut bounds, &was, each_ms, events));
        }
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "pacing") }
    }
}

#[test]
fn a_rate_of_more_windows_a_round_trip_than_decided() {
    // 150,000 bytes in 60 ms are 2.5 MB a second; 1.2 times as much is 3.
    for (rate, keeps) in [(2_990_000, true), (5_000_000, false)] {
        let mut was = path(100 * MTU, 10 * MTU);
        was.pacing_rate = Some(rate);
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        let outcome = send(&mut bounds, &was, 1, events(1));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "paced at more") }
    }
}

#[test]
fn more_in_recovery_than_in_proportion() {
    for (each, keeps) in [(1, true), (2, false)] {
        let mut bounds = Bounds::default();
        bounds.before((0, 0), &path(100 * MTU, 100 * MTU), events(1));
        let mut outcome = Ok(());
        // Two packets arrive at a time; half as many may go while the flight is above the threshold.
        for step in 0..20 {
            let flight = (99 - step) * MTU;
            let mut was = path(50 * MTU, flight);
            was.recovery_window = Some(flight);
            acknowledged(&mut bounds, &was, 2, events(2 + u64::from(step)));
            outcome = outcome.and_then(|()| send(&mut bounds, &was, each, events(2 + u64::from(step))));
        }
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "recovery") }
    }
}

#[test]
fn a_second_packet_after_t3_rtx() {
    for (packets, keeps) in [(1, true), (2, false)] {
        let mut bounds = Bounds::default();
        bounds.before((0, 0), &path(10 * MTU, 5 * MTU), events(1));
        let mut was = path(MTU, 0);
        was.error_count = 1;
        let expired = Events { timeouts: 1, exempt: 1, ..events(1000) };
        bounds.before((0, 0), &was, expired);
        let outcome = send(&mut bounds, &was, packets, Events { timeouts: 0, ..expired });
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "T3-rtx") }
    }
}

/// A window that loses packets of two successive round trips has to shrink twice.
#[test]
fn losses_after_the_window_shrank() {
    let config = AssociationConfig::default();
    // The window when the first loss is known, when the second is; when what was lost then had been sent; the controller.
    for (second, sent_ms, controller, keeps) in [
        (70, 50, "cubic", true),   // of the same round trip
        (70, 110, "cubic", false), // sent after the reduction
        (49, 110, "cubic", true),
        (49, 110, "dctcp", true),
        (70, 110, "dctcp", false),
        (70, 110, "bbr", true),
    ] {
        let mut bounds = Bounds::default();
        let mut outcome = Ok(());
        for (ms, cwnd, lost) in
            [(10, 100, None), (100, 70, Some(10)), (101, 70, None), (200, second, Some(sent_ms))]
        {
            let mut was = path(cwnd * MTU, 10 * MTU);
            was.congestion = controller;
            bounds.before((MTU, 1), &was, events(ms));
            let lost = lost.map(|ms| Time::ZERO + Duration::from_millis(ms));
            let traffic = Traffic { sent: MTU, packets: 1, ..Traffic::default() };
            let step =
                Step { was: &was, path: &was, traffic, mtu: MTU, events: events(ms), config: &config, lost };
            outcome = outcome.and_then(|()| bounds.after(step));
        }
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "has not shrunk") }
    }
}
