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

/// A short message of high priority beside messages of 1 MB: with interleaving it waits for no more than the packet that
/// is being sent; without, for the rest of a message.
#[test]
fn priority_beside_large_messages() {
    let beside =
        "--link rate=10mbit,rtt=60ms --size 1mi --congestion bbr --scheduler priority --probe 200 --time 20";
    let probe = |more: &str| simulated(&format!("{beside} {more}"))["end"]["probe"].clone();
    let (interleaved, whole) = (probe("--interleaving"), probe(""));
    let value = |probe: &Value, name: &str| probe[name].as_f64().expect(name);
    // The time of a packet of 1,500 bytes at 10 Mbit/s.
    let packet_ms = 1.2;
    assert!(value(&interleaved, "count") > 100.0 && value(&interleaved, "refused") == 0.0, "{interleaved}");
    assert!(
        value(&interleaved, "p50_ms") <= value(&interleaved, "path_p50_ms") + 2.0 * packet_ms,
        "{interleaved}"
    );
    assert!(value(&whole, "p50_ms") > 400.0, "{whole}");
}
