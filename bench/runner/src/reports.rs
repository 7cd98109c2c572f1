//! Converts the programs' reports to metrics.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::plan::{Metric, ReportKind, Subject};

pub(crate) type Metrics = BTreeMap<Metric, f64>;

/// One side of a transfer.
#[derive(Debug, Clone, Copy)]
struct Side {
    seconds: f64,
    bytes: f64,
    cpu_seconds: f64,
}

/// Returns the metrics of one measurement. `message_bytes` is the row's `size`.
///
/// # Errors
/// If a number is missing or implausible: a program that transferred nothing may still have ended
/// successfully.
pub(crate) fn read(
    subject: &Subject,
    sender: &Value,
    receiver: Option<&Value>,
    message_bytes: Option<f64>,
) -> Result<Metrics> {
    let mut metrics = told(subject, sender, receiver, message_bytes)?;
    metrics.extend(pointed(subject, sender)?);
    for (metric, value) in &metrics {
        let can_be = value.is_finite() && (*value > 0.0 || metric.may_be_nothing());
        ensure!(can_be, "{value} {} can't be true", metric.unit());
    }
    Ok(metrics)
}

fn told(
    subject: &Subject,
    sender: &Value,
    receiver: Option<&Value>,
    message_bytes: Option<f64>,
) -> Result<Metrics> {
    match subject.report {
        ReportKind::Plain => {
            let receiver = receiver.context("the receiver reported nothing")?;
            transfer(plain(sender)?, plain(receiver)?, message_bytes)
        }
        ReportKind::Perf => {
            let (sent, received) = perf(sender)?;
            transfer(sent, received, message_bytes)
        }
        ReportKind::Iperf3 => {
            let (sent, received) = iperf3(sender)?;
            transfer(sent, received, None)
        }
        ReportKind::Transactions => {
            let number = |name| number(sender, name);
            Ok(BTreeMap::from([
                (Metric::Setup, number("/setup_us")?),
                (Metric::Transaction, number("/transaction_us")?),
            ]))
        }
        ReportKind::Pointers => Ok(Metrics::new()),
    }
}

/// Returns the metrics at the subject's own pointers.
fn pointed(subject: &Subject, sender: &Value) -> Result<Metrics> {
    let metrics = subject.metrics.iter().map(|(metric, pointer)| {
        let sum = |at: &[String]| at.iter().map(|at| number(sender, at)).sum::<Result<f64>>();
        let per = if pointer.per.is_empty() { 1.0 } else { sum(&pointer.per)? };
        Ok((*metric, sum(&pointer.at)? / per * pointer.times))
    });
    metrics.collect()
}

pub(crate) fn number(value: &Value, pointer: &str) -> Result<f64> {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.with_context(|| format!("the report has no number at {pointer}"))
}

fn plain(report: &Value) -> Result<Side> {
    Ok(Side {
        seconds: number(report, "/seconds")?,
        bytes: number(report, "/bytes")?,
        cpu_seconds: number(report, "/cpu_user_seconds")? + number(report, "/cpu_system_seconds")?,
    })
}

/// Returns both sides, as reported by the client.
fn perf(report: &Value) -> Result<(Side, Side)> {
    let cpu = |side: &str| -> Result<f64> {
        Ok(number(report, &format!("/end/cpu/{side}/user_seconds"))?
            + number(report, &format!("/end/cpu/{side}/system_seconds"))?)
    };
    let side = |sum: &str, cpu_seconds: f64| -> Result<Side> {
        Ok(Side {
            seconds: number(report, &format!("/end/{sum}/seconds"))?,
            bytes: number(report, &format!("/end/{sum}/bytes"))?,
            cpu_seconds,
        })
    };
    Ok((side("sum_sent", cpu("host")?)?, side("sum_received", cpu("remote")?)?))
}

/// Returns both sides. iperf3 reports processor time in percent of the duration.
fn iperf3(report: &Value) -> Result<(Side, Side)> {
    let side = |sum: &str, cpu: &str| -> Result<Side> {
        let seconds = number(report, &format!("/end/{sum}/seconds"))?;
        let percent = number(report, &format!("/end/cpu_utilization_percent/{cpu}"))?;
        let bytes = number(report, &format!("/end/{sum}/bytes"))?;
        Ok(Side { seconds, bytes, cpu_seconds: seconds * percent / 100.0 })
    };
    Ok((side("sum_sent", "host_total")?, side("sum_received", "remote_total")?))
}

fn transfer(sender: Side, receiver: Side, message_bytes: Option<f64>) -> Result<Metrics> {
    for (side, name) in [(sender, "sender"), (receiver, "receiver")] {
        ensure!(
            side.bytes > 0.0 && side.seconds > 0.0,
            "the {name} moved {} bytes in {} s",
            side.bytes,
            side.seconds
        );
    }
    let per_second = receiver.bytes / receiver.seconds;
    let per_gb = |side: Side| side.cpu_seconds / (side.bytes / 1e9);
    let mut metrics = BTreeMap::from([
        (Metric::Goodput, per_second * 8.0 / 1e6),
        (Metric::Cpu, per_gb(sender) + per_gb(receiver)),
        (Metric::SenderCpu, per_gb(sender)),
        (Metric::ReceiverCpu, per_gb(receiver)),
    ]);
    metrics.extend(message_bytes.map(|size| (Metric::Messages, per_second / size)));
    Ok(metrics)
}

#[cfg(test)]
mod tests;
