//! `strandline load associations` and `strandline load flood`, as a user runs them.
#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

fn load(arguments: &[&str]) -> Value {
    let output = Command::new(PROGRAM).arg("load").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn mistake(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).arg("load").args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn associations_are_counted_timed_and_weighed_beside_tcp() {
    let report = load(&["associations", "--count", "300", "--transport", "sctp,tcp", "--probes", "20"]);
    let ladders = report.as_array().unwrap();
    let names: Vec<_> = ladders.iter().map(|ladder| ladder["transport"].as_str().unwrap()).collect();
    assert_eq!(names, ["sctp", "tcp"]);
    for ladder in ladders {
        let steps = ladder["steps"].as_array().unwrap();
        let held: Vec<_> = steps.iter().map(|step| step["held"].as_u64().unwrap()).collect();
        assert_eq!(held, [1, 10, 100, 300]);
        for step in steps {
            assert_eq!(step["swept"], step["held"], "every one answers: {step}");
            assert_eq!((&step["setup"]["count"], &step["transaction"]["count"]), (&20.into(), &20.into()));
        }
        assert!(ladder["hold"].is_null());
    }
    let items = ladders[0]["steps"][3]["memory"]["stack_items"].as_array().unwrap();
    let bytes: f64 = items.iter().map(|item| item[1].as_f64().unwrap()).sum();
    assert!((200.0..=1024.0).contains(&bytes), "{items:?}");
}

#[test]
fn held_associations_exchange_heartbeats() {
    let arguments =
        ["associations", "--steps", "50", "--probes", "5", "--heartbeat", "0.05", "--hold", "2.5"];
    let report = load(&arguments);
    let hold = &report[0]["hold"];
    assert!(hold["heartbeats_per_s"].as_f64().unwrap() > 0.0, "{hold}");
    assert_eq!((&hold["timed_out"], &hold["answered_afterwards"]), (&0.into(), &50.into()), "{hold}");
}

#[test]
fn mistakes_are_explained() {
    assert!(mistake(&["associations", "--count", "0"]).contains("--count"));
    assert!(mistake(&["associations", "--steps", "3,2"]).contains("--steps"));
    assert!(mistake(&["associations", "--udp-address", "192.0.2.1:1"]).contains("127.0.0.0/8"));
    assert!(mistake(&["flood", "--to", "8.8.8.8:9899"]).contains("--i-own-this-network"));
    assert!(mistake(&["flood", "--duration", "1e9"]).contains("--duration"));
}

/// An echo server that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Server {
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

#[test]
fn a_flooded_server_answers_and_keeps_nothing() {
    let mut child = Command::new(PROGRAM)
        .args(["echo", "--json", "--sctp-many", "7007", "--encapsulation", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let server = Server(child);
    let listening: Value = serde_json::from_str(&line).unwrap();
    let to = listening["encapsulation"].as_str().unwrap();

    // Once, so that buffers and queues have the size that they get.
    load(&["flood", "--to", to, "--duration", "0.3"]);
    let before = server.memory();
    let sent = load(&["flood", "--to", to, "--duration", "1"])["packets"].as_u64().unwrap();
    let grown = server.memory().saturating_sub(before);
    assert!(sent > 1000 && grown < 4 << 20, "{grown} bytes more after {sent} INITs");
    // How soon answers come is up to the machine.
    let answered = (0..50).find_map(|_| {
        let report = load(&["flood", "--to", to, "--duration", "0.2", "--rate", "1000"]);
        assert_eq!(report["aborts"], 0);
        report["init_acks"].as_u64().filter(|count| *count > 0)
    });
    assert!(answered.is_some());

    let port = to.rsplit(':').next().unwrap();
    let arguments =
        ["echo", "--server", "127.0.0.1:7007", "--transport", "sctp-many", "--encapsulation", port];
    let after = load(&[&arguments[..], &["--count", "20"]].concat());
    assert_eq!((&after["completed"], &after["failed"]), (&20.into(), &0.into()), "{after}");
}
