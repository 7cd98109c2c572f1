use std::net::IpAddr;

use serde_json::json;

use super::*;
use crate::clock::now;

fn client(number: u32) -> Source {
    Source::Client(Network::of(IpAddr::from((0xc000_0200_u32 + number).to_be_bytes())))
}

/// Refuses so many connections of a source. Returns how many lines they get at once.
fn refuse(refused: &mut RefusedLines, at: Instant, reason: &'static str, source: &Source, count: u64) -> u64 {
    let admitted = (0..count).filter(|_| {
        let line = || json!({"end": reason, "source": format!("{source:?}")});
        refused.admit(at, (reason, source.clone()), line).is_some()
    });
    admitted.count() as u64
}

/// What summed-up lines stand for.
fn sum(lines: &[Value]) -> u64 {
    lines.iter().map(|line| 1 + line["more"].as_u64().unwrap()).sum()
}

#[test]
fn floods_of_one_source_are_summed_up() {
    let (mut refused, begun) = (RefusedLines::default(), now());
    assert_eq!(refuse(&mut refused, begun, "limit", &client(1), 1000), 10);
    assert_eq!(refuse(&mut refused, begun, "limit", &client(2), 3), 3, "others have their lines");
    assert_eq!(refuse(&mut refused, begun, "not_allowed", &client(1), 3), 3, "and other reasons");
    assert_eq!(refused.ends(), Some(begun + PERIOD));
    assert!(refused.finish(begun + PERIOD / 2).is_empty(), "not yet");
    let lines = refused.finish(begun + PERIOD);
    assert_eq!((lines.len(), sum(&lines)), (1, 990), "{lines:?}");
    assert_eq!((refused.ends(), refused.finish(begun + PERIOD * 2)), (None, Vec::new()));
    assert_eq!(refuse(&mut refused, begun + PERIOD, "limit", &client(1), 1), 1, "there is room again");
}

#[test]
fn a_flood_of_many_sources_is_bounded() {
    let (mut refused, begun) = (RefusedLines::default(), now());
    let written: u64 = (0..5000).map(|number| refuse(&mut refused, begun, "limit", &client(number), 2)).sum();
    assert_eq!(written, 100);
    assert_eq!(refuse(&mut refused, begun, "flow_limit", &client(0), 1), 1);
    assert!(refused.sources.len() <= 102, "{}", refused.sources.len());
    let lines = refused.finish(begun + PERIOD);
    assert!(lines.len() <= 101, "{}", lines.len());
    assert_eq!(sum(&lines), 9900);
}

#[test]
fn nothing_is_left_at_the_end() {
    let (mut refused, begun) = (RefusedLines::default(), now());
    let peer = Source::Peer("far".into());
    assert_eq!(refuse(&mut refused, begun, "limit", &peer, 12), 10);
    assert_eq!(sum(&refused.finish_now()), 2);
    assert!(refused.finish_now().is_empty());
}
