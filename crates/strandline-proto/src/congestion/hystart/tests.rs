use super::*;

const PACKET: u32 = 1_000;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Rounds of slow start over a path of `rtt` that takes a packet each `takes` and never shows a queue; each window is
/// paced over half a round trip. Gives the window, in packets, with which slow start ended; `None`: it went on.
fn start(rtt: Duration, takes: Duration, rounds: u32) -> Option<u32> {
    start_of(HyStart::default(), rtt, takes, rounds)
}

fn start_of(mut hystart: HyStart, rtt: Duration, takes: Duration, rounds: u32) -> Option<u32> {
    let mut window = 10;
    let mut now = Time::ZERO + rtt;
    for _ in 0..rounds {
        let apart = (rtt / 2 / window).max(takes);
        let began = now;
        let flight = window * PACKET;
        for packet in 0..window {
            let at = began + apart * packet;
            match hystart.on_ack(at, PACKET, flight, PACKET, Some(rtt)) {
                Step::Grow(bytes) => window += bytes / PACKET,
                Step::Done => return Some(window),
            }
            now = at;
        }
        now = (began + rtt).max(now + apart);
    }
    None
}

#[test]
fn a_path_that_is_not_full_leaves_a_pause_in_each_round() {
    assert_eq!(start(MS(60), MS(0), 10), None);
}

#[test]
fn a_full_path_ends_slow_start_before_the_window_is_twice_what_fits() {
    for rtt in [40, 60, 200] {
        let fits = rtt * 2;
        let window = start(MS(rtt), Duration::from_micros(500), 20).unwrap();
        assert!((fits..fits * 2).contains(&u64::from(window)), "{rtt} ms: {window} of {fits}");
    }
}

#[test]
fn short_paths_are_not_judged_by_trains() {
    assert_eq!(start(MS(20), MS(1), 8), None);
}

#[test]
fn after_a_recovery_trains_say_nothing() {
    assert_eq!(start_of(HyStart::after_recovery(), MS(60), MS(1), 8), None);
}
