use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::server::live::{Live, Second, Totals};

fn live() -> Live {
    let second = Second {
        registered: 120.0,
        calls: 41.5,
        requests: 400.0,
        refused: 3.0,
        p50_ms: Some(0.25),
        p99_ms: Some(1.5),
        commit_p99_ms: None,
    };
    Live {
        domains: vec!["example.com".to_owned()],
        uptime_secs: 3725,
        users: 4321,
        connections: 17,
        associations: 18,
        transactions: 19,
        waiting: 20,
        overloaded: true,
        draining: false,
        store_failing: false,
        allowed_share: 0.5,
        let_through_share: 1.0,
        totals: Totals { registered: 5000, calls: 6000, requests: 7000, refused: 8000 },
        workers: Vec::new(),
        seconds: vec![second; 90],
    }
}

/// What stands on a terminal of this size.
fn screen(width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, "127.0.0.1:9090".parse().unwrap(), &live())).unwrap();
    terminal.backend().to_string()
}

#[test]
fn all_is_on_a_usual_terminal() {
    let screen = screen(100, 30);
    for shown in [
        "example.com",
        "overloaded",
        "4321",
        "41.5",
        "120.0",
        "1.50 ms",
        "up 1:02:05",
        "calls a second: 41.5",
        "q ends",
    ] {
        assert!(screen.contains(shown), "{shown}:\n{screen}");
    }
    assert!(screen.contains('█'), "{screen}");
}

#[test]
fn a_small_terminal_shows_what_fits() {
    assert!(screen(40, 12).contains("overloaded"));
    screen(1, 1);
}

#[test]
fn as_text_each_value_has_a_line() {
    let text = draw::text(&live());
    assert!(text.starts_with("example.com, overloaded, up 1:02:05\n"), "{text}");
    assert!(text.contains("registered phones                 4321\n"), "{text}");
    assert!(text.contains("wait for the store, p99              -\n"), "{text}");
}

#[test]
fn q_escape_and_control_c_end_it() {
    let none = KeyModifiers::NONE;
    assert!(ends(KeyCode::Char('q'), none) && ends(KeyCode::Esc, none));
    assert!(ends(KeyCode::Char('c'), KeyModifiers::CONTROL) && !ends(KeyCode::Char('c'), none));
}

#[test]
fn what_is_wrong_is_said_in_a_word() {
    let word = |change: fn(&mut Live)| {
        let mut live = Live { overloaded: false, ..live() };
        change(&mut live);
        draw::text(&live).lines().next().unwrap().to_owned()
    };
    assert_eq!(word(|_| {}), "example.com, in order, up 1:02:05");
    assert_eq!(word(|live| live.overloaded = true), "example.com, overloaded, up 1:02:05");
    assert_eq!(word(|live| live.draining = true), "example.com, draining, up 1:02:05");
    // Who registers is refused then, whatever else there is.
    let all = |live: &mut Live| (live.store_failing, live.draining, live.overloaded) = (true, true, true);
    assert_eq!(word(all), "example.com, store fails, up 1:02:05");
}
