//! Tests of the engine's log events in the commands of the program (docs/diagnostics.md).

use std::process::{Child, Command, Output};

use serde_json::Value;

use crate::announced::announced;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// An echo server on free ports, which ends when this value is dropped.
struct Server {
    child: Child,
    listening: Value,
}

impl Server {
    fn start() -> Self {
        let mut server = Command::new(PROGRAM);
        server.args(["echo", "--json", "--sctp", "0", "--encapsulation", "127.0.0.1:0"]);
        let (child, listening) = announced(&mut server);
        Self { child, listening }
    }

    /// Sends ten messages with these options of the program, and `filter` in `RUST_LOG`.
    fn load(&self, options: &[&str], filter: Option<&str>) -> Output {
        let server = format!("127.0.0.1:{}", self.listening["sctp"]);
        let port = self.listening["encapsulation"].as_str().unwrap().rsplit(':').next().unwrap();
        let mut load = Command::new(PROGRAM);
        load.args(options).args(["load", "echo", "--json", "--transport", "sctp", "--count", "10"]);
        load.args(["--rate", "500", "--server", &server, "--encapsulation", port]).env_remove("RUST_LOG");
        if let Some(filter) = filter {
            load.env("RUST_LOG", filter);
        }
        let output = load.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn log_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const ESTABLISHED: &str = "state changed from=COOKIE-ECHOED to=ESTABLISHED";

#[test]
fn verbose_commands_print_events_of_associations() {
    let server = Server::start();
    for (options, filter, packets) in [
        (&["-v"][..], None, false),
        (&["-vv"][..], None, true),
        (&[][..], Some("strandline_proto=debug"), false),
        (&[][..], Some("strandline_proto::packet=trace,strandline_proto::association=debug"), true),
    ] {
        let output = server.load(options, filter);
        let log = log_of(&output);
        let line = log.lines().find(|line| line.contains(ESTABLISHED));
        let line = line.unwrap_or_else(|| panic!("{options:?} {filter:?}: {log}"));
        assert!(line.contains("association{peer=127.0.0.1:") && line.contains("DEBUG"), "{line}");
        assert_eq!(log.contains(": INIT ACK tag "), packets, "{options:?} {filter:?}: {log}");
        serde_json::from_slice::<Value>(&output.stdout).expect("standard output has the result alone");
    }
    let quiet = log_of(&server.load(&[], None));
    assert!(!quiet.contains("strandline_proto"), "{quiet}");
}

#[test]
fn events_in_json_have_their_spans() {
    let server = Server::start();
    let log = log_of(&server.load(&["--log-format", "json"], Some("strandline_proto=debug")));
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let changed = events.iter().find(|event| event["to"] == "ESTABLISHED").expect("it was established");
    assert_eq!((&changed["level"], &changed["from"]), (&Value::from("DEBUG"), &Value::from("COOKIE-ECHOED")));
    assert_eq!(changed["target"], "strandline_proto::association");
    let span = &changed["spans"][0];
    assert_eq!((&span["name"], &span["peer_port"]), (&Value::from("association"), &server.listening["sctp"]));
}
