use super::*;

const KIB: u32 = 1 << 10;
const STREAM: StreamId = StreamId(3);
const RTT: Duration = Duration::from_millis(100);

/// Credits of 8 KiB for each stream, at most 64 KiB, before TSN 1.
fn credits(by_report: bool) -> Credits {
    let config = StreamCredit { initial: 8 * KIB, max: 64 * KIB, growth_max: 80 * KIB };
    let mut credits = Credits::new(8, Some(config), Tsn(0));
    credits.by_report = by_report;
    credits
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(1000 + ms)
}

fn accept(credits: &mut Credits, tsn: u32, len: usize) {
    assert!(credits.admits(STREAM, len));
    credits.on_accepted(STREAM, Tsn(tsn), len, Place::Next);
}

/// What the peer is told: bytes accepted, and the limit.
fn told(credits: &mut Credits, now: Time, cumulative: u32) -> (u32, u32) {
    credits.count_up_to(Tsn(cumulative));
    credits.due.clear();
    let Credit { accepted, limit, .. } = credits.grant(now, RTT, STREAM);
    (accepted, limit)
}

#[test]
fn unread_bytes_stay_within_the_credit() {
    let mut credits = credits(false);
    assert!(credits.admits(STREAM, 8192) && !credits.admits(STREAM, 8193));
    accept(&mut credits, 1, 5000);
    assert!(credits.admits(STREAM, 3192) && !credits.admits(STREAM, 3193));
    assert!(credits.admits(StreamId(4), 8192), "another stream has its own");
    // A quarter of the window is worth telling.
    assert!(!credits.on_received(STREAM, 2047));
    assert!(credits.on_received(STREAM, 1));
    assert!(!credits.on_received(STREAM, 1), "that is told already");
    // What was read does not count before the peer is told.
    assert!(!credits.admits(STREAM, 3193));
    assert_eq!(told(&mut credits, at(0), 1), (5000, 8192 + 2049));
    assert!(credits.admits(STREAM, 3192 + 2049) && !credits.admits(STREAM, 3193 + 2049));
}

#[test]
fn reading_counts_by_report_or_by_recv() {
    let mut credits = credits(true);
    accept(&mut credits, 1, 4000);
    assert!(!credits.on_received(STREAM, 4000));
    assert!(credits.on_gone(STREAM, 4000));
    // No more can be read than has arrived.
    assert!(!credits.on_gone(STREAM, 4000));
    assert_eq!(told(&mut credits, at(0), 1), (4000, 4000 + 8192));
}

#[test]
fn bytes_beyond_a_gap_are_not_yet_accepted() {
    let mut credits = credits(false);
    accept(&mut credits, 1, 100);
    credits.on_accepted(STREAM, Tsn(3), 200, Place::Ahead);
    credits.on_accepted(STREAM, Tsn(5), 300, Place::Ahead);
    // They use up credit all the same.
    assert!(credits.admits(STREAM, 8192 - 600) && !credits.admits(STREAM, 8193 - 600));
    assert_eq!(told(&mut credits, at(0), 1), (100, 8192));
    credits.on_accepted(STREAM, Tsn(2), 10, Place::Next);
    assert_eq!(told(&mut credits, at(0), 3), (310, 8192));
    // TSN 4 was abandoned by the peer.
    assert_eq!(told(&mut credits, at(0), 5), (610, 8192));
    assert!(credits.beyond.is_empty());
}

#[test]
fn gaps_across_the_end_of_the_numbers() {
    let mut credits = credits(false);
    credits.counted_to = Tsn(u32::MAX - 1);
    credits.on_accepted(STREAM, Tsn(1), 200, Place::Ahead);
    credits.on_accepted(STREAM, Tsn(2), 300, Place::Ahead);
    assert_eq!(told(&mut credits, at(0), u32::MAX), (0, 8192));
    assert_eq!(told(&mut credits, at(0), 1), (200, 8192));
    assert_eq!(told(&mut credits, at(0), 2), (500, 8192));
}

