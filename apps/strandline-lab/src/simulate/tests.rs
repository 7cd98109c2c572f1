//! Simulations of a few virtual seconds.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: SimulateArgs,
}

fn simulated(arguments: &str) -> Value {
    let words = std::iter::once("simulate").chain(arguments.split_whitespace());
    simulate(&Command::parse_from(words).args).expect("valid arguments")
}

#[test]
fn equal_arguments_give_equal_results() {
    let arguments = "--link rate=10mbit,rtt=20ms,loss=1% --time 2 --seed 3";
    assert_eq!(simulated(arguments), simulated(arguments));
    assert_ne!(simulated(arguments), simulated(&arguments.replace("--seed 3", "--seed 4")));
}

fn failure(arguments: &str) -> String {
    let words = std::iter::once("simulate").chain(arguments.split_whitespace());
    simulate(&Command::parse_from(words).args).expect_err("invalid arguments").to_string()
}

#[test]
fn networks_without_an_answer_are_errors() {
    assert!(failure("--link rate=10mbit,loss=100% --time 1").contains("not established"));
}

#[test]
fn message_sizes_are_limited() {
    for option in ["--size", "--probe"] {
        assert!(failure(&format!("{option} 1000g --time 1")).starts_with(option));
    }
}

/// The time of a packet of 1,500 bytes at 10 Mbit/s.
const PACKET_MS: f64 = 1.2;

/// The shortest round-trip time of such a message.
const SHORTEST_MS: f64 = 61.4;

/// Round-trip times of short messages of high priority beside messages of 1 MB, at 10 Mbit/s and 60 ms.
fn short_messages(more: &str) -> Value {
    let beside = "--link rate=10mbit,rtt=60ms,queue=150k,mark=3k --size 1mi --scheduler priority --probe 200 --time 20";
    let probe = simulated(&format!("{beside} {more}"))["end"]["probe"].clone();
    assert!(probe["count"].as_f64().expect("count") > 100.0 && probe["refused"] == 0, "{more}: {probe}");
    probe
}

fn value(probe: &Value, name: &str) -> f64 {
    probe[name].as_f64().expect(name)
}

/// With interleaving a short message waits for the packet that is being sent, and for the queue that the
/// controller keeps in the path: next to none on the median, and five packets at most with DCTCP.
#[test]
fn interleaved_messages_wait_for_packets() {
    for congestion in ["bbr", "dctcp"] {
        let probe = short_messages(&format!("--congestion {congestion} --interleaving"));
        assert!(value(&probe, "p50_ms") <= SHORTEST_MS + 2.0 * PACKET_MS, "{congestion}: {probe}");
    }
    let probe = short_messages("--congestion dctcp --interleaving");
    assert!(value(&probe, "p99_ms") <= SHORTEST_MS + 5.0 * PACKET_MS, "{probe}");
}

/// Without interleaving it waits for the rest of a large message, and for no more than one.
#[test]
fn whole_messages_wait_for_a_message() {
    let message_ms = 1024.0 * 1024.0 / 1448.0 * PACKET_MS;
    for congestion in ["bbr", "dctcp"] {
        let probe = short_messages(&format!("--congestion {congestion}"));
        assert!(value(&probe, "p50_ms") > 400.0, "{congestion}: {probe}");
        assert!(value(&probe, "p99_ms") <= SHORTEST_MS + 1.05 * message_ms, "{congestion}: {probe}");
    }
}
