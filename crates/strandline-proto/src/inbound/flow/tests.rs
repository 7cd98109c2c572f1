use super::*;

const START: Time = Time::from_nanos(1_000_000_000);
const RTT: Duration = Duration::from_millis(60);
const NONCE: u64 = 7;

/// Returns a flow with a known round-trip time.
fn measured(rtt: Duration) -> (Flow, Time) {
    let mut flow = *Flow::of_window(0);
    assert!(flow.wants_rtt(START));
    flow.on_rtt_probe_sent(START, NONCE, None, None);
    assert!(!flow.wants_rtt(START + rtt));
    flow.on_rtt_answer(START + rtt, NONCE);
    (flow, START + rtt)
}

/// Receives a packet with data.
fn packet(flow: &mut Flow, now: Time, promised: u32, unread: u32) -> Option<u32> {
    if flow.on_packet(now, promised) { flow.turn(now, unread) } else { None }
}

/// Receives `packets` in each of `rounds` round-trip times, evenly.
fn rounds(flow: &mut Flow, now: &mut Time, rtt: Duration, rounds: u32, packets: u32) {
    for _ in 0..rounds * packets {
        packet(flow, *now, 0, 0);
        *now += rtt / packets;
    }
}

#[test]
fn steady_rate_makes_acknowledgements_rare() {
    let (mut flow, mut now) = measured(RTT);
    assert_eq!(flow.every(), EVERY_MIN);
    rounds(&mut flow, &mut now, RTT, 10, 1000);
    assert_eq!(flow.every(), EVERY_MAX);
    assert_eq!(flow.sack_delay(), RTT / 4);
}

#[test]
fn few_packets_keep_acknowledgements_frequent() {
    for (packets, every) in [(10, 2), (30, 2), (64, 4), (160, 10)] {
        let (mut flow, mut now) = measured(RTT);
        rounds(&mut flow, &mut now, RTT, 20, packets);
        assert_eq!(flow.every(), every, "{packets} packets in a round trip");
    }
}

#[test]
fn a_growing_rate_keeps_them_frequent() {
    let (mut flow, mut now) = measured(RTT);
    for doubling in 0..6 {
        rounds(&mut flow, &mut now, RTT, 1, 100 << doubling);
        assert_eq!(flow.every(), EVERY_MIN);
    }
}

#[test]
fn unknown_rtt_changes_nothing() {
    let mut flow = *Flow::of_window(0);
    let mut now = START;
    rounds(&mut flow, &mut now, RTT, 20, 1000);
    assert_eq!(flow.every(), EVERY_MIN);
    flow.on_rtt_probe_sent(now, NONCE, Some(RTT), None);
    rounds(&mut flow, &mut now, RTT, 20, 1000);
    assert_eq!(flow.every(), EVERY_MAX, "what the path knows will do");
}

#[test]
fn trouble_makes_acknowledgements_frequent_again() {
    let (mut flow, mut now) = measured(RTT);
    rounds(&mut flow, &mut now, RTT, 10, 1000);
    flow.on_irregular();
    assert_eq!(flow.every(), EVERY_MIN);
    rounds(&mut flow, &mut now, RTT, 1, 1000);
    assert_eq!(flow.every(), EVERY_MIN);
    rounds(&mut flow, &mut now, RTT, 10, 1000);
    assert_eq!(flow.every(), EVERY_MAX);
}

/// A sender with less in flight than an acknowledgement waits for stalls: that happens a few times at most.
#[test]
fn paused_sender_shortens_the_delay() {
    let (mut flow, mut now) = measured(RTT);
    rounds(&mut flow, &mut now, RTT, 10, 1000);
    flow.on_pause();
    assert_eq!(flow.every(), EVERY_MAX / 2);
    rounds(&mut flow, &mut now, RTT, 20, 1000);
    assert_eq!(flow.every(), EVERY_MAX / 2);
    rounds(&mut flow, &mut now, RTT, 20, 1000);
    assert_eq!(flow.every(), EVERY_MAX / 2 + 1, "forgiven by and by");
    for _ in 0..10 {
        flow.on_pause();
    }
    assert_eq!(flow.every(), EVERY_MIN);
}

#[test]
fn only_the_answer_to_the_latest_question_counts() {
    let mut flow = *Flow::of_window(0);
    flow.on_rtt_answer(START, 0);
    flow.on_rtt_probe_sent(START, NONCE, None, None);
    flow.on_rtt_answer(START + RTT, NONCE + 1);
    assert_eq!(flow.sack_delay(), Duration::from_millis(1), "not known");
    flow.on_rtt_answer(START + RTT, NONCE);
    assert_eq!(flow.sack_delay(), RTT / 4);
    flow.on_rtt_answer(START + 10 * RTT, NONCE);
    assert_eq!(flow.sack_delay(), RTT / 4, "once");
    assert!(flow.wants_rtt(START + RTT_AGE_MAX), "and it becomes old");
}

/// The measured bytes per round-trip time do not depend on the length of the round.
#[test]
fn it_measures_what_the_application_keeps_up_with() {
    let (mut flow, mut now) = measured(RTT);
    flow.on_advertised(1_000_000);
    assert_eq!(packet(&mut flow, now, 1_000_000, 0), None, "the first round begins");
    now += RTT / 2;
    assert_eq!(packet(&mut flow, now, 700_000, 0), None);
    flow.on_advertised(1_000_000);
    now += RTT / 2;
    assert_eq!(
        packet(&mut flow, now, 900_000, 100_000),
        Some(300_000),
        "what waits to be read does not count"
    );
    now += 2 * RTT;
    assert_eq!(packet(&mut flow, now, 700_000, 0), Some(150_000), "300,000 in two");
}
