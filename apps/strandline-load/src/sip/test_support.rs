//! Helpers for tests of the engine, independent of the scenario's source.

use std::time::{Duration, Instant};

use super::engine::Engine;
use super::plan::{Plan, Scenario, T1};
use super::text::Style;

#[allow(clippy::disallowed_methods, reason = "any moment will do")]
pub(super) fn start() -> Instant {
    Instant::now()
}

/// Returns an engine with two phones at 127.0.0.2:1000 and 127.0.0.3:1001, over UDP.
pub(super) fn engine(scenario: Scenario, closed: bool, begin: Instant) -> Engine {
    let style = Style {
        transport: "UDP",
        uri_parameter: "",
        domain: "example.com".to_owned(),
        run: 7,
        first: 0,
        expires_secs: 60,
        removes: false,
    };
    let addresses = vec![([127, 0, 0, 2], 1000).into(), ([127, 0, 0, 3], 1001).into()];
    let plan = Plan {
        scenario,
        renewals: 0.0,
        users: 2,
        closed,
        limit: u64::MAX,
        timeout: Duration::from_secs(10),
        unreliable: true,
        counted_from: begin,
        until: begin + Duration::from_secs(60),
    };
    Engine::new(style, addresses, plan)
}

/// Returns the messages to send: the source of each, and its text.
pub(super) fn sent(engine: &mut Engine) -> Vec<(usize, String)> {
    let out = std::mem::take(&mut engine.out);
    let text = |(source, start, end): &(usize, usize, usize)| {
        (*source, String::from_utf8(out.bytes[*start..*end].to_vec()).unwrap())
    };
    out.messages.iter().map(text).collect()
}

/// Asserts that an unanswered request is retransmitted as in RFC 3261 section 17.1.2.2, and given up.
pub(super) fn assert_given_up(mut engine: Engine, begin: Instant) {
    engine.begin(begin, begin);
    let first = sent(&mut engine);
    let mut again = Vec::new();
    for half_seconds in 1..=20 {
        engine.handle_timeout(begin + T1 * half_seconds);
        let now = sent(&mut engine);
        assert!(now.iter().all(|message| *message == first[0]));
        again.extend(now.iter().map(|_| half_seconds));
    }
    assert_eq!(again, [1, 3, 7, 15]);
    assert_eq!((engine.outcome.timed_out, engine.outcome.retransmitted, engine.under_way()), (1, 4, 0));
}
