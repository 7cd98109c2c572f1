//! What the programs report, as metrics.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
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

/// The metrics of one measurement. `message_bytes` is the row's `size`.
pub(crate) fn read(
    subject: &Subject,
    sender: &Value,
    receiver: Option<&Value>,
    message_bytes: Option<f64>,
) -> Result<Metrics> {
    match subject.report {
        ReportKind::Plain => {
            let receiver = receiver.context("the receiver reported nothing")?;
            Ok(transfer(plain(sender)?, plain(receiver)?, message_bytes))
        }
        ReportKind::Perf => {
            let (sent, received) = perf(sender)?;
            Ok(transfer(sent, received, message_bytes))
        }
        ReportKind::Iperf3 => {
            let (sent, received) = iperf3(sender)?;
            Ok(transfer(sent, received, None))
        }
        ReportKind::Transactions => {
            let number = |name| number(sender, name);
            Ok(BTreeMap::from([
                (Metric::Setup, number("/setup_us")?),
                (Metric::Transaction, number("/transaction_us")?),
            ]))
        }
        ReportKind::Pointers => {
            let metrics = subject.metrics.iter().map(|(metric, pointer)| {
                let parts: Result<Vec<f64>> = pointer.at.iter().map(|at| number(sender, at)).collect();
                Ok((*metric, parts?.into_iter().sum::<f64>() * pointer.times))
            });
            metrics.collect()
        }
    }
}

fn number(value: &Value, pointer: &str) -> Result<f64> {
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

/// Both sides, as the client tells them.
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

/// iperf3 tells processor time in percent of the duration.
fn iperf3(report: &Value) -> Result<(Side, Side)> {
    let side = |sum: &str, cpu: &str| -> Result<Side> {
        let seconds = number(report, &format!("/end/{sum}/seconds"))?;
        let percent = number(report, &format!("/end/cpu_utilization_percent/{cpu}"))?;
        let bytes = number(report, &format!("/end/{sum}/bytes"))?;
        Ok(Side { seconds, bytes, cpu_seconds: seconds * percent / 100.0 })
    };
    Ok((side("sum_sent", "host_total")?, side("sum_received", "remote_total")?))
}

fn transfer(sender: Side, receiver: Side, message_bytes: Option<f64>) -> Metrics {
    let per_second = receiver.bytes / receiver.seconds.max(1e-9);
    let per_gb = |side: Side| side.cpu_seconds / (side.bytes.max(1.0) / 1e9);
    let mut metrics = BTreeMap::from([
        (Metric::Goodput, per_second * 8.0 / 1e6),
        (Metric::Cpu, per_gb(sender) + per_gb(receiver)),
        (Metric::SenderCpu, per_gb(sender)),
        (Metric::ReceiverCpu, per_gb(receiver)),
    ]);
    metrics.extend(message_bytes.map(|size| (Metric::Messages, per_second / size)));
    metrics
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::Pointer;
    use serde_json::json;

    fn subject(report: &str) -> Subject {
        toml::from_str(&format!("title = \"x\"\nsender = \"x\"\nreport = \"{report}\"\n")).unwrap()
    }

    #[test]
    fn what_the_receiver_got_counts() {
        let side = |bytes: u64, cpu: f64| json!({ "seconds": 2.0, "bytes": bytes, "messages": 1, "cpu_user_seconds": cpu, "cpu_system_seconds": 1.0 });
        let (sender, receiver) = (side(2_000_000_000, 1.0), side(1_000_000_000, 0.5));
        let metrics = read(&subject("plain"), &sender, Some(&receiver), Some(1000.0)).unwrap();
        assert_eq!(metrics[&Metric::Goodput], 4000.0);
        assert_eq!(metrics[&Metric::Messages], 500_000.0);
        assert_eq!(metrics[&Metric::SenderCpu], 1.0);
        assert_eq!(metrics[&Metric::ReceiverCpu], 1.5);
        assert_eq!(metrics[&Metric::Cpu], 2.5);
        assert!(read(&subject("plain"), &sender, None, None).is_err());
    }

    #[test]
    fn perf_and_iperf3_tell_both_sides() {
        let sums = |extra: Value| {
            let mut end = json!({
                "sum_sent": { "seconds": 1.0, "bytes": 1_000_000_000 },
                "sum_received": { "seconds": 1.0, "bytes": 1_000_000_000 },
            });
            end.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({ "end": end })
        };
        let one = json!({ "user_seconds": 0.25, "system_seconds": 0.25 });
        let perf = sums(json!({ "cpu": { "host": one, "remote": one } }));
        let iperf3 = sums(json!({ "cpu_utilization_percent": { "host_total": 50.0, "remote_total": 50.0 } }));
        for (kind, report) in [("perf", perf), ("iperf3", iperf3)] {
            let metrics = read(&subject(kind), &report, None, None).unwrap();
            assert_eq!(metrics[&Metric::Goodput], 8000.0, "{kind}");
            assert_eq!(metrics[&Metric::Cpu], 1.0, "{kind}");
        }
    }

    #[test]
    fn pointers_name_metrics() {
        let mut subject = subject("pointers");
        let pointer =
            |at: &[&str], times| Pointer { at: at.iter().map(|at| (*at).to_owned()).collect(), times };
        subject.metrics.insert(Metric::Memory, pointer(&["/server/process", "/server/kernel"], 1.0));
        subject.metrics.insert(Metric::Setup, pointer(&["/steps/0/ms"], 1000.0));
        let report = json!({ "server": { "process": 700, "kernel": 50 }, "steps": [{ "ms": 0.25 }] });
        let metrics = read(&subject, &report, None, None).unwrap();
        assert_eq!(metrics, Metrics::from([(Metric::Memory, 750.0), (Metric::Setup, 250.0)]));
        assert!(read(&subject, &json!({ "server": {} }), None, None).is_err());
    }
}
