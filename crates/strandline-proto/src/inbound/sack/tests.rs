use super::*;

const NOW: Time = Time::from_nanos(1_000_000_000);
const DELAY: Duration = Duration::from_millis(200);

/// Returns a policy that has sent its first SACK.
fn begun() -> SackPolicy {
    let mut policy = SackPolicy::new();
    packet(&mut policy, NOW);
    policy.on_sent(NOW);
    policy
}

/// Receives a packet of one chunk, with one SACK for every second packet.
fn packet(policy: &mut SackPolicy, now: Time) {
    policy.on_chunk(false);
    end(policy, now, false);
}

fn end(policy: &mut SackPolicy, now: Time, has_gaps: bool) -> Run {
    let run = policy.run(has_gaps);
    policy.on_packet_end(now, false, 2, || DELAY);
    run
}

#[test]
fn the_first_data_is_acknowledged_at_once() {
    let mut policy = SackPolicy::new();
    assert!(!policy.pending());
    packet(&mut policy, NOW);
    assert!(policy.due(NOW));
    policy.on_sent(NOW);
    packet(&mut policy, NOW);
    assert!(!policy.due(NOW));
}

/// Section 6.2: at least every second packet, and within SACK.Delay.
#[test]
fn every_second_packet_or_after_the_delay() {
    let mut policy = begun();
    packet(&mut policy, NOW);
    assert!(!policy.due(NOW) && policy.pending());
    assert_eq!(policy.deadline(), NOW + Duration::from_millis(200));
    assert!(policy.due(NOW + Duration::from_millis(200)));
    packet(&mut policy, NOW + Duration::from_millis(5));
    assert!(policy.due(NOW + Duration::from_millis(5)));
    policy.on_sent(NOW);
    assert!(!policy.pending());
    assert_eq!(policy.deadline(), Time::MAX);
}

#[test]
fn delay_counts_from_the_first_waiting_packet() {
    let mut policy = begun();
    for ms in 0..5 {
        policy.on_chunk(false);
        policy.on_packet_end(NOW + Duration::from_millis(ms), false, 10, || DELAY);
    }
    assert_eq!(policy.deadline(), NOW + Duration::from_millis(200));
}

#[test]
fn it_knows_whether_it_waited_in_vain() {
    let mut policy = begun();
    packet(&mut policy, NOW);
    assert!(policy.on_sent(NOW + DELAY), "nothing more came");
    packet(&mut policy, NOW);
    assert!(!policy.on_sent(NOW), "it went with data of ours");
    packet(&mut policy, NOW);
    packet(&mut policy, NOW);
    assert!(!policy.on_sent(NOW + DELAY), "as many came as were to come");
}

/// Packets count, not chunks.
#[test]
fn a_packet_of_many_chunks_counts_once() {
    let mut policy = begun();
    for _ in 0..5 {
        policy.on_chunk(false);
    }
    end(&mut policy, NOW, false);
    assert!(!policy.due(NOW));
}

#[test]
fn urgent_packets_are_acknowledged_at_once() {
    type Case = (&'static str, fn(&mut SackPolicy));
    let cases: [Case; 4] = [
        ("I bit", |policy| {
            policy.on_chunk(true);
            end(policy, NOW, false);
        }),
        ("a gap after", |policy| {
            policy.on_chunk(false);
            end(policy, NOW, true);
        }),
        ("shutdown", |policy| {
            policy.on_chunk(false);
            policy.on_packet_end(NOW, true, 2, || DELAY);
        }),
        ("a gap before, a duplicate, or dropped", |policy| {
            policy.on_chunk(false);
            policy.on_irregular();
            end(policy, NOW, false);
        }),
    ];
    for (name, case) in cases {
        let mut policy = begun();
        case(&mut policy);
        assert!(policy.due(NOW), "{name}");
        policy.on_sent(NOW);
        packet(&mut policy, NOW);
        assert!(!policy.due(NOW), "{name}: only for its own packet");
    }
}

#[test]
fn long_runs_end_with_trouble_or_pause() {
    let mut policy = begun();
    let long = |policy: &mut SackPolicy| {
        (0..200).position(|_| {
            policy.on_chunk(false);
            end(policy, NOW, false) == Run::Long
        })
    };
    assert_eq!(long(&mut policy), Some(62), "with the packet of `begun`, the 64th");
    assert_eq!(long(&mut policy), Some(0));
    policy.on_chunk(false);
    assert_eq!(end(&mut policy, NOW, true), Run::Broken);
    assert_eq!(long(&mut policy), Some(63));
    policy.release_idle();
    assert_eq!(long(&mut policy), Some(63));
}
