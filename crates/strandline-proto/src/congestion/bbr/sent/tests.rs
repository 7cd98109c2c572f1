//! The log never underestimates what was sent.

use proptest::prelude::*;

use super::*;

const RTT: Duration = Duration::from_millis(20);

fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_micros(us)
}

#[test]
fn interval_counts_what_was_sent_within() {
    let mut log = SentLog::default();
    for ms in 1..=10 {
        log.on_sent(at(ms * 1_000), 100, RTT);
        log.on_sent(at(ms * 1_000), 50, RTT);
    }
    assert_eq!(log.between(at(2_500), at(5_000)), 600, "from the batch before the first moment on");
    assert_eq!(log.between(at(9_500), at(20_000)), 300);
    assert_eq!(log.between(at(500), at(3_000)), u64::MAX, "nothing is known of that time");
}

proptest! {
    #[test]
    fn never_too_little_and_hardly_too_much(
        steps in prop::collection::vec((0_u64..3_000, 1_u32..3_000), 1..600),
        from in 0_u64..600_000,
        long in 0_u64..60_000,
    ) {
        let mut log = SentLog::default();
        let (mut now, mut all) = (1_000, Vec::new());
        for (pause, bytes) in steps {
            now += pause;
            log.on_sent(at(now), bytes, RTT);
            all.push((now, u64::from(bytes)));
        }
        let sum = |from: u64, to: u64| -> u64 {
            all.iter().filter(|(at, _)| *at > from && *at <= to).map(|(_, bytes)| bytes).sum()
        };
        let told = log.between(at(from), at(from + long));
        prop_assert!(told >= sum(from, from + long));
        // The log may be off by a sixty-fourth of the round trip on both sides, plus the batches at its ends.
        let grain = 20_000 / 64 + 1;
        let most = all.iter().filter(|(at, _)| *at <= from).map(|(at, _)| *at).next_back().unwrap_or(0);
        let more = sum(most.saturating_sub(grain + 1), from + long + grain);
        prop_assert!(told == u64::MAX || told <= more, "{told} {more}");
    }
}
