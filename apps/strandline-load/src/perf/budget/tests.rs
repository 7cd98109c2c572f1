use super::super::protocol::tests::parameters;
use super::super::protocol::{Length, Parameters};
use super::super::tally::now;
use super::*;

#[test]
fn unlimited_turn_is_at_most_64_kib() {
    for (message_bytes, messages) in [(1, 256), (64, 256), (8192, 8), (1 << 20, 1)] {
        let parameters = Parameters { message_bytes, ..parameters() };
        let mut budget = Budget::new(&parameters, 0, now());
        let clock = || unreachable!("without a rate the clock is not read");
        assert_eq!(budget.turn(clock), Turn::Send { messages, bytes: message_bytes as usize });
    }
}

#[test]
fn bytes_are_sent_exactly_by_all_flows_together() {
    for (total, flows, message_bytes) in [(10_000, 1, 1000), (10_001, 3, 1000), (7, 7, 64), (1 << 20, 5, 3)] {
        let length = Length::Bytes(total);
        let parameters = Parameters { length, flows, message_bytes, ..parameters() };
        parameters.validate().unwrap();
        let mut sum = 0;
        for flow in 0..flows {
            let mut budget = Budget::new(&parameters, flow, now());
            while let Turn::Send { messages, bytes } = budget.turn(now) {
                assert!(messages > 0 && bytes > 0 && bytes <= message_bytes as usize);
                sum += u64::from(messages) * bytes as u64;
            }
        }
        assert_eq!(sum, total);
    }
}

#[test]
fn rate_is_kept_despite_lost_time() {
    let begin = now();
    // 1,000 messages per second in two flows.
    let parameters =
        Parameters { message_bytes: 100, bits_per_second: Some(800_000), flows: 2, ..parameters() };
    let mut budget = Budget::new(&parameters, 0, begin);
    let mut send_at = |ms: u64| {
        let mut sum = 0;
        while let Turn::Send { messages, .. } = budget.turn(|| begin + Duration::from_millis(ms)) {
            sum += messages;
        }
        sum
    };
    assert_eq!([send_at(0), send_at(1), send_at(3)], [1, 0, 1]);
    assert_eq!(send_at(1000), 499, "what was missed is made up for");
    let next = budget.turn(|| begin + Duration::from_millis(1001));
    assert_eq!(next, Turn::WaitUntil(begin + Duration::from_millis(1002)));
}
