//! End-to-end tests of `strandline echo` and `strandline load echo`, for each transport.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::announced::announced;
use crate::waiting::{at_last, found_at_last};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// An echo server on free ports, which ends when this value is dropped.
struct Server {
    child: Child,
    listening: Value,
}

impl Server {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        let mut server = Command::new(PROGRAM);
        server
            .args(["echo", "--json", "--tcp", "127.0.0.1:0", "--udp", "127.0.0.1:0"])
            .args(["--sctp", "0", "--sctp-many", "0", "--encapsulation", "127.0.0.1:0"])
            .args(arguments);
        let (child, listening) = announced(&mut server);
        Self { child, listening }
    }

    /// Returns the server's address for a transport, as an argument.
    fn address(&self, transport: &str) -> String {
        match transport {
            "sctp" => format!("127.0.0.1:{}", self.listening["sctp"]),
            "sctp-many" => format!("127.0.0.1:{}", self.listening["sctp_many"]),
            other => self.listening[other].as_str().unwrap().to_owned(),
        }
    }

    fn encapsulation(&self) -> String {
        let address = self.listening["encapsulation"].as_str().unwrap();
        address.rsplit(':').next().unwrap().to_owned()
    }

    fn load(&self, transport: &str, arguments: &[&str]) -> Value {
        let output = Command::new(PROGRAM)
            .args(["load", "echo", "--json", "--transport", transport, "--server", &self.address(transport)])
            .args(["--encapsulation", &self.encapsulation()])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn every_transport_echoes() {
    let server = Server::start();
    for transport in ["tcp", "udp", "sctp", "sctp-many"] {
        let report = server.load(transport, &["--rate", "500", "--count", "50"]);
        assert_eq!(
            (&report["completed"], &report["failed"]),
            (&Value::from(50), &Value::from(0)),
            "{report}"
        );
        assert_eq!(report["total"]["count"], 50);
        assert!(
            report["total"]["p50_ms"].as_f64().unwrap()
                <= report["total_from_schedule"]["max_ms"].as_f64().unwrap()
        );
        assert_eq!(report["setup"].is_null(), transport == "udp", "{transport}");
    }
}

#[test]
fn piggyback_skips_set_up_and_clients_share_work() {
    let server = Server::start();
    let arguments =
        ["--style", "piggyback", "--clients", "2", "--rate", "400", "--count", "81", "--size", "200"];
    let report = server.load("sctp", &arguments);
    assert_eq!((&report["completed"], &report["clients"]), (&Value::from(81), &Value::from(2)));
    assert!(report["setup"].is_null());
}

#[test]
fn persistent_associations_are_used_in_turn() {
    let server = Server::start();
    // Those that are used twice answer within the five seconds between, also on a busy machine.
    let report = server.load("sctp-many", &["--persistent", "100", "--rate", "20", "--count", "110"]);
    assert_eq!((&report["completed"], &report["held"]), (&Value::from(110), &Value::from(100)), "{report}");
}

#[test]
fn shards_share_the_work() {
    let server = Server::start_with(&["--shards", "3"]);
    for transport in ["sctp", "sctp-many"] {
        let report = server.load(transport, &["--rate", "500", "--count", "60"]);
        assert_eq!(
            (&report["completed"], &report["failed"]),
            (&Value::from(60), &Value::from(0)),
            "{report}"
        );
    }
}

#[test]
fn a_capture_is_written() {
    let server = Server::start();
    let path = std::env::temp_dir().join(format!("strandline-test-{}.pcapng", std::process::id()));
    server.load("sctp", &["--count", "3", "--pcap", path.to_str().unwrap()]);
    let capture = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a section header");
    assert!(capture.len() > 3 * 2 * 1550, "{} bytes", capture.len());
}

#[test]
fn held_associations_are_let_go_on_enter() {
    let server = Server::start();
    let mut child = Command::new(PROGRAM)
        .args([
            "load",
            "echo",
            "--server",
            &server.address("sctp"),
            "--encapsulation",
            &server.encapsulation(),
        ])
        .args(["--count", "5", "--hold"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("Enter"), "{line}");
    assert!(child.try_wait().unwrap().is_none());
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn mistakes_are_explained() {
    let fails = |arguments: &[&str]| {
        let output = Command::new(PROGRAM).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(fails(&["load", "echo", "--rate", "0"]).contains("--rate"));
    assert!(fails(&["echo", "--tcp", "192.0.2.1:7"]).contains("192.0.2.1:7"));
    // Port 1 (tcpmux) is never assigned to a socket that asks for any port.
    let nobody = ["load", "echo", "--count", "1", "--encapsulation", "1", "--timeout", "5"];
    let output = Command::new(PROGRAM).args(nobody).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("no SCTP stack responds there"));
}

#[test]
fn help_and_completions_are_there() {
    let output = |arguments: &[&str]| Command::new(PROGRAM).args(arguments).output().unwrap().stdout;
    assert!(String::from_utf8(output(&["--help"])).unwrap().contains("Examples:"));
    assert!(String::from_utf8(output(&["load", "echo", "--help"])).unwrap().contains("--persistent"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(String::from_utf8(output(&["completions", shell])).unwrap().contains("strandline"));
    }
}

#[test]
fn the_demo_measures_every_case() {
    let arguments = ["demo", "--json", "--associations", "60", "--rate", "300"];
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = results["cases"].as_array().unwrap();
    assert_eq!(cases.len(), if results["raw_left_out"].is_null() { 8 } else { 6 }, "{results}");
    for case in cases {
        assert_eq!((&case["completed"], &case["failed"]), (&Value::from(60), &Value::from(0)), "{case}");
    }
    let held = cases.iter().filter(|case| !case["memory"].is_null());
    assert_eq!(held.map(|case| case["held"].as_u64().unwrap()).collect::<Vec<_>>(), [60, 60, 60]);
    let steps = results["steps_ms"].as_array().unwrap();
    assert!(steps.iter().any(|step| step[0] == "piggyback" && step[1] == "r:COOKIE-ACK"), "{steps:?}");
}

/// Returns the child processes that are still running.
fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn killed_demo_leaves_no_server_behind() {
    let arguments = ["demo", "--json", "--associations", "100000", "--rate", "10", "--no-raw"];
    let mut demo =
        Command::new(PROGRAM).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = found_at_last("a server and a client", || {
        let children = children(demo.id());
        if children.len() >= 2 { Ok(children) } else { Err(format!("{children:?}")) }
    });
    demo.kill().unwrap();
    demo.wait().unwrap();
    for child in started {
        let path = format!("/proc/{child}/exe");
        at_last("what it has started is gone", || std::fs::read_link(&path).is_err());
    }
}
