use super::*;

const PACKET: u32 = 1_000;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Runs `rounds` rounds of slow start over a path of `rtt` that needs `takes` for each packet. Each window is sent
/// over `paced` eighths of a round trip. Returns the window in packets at which slow start ended, or `None` if it did
/// not.
fn start(rtt: Duration, takes: Duration, paced: u32, rounds: u32) -> Option<u32> {
    let mut hystart = HyStart::default();
    let mut window = 10;
    let mut now = Time::ZERO + rtt;
    for _ in 0..rounds {
        let sent_apart = rtt / 8 * paced / window;
        let apart = sent_apart.max(takes);
        let began = now;
        let flight = window * PACKET;
        let sent = window;
        for packet in 0..sent {
            let queued = (apart - sent_apart) * packet;
            now = began + apart * packet;
            match hystart.on_ack(now, PACKET, flight, PACKET, Some(rtt + queued)) {
                Step::Grow(bytes) => window += bytes / PACKET,
                Step::Done => return Some(window),
            }
        }
        now = (began + rtt).max(now + apart);
    }
    None
}

#[test]
fn unfilled_path_pauses_in_each_round() {
    assert_eq!(start(MS(60), MS(0), 4, 10), None);
}

#[test]
fn full_path_ends_slow_start_before_twice() {
    for rtt in [20, 40, 60, 200] {
        let fits = rtt * 2;
        let window = start(MS(rtt), Duration::from_micros(500), 4, 20).unwrap();
        assert!((fits..fits * 2).contains(&u64::from(window)), "{rtt} ms: {window} of {fits}");
    }
}

/// After a recovery each acknowledged packet is replaced at once, so that the train lasts the whole round trip.
#[test]
fn train_as_long_as_sent_says_nothing() {
    assert_eq!(start(MS(60), MS(0), 8, 10), None);
}

#[test]
fn short_paths_are_not_judged_by_trains() {
    assert_eq!(start(MS(8), MS(1), 4, 5), None);
}

/// A round must not begin later than its first acknowledgement. Otherwise each one begins later than the one before
/// by twice as much, and the trains look shorter than they are.
#[test]
fn round_begins_with_its_first_acknowledgement() {
    let mut hystart = HyStart::default();
    let (rtt, mut window) = (MS(60), 10);
    for round in 1..8 {
        let began = Time::ZERO + rtt * round;
        let flight = window * PACKET;
        for packet in 0..window / 2 {
            let now = began + rtt / 2 / window * packet;
            assert_eq!(
                hystart.on_ack(now, 2 * PACKET, flight, 2 * PACKET, Some(rtt)),
                Step::Grow(2 * PACKET)
            );
            assert_eq!(hystart.round_began, began, "round {round}, {packet}");
        }
        window *= 2;
    }
}

/// Reordering delays single packets, which is no sign of a queue.
#[test]
fn a_packet_that_was_overtaken_shows_no_queue() {
    let mut hystart = HyStart::default();
    let rtt = MS(60);
    let mut now = Time::ZERO + rtt;
    for packet in 0..20_000u32 {
        // Acknowledgements spread over the round trip, as after a recovery; every twentieth is 10 ms late.
        now += Duration::from_micros(300);
        let late = if packet % 20 == 19 { MS(10) } else { MS(0) };
        let step = hystart.on_ack(now, PACKET, 200 * PACKET, PACKET, Some(rtt + late));
        assert_ne!(step, Step::Done, "packet {packet}");
    }
}

/// An acknowledgement covers up to 128 packets.
#[test]
fn sparse_acknowledgements_still_form_a_train() {
    let mut hystart = HyStart::default();
    let (rtt, window) = (MS(200), 30 * PACKET);
    for round in 0..20u32 {
        for ack in 0..15u32 {
            let now = Time::ZERO + rtt * (round + 1) + MS(13) * ack;
            let queued = MS(3) * ack;
            if hystart.on_ack(now, window / 15, window, window / 15, Some(rtt + queued)) == Step::Done {
                return;
            }
        }
    }
    panic!("slow start went on though the path took as much as a round trip for each window");
}

/// After a long train the window grows more slowly until the queue is half a round trip long.
#[test]
fn long_train_allows_half_an_rtt_of_queue() {
    let mut hystart = HyStart::default();
    let (rtt, takes) = (MS(100), MS(1));
    // The window is in packets. The path holds 100.
    let (mut window, mut now, mut slower) = (50_u32, Time::ZERO + rtt, false);
    for _ in 0..20 {
        let began = now;
        for packet in 0..window {
            // A quarter of a round trip to send the window, more to transmit it.
            now = began + takes * packet;
            let queued = (takes - rtt / 4 / window).saturating_mul(packet);
            match hystart.on_ack(now, PACKET, window * PACKET, PACKET, Some(rtt + queued)) {
                Step::Grow(bytes) if bytes < PACKET => slower = true,
                Step::Grow(_) => {}
                Step::Done => {
                    assert!(slower, "the train came first");
                    assert!(queued >= rtt / 2, "{queued:?}");
                    return;
                }
            }
        }
        window = if slower { window + window / 4 } else { window * 2 };
        now = (began + rtt).max(now + takes);
    }
    panic!("slow start went on with a window of {window} packets");
}

/// The delay shows before the train is long and falls again at the start of the next round, because a burst meets its
/// own queue only at its end. The train still counts.
#[test]
fn long_train_counts_after_a_delay_signal() {
    let mut hystart = HyStart::default();
    let rtt = MS(200);
    let mut grow = |round: u32, ack: u32, queued: Duration| {
        let now = Time::ZERO + rtt * round + MS(2) * ack;
        hystart.on_ack(now, PACKET, 90 * PACKET, PACKET, Some(rtt + queued))
    };
    for ack in 0..90 {
        assert_eq!(grow(1, ack, MS(0)), Step::Grow(PACKET));
    }
    for ack in 0..90 {
        grow(2, ack, MS(20) + MS(1) * ack / 4);
    }
    for ack in 0..90 {
        assert_eq!(grow(3, ack, MS(1)), Step::Grow(PACKET / CONSERVATIVE_DIVISOR), "{ack}");
    }
}

/// A queue of half a round trip ends slow start, whatever signal came first.
#[test]
fn queue_of_half_an_rtt_ends_slow_start() {
    let mut hystart = HyStart::default();
    let mut grow = |round: u32, ack: u32, rtt: Duration| {
        let now = Time::ZERO + MS(100) * round + MS(1) * ack;
        hystart.on_ack(now, PACKET, 50 * PACKET, PACKET, Some(rtt))
    };
    for ack in 0..50 {
        grow(1, ack, MS(100));
    }
    for ack in 0..10 {
        assert_ne!(grow(2, ack, MS(120)), Step::Done);
    }
    assert!((10..50).any(|ack| grow(2, ack, MS(155)) == Step::Done));
}
