//! The table of `bench/throughput`: reads its lines of JSON, prints medians with ranges, and writes them as JSON too.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use serde::{Deserialize, Serialize};

#[derive(Debug, Parser)]
struct Command {
    /// Where to write the table as JSON.
    #[arg(long)]
    json: PathBuf,
}

/// A line: what was reported of a test.
#[derive(Debug, Deserialize)]
struct Line {
    subject: String,
    size: u32,
    round: u32,
    report: Reported,
}

/// Each program has its own form.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Reported {
    /// Of one process.
    Side(Report),
    /// Of both, by `strandline perf client --json`.
    Perf { end: End },
}

#[derive(Debug, Deserialize)]
struct End {
    sum_sent: Sum,
    sum_received: Sum,
    cpu: Cpu,
}

#[derive(Debug, Deserialize)]
struct Sum {
    bytes: u64,
    bits_per_second: f64,
    /// None where TCP is read.
    messages_per_second: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Cpu {
    host: CpuSeconds,
    remote: CpuSeconds,
}

#[derive(Debug, Deserialize)]
struct CpuSeconds {
    user_seconds: f64,
    system_seconds: f64,
}

impl Reported {
    /// One for each process. Of perf, the client is the sender.
    fn sides(self) -> Vec<Report> {
        let report = |side: &str, sum: &Sum, cpu: &CpuSeconds| Report {
            side: side.to_owned(),
            mbit_per_second: sum.bits_per_second / 1e6,
            messages_per_second: sum.messages_per_second.unwrap_or_default(),
            cpu_user_seconds: cpu.user_seconds,
            cpu_system_seconds: cpu.system_seconds,
            bytes: sum.bytes,
        };
        match self {
            Self::Side(report) => vec![report],
            Self::Perf { end } => vec![
                report("sender", &end.sum_sent, &end.cpu.host),
                report("receiver", &end.sum_received, &end.cpu.remote),
            ],
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
struct Report {
    side: String,
    mbit_per_second: f64,
    messages_per_second: f64,
    cpu_user_seconds: f64,
    cpu_system_seconds: f64,
    bytes: u64,
}

/// The median of all rounds, and the range.
#[derive(Debug, Clone, Copy, Serialize)]
struct Summary {
    median: f64,
    least: f64,
    most: f64,
}

/// A line of the table.
#[derive(Debug, Serialize)]
struct Row {
    size_bytes: u32,
    subject: String,
    rounds: usize,
    mbit_per_second: Summary,
    messages_per_second: Summary,
    cpu_seconds_per_gb: Summary,
    sender_cpu_seconds_per_gb: Summary,
    receiver_cpu_seconds_per_gb: Summary,
    /// Median of the ratios of each round: how many times as fast strandline was.
    strandline_ratio: Option<Summary>,
}

fn main() -> anyhow::Result<()> {
    let command = Command::parse();
    let mut rounds: BTreeMap<(u32, String), BTreeMap<u32, BTreeMap<String, Report>>> = BTreeMap::new();
    let mut order = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line: Line = serde_json::from_str(&line?).context("a line of the results")?;
        let key = (line.size, line.subject);
        if !order.contains(&key) {
            order.push(key.clone());
        }
        let reports = rounds.entry(key).or_default().entry(line.round).or_default();
        reports.extend(line.report.sides().into_iter().map(|report| (report.side.clone(), report)));
    }
    // What the receiver got is what counts.
    let speed = |size: u32, subject: &str| -> BTreeMap<u32, f64> {
        let reports = rounds.get(&(size, subject.to_owned()));
        let received = |(round, sides): (&u32, &BTreeMap<String, Report>)| {
            Some((*round, sides.get("receiver")?.mbit_per_second))
        };
        reports.into_iter().flatten().filter_map(received).collect()
    };
    let rows: Vec<Row> = order
        .iter()
        .filter_map(|key| {
            let complete: Vec<_> = rounds.get(key)?.values().filter(|sides| sides.len() == 2).collect();
            let theirs = speed(key.0, &key.1);
            let ours = speed(key.0, "strandline");
            let ratios = theirs.iter().filter_map(|(round, theirs)| Some(ours.get(round)? / theirs));
            row(key, &complete, ratios.collect())
        })
        .collect();
    print(&rows);
    std::fs::write(&command.json, serde_json::to_string_pretty(&rows)?).context("writing the table")
}

fn row(key: &(u32, String), rounds: &[&BTreeMap<String, Report>], ratios: Vec<f64>) -> Option<Row> {
    let each = |of: &dyn Fn(&Report) -> f64, side: &str| -> Vec<f64> {
        rounds.iter().filter_map(|sides| Some(of(sides.get(side)?))).collect()
    };
    let per_gb = |report: &Report| {
        (report.cpu_user_seconds + report.cpu_system_seconds) / (report.bytes.max(1) as f64 / 1e9)
    };
    let (sender, receiver) = (each(&per_gb, "sender"), each(&per_gb, "receiver"));
    Some(Row {
        size_bytes: key.0,
        subject: key.1.clone(),
        rounds: rounds.len(),
        mbit_per_second: summary(each(&|report| report.mbit_per_second, "receiver"))?,
        // TCP has no messages; the sender's writes stand for them.
        messages_per_second: summary(each(&|report| report.messages_per_second, "sender"))?,
        cpu_seconds_per_gb: summary(sender.iter().zip(&receiver).map(|(one, other)| one + other).collect())?,
        sender_cpu_seconds_per_gb: summary(sender)?,
        receiver_cpu_seconds_per_gb: summary(receiver)?,
        strandline_ratio: if key.1 == "strandline" { None } else { summary(ratios) },
    })
}

fn summary(mut values: Vec<f64>) -> Option<Summary> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let median = if values.len() % 2 == 1 { upper } else { (upper + values.get(middle - 1)?) / 2.0 };
    Some(Summary { median, least: *values.first()?, most: *values.last()? })
}

fn print(rows: &[Row]) {
    println!(
        "{:>7} {:<16} {:>25} {:>12} {:>26} {:>20}",
        "bytes", "", "Mbit/s (range)", "messages/s", "CPU-s/GB: both = tx + rx", "strandline is"
    );
    for row in rows {
        let speed = row.mbit_per_second;
        let cpu = row.cpu_seconds_per_gb.median;
        let (tx, rx) = (row.sender_cpu_seconds_per_gb.median, row.receiver_cpu_seconds_per_gb.median);
        println!(
            "{:>7} {:<16} {:>25} {:>12.0} {:>26} {:>20}",
            row.size_bytes,
            row.subject,
            format!("{:.0} ({:.0} - {:.0})", speed.median, speed.least, speed.most),
            row.messages_per_second.median,
            format!("{cpu:.2} = {tx:.2} + {rx:.2}"),
            row.strandline_ratio
                .map(|ratio| format!("{:.2} x ({:.2} - {:.2})", ratio.median, ratio.least, ratio.most))
                .unwrap_or_default(),
        );
    }
}
