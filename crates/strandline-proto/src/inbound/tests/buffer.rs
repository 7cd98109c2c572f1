//! The receive buffer (RFC 9260 sections 6.2 and 6.2.1): window, limits, and that nothing acknowledged is lost.

use allocation_counter::measure;

use super::*;

/// Sends whole messages of `len` bytes in order, with a SACK for each, until one is not accepted. Returns how many
/// were.
fn fill(rig: &mut Rig, len: usize) -> u32 {
    let payload = vec![7; len];
    (0..)
        .find(|&number| {
            let outcome = rig.take(&whole(FIRST + number, number as u16, &payload));
            rig.sack();
            outcome == DataOutcome::Dropped(DropReason::BufferFull)
        })
        .unwrap()
}

#[test]
fn the_window_follows_what_is_unread() {
    let mut rig = Rig::with_buffer(100_000);
    rig.take(&whole(FIRST, 0, &[7; 10_000]));
    assert_eq!(rig.sack().a_rwnd, 90_000);
    rig.take(&begin(FIRST + 1, 1, &[7; 10_000]));
    assert_eq!(rig.sack().a_rwnd, 80_000, "fragments count too");
    rig.take(&end(FIRST + 2, 1, &[7; 10_000]));
    assert_eq!(rig.sack().a_rwnd, 70_000);
    rig.recv();
    rig.recv();
    assert_eq!(rig.sack().a_rwnd, 100_000);
}

#[test]
fn full_buffer_drops_data_and_reports() {
    let mut rig = Rig::with_buffer(100_000);
    let taken = fill(&mut rig, 1000);
    assert_eq!(taken, 100);
    let outcome = rig.take(&whole(FIRST + taken, taken as u16, b"x"));
    assert_eq!(outcome, DataOutcome::Dropped(DropReason::BufferFull));
    assert!(rig.sack_due());
    assert_eq!(rig.sack(), Told { cumulative: FIRST + 99, a_rwnd: 0, gaps: vec![], duplicates: vec![] });
}

/// Without a SACK in between, the peer may send what the last one promised, and no more.
#[test]
fn promises_are_used_up() {
    let mut rig = Rig::with_buffer(100_000);
    let mut taken = 0;
    while rig.take(&whole(FIRST + taken, taken as u16, &[7; 1000])) == READABLE {
        taken += 1;
    }
    assert_eq!(taken, 100);
}

#[test]
fn reading_a_quarter_updates_the_window() {
    let mut rig = Rig::with_buffer(100_000);
    fill(&mut rig, 1000);
    for _ in 0..24 {
        rig.recv();
        assert!(!rig.sack_due());
    }
    rig.recv();
    assert!(rig.sack_due());
    assert_eq!(rig.sack().a_rwnd, 25_000);
    rig.recv();
    assert!(!rig.sack_due(), "one update, not a burst");
}

#[test]
fn tiny_messages_take_bounded_memory() {
    let mut rig = Rig::with_buffer(100_000);
    let mut taken = 0;
    let heap = measure(|| taken = fill(&mut rig, 1));
    // Data promised before small messages had used up the buffer is still accepted, up to twice the buffer.
    assert!(taken <= 200_000 / 64 + 1, "{taken}");
    assert!(heap.bytes_current < 200_000 + (64 << 10), "two buffers and a block: {heap:?}");
}

/// Tiny fragments that never become complete, as spread out as possible, without regard to the window.
#[test]
fn hostile_fragments_take_bounded_memory() {
    let mut rig = Rig::with_buffer(1_000_000);
    let mut refused = 0;
    let heap = measure(|| {
        for number in 0..32_000 {
            let outcome = rig.take(&middle(FIRST + 2 + 2 * number, 3, b"x"));
            refused += u32::from(outcome == DataOutcome::Dropped(DropReason::BufferFull));
        }
    });
    assert!((20_000..30_000).contains(&refused), "{refused}");
    assert!(heap.bytes_current < 2_000_000, "{heap:?}");
}

#[test]
fn hostile_stream_numbers_take_bounded_memory() {
    let mut rig = Rig::with_buffer(1_000_000);
    let heap = measure(|| {
        for number in 0..u32::from(u16::MAX / 3) {
            rig.take(&whole(FIRST + number, 5 + number as u16, b"x"));
        }
    });
    assert!(heap.bytes_current < 2_000_000, "{heap:?}");
    assert!(rig.recv().is_none());
}

