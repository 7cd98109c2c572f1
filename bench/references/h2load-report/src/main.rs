//! h2load's result as JSON: runs `h2load` with the given arguments and a log file, and prints the time of the whole run
//! and the largest time of a request, in the members that `strandline load http` has for them.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::json;

fn main() -> anyhow::Result<()> {
    let log = std::env::temp_dir().join(format!("h2load-report-{}", std::process::id()));
    // h2load appends to its log file.
    ensure!(!log.exists(), "{} exists already", log.display());
    let mut command = Command::new("h2load");
    command.arg(format!("--log-file={}", log.display())).args(std::env::args_os().skip(1));
    let output = command.stderr(Stdio::inherit()).output().context("h2load is in Debian's nghttp2-client")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(&log);
    if !output.status.success() {
        bail!("{}: {text}", output.status);
    }
    // finished in 1.23s, 40.65 req/s, 421.90KB/s
    let finished = text.lines().find_map(|line| line.strip_prefix("finished in ")).context("no total")?;
    let seconds = seconds(finished.split(',').next().unwrap_or_default())?;
    // Each line: begin in microseconds since 1970, status, microseconds until the end of the response.
    let requests: Vec<(i64, f64)> = lines.lines().filter_map(request).collect();
    let replies = requests.iter().filter(|(status, _)| *status == 200).count();
    let slowest = requests.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    let report = json!({
        "requests": requests.len(),
        "replies": replies,
        "errors_total": requests.len() - replies,
        "seconds": seconds,
        "slowest_ms": seconds * 1e3,
        "request_ms": { "max": slowest },
    });
    println!("{report}");
    Ok(())
}

fn request(line: &str) -> Option<(i64, f64)> {
    let mut words = line.split_whitespace().skip(1);
    let status = words.next()?.parse().ok()?;
    let microseconds: f64 = words.next()?.parse().ok()?;
    Some((status, microseconds / 1e3))
}

/// Reads a time as h2load prints it: `1.23s`, `456.78ms`, `789us`.
fn seconds(text: &str) -> anyhow::Result<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
    let found = units.iter().find_map(|(unit, factor)| {
        let number: f64 = text.trim().strip_suffix(unit)?.parse().ok()?;
        Some(number * factor)
    });
    found.with_context(|| format!("no time: {text}"))
}

#[cfg(test)]
mod tests;
