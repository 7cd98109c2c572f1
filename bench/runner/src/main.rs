//! `make bench`: runs the rows of bench/rows.toml. All subjects of a row take turns in each round, so that a
//! slow moment of the machine affects all of them; ratios are computed within each round. See
//! docs/benchmarks.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of those who work on the stack")]

mod awake;
mod judge;
mod left;
mod machine;
mod measure;
mod network;
mod output;
mod plan;
mod programs;
mod reports;
mod share;
mod statistics;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::awake::Awake;
use crate::judge::{Demand, Rounds, Verdict, judge};
use crate::measure::{Options, measure};
use crate::network::Network;
use crate::plan::{Link, Plan, Row};
use crate::programs::{Program, prepare, root};

/// Time in seconds that each measurement needs to start and end programs.
const OVERHEAD_SECONDS: f64 = 0.8;

/// Minimum number of rounds for a meaningful median on a machine that is as noisy as most.
const ROUNDS_ENOUGH: u16 = 5;

/// Runs the benchmarks of bench/rows.toml (root: it creates network namespaces).
#[derive(Debug, Parser)]
struct Args {
    /// Rows to run; without any, all of them
    rows: Vec<String>,
    /// Number of turns of each subject
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Run both sides with realtime priority on their cores: for a machine that has other work as well
    #[arg(long)]
    realtime: bool,
    /// Keep the cores from being halted: waking a halted core of a virtual machine takes tens of
    /// microseconds, now and then
    #[arg(long)]
    awake: bool,
    /// Run only these subjects
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<String>,
    /// Fail if a bound is missed, or could not be measured in every round (needs at least 5 rounds)
    #[arg(long)]
    strict: bool,
    /// Don't build anything: use existing programs
    #[arg(long)]
    no_build: bool,
    /// List the rows
    #[arg(long)]
    list: bool,
    /// File for the results; without it, a new file in bench/results
    #[arg(long)]
    json: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err("0.1 to 3600".to_owned()),
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<ExitCode> {
    let path = root()?.join("bench/rows.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let plan = Plan::parse(&text)?;
    let rows = chosen(&plan, args)?;
    check_strictness(args, &rows)?;
    let options = Options { seconds: args.seconds, realtime: args.realtime };
    if args.list {
        for row in &rows {
            let time = total(std::slice::from_ref(row), args);
            println!(
                "{:<16} {:>3} subjects, {:>9}: {}",
                row.name,
                row.subjects.len(),
                lasting(time),
                row.what
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let me = network::run(&["id", "-u"])?;
    ensure!(me.trim() == "0", "this needs root, for the network namespaces");
    if !args.no_build {
        prepare(&programs(&plan, &rows)?)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let results = runtime.block_on(async {
        let _awake = args.awake.then(Awake::start).transpose()?;
        let (mut interrupt, mut terminate, mut hangup) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        tokio::select! {
            results = run_rows(&plan, &rows, args, options) => results.map(Some),
            _ = interrupt.recv() => Ok(None),
            _ = terminate.recv() => Ok(None),
            _ = hangup.recv() => Ok(None),
        }
    })?;
    let Some(results) = results else {
        eprintln!("\nbench: interrupted");
        return Ok(ExitCode::from(130));
    };
    finish(&plan, args, &results)
}

fn chosen(plan: &Plan, args: &Args) -> Result<Vec<Row>> {
    for name in &args.rows {
        ensure!(
            plan.rows.iter().any(|row| row.name == *name),
            "there is no row {name:?}; there are: {}",
            plan.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>().join(", ")
        );
    }
    let wanted = |row: &&Row| args.rows.is_empty() || args.rows.contains(&row.name);
    let mut rows: Vec<Row> = plan.rows.iter().filter(wanted).cloned().collect();
    for name in &args.subjects {
        ensure!(
            rows.iter().any(|row| row.subjects.contains(name)),
            "there is no subject {name:?} in these rows; there are: {}",
            rows.iter()
                .flat_map(|row| row.subjects.iter().map(String::as_str))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    for row in &mut rows {
        if !args.subjects.is_empty() {
            row.subjects.retain(|name| args.subjects.contains(name));
            let (measured, before) = (|name: &String| row.subjects.contains(name), row.checks.len());
            row.checks.retain(|check| check.of.iter().chain(&check.against).all(measured));
            if row.checks.len() < before {
                ensure!(!args.strict, "{}: --strict can't hold without all of the row's subjects", row.name);
                eprintln!(
                    "{}: {} of {before} checks are left out with their subjects",
                    row.name,
                    before - row.checks.len()
                );
            }
        }
    }
    rows.retain(|row| !row.subjects.is_empty());
    Ok(rows)
}

/// Checks that there are enough rounds to show that the bounds hold.
fn check_strictness(args: &Args, rows: &[Row]) -> Result<()> {
    if args.rounds < ROUNDS_ENOUGH {
        ensure!(
            !args.strict,
            "--strict needs --rounds {ROUNDS_ENOUGH} at least, for medians that say something"
        );
        eprintln!(
            "medians of {} rounds: fewer than {ROUNDS_ENOUGH}, so take the verdicts as a hint",
            args.rounds
        );
    }
    let musts = rows.iter().flat_map(|row| &row.checks).filter(|check| check.must.is_some()).count();
    ensure!(!args.strict || musts > 0, "--strict: nothing in these rows must hold");
    Ok(())
}

fn programs(plan: &Plan, rows: &[Row]) -> Result<BTreeSet<Program>> {
    let mut programs = BTreeSet::new();
    for name in rows.iter().flat_map(|row| &row.subjects) {
        let subject = plan.subject(name)?;
        for command in [Some(&subject.sender), subject.receiver.as_ref(), subject.beside.as_ref()] {
            let program = command.and_then(|command| command.split_whitespace().next());
            programs.extend(program.map(Program::named).transpose()?);
        }
    }
    Ok(programs)
}

/// The result of a row.
struct RowResult {
    row: Row,
    rounds: Rounds,
    samples: Vec<Value>,
    /// Offloads in each state of the link.
    offloads: BTreeMap<Link, Vec<String>>,
}

async fn run_rows(plan: &Plan, rows: &[Row], args: &Args, options: Options) -> Result<Vec<RowResult>> {
    let mut network = Network::new()?;
    #[allow(clippy::disallowed_methods, reason = "how long it takes is shown to people")]
    let begin = Instant::now();
    let expected = total(rows, args);
    eprintln!("{} measurements, about {}", count(rows, args), lasting(expected));
    let mut done = 0.0;
    let mut results = Vec::new();
    for row in rows {
        let (mut rounds, mut samples, mut offloads) = (Rounds::new(), Vec::new(), BTreeMap::new());
        for round in 0..usize::from(rounds_of(row, args)) {
            for name in &row.subjects {
                // Estimates from the time taken so far, once that is known.
                let pace = if done > 0.0 { begin.elapsed().as_secs_f64() / done } else { 1.0 };
                let left = Duration::from_secs_f64((expected.as_secs_f64() - done).max(0.0) * pace);
                let what = format!("{}, round {} of {}: {name}", row.name, round + 1, rounds_of(row, args));
                eprint!("\r{what:<60} {:>9} left ", lasting(left));
                let subject = plan.subject(name)?;
                let load = machine::load();
                let outcome = measure(&mut network, row, subject, options).await;
                let mut sample = json!({ "subject": name, "round": round + 1, "load_average": load });
                match outcome {
                    Ok(outcome) => {
                        sample["metrics"] = json!(outcome.metrics);
                        sample["sender"] = outcome.sender;
                        sample["receiver"] = json!(outcome.receiver);
                        sample["beside"] = json!(outcome.beside);
                        sample["link"] = json!(outcome.link);
                        offloads.insert(outcome.link, network.offloads()?);
                        rounds.entry(name.clone()).or_default().insert(round, outcome.metrics);
                    }
                    Err(error) => {
                        eprintln!("\r{what:<60} FAILED: {error:#}");
                        sample["error"] = json!(format!("{error:#}"));
                    }
                }
                samples.push(sample);
                done += each(row, args);
            }
        }
        eprint!("\r{:<80}\r", "");
        output::print_row(plan, row, &rounds);
        results.push(RowResult { row: row.clone(), rounds, samples, offloads });
    }
    Ok(results)
}

fn each(row: &Row, args: &Args) -> f64 {
    row.seconds.unwrap_or(args.seconds) + OVERHEAD_SECONDS
}

/// Returns the requested number of rounds, or fewer if the row limits it.
fn rounds_of(row: &Row, args: &Args) -> u16 {
    row.rounds_max.map_or(args.rounds, |most| args.rounds.min(most))
}

fn total(rows: &[Row], args: &Args) -> Duration {
    let seconds =
        rows.iter().map(|row| each(row, args) * row.subjects.len() as f64 * f64::from(rounds_of(row, args)));
    Duration::from_secs_f64(seconds.sum())
}

fn count(rows: &[Row], args: &Args) -> usize {
    rows.iter().map(|row| row.subjects.len() * usize::from(rounds_of(row, args))).sum()
}

fn lasting(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn finish(plan: &Plan, args: &Args, results: &[RowResult]) -> Result<ExitCode> {
    let verdicts: Vec<(String, Vec<Verdict>)> = results
        .iter()
        .map(|result| {
            (result.row.name.clone(), {
                let rounds = usize::from(rounds_of(&result.row, args));
                judge(&result.row, &result.rounds, Demand { rounds, all: args.strict })
            })
        })
        .collect();
    output::print_verdicts(plan, &verdicts);
    let path = write(args, results, &verdicts)?;
    println!("\nEvery sample: {}", path.display());
    let musts: Vec<&Verdict> =
        verdicts.iter().flat_map(|(_, all)| all).filter(|verdict| verdict.must.is_some()).collect();
    let missed = musts.iter().filter(|verdict| verdict.must_is_met != Some(true)).count();
    println!("{} of {} musts met, by medians of {} rounds", musts.len() - missed, musts.len(), args.rounds);
    Ok(if args.strict && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write(args: &Args, results: &[RowResult], verdicts: &[(String, Vec<Verdict>)]) -> Result<PathBuf> {
    #[allow(clippy::disallowed_methods, reason = "results bear their date")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let path = match &args.json {
        Some(path) => path.clone(),
        None => root()?.join(format!("bench/results/{}.json", since.as_secs())),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let rows: Vec<Value> = results
        .iter()
        .zip(verdicts)
        .map(|(result, (_, verdicts))| {
            json!({
                "name": result.row.name,
                "what": result.row.what,
                "link": result.row.link,
                "offloads": result.offloads,
                "cores": result.row.cores,
                "checks": verdicts,
                "samples": result.samples,
            })
        })
        .collect();
    let document = json!({
        "time": since.as_secs(),
        "machine": machine::describe(),
        "versions": machine::versions(),
        "rounds": args.rounds,
        "seconds": args.seconds,
        "realtime": args.realtime,
        "awake": args.awake,
        "rows": rows,
    });
    std::fs::write(&path, serde_json::to_string_pretty(&document)? + "\n")?;
    Ok(path)
}