/// With a buffer full of held data, the lowest gap is still filled: it releases all the rest.
#[test]
fn the_lowest_gap_is_filled_whatever_is_held() {
    let mut rig = Rig::with_buffer(10_000);
    let mut ssn = 1;
    while rig.take(&whole(FIRST + u32::from(ssn), ssn, &[7; 1000])) == ACCEPTED {
        rig.sack();
        ssn += 1;
    }
    assert_eq!(rig.sack().a_rwnd, 0);
    assert_eq!(rig.take(&whole(FIRST, 0, &[7; 1000])), READABLE);
    for _ in 0..ssn {
        assert!(rig.recv().is_some());
    }
    assert_eq!(rig.sack().a_rwnd, 10_000);
}

/// Tiny messages with every second one lost cost far more than their bytes; all of them still arrive.
#[test]
fn costs_do_not_stop_an_honest_sender() {
    let mut rig = Rig::with_buffer(10_000);
    let mut missing: Vec<u32> = (0..1000).collect();
    let mut received = 0;
    let mut loss = 0;
    for round in 0.. {
        assert!(round < 1000, "no progress: {} missing", missing.len());
        for number in missing {
            loss += 1;
            // Every second one is lost in the first rounds.
            if round >= 3 || loss % 2 == 1 {
                rig.take(&whole(FIRST + number, number as u16, b"x"));
            }
        }
        // A full buffer drops some again.
        missing = (0..1000).filter(|&number| !rig.inbound.map.contains(Tsn(FIRST + number))).collect();
        rig.sack();
        while let Some(message) = rig.recv() {
            assert_eq!(message.ssn, Ssn(received));
            received += 1;
        }
        if missing.is_empty() {
            break;
        }
    }
    assert_eq!(received, 1000);
}

/// Undeliverable data pressed in through gaps with nothing to read ends in an abort, not in memory growth.
#[test]
fn pressing_undeliverable_data_through_gaps_is_a_violation() {
    let mut rig = Rig::with_buffer(100_000);
    rig.take(&whole(FIRST + 60_000, 60_000, b"x"));
    let payload = [7; 1400];
    let violation = (0..60_000).find(|&number| {
        let outcome = rig.take(&whole(FIRST + number, 1 + number as u16, &payload));
        is_violation(outcome)
    });
    assert!(violation.is_some_and(|number| number < 700), "{violation:?}");
}

#[test]
fn a_larger_buffer_opens_the_window() {
    let mut rig = Rig::with_buffer(10_000);
    fill(&mut rig, 1000);
    rig.inbound.set_receive_buffer(50_000);
    assert_eq!(rig.sack().a_rwnd, 40_000);
    assert_eq!(rig.take(&whole(FIRST + 10, 10, b"x")), READABLE);
}

/// Data beyond a gap is not for the application to read. The sender is not held up while the gap is repaired, for as
/// many round trips as that takes.
#[test]
fn the_window_grows_while_something_is_missing() {
    const RTT_MS: u32 = 20;
    let ms = core::time::Duration::from_millis;
    let mut rig = Rig::new();
    let payload = [0; 1000];
    let mut tsn = FIRST;
    let mut round_trips = |rig: &mut Rig, count: u32, until: u32| {
        let mut told = Vec::new();
        for packet in 0..count * RTT_MS * 20 {
            if rig.inbound.flow.as_ref().is_some_and(|flow| flow.wants_rtt(rig.now)) {
                rig.inbound.on_rtt_probe_sent(rig.now, 7, Some(ms(u64::from(RTT_MS))), None);
            }
            if tsn != until {
                assert_ne!(
                    rig.take(&whole(tsn, (tsn - FIRST) as u16, &payload)),
                    DataOutcome::Dropped(DropReason::BufferFull)
                );
            }
            tsn += 1;
            rig.texts();
            told.push(rig.sack().a_rwnd);
            rig.now += ms(1) * u32::from(packet % 20 == 19);
        }
        told.into_iter().min().unwrap()
    };
    round_trips(&mut rig, 5, 0);
    let missing = FIRST + 5 * RTT_MS * 20;
    let least = round_trips(&mut rig, 10, missing);
    assert!(least > 800_000, "of 400,000 bytes in a round trip: {least}");
    assert!(rig.inbound.receive_buffer() > 5_000_000);
}
