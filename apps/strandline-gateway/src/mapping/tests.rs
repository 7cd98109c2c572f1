use std::time::Duration;

use super::{Direct, Health, Inputs, Map, Measurement, State, decide};

const MS: Duration = Duration::from_millis(1);

fn flow(loss: Option<f64>, packets: u32, queued: u32) -> Measurement {
    Measurement { loss, window: packets * 1500, packet: 1500, queued }
}

/// A window of 100 packets without losses, and nothing that waits.
fn open() -> Measurement {
    flow(Some(0.0), 100, 0)
}

fn up(up: Measurement) -> State {
    State::Up(Health { answers: true, rtt: Some(60 * MS), up, down: None, contexts: 2, contexts_max: 2 })
}

fn inputs(map: Map, association: State, direct: Direct) -> Inputs {
    Inputs { map, has_fallback: true, is_direct: true, is_special: false, association, direct }
}

fn is(question: &Inputs, route: &str, reason: &str) {
    let found = decide(question);
    assert_eq!((found.route.name(), found.reason), (route, reason), "{question:?}");
}

/// Rules and the fallback come first.
#[test]
fn rules_and_fallbacks() {
    let none = Direct::default();
    let beginning = State::Beginning(Duration::ZERO);
    for (map, association, has_fallback, route, reason) in [
        (Map::Never, up(open()), false, "direct", "rule"),
        (Map::Never, State::Gone, true, "direct", "rule"),
        (Map::Always, up(open()), false, "stream", "rule"),
        (Map::Always, State::Gone, false, "stream", "no_fallback"),
        (Map::Always, State::Gone, true, "direct", "no_association"),
        (Map::Always, beginning, true, "race", "first_set_up"),
        (Map::Auto, beginning, true, "race", "first_set_up"),
        (Map::Auto, State::Gone, true, "direct", "no_association"),
        (Map::Auto, up(open()), true, "stream", "open_window"),
    ] {
        is(&Inputs { has_fallback, ..inputs(map, association, none) }, route, reason);
    }
}

/// What never becomes a stream does not so because it can't be reached from here either: it fails.
#[test]
fn never_is_never() {
    for association in [up(open()), State::Gone, State::Beginning(Duration::ZERO)] {
        for has_fallback in [true, false] {
            let question = inputs(Map::Never, association, Direct::default());
            let question = Inputs { has_fallback, is_direct: false, is_special: true, ..question };
            is(&question, "direct", "rule");
        }
    }
}

/// A destination that can't be reached from here is never direct while there is an association.
#[test]
fn unreachable_destinations_become_streams() {
    let silent =
        State::Up(Health { answers: false, rtt: None, up: open(), down: None, contexts: 1, contexts_max: 1 });
    let question = inputs(Map::Auto, silent, Direct::default());
    is(&question, "direct", "path_silent");
    is(&Inputs { is_direct: false, ..question.clone() }, "stream", "not_reachable");
    let failed = Direct { has_failed: true, ..Direct::default() };
    is(&Inputs { direct: failed, ..question }, "stream", "direct_failed");
}

/// Two round-trip times of a direct connection are compared with one to the gateway.
#[test]
fn detours_are_avoided() {
    for (direct_ms, route, reason) in
        [(5, "direct", "nearer"), (29, "direct", "nearer"), (30, "stream", "open_window")]
    {
        let direct = Direct { rtt: Some(direct_ms * MS), ..Direct::default() };
        is(&inputs(Map::Auto, up(open()), direct), route, reason);
    }
    let near = State::Up(Health {
        answers: true,
        rtt: Some(Duration::from_micros(300)),
        up: open(),
        down: None,
        contexts: 1,
        contexts_max: 1,
    });
    let direct = Direct { rtt: Some(Duration::from_micros(50)), ..Direct::default() };
    is(&inputs(Map::Auto, near, direct), "stream", "open_window");
}

/// With 1 % of loss a window of 24 packets is one that losses limit, if data waits for it.
#[test]
fn small_windows_under_loss() {
    let waiting = 1 << 20;
    for (loss, packets, waiting, reason) in [
        (Some(0.01), 24, waiting, "small_window"),
        (Some(0.01), 25, waiting, "open_window"),
        (Some(0.01), 24, 1500, "open_window"),
        (Some(0.0005), 24, waiting, "open_window"),
        (None, 24, waiting, "open_window"),
        // BBR's at 1 % of loss, 60 ms and 100 Mbit/s.
        (Some(0.01), 800, 4 << 20, "open_window"),
    ] {
        let route = if reason == "small_window" { "direct" } else { "stream" };
        is(&inputs(Map::Auto, up(flow(loss, packets, waiting)), Direct::default()), route, reason);
    }
}

/// What the peer sends counts as what this side does.
#[test]
fn the_peers_direction_counts() {
    let down = Some(flow(Some(0.02), 10, 1 << 20));
    let health = Health { answers: true, rtt: Some(60 * MS), up: open(), down, contexts: 1, contexts_max: 1 };
    is(&inputs(Map::Auto, State::Up(health), Direct::default()), "direct", "small_window");
}

/// Another association is set up before connections go directly, for destinations that can't be reached from here, too.
#[test]
fn contexts_come_before_direct_connections() {
    let health = |contexts| Health {
        answers: true,
        rtt: Some(60 * MS),
        up: flow(Some(0.01), 10, 1 << 20),
        down: None,
        contexts,
        contexts_max: 2,
    };
    let question = inputs(Map::Auto, State::Up(health(1)), Direct::default());
    is(&question, "stream", "more_contexts");
    assert!(decide(&question).grow);
    assert!(decide(&Inputs { is_direct: false, ..question }).grow);
    assert!(!decide(&inputs(Map::Auto, State::Up(health(2)), Direct::default())).grow);
    assert!(!decide(&inputs(Map::Always, State::Up(health(1)), Direct::default())).grow);
}

/// The window of 10 packets and 60 ms, twice, is 500,000 bytes per second.
#[test]
fn measured_rates_decide() {
    let limited = up(flow(Some(0.01), 10, 1 << 20));
    for (rate, route, reason) in [
        (1_100_000.0, "direct", "faster"),
        (400_000.0, "direct", "small_window"),
        (200_000.0, "stream", "slower"),
    ] {
        is(&inputs(Map::Auto, limited, Direct { rate: Some(rate), ..Direct::default() }), route, reason);
    }
    // Without losses only what is clearly faster counts, and only while data waits.
    let full = up(flow(Some(0.0), 10, 1 << 20));
    let fast = Direct { rate: Some(1_100_000.0), ..Direct::default() };
    is(&inputs(Map::Auto, full, fast), "direct", "faster");
    is(&inputs(Map::Auto, full, Direct { rate: Some(900_000.0), ..fast }), "stream", "open_window");
    is(&inputs(Map::Auto, up(open()), fast), "stream", "open_window");
}
