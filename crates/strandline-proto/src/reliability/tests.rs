//! The limits of messages as numbers.

use super::*;

#[test]
fn limits_are_kept_within_bounds() {
    let limit = |reliability: Reliability| (reliability.is_full(), reliability.limit());
    assert_eq!(limit(Reliability::FULL), (true, Limit::None));
    assert_eq!(limit(Reliability::default()), (true, Limit::None));
    assert_eq!(limit(Reliability::lifetime(Duration::ZERO)), (false, Limit::Lifetime { millis: 0 }));
    assert_eq!(limit(Reliability::lifetime(Duration::MAX)), (false, Limit::Lifetime { millis: VALUE_MAX }));
    for max in [0, 3, u16::MAX] {
        assert_eq!(limit(Reliability::retransmissions(max)), (false, Limit::Retransmissions { max }));
    }
    for (given, number) in [(0, 0), (7, 7), (u32::MAX, VALUE_MAX)] {
        assert_eq!(limit(Reliability::priority(given)), (false, Limit::Priority { number }));
    }
}
