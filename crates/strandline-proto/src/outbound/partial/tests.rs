//! The indices of messages with limits.

use super::*;
use crate::outbound::messages::Payload;

/// Messages that leave in time don't accumulate entries.
#[test]
fn entries_of_messages_that_left_are_dropped() {
    let (mut partial, mut messages) = (Partial::default(), Messages::default());
    for at in 0..10_000 {
        let reliability = match at % 2 {
            0 => Reliability::lifetime(Duration::from_secs(3600 + u64::from(at))),
            _ => Reliability::priority(at),
        };
        let info = SendInfo::default().reliability(reliability);
        let payload = Payload::Shared(vec![1; 10].into());
        let key = messages.insert(Message::new(info, payload));
        partial.on_pushed(Time::ZERO, key, reliability, &messages);
        assert!(messages.fail(key, FailureCause::Expired, |_| reliability).is_some());
    }
    assert!(partial.expiries.len() <= OUTDATED_MAX + 2, "{}", partial.expiries.len());
    assert!(partial.priorities.len() <= OUTDATED_MAX + 2, "{}", partial.priorities.len());
    assert!(partial.terms.len() <= OUTDATED_MAX + 2, "{}", partial.terms.len());
}
