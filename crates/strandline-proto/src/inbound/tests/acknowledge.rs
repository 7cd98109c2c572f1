//! The contents and the timing of SACKs (RFC 9260 sections 3.3.4, 6.2 and 6.7).

use core::time::Duration;

use proptest::prelude::*;

use super::*;

/// Returns a rig whose first message has been acknowledged and read.
fn begun() -> Rig {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST, 0, b"first"));
    assert!(rig.sack_due());
    rig.sack();
    rig.recv();
    rig
}

#[test]
fn a_sack_tells_all() {
    let mut rig = begun();
    let size = rig.config.receive_buffer_start();
    for (tsn, ssn) in [(102, 2), (103, 3), (105, 5)] {
        rig.take(&whole(tsn, ssn, &[1; 1000]));
    }
    rig.take(&whole(103, 3, &[1; 1000]));
    rig.take(&whole(90, 3, &[1; 1000]));
    let expected = Told {
        cumulative: 100,
        a_rwnd: size - 3 * (1000 + HELD_COST as u32),
        gaps: vec![(2, 3), (5, 5)],
        duplicates: vec![103, 90],
    };
    assert_eq!(rig.inbound.a_rwnd(), expected.a_rwnd);
    assert_eq!(rig.sack(), expected);
    assert_eq!(rig.sack(), Told { duplicates: vec![], ..expected });
}

/// As many gap blocks as fit, the lowest first; duplicates only if there is still room (section 6.7).
#[test]
fn a_sack_holds_what_fits() {
    let mut rig = begun();
    for number in 0..100 {
        rig.take(&whole(FIRST + 2 + 2 * number, 2 + 2 * number as u16, b"x"));
    }
    rig.take(&whole(FIRST, 0, b"x"));
    let told = rig.sack_within(12 + 16 + 5 * 4);
    assert_eq!(told.gaps, [(2, 2), (4, 4), (6, 6), (8, 8), (10, 10)]);
    assert!(told.duplicates.is_empty());
    let mut buffer = [0; 12 + 15];
    let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    rig.take(&whole(FIRST, 0, b"x"));
    assert!(!rig.inbound.write_sack(NOW, &mut packet, usize::MAX, false));
    assert!(rig.sack_due(), "it still has to go");
}

#[test]
fn every_second_packet_else_after_the_delay() {
    let mut rig = begun();
    rig.take(&whole(101, 1, b"x"));
    assert!(!rig.sack_due());
    assert!(rig.inbound.sack_pending());
    assert_eq!(rig.inbound.sack_deadline(), NOW + Duration::from_millis(200));
    rig.take(&whole(102, 2, b"x"));
    assert!(rig.sack_due());
    rig.sack();
    assert!(!rig.inbound.sack_pending());
    rig.take(&whole(103, 3, b"x"));
    rig.now += Duration::from_millis(200);
    assert!(rig.sack_due());
}

/// Section 6.7: at once on a gap, with every packet while it is open, and when it closes.
#[test]
fn gaps_are_reported_at_once() {
    let mut rig = begun();
    for (tsn, ssn) in [(102, 2), (103, 3), (105, 5), (101, 1), (104, 4)] {
        rig.take(&whole(tsn, ssn, b"x"));
        assert!(rig.sack_due(), "{tsn}");
        rig.sack();
    }
    rig.take(&whole(106, 6, b"x"));
    assert!(!rig.sack_due());
}

/// Returns a rig that received data in volume, and then 40 chunks with one missing before each, which the last SACK
/// reported.
fn crowded(change: impl FnOnce(&mut AssociationConfig)) -> (Rig, u32) {
    let mut rig = begun();
    change(&mut rig.config);
    let mut next = FIRST + 1;
    for _ in 0..100 {
        rig.take(&whole(next, (next - FIRST) as u16, b"x"));
        rig.recv();
        next += 1;
    }
    for _ in 0..40 {
        next += 2;
        rig.take(&whole(next - 1, (next - 1 - FIRST) as u16, b"x"));
        assert!(rig.sack_due(), "so far each is worth one");
        if rig.sack().gaps.len() == 32 {
            break;
        }
    }
    (rig, next)
}

/// Decision 59: after a SACK with many gaps the next one waits for a packet per eight of them, or for a millisecond.
#[test]
fn many_gaps_reduce_the_sack_rate() {
    let (mut rig, mut next) = crowded(|_| ());
    for waits in [true, true, true, false, true] {
        rig.take(&whole(next, (next - FIRST) as u16, b"x"));
        next += 1;
        assert_eq!(rig.sack_due(), !waits);
        if !waits {
            assert_eq!(rig.sack().gaps.len(), 32);
        }
    }
    rig.now += Duration::from_millis(1);
    assert!(rig.sack_due());
    rig.sack();
    let asks = Data { immediate: true, ..whole(next, (next - FIRST) as u16, b"x") };
    rig.take(&asks);
    assert!(rig.sack_due(), "who asks is answered");
    rig.sack();
    // With fewer gaps each packet is acknowledged.
    for tsn in (FIRST + 101..FIRST + 107).step_by(2) {
        rig.take(&whole(tsn, (tsn - FIRST) as u16, b"x"));
        rig.sack();
    }
    rig.take(&whole(next + 1, (next + 1 - FIRST) as u16, b"x"));
    assert!(rig.sack_due());
}

