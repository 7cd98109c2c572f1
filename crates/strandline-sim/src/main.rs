//! Searches for seeds that break a rule, and replays them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of those who work on the stack")]

use core::ops::Range;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use strandline_sim::{Counts, Failure, Replay, Summary, describe, has_feature, run};

/// Upper bound of a random start, so that seeds are short enough to be copied by hand.
const RANDOM_START_END: u64 = 1 << 40;

/// Runs simulated worlds of SCTP endpoints and checks that every rule holds.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Replay one seed and print the end of its record
    #[arg(long, conflicts_with_all = ["seeds", "count", "minutes"])]
    seed: Option<u64>,
    /// Run the seeds from A up to B, without B: A..B. Default: `--count` seeds from a random start, which is printed
    #[arg(long, value_parser = parse_range, conflicts_with = "count")]
    seeds: Option<Range<u64>>,
    /// Number of seeds to run from a random start
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    count: u64,
    /// Continue with further seeds for this many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Lines of the record to print for a replay
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Write the packets of a replay to a capture file for Wireshark
    #[arg(long, requires = "seed")]
    pcapng: Option<PathBuf>,
    /// Print the scenario of a replay
    #[arg(long, requires = "seed")]
    plan: bool,
    /// Number of threads. Default: all processors
    #[arg(long)]
    threads: Option<usize>,
    /// Run only seeds whose scenario has this feature, such as `insider`
    #[arg(long, conflicts_with = "seed")]
    only: Option<String>,
    /// Stop after this many failures
    #[arg(long, default_value_t = 20)]
    failures_max: usize,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("write A..B")?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|error| error.to_string());
    let range = number(first)?..number(end)?;
    if range.is_empty() { Err("there is no seed in the range".to_owned()) } else { Ok(range) }
}

/// Returns the seeds to run.
fn seeds(args: &Args) -> Range<u64> {
    args.seeds.clone().unwrap_or_else(|| {
        // The standard library seeds its hash maps with random numbers of the system.
        let start = RandomState::new().hash_one(args.count) % RANDOM_START_END;
        start..start + args.count
    })
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match args.seed {
        Some(seed) => replay(&args, seed),
        None => Ok(search(&args)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn replay(args: &Args, seed: u64) -> std::io::Result<bool> {
    if args.plan {
        println!("{}", describe(seed));
    }
    let keep = if args.pcapng.is_some() { usize::MAX } else { args.lines };
    let replay = Replay::new(seed, keep);
    let lines = replay.lines();
    for line in lines.iter().skip(lines.len().saturating_sub(args.lines)) {
        println!("{line}");
    }
    if let Some(path) = &args.pcapng {
        replay.write_pcapng(BufWriter::new(File::create(path)?))?;
    }
    match &replay.outcome {
        Ok(summary) => println!("seed {seed}: {summary:?}"),
        Err(failure) => println!("{failure}"),
    }
    Ok(replay.outcome.is_ok())
}

/// The report of a thread about one seed.
type Outcome = Result<Summary, Box<Failure>>;

// The search is a program and may read a clock to know when to stop. The worlds may not.
#[allow(clippy::disallowed_methods)]
fn search(args: &Args) -> bool {
    let threads = args.threads.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let seeds = seeds(args);
    println!("seeds {}..{}; to repeat the run: --seeds {0}..{1}", seeds.start, seeds.end);
    let next = AtomicU64::new(seeds.start);
    let start = Instant::now();
    let until = args.minutes.map(|minutes| start + Duration::from_secs(minutes * 60));
    // A panic in the engine is reported with its seed, without a backtrace on the terminal.
    std::panic::set_hook(Box::new(|_| {}));
    let (sender, receiver) = channel();
    let (mut runs, mut packets, mut messages, mut failures) = (0u64, 0u64, Counts::default(), 0usize);
    thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let next = &next;
            let end = seeds.end;
            let only = args.only.as_deref();
            scope.spawn(move || work(next, end, until, only, &sender));
        }
        drop(sender);
        for outcome in receiver {
            runs += 1;
            match outcome {
                Ok(summary) => {
                    packets += summary.packets;
                    messages += summary.counts;
                }
                Err(failure) => {
                    println!("{failure}\n");
                    failures += 1;
                }
            }
            if failures >= args.failures_max {
                next.store(u64::MAX, Ordering::Relaxed);
            }
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let Counts {
        taken,
        taken_bytes,
        delivered,
        failed,
        unsent,
        abandoned,
        refused,
        repeated,
        unknown,
        overdrawn,
    } = messages;
    println!(
        "{taken} messages ({taken_bytes} bytes): {delivered} delivered, {failed} failed, {refused} refused at"
    );
    println!("set-up, {unknown} unknown after crashes; {repeated} came twice by a cookie used twice;");
    println!("{unsent} given up unsent, {abandoned} after a part was sent;");
    println!("{overdrawn} associations ended because the peer overdrew the credit of a stream");
    println!("{runs} runs, {packets} packets in {seconds:.1} s: {failures} failed");
    failures == 0
}

#[allow(clippy::disallowed_methods)]
fn work(next: &AtomicU64, end: u64, until: Option<Instant>, only: Option<&str>, sender: &Sender<Outcome>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let over = match until {
            Some(until) => Instant::now() >= until,
            None => seed >= end,
        };
        if over || seed >= u64::MAX / 2 {
            return;
        }
        if only.is_some_and(|feature| !has_feature(seed, feature)) {
            continue;
        }
        if sender.send(run(seed)).is_err() {
            return;
        }
    }
}
