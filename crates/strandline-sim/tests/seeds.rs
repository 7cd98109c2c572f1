//! A thousand worlds, and the seeds that once revealed a fault.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::named;

use std::io::Write;

use strandline_sim::{Agreed, EXTENSIONS, Replay, has_feature, run};

/// Runs seeds. Every failure is shown with the command that replays it.
fn all_pass(seeds: impl Iterator<Item = u64>) {
    let failures: Vec<String> =
        seeds.filter_map(|seed| run(seed).err()).map(|failure| failure.to_string()).collect();
    assert!(failures.is_empty(), "{} seeds failed:\n{}", failures.len(), failures.join("\n"));
}

// Two halves, so that they run in parallel.

#[test]
fn even_seeds_of_the_first_thousand() {
    all_pass((0..1000).step_by(2));
}

#[test]
fn odd_seeds_of_the_first_thousand() {
    all_pass((1..1000).step_by(2));
}

/// The first seed of the newest worlds, which have every extension, and their number.
const NEWEST: u64 = 16_000_000_000;
const NEWEST_COUNT: u64 = 120;

/// Runs every second seed of the newest worlds. Returns what hosts agreed on.
fn every_second_newest_world(first: u64) -> Agreed {
    let mut agreed = Agreed::default();
    for seed in (first..NEWEST + NEWEST_COUNT).step_by(2) {
        match run(seed) {
            Ok(summary) => agreed.add(summary.agreed),
            Err(failure) => panic!("{failure}"),
        }
    }
    agreed
}

/// Every extension is in use between some hosts, and wanted by one host only between others: otherwise the newest
/// worlds would show nothing about it.
#[test]
fn each_extension_is_agreed_on() {
    let agreed = std::thread::scope(|scope| {
        let odd = scope.spawn(|| every_second_newest_world(NEWEST + 1));
        let mut agreed = every_second_newest_world(NEWEST);
        agreed.add(odd.join().unwrap());
        agreed
    });
    for (bit, name) in EXTENSIONS.iter().enumerate() {
        assert!(agreed.on >> bit & 1 == 1, "{name} is never agreed on");
        assert!(agreed.one_sided >> bit & 1 == 1, "{name} is always wanted by both sides or by none");
    }
}

/// Number of seeds per day, in two halves.
const DAILY: u64 = 100;

/// Distance between the first seeds of two days.
const DAY_STRIDE: u64 = 1 << 20;

/// Returns seeds that nobody has run before today. `STRANDLINE_SIM_DAY` (days since 1 January 1970) repeats those of
/// another day.
#[allow(clippy::disallowed_methods, reason = "the date chooses the seeds; the worlds have no clock")]
fn seeds_of_the_day() -> core::ops::Range<u64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let today = since.as_secs() / 86_400;
    let chosen = std::env::var("STRANDLINE_SIM_DAY").ok();
    let day =
        chosen.map_or(today, |day| day.parse().expect("STRANDLINE_SIM_DAY: a number of days since 1970"));
    let first = day * DAY_STRIDE;
    // Bypasses the capture of output, so that the seeds are shown even on success.
    writeln!(std::io::stderr(), "fresh seeds of day {day}: {first}..{}", first + DAILY)
        .expect("standard error");
    first..first + DAILY
}

#[test]
fn even_seeds_of_the_day() {
    all_pass(seeds_of_the_day().step_by(2));
}

#[test]
fn odd_seeds_of_the_day() {
    all_pass(seeds_of_the_day().skip(1).step_by(2));
}

#[test]
fn seeds_that_found_something() {
    all_pass(named::SEEDS.iter().map(|(seed, _)| *seed));
}

/// Hosts that take more credit for their streams than they are granted.
#[test]
fn overdrawing_peers_are_aborted() {
    let seeds = (18_000_000_000..).filter(|seed| has_feature(*seed, "overdraw"));
    let counts = seeds.take(20).map(|seed| run(seed).expect("passes").counts);
    assert!(counts.map(|counts| counts.overdrawn).sum::<u64>() > 0);
}

/// Hosts that demand AUTH of the chunks with credit for their streams.
#[test]
fn authenticated_credit_is_granted() {
    let seeds = (26_000_000_000..).filter(|seed| has_feature(*seed, "authenticated credit"));
    all_pass(seeds.take(20));
}

#[test]
fn a_seed_repeats_its_run_exactly() {
    for seed in 0..40 {
        let (one, two) = (run(seed).expect("passes"), run(seed).expect("passes"));
        assert_eq!(one, two, "seed {seed}");
        // Keeping a record changes nothing.
        assert_eq!(Replay::new(seed, 100).outcome.expect("passes"), one, "seed {seed}");
    }
}

#[test]
fn another_seed_is_another_run() {
    assert_ne!(run(1).expect("passes").hash, run(2).expect("passes").hash);
}

#[test]
fn a_replay_can_be_read_and_captured() {
    let replay = Replay::new(0, usize::MAX);
    assert!(replay.lines().iter().any(|line| line.contains("COOKIE ECHO")));
    let mut capture = Vec::new();
    replay.write_pcapng(&mut capture).expect("memory takes it");
    let packets = replay.outcome.expect("passes").packets as usize;
    assert!(capture.len() > packets * 50, "{} bytes for {packets} packets", capture.len());
}