#[test]
fn sums_continue_beyond_32_bits() {
    let mut credits = credits(false);
    accept(&mut credits, 1, 1);
    let account = credits.accounts.get_mut(&STREAM).unwrap();
    let before = u32::MAX - 10;
    (account.accepted, account.read, account.limit) = (before, before, before.wrapping_add(8192));
    accept(&mut credits, 2, 8000);
    assert!(!credits.admits(STREAM, 193));
    assert!(credits.on_received(STREAM, 8000));
    let end = before.wrapping_add(8000);
    assert_eq!(told(&mut credits, at(0), 2), (end, end.wrapping_add(8192)));
}

#[test]
fn window_grows_while_its_reader_waits() {
    let mut credits = credits(false);
    let (mut tsn, mut now) = (0, at(0));
    let mut read = |credits: &mut Credits, wait: u64| {
        tsn += 1;
        now += Duration::from_millis(wait);
        let len = credits.accounts.get(&STREAM).map_or(8192, |account| account.window) / 4;
        accept(credits, tsn, len as usize);
        assert!(credits.on_received(STREAM, len as usize));
        told(credits, now, tsn);
        credits.accounts[&STREAM].window
    };
    // A quarter in half of a round trip, or in less.
    assert_eq!(read(&mut credits, 50), 8192);
    assert_eq!(read(&mut credits, 50), 8192);
    assert_eq!(read(&mut credits, 49), 16 * KIB);
    assert_eq!(read(&mut credits, 500), 16 * KIB);
    for window in [32 * KIB, 64 * KIB, 64 * KIB] {
        assert_eq!(read(&mut credits, 1), window);
    }
}

#[test]
fn reset_streams_begin_anew() {
    let mut credits = credits(true);
    accept(&mut credits, 1, 4000);
    credits.on_accepted(STREAM, Tsn(3), 500, Place::Ahead);
    credits.reset(&STREAM.into());
    assert!(credits.admits(STREAM, 8192));
    // What was unread belongs to the account of before.
    assert!(!credits.on_gone(STREAM, 4000));
    accept(&mut credits, 4, 1000);
    assert_eq!(told(&mut credits, at(0), 4), (1000, 8192));
}

#[test]
fn data_after_a_reset_of_all_is_kept() {
    let mut credits = credits(false);
    accept(&mut credits, 1, 4000);
    credits.note();
    accept(&mut credits, 2, 100);
    accept(&mut credits, 3, 200);
    assert!(!credits.on_received(STREAM, 100));
    credits.go_on(Tsn(3));
    // The 200 bytes count as read: fewer than that can be unread beyond the credit.
    assert_eq!(told(&mut credits, at(0), 3), (200, 8192 + 200));
    assert!(credits.recent.is_none());
    credits.renumber(Tsn(77));
    assert!(credits.accounts.is_empty() && credits.counted_to == Tsn(76));
}

/// Readers that were fast before they stop hold a limited sum, and what is closed leaves room for others.
#[test]
fn windows_grow_within_a_common_limit() {
    let mut credits = credits(false);
    let mut tsn = 0;
    let mut read = |credits: &mut Credits, stream: u16, ms: u64| {
        let stream = StreamId(stream);
        for round in 0..8 {
            let len = credits.accounts.get(&stream).map_or(8 * KIB, |account| account.window) / GRANT_DIVISOR;
            tsn += 1;
            credits.on_accepted(stream, Tsn(tsn), len as usize, Place::Next);
            assert!(credits.on_received(stream, len as usize));
            credits.due.clear();
            credits.grant(at(ms + round), RTT, stream);
        }
        credits.accounts[&stream].window
    };
    assert_eq!(read(&mut credits, 1, 0), 64 * KIB);
    // 56 KiB of the 80 are used: 8 and 16 more fit, and 32 don't.
    assert_eq!(read(&mut credits, 2, 100), 32 * KIB);
    assert_eq!(read(&mut credits, 3, 200), 8 * KIB);
    credits.reset(&Streams::from(StreamId(1)));
    assert_eq!(read(&mut credits, 3, 300), 64 * KIB);
    credits.reset(&Streams::All);
    assert_eq!(credits.grown, 0);
}