/// With a fixed number of packets per acknowledgement, section 6.7 applies strictly.
#[test]
fn a_fixed_frequency_is_kept_with_many_gaps() {
    let (mut rig, next) = crowded(|config| config.sack_frequency = SackFrequency::Every(2));
    rig.take(&whole(next, (next - FIRST) as u16, b"x"));
    assert!(rig.sack_due());
}

#[test]
fn duplicates_and_i_bit_are_answered_immediately() {
    let mut rig = begun();
    rig.take(&whole(100, 0, b"first"));
    assert!(rig.sack_due());
    assert_eq!(rig.sack().duplicates, [100]);
    rig.take(&Data { immediate: true, ..whole(101, 1, b"x") });
    assert!(rig.sack_due());
}

#[test]
fn what_lies_too_far_ahead_is_not_acknowledged() {
    let mut rig = begun();
    let outcome = rig.take(&whole(FIRST + 65_536, 9, b"x"));
    assert_eq!(outcome, DataOutcome::Dropped(DropReason::TooFarAhead));
    assert!(rig.sack_due());
    assert!(rig.sack().gaps.is_empty());
    assert_eq!(rig.take(&whole(FIRST + 65_535, 9, b"x")), ACCEPTED);
    assert_eq!(rig.sack().gaps, [(65_535, 65_535)]);
}

/// The contents of a packet.
#[derive(Debug, Clone, Copy)]
enum Brings {
    Next,
    /// The TSN after the next one, unless that is missing already.
    Ahead,
    /// The missing TSN, if there is one.
    Missing,
    Again,
    /// The next TSN, with the I bit.
    Asks,
}

fn brings() -> impl Strategy<Value = Brings> {
    prop_oneof![
        200 => Just(Brings::Next),
        1 => Just(Brings::Ahead),
        4 => Just(Brings::Missing),
        1 => Just(Brings::Again),
        1 => Just(Brings::Asks),
    ]
}

proptest! {
    /// However rare acknowledgements become: at once if something is missing, a duplicate, or requested; after 200 ms
    /// or 16 packets at the latest, and after two until 64 have arrived in a row (sections 6.2 and 6.7, decision 33).
    #[test]
    fn no_sack_is_later_than_allowed(
        packets in prop::collection::vec((brings(), prop_oneof![20 => 1_u64..300, 1 => 1_u64..300_000]), 1..900),
    ) {
        let mut rig = begun();
        let (mut next, mut missing, mut in_row) = (FIRST + 1, None, 0);
        let (mut waiting, mut since) = (0, Time::MAX);
        for (brings, pause_us) in packets {
            rig.now += Duration::from_micros(pause_us);
            if since != Time::MAX && since + Duration::from_millis(200) <= rig.now {
                prop_assert!(rig.sack_due(), "{waiting} wait for more than 200 ms");
            }
            if rig.sack_due() {
                rig.sack();
                (waiting, since) = (0, Time::MAX);
            }
            let gap_before = missing.is_some();
            let tsn = match brings {
                Brings::Again => FIRST,
                Brings::Ahead if missing.is_none() => {
                    missing = Some(next);
                    next += 2;
                    next - 1
                }
                Brings::Missing if missing.is_some() => missing.take().unwrap(),
                _ => {
                    next += 1;
                    next - 1
                }
            };
            let immediate = matches!(brings, Brings::Asks);
            let data = Data { immediate, ..whole(tsn, (tsn - FIRST) as u16, &[1; 1400]) };
            rig.inbound.on_data(&data, &mut rig.arena, rig.config.partial_delivery_point);
            if rig.inbound.on_packet_end(rig.now, false, &rig.config, || 1 << 24) {
                rig.inbound.on_rtt_probe_sent(rig.now, 7, None, None);
                rig.inbound.on_rtt_answer(rig.now + Duration::from_millis(20), 7);
            }
            while rig.inbound.recv().is_some() {}
            let trouble = gap_before || missing.is_some() || matches!(brings, Brings::Again);
            in_row = if trouble { 0 } else { in_row + 1 };
            waiting += 1;
            since = since.min(rig.now);
            let most = if in_row < 64 { 2 } else { 16 };
            if trouble || immediate || waiting >= most {
                prop_assert!(rig.sack_due(), "{brings:?}, {waiting} wait, {in_row} in a row");
            }
        }
    }
}
