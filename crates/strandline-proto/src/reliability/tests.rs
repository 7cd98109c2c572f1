//! The limits of messages as numbers.

use super::*;

#[test]
fn limits_are_kept_within_bounds() {
    let limit = |reliability: Reliability| (reliability.is_full(), reliability.limit());
    assert_eq!(limit(Reliability::FULL), (true, Limit::None));
    assert_eq!(
        (Reliability::default(), limit(Reliability::DEFAULT)),
        (Reliability::DEFAULT, (true, Limit::None))
    );
    assert_eq!(limit(Reliability::lifetime(Duration::ZERO)), (false, Limit::Lifetime { millis: 0 }));
    assert_eq!(limit(Reliability::lifetime(Duration::MAX)), (false, Limit::Lifetime { millis: VALUE_MAX }));
    for max in [0, 3, u16::MAX] {
        assert_eq!(limit(Reliability::retransmissions(max)), (false, Limit::Retransmissions { max }));
    }
    for (given, number) in [(0, 0), (7, 7), (u32::MAX, VALUE_MAX)] {
        assert_eq!(limit(Reliability::priority(given)), (false, Limit::Priority { number }));
    }
}

/// Only a message without a limit of its own has that of the association.
#[test]
fn limits_have_a_default() {
    let once = Reliability::retransmissions(0);
    for own in [Reliability::FULL, Reliability::priority(0), Reliability::lifetime(Duration::ZERO)] {
        assert_eq!(own.or(once), own);
    }
    assert_eq!(Reliability::DEFAULT.or(once), once);
    assert_eq!(Reliability::DEFAULT.or(Reliability::DEFAULT), Reliability::DEFAULT);
}
