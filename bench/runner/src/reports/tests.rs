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
    let pointer = |at: &[&str], times| Pointer {
        at: at.iter().map(|at| (*at).to_owned()).collect(),
        times,
        per: Vec::new(),
    };
    subject.metrics.insert(Metric::Memory, pointer(&["/server/process", "/server/kernel"], 1.0));
    subject.metrics.insert(Metric::Setup, pointer(&["/steps/0/ms"], 1000.0));
    let report = json!({ "server": { "process": 700, "kernel": 50 }, "steps": [{ "ms": 0.25 }] });
    let metrics = read(&subject, &report, None, None).unwrap();
    assert_eq!(metrics, Metrics::from([(Metric::Memory, 750.0), (Metric::Setup, 250.0)]));
    assert!(read(&subject, &json!({ "server": {} }), None, None).is_err());
    let resent = Pointer { at: vec!["/again".to_owned()], per: vec!["/all".to_owned()], times: 1.0 };
    subject.metrics = [(Metric::Resent, resent)].into();
    let metrics = read(&subject, &json!({ "again": 3, "all": 12 }), None, None).unwrap();
    assert_eq!(metrics, Metrics::from([(Metric::Resent, 0.25)]));
}

#[test]
fn what_moved_nothing_is_no_measurement() {
    let side = |bytes: u64, seconds: f64| json!({ "seconds": seconds, "bytes": bytes, "messages": 1, "cpu_user_seconds": 1.0, "cpu_system_seconds": 1.0 });
    let told = |sender: Value, receiver: Value| read(&subject("plain"), &sender, Some(&receiver), None);
    let error = told(side(1_000, 1.0), side(0, 1.0)).unwrap_err();
    assert_eq!(error.to_string(), "the receiver moved 0 bytes in 1 s");
    assert!(told(side(0, 1.0), side(1_000, 1.0)).is_err());
    assert!(told(side(1_000, 1.0), side(1_000, 0.0)).is_err());
    assert!(told(side(1_000, 1.0), side(1_000, 1.0)).is_ok());
}

#[test]
fn nothing_costs_nothing() {
    let mut subject = subject("pointers");
    subject
        .metrics
        .insert(Metric::Memory, Pointer { at: vec!["/bytes".to_owned()], times: 1.0, per: Vec::new() });
    let error = read(&subject, &json!({ "bytes": 0 }), None, None).unwrap_err();
    assert_eq!(error.to_string(), "0 bytes can't be true");
    assert!(read(&subject, &json!({ "bytes": 700 }), None, None).is_ok());
    // The kernel may hold nothing for an association, and may hold less than before for other reasons.
    subject.metrics.insert(
        Metric::KernelMemory,
        Pointer { at: vec!["/kernel".to_owned()], times: 1.0, per: Vec::new() },
    );
    for kernel in [0, -3] {
        assert!(read(&subject, &json!({ "bytes": 700, "kernel": kernel }), None, None).is_ok());
    }
}

#[test]
fn a_server_may_collapse_under_overload() {
    let mut subject = subject("pointers");
    for (metric, at) in [(Metric::Operations, "/each"), (Metric::OfferedTenTimes, "/within")] {
        subject.metrics.insert(metric, Pointer { at: vec![at.to_owned()], times: 1.0, per: Vec::new() });
    }
    assert!(read(&subject, &json!({ "each": 100, "within": 0 }), None, None).is_ok());
    assert!(read(&subject, &json!({ "each": 0, "within": 0 }), None, None).is_err());
}

#[test]
fn pointers_add_to_what_a_report_tells_anyway() {
    let mut subject = subject("transactions");
    let at = ["/inits", "/shed"].map(str::to_owned).to_vec();
    subject.metrics.insert(Metric::InitsArrived, Pointer { at, times: 1.0, per: Vec::new() });
    let report =
        |inits: u64| json!({ "setup_us": 1.0, "transaction_us": 2.0, "inits": inits, "shed": inits });
    let metrics = read(&subject, &report(3), None, None).unwrap();
    assert_eq!((metrics[&Metric::Setup], metrics[&Metric::InitsArrived]), (1.0, 6.0));
    let error = read(&subject, &report(0), None, None).unwrap_err();
    assert_eq!(error.to_string(), "0 INITs arrived can't be true", "a flood that nobody got is none");
}
