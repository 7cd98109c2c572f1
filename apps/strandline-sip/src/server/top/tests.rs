use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::server::live::{Live, OtherNode, Second, Share, Totals};

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
        bindings: 5432,
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
        processes: 1,
        restarts: 0,
        workers: Vec::new(),
        nodes: Vec::new(),
        seconds: vec![second; 90],
    }
}

/// The contents of a terminal of this size.
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
        "registered phones",
        "5432",
        "registered users",
        "4321",
        "41.5",
        "120.0",
        "1.50 ms",
        "up 1:02:05",
        "calls/s: 41.5",
        "q: quit",
    ] {
        assert!(screen.contains(shown), "{shown}:\n{screen}");
    }
    assert!(screen.contains('█'), "{screen}");
}

#[test]
fn a_servers_control_characters_stay_off_the_terminal() {
    let forged = "a\u{1b}]0;title\u{7}\u{9b}2J\rb\u{202e}";
    let node = OtherNode { name: forged.to_owned(), is_alive: true, address: Some(forged.to_owned()) };
    let live = Live { domains: vec![forged.to_owned()], nodes: vec![node], ..live() };
    let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
    let address = "127.0.0.1:9090".parse().unwrap();
    let is_safe = |terminal: &Terminal<TestBackend>| {
        let text: String = terminal.backend().buffer().content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(strandline_output::escape(&text), text);
        text
    };
    terminal.draw(|frame| draw::draw(frame, address, &live)).unwrap();
    assert!(is_safe(&terminal).contains("a\\u001b]0;title\\u0007"));
    terminal.draw(|frame| draw::nothing(frame, &anyhow::anyhow!("{forged}"))).unwrap();
    is_safe(&terminal);
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
    assert!(text.contains("registered phones                 5432\n"), "{text}");
    assert!(text.contains("registered users                  4321\n"), "{text}");
    assert!(text.contains("store wait, p99                      -\n"), "{text}");
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
    assert_eq!(word(|_| {}), "example.com, healthy, up 1:02:05");
    assert_eq!(word(|live| live.overloaded = true), "example.com, overloaded, up 1:02:05");
    assert_eq!(word(|live| live.draining = true), "example.com, draining, up 1:02:05");
    // A failing store takes precedence, because registrations are then rejected.
    let all = |live: &mut Live| (live.store_failing, live.draining, live.overloaded) = (true, true, true);
    assert_eq!(word(all), "example.com, store failing, up 1:02:05");
}

/// One of two processes, and two other nodes.
fn one_of_two() -> Live {
    let totals = Totals { requests: 77, ..Totals::default() };
    let share = Share {
        worker: 2,
        uptime_secs: 1,
        connections: 3,
        associations: 4,
        transactions: 5,
        waiting: 6,
        overloaded: false,
        totals,
    };
    let node = |name: &str, address: Option<&str>, is_alive| OtherNode {
        name: name.to_owned(),
        address: address.map(str::to_owned),
        is_alive,
    };
    let nodes = vec![node("b", Some("tcp:192.0.2.2:5060"), true), node("c", None, false)];
    Live { overloaded: false, processes: 2, workers: vec![share], nodes, ..live() }
}

#[test]
fn each_process_and_each_node_has_a_line() {
    let text = draw::text(&one_of_two());
    let mut terminal = Terminal::new(TestBackend::new(110, 30)).unwrap();
    terminal.draw(|frame| draw::draw(frame, "127.0.0.1:9090".parse().unwrap(), &one_of_two())).unwrap();
    let screen = terminal.backend().to_string();
    for line in [
        "process 2: 3 connections, 4 associations, 5 transactions, 77 requests",
        "node b: up, tcp:192.0.2.2:5060",
        "node c: down, no address",
        "1 of 2 processes not responding",
    ] {
        assert!(text.contains(line) && screen.contains(line), "{line}: {text}{screen}");
    }
    let whole = Live { processes: 1, ..one_of_two() };
    assert!(draw::text(&whole).starts_with("example.com, nodes down: c, up "), "{}", draw::text(&whole));
}
