//! A message's life: the send buffer, failure reports, and continuation after idle time.

use super::*;

/// TSN and SSN continue after the heap was freed.
#[test]
fn numbers_go_on_after_idle_release() {
    let mut fixture = Fixture::new();
    for round in 0..3 {
        fixture.push_on(2, 10);
        let chunk = &fixture.packet(0)[0];
        assert_eq!((chunk.tsn, chunk.ssn), (round, round as u16));
        let (outcome, _) = fixture.sack(round + 1, &[]);
        assert!(applied(outcome).all_acked);
        fixture.out.release_idle();
        assert_eq!(fixture.out.next_tsn(), Tsn(INITIAL) + round + 1);
        assert_eq!(fixture.out.cumulative_ack(), Tsn(INITIAL) + round);
        assert_eq!(fixture.raw_sack(Tsn(INITIAL - 1), &[]).0, SackOutcome::Ignored);
    }
}

#[test]
fn what_can_never_be_sent_is_refused() {
    let mut fixture = Fixture::new();
    let info = SendInfo::default();
    assert_eq!(
        fixture.out.push(Time::ZERO, info, &mut Bytes::new(), &fixture.config, |_| {
            fixture.config.send_buffer_start()
        }),
        Err(SendError::Empty)
    );
    fixture.config.message_size_max = 10;
    let refused = fixture
        .out
        .push(Time::ZERO, info, &mut message(11), &fixture.config, |_| fixture.config.send_buffer_start());
    assert_eq!(refused, Err(SendError::TooLarge { size: 11, limit: 10 }));
    assert_eq!(fixture.out.heap_bytes(), 0);
}

#[test]
fn full_send_buffer_blocks_until_half_free() {
    let mut fixture = Fixture::new();
    fixture.config.send_buffer = Some(10_000);
    for _ in 0..10 {
        fixture.push(1000);
    }
    assert_eq!(fixture.out.buffered_bytes(), 10_000);
    let refused = fixture.out.push(Time::ZERO, SendInfo::default(), &mut message(1), &fixture.config, |_| {
        fixture.config.send_buffer_start()
    });
    assert_eq!(refused, Err(SendError::WouldBlock));
    assert_eq!(fixture.packets(0).len(), 10);
    assert_eq!(fixture.out.buffered_bytes(), 10_000, "until it is acknowledged");
    for next in 1..5 {
        assert!(!applied(fixture.sack(next, &[]).0).writable);
    }
    assert!(applied(fixture.sack(5, &[]).0).writable);
    assert!(!applied(fixture.sack(6, &[]).0).writable, "once");
    assert!(!fixture.out.take_writable());
}

/// Bytes that a gap block acknowledged may be revoked: they stay in the buffer.
#[test]
fn gap_acknowledged_bytes_stay_in_the_send_buffer() {
    let mut fixture = Fixture::with_outstanding(3);
    fixture.sack(0, &[(1, 2)]);
    assert_eq!(fixture.out.buffered_bytes(), 3 * FULL);
    fixture.sack(3, &[]);
    assert_eq!(fixture.out.buffered_bytes(), 0);
}

#[test]
fn large_message_waits_for_its_room() {
    let mut fixture = Fixture::new();
    fixture.config.send_buffer = Some(10_000);
    for _ in 0..5 {
        fixture.push(1000);
    }
    let info = SendInfo::default();
    assert_eq!(
        fixture.out.push(Time::ZERO, info, &mut message(9000), &fixture.config, |_| {
            fixture.config.send_buffer_start()
        }),
        Err(SendError::WouldBlock)
    );
    fixture.packets(0);
    assert!(!applied(fixture.sack(3, &[]).0).writable, "8,000 bytes are free, 9,000 are needed");
    assert!(applied(fixture.sack(4, &[]).0).writable);
    fixture
        .out
        .push(Time::ZERO, info, &mut message(9000), &fixture.config, |_| fixture.config.send_buffer_start())
        .unwrap();
}

#[test]
fn oversized_message_enters_an_empty_buffer() {
    let mut fixture = Fixture::new();
    fixture.config.send_buffer = Some(10_000);
    let info = SendInfo::default();
    fixture.push(20_000);
    assert_eq!(
        fixture.out.push(Time::ZERO, info, &mut message(20_000), &fixture.config, |_| {
            fixture.config.send_buffer_start()
        }),
        Err(SendError::WouldBlock)
    );
    let last = fixture.tsns(0).len() as u32;
    assert!(!applied(fixture.sack(last - 1, &[]).0).writable);
    assert!(applied(fixture.sack(last, &[]).0).writable);
    fixture.push(20_000);
}

