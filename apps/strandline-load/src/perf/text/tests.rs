use super::*;
use crate::perf::protocol::ShardReport;

#[test]
fn flood_is_reported_only_if_present() {
    let shard = |inits, inits_shed| ShardReport { inits, inits_shed, ..ShardReport::default() };
    let side = |by_shard| SideReport { by_shard, ..SideReport::default() };
    assert_eq!(flood("server", &side(vec![shard(7, 0), shard(1, 0)])), None);
    let told = flood("server", &side(vec![shard(7, 0), shard(200_000, 3_000)]));
    assert_eq!(
        told.as_deref(),
        Some("INITs at the server: 200,007 answered, 3,000 dropped unread by the rate limit")
    );
}

#[test]
fn a_peers_figures_do_not_overflow() {
    let shard = ShardReport { inits: u64::MAX, inits_shed: u64::MAX, ..ShardReport::default() };
    let figures = Figures { ecn: Some(true), marks_answered: Some(u64::MAX), ..Figures::default() };
    let flow = FlowReport { figures, ..FlowReport::default() };
    let side = SideReport { by_shard: vec![shard; 2], flows: vec![flow; 2], ..SideReport::default() };
    let most = "18,446,744,073,709,551,615";
    assert!(flood("server", &side).is_some_and(|told| told.contains(most)));
    assert!(control(&side, None).is_some_and(|told| told.contains(most)));
}

#[test]
fn numbers_can_be_read() {
    assert_eq!(amount(999.4, "B"), "999 B");
    assert_eq!(amount(999.6, "B"), "1.00 KB");
    assert_eq!(amount(12_345.0, "B"), "12.3 KB");
    assert_eq!(amount(8.96e9, "bit/s"), "8.96 Gbit/s");
    assert_eq!(amount(99.96e9, "bit/s"), "100 Gbit/s");
    assert_eq!([micros(85.4), micros(999.9)], ["85 us", "1.0 ms"]);
}

#[test]
fn controller_is_reported_with_ecn_state() {
    let flow = |ecn, marks| {
        let figures = Figures {
            ecn,
            marks_answered: marks,
            marks_received: marks.map(|n| 10 * n),
            ..Figures::default()
        };
        FlowReport { figures, ..FlowReport::default() }
    };
    let side = |flows| SideReport { congestion: Some("dctcp".to_owned()), flows, ..SideReport::default() };
    let told = |flows: Vec<FlowReport>, knows_receiver: bool| {
        let side = side(flows);
        control(&side, Some(&side).filter(|_| knows_receiver)).unwrap_or_default()
    };
    let agreed = flow(Some(true), Some(700));
    assert_eq!(
        told(vec![agreed.clone(), agreed.clone()], true),
        "  congestion control: dctcp; ECN: 14,000 packets marked, 1,400 marks answered"
    );
    assert_eq!(told(vec![agreed.clone()], false), "  congestion control: dctcp; ECN: 700 marks answered");
    assert_eq!(told(vec![agreed, flow(Some(false), None)], true), "  congestion control: dctcp; no ECN");
    assert_eq!(
        told(vec![flow(None, None)], true),
        "  congestion control: dctcp",
        "the kernel's TCP doesn't tell"
    );
    assert_eq!(control(&SideReport::default(), None), None);
}

#[test]
fn pauses_and_changes_of_paths_are_told() {
    let pause = |longest_pause| FlowReport { longest_pause, ..FlowReport::default() };
    let side =
        SideReport { flows: vec![pause(Some(0.25)), pause(Some(1.5)), pause(None)], ..SideReport::default() };
    assert_eq!(longest_pause(&side).as_deref(), Some("  longest pause: 1.500 s"));
    let side = SideReport { flows: vec![pause(None)], ..SideReport::default() };
    assert_eq!(longest_pause(&side), None, "all came at once");
    let change = PathEvent { t: 3.25, socket: 1, peer: ([10, 0, 0, 2], 9899).into(), change: "inactive" };
    let outcome = |path_changes| Outcome {
        own: SideReport::default(),
        peer: None,
        failure: None,
        interrupted: false,
        path_changes,
    };
    assert_eq!(
        paths(&outcome(vec![change.clone()])),
        ["path to 10.0.0.2:9899 of association 1: inactive at 3.250 s"]
    );
    let many = paths(&outcome(vec![change; PATH_LINES_MAX + 3]));
    assert_eq!(many.last().map(String::as_str), Some("and 3 more path changes (see --json)"));
}