/// Otherwise the path would have nothing to send while a long message is copied.
#[test]
fn long_message_enters_a_half_empty_buffer() {
    let mut fixture = Fixture::new();
    let limit = fixture.config.send_buffer_start() as usize;
    let send_long = |fixture: &mut Fixture| {
        let room = fixture.config.send_buffer_start();
        let mut long = message(2 * limit);
        fixture.out.push(Time::ZERO, SendInfo::default(), &mut long, &fixture.config, |_| room)
    };
    for _ in 0..5 {
        fixture.push(limit / 8);
    }
    assert_eq!(send_long(&mut fixture), Err(SendError::WouldBlock), "five eighths are in use");
    let half = fixture.tsns(0).len() as u32 / 5;
    assert!(applied(fixture.sack(half, &[]).0).writable);
    assert_eq!(send_long(&mut fixture), Ok(()));
    assert_eq!(send_long(&mut fixture), Err(SendError::WouldBlock));
}

#[test]
fn number_of_messages_that_wait_is_limited() {
    let mut fixture = Fixture::new();
    fixture.config.send_messages_max = 4;
    for _ in 0..4 {
        fixture.push(1);
    }
    let refused = fixture.out.push(Time::ZERO, SendInfo::default(), &mut message(1), &fixture.config, |_| {
        fixture.config.send_buffer_start()
    });
    assert_eq!(refused, Err(SendError::WouldBlock));
    assert!(!fixture.out.take_writable());
    fixture.packet(0);
    assert!(fixture.out.take_writable());
    fixture.push(1);
}

/// The window is restored after a spurious time-out: refused senders are notified at once.
#[test]
fn who_waits_may_ask_again() {
    let mut fixture = Fixture::new();
    let start = fixture.config.send_buffer_start();
    let mut given = 0;
    let mut give = |fixture: &mut Fixture| {
        given += 1;
        fixture
            .out
            .push(Time::ZERO, SendInfo::default(), &mut message(60_000), &fixture.config, |_| start)
            .map(|_| given)
    };
    let refused = loop {
        match give(&mut fixture) {
            Ok(given) => assert!(given <= start / 60_000, "no end"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, SendError::WouldBlock);
    assert!(!fixture.out.take_writable());
    fixture.out.retry_blocked();
    assert!(fixture.out.take_writable());
    assert!(!fixture.out.take_writable(), "once");
}

/// Every message that is not acknowledged to its last byte is reported whole, once, in order.
#[test]
fn failures_are_reported_whole() {
    let mut fixture = Fixture::new();
    for (context, len) in [10, 2 * FULL + 5, 20, 30, 3 * FULL, 40].into_iter().enumerate() {
        let info = SendInfo { context: context as u32, ..SendInfo::default() };
        fixture
            .out
            .push(Time::ZERO, info, &mut message(len), &fixture.config, |_| {
                fixture.config.send_buffer_start()
            })
            .unwrap();
    }
    // 10 and a part; full; a part with 20 and 30 and the start of the next.
    for _ in 0..3 {
        fixture.packet(0);
    }
    let next = fixture.out.next_tsn();
    let (outcome, _) = fixture.sack(3, &[(4, 4)]);
    assert!(applied(outcome).newly_acked);
    let failed: Vec<_> = fixture
        .out
        .fail_all(FailureCause::AssociationEnded)
        .into_iter()
        .map(|f| (f.info.context, f.data.len(), f.sent))
        .collect();
    let expected =
        [(1, 2 * FULL + 5, true), (2, 20, true), (3, 30, true), (4, 3 * FULL, true), (5, 40, false)];
    assert_eq!(failed, expected, "of 1, fragments were acknowledged; 2 only by a gap block");
    assert!(fixture.out.is_empty());
    assert_eq!((fixture.out.next_tsn(), fixture.out.heap_bytes()), (next, 0));
    assert_eq!(fixture.out.fail_all(FailureCause::AssociationEnded).len(), 0);
}

/// The user's buffer is shared, not copied, and released with the last chunk of the message.
#[test]
fn buffer_is_kept_until_all_is_acknowledged() {
    let mut fixture = Fixture::new();
    let data = message(2 * FULL);
    fixture
        .out
        .push(Time::ZERO, SendInfo::default(), &mut data.clone(), &fixture.config, |_| {
            fixture.config.send_buffer_start()
        })
        .unwrap();
    let chunk = fixture.out.next_new(fixture.now, at(0), ROOM, ROOM).unwrap();
    assert_eq!(chunk.payload.as_ptr(), data.as_ptr());
    fixture.flight[0] += ROOM as u32;
    fixture.packet(0);
    fixture.sack(1, &[]);
    assert!(!data.is_unique());
    fixture.sack(2, &[]);
    assert!(data.is_unique());
}

#[test]
fn counts_for_status() {
    let mut fixture = Fixture::new();
    fixture.push(2 * FULL);
    fixture.push(10);
    fixture.new_chunk(0, ROOM);
    assert_eq!((fixture.out.unacknowledged_messages(), fixture.out.unacknowledged_bytes()), (1, FULL as u32));
    assert_eq!((fixture.out.pending_messages(), fixture.out.pending_bytes()), (1, FULL + 10));
    assert!(fixture.out.has_pending() && !fixture.out.is_empty());
}
