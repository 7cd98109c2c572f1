//! End-to-end tests of `strandline load associations` and `strandline load flood`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::waiting::found_at_last;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

fn load(arguments: &[&str]) -> Value {
    let output = Command::new(PROGRAM).arg("load").args(arguments).arg("--json").output().unwrap();
    let [told, said] = [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text));
    // The report contains failed operations.
    assert!(output.status.success(), "{arguments:?}: {} {told}{said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn mistake(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).arg("load").args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn associations_are_counted_timed_and_measured_beside_tcp() {
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
    let memory = &ladders[0]["steps"][3]["memory"];
    let items = memory["stack_items"].as_object().unwrap();
    let bytes: f64 = items.values().map(|item| item.as_f64().unwrap()).sum();
    assert!((200.0..=1024.0).contains(&bytes), "{items:?}");
    assert!((bytes - memory["stack"].as_f64().unwrap()).abs() < 1e-6, "{memory}");
    let memory = &ladders[1]["steps"][3]["memory"];
    let kernel: f64 = ["sock", "file", "epoll", "buffers"]
        .map(|item| memory["kernel_items"][item].as_f64().unwrap())
        .iter()
        .sum();
    assert!((kernel - memory["kernel"].as_f64().unwrap()).abs() < 1e-6, "{memory}");
    assert!(memory["others"].is_f64(), "apart from what belongs to sockets: {memory}");
}

#[test]
fn figures_only_root_may_read_are_unknown() {
    let arguments =
        ["load", "associations", "--transport", "tcp", "--steps", "50", "--probes", "5", "--json"];
    // A copy of the program, because other users may lack access to its folder.
    let program = std::env::temp_dir().join(format!("strandline-nobody-{}", std::process::id()));
    std::fs::copy(PROGRAM, &program).unwrap();
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    let output = command.arg(&program).args(arguments).output().unwrap();
    std::fs::remove_file(&program).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let memory = &report[0]["steps"][0]["memory"];
    assert!(memory["kernel_items"].is_null() && memory["kernel"].is_f64(), "{memory}");
    assert!(memory["others"].is_null(), "not known, so all of it is in the kernel's share: {memory}");
    let why = memory["kernel_items_missing"].as_str().unwrap();
    assert!(why.contains("/proc/slabinfo") && why.contains("sudo"), "{why}");
}

#[test]
fn an_echo_load_whose_operations_failed_says_so() {
    // A server that answers on five connections, however long that takes, and accepts no more. One connection for all
    // would still be busy on a busy host when the next message is due.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let answering = thread::spawn(move || {
        let mut message = [0; 100];
        for _ in 0..5 {
            let (mut connection, _) = listener.accept().unwrap();
            connection.read_exact(&mut message).unwrap();
            connection.write_all(&message).unwrap();
        }
    });
    let output = Command::new(PROGRAM)
        .args(["load", "echo", "--transport", "tcp", "--json", "--server", &server])
        .args(["--size", "100", "--rate", "200", "--count", "20"])
        .output()
        .unwrap();
    answering.join().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["completed"], &report["failed"]), (&5.into(), &15.into()), "{report}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn one_to_one_servers_and_shards_hold_associations() {
    for shards in ["1", "2"] {
        let arguments = ["associations", "--steps", "200", "--probes", "5", "--transport", "sctp,sctp-one"];
        let report = load(&[&arguments[..], &["--shards", shards]].concat());
        for ladder in report.as_array().unwrap() {
            let step = &ladder["steps"][0];
            assert_eq!((&step["held"], &step["swept"]), (&200.into(), &200.into()), "{ladder}");
            let socket =
                step["memory"]["stack_items"]["socket: who holds it or waits for it"].as_f64().unwrap();
            assert_eq!(socket > 0.0, ladder["transport"] == "sctp-one", "a handle for each association");
        }
    }
}

#[test]
fn rate_sends_a_message_on_each_association() {
    let report = load(&["associations", "--steps", "20,60", "--probes", "5", "--rate", "500"]);
    for (step, new) in report[0]["steps"].as_array().unwrap().iter().zip([20, 40]) {
        for times in ["grown_times", "grown_transactions", "grown_totals"] {
            assert_eq!(step[times]["count"], new, "{times}: {step}");
        }
    }
}

#[test]
fn association_memory_is_itemised_with_gaps() {
    let report = load(&["memory", "--count", "300", "--gaps", "0,1,300,2048"]);
    let (many, one) = (&report["one_to_many"], &report["one_to_one"]);
    for account in [many, one] {
        let items = account["items"].as_array().unwrap();
        let sum: u64 = items.iter().map(|item| item[1].as_u64().unwrap()).sum();
        assert_eq!(account["total"], sum);
        assert!((200..=1024).contains(&sum), "{account}");
    }
    assert!(many["socket"].as_u64() < one["socket"].as_u64(), "a one-to-one socket is a holder's: {report}");
    let gaps = report["gaps"].as_array().unwrap();
    let map: Vec<u64> = gaps.iter().map(|gap| gap["map"].as_u64().unwrap()).collect();
    assert_eq!(map[0], 0, "nothing is kept for what is not missing");
    // A bit for each segment, in powers of two from 256.
    assert!(map[1] > 0 && map[1] < 300 / 8 && map[2] >= 300 / 8 && map[3] >= 2048 / 8, "{map:?}");
    assert!(map[3] <= 2 * 2049 / 8, "{map:?}");
    for gap in gaps {
        let parts = gap["map"].as_u64().unwrap() + gap["waiting"].as_u64().unwrap();
        assert!(gap["total"].as_u64().unwrap() > parts, "{gap}");
    }
}

#[test]
fn invites_are_answered_by_a_front_end() {
    for transport in ["tcp", "udp", "sctp", "sctp-many"] {
        let arguments = "load echo --serve --sip --rate 100 --duration 2 --clients 2 --json --transport";
        // On a busy host the server refuses some as overload.
        let report = found_at_last("a load that is answered", || {
            let output = Command::new(PROGRAM).args(arguments.split(' ')).arg(transport).output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
            if report["failed"] == 0 { Ok(report) } else { Err(report.to_string()) }
        });
        assert_eq!(report["completed"], 200, "{report}");
        assert_eq!(report["message_bytes"], 1550, "{report}");
    }
    assert!(mistake(&["echo", "--sip"]).contains("--sip requires --serve"));
    assert!(mistake(&["echo", "--sip", "--serve", "--size", "99"]).contains("larger --size"));
}

#[test]
fn missing_server_error_says_how_to_start_one() {
    // Port 1 (tcpmux) is never assigned to a socket that asks for any port.
    let server = "127.0.0.1:1";
    for (more, start) in [(&[][..], "`strandline echo`"), (&["--sip"], "`strandline sip --front-end`")] {
        let arguments = ["echo", "--transport", "tcp", "--count", "2", "--server", server];
        let told = mistake(&[&arguments[..], more].concat());
        assert!(told.contains(start) && told.contains("--serve"), "{told}");
    }
}

#[test]
fn echo_load_starts_its_server_and_reports_memory() {
    for transport in ["tcp", "udp", "sctp", "sctp-many"] {
        let arguments = ["echo", "--serve", "--rate", "500", "--duration", "0.4", "--transport", transport];
        let report = load(&arguments);
        assert_eq!((&report["completed"], &report["failed"]), (&200.into(), &0.into()), "{report}");
        assert_eq!(report["server"]["processes"], 1);
        assert!(report["server"]["cpu_percent"].as_f64().unwrap() >= 0.0);
        assert!(report["server"]["memory"].is_null() && report["steps_ms"].is_null(), "{report}");
    }
    let held = load(&[
        "echo",
        "--serve",
        "--hold",
        "--trace",
        "--transport",
        "tcp",
        "--clients",
        "2",
        "--rate",
        "500",
        "--duration",
        "0.4",
    ]);
    assert_eq!((&held["held"], &held["server"]["processes"]), (&200.into(), &2.into()), "{held}");
    assert!(held["server"]["memory"]["process_bytes"].is_number(), "{held}");
    assert!(held["steps_ms"]["r:DATA"].as_f64().unwrap() > 0.0, "{held}");
    let persistent = load(&["echo", "--serve", "--persistent", "200", "--rate", "200", "--duration", "1"]);
    assert_eq!(persistent["transaction"]["count"], 200);
    assert!(persistent["setup"].is_null(), "set up beforehand: {persistent}");
    // Memory per association was not requested; measuring it takes time.
    assert!(persistent["server"]["memory"].is_null() && persistent["held"] == 200, "{persistent}");
    // So many associations that processes with the same address and ports would restart each other's.
    let several =
        ["echo", "--serve", "--persistent", "1200", "--clients", "3", "--rate", "500", "--duration", "0.4"];
    let several = load(&several);
    assert_eq!((&several["completed"], &several["failed"]), (&200.into(), &0.into()), "{several}");
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
    assert!(mistake(&["associations", "--shards", "65"]).contains("--shards"));
    assert!(mistake(&["memory", "--gaps", "65535"]).contains("--gaps"));
    assert!(mistake(&["echo", "--serve", "--server", "127.0.0.1:7"]).contains("--server"));
    let many = ["echo", "--serve", "--hold", "--transport", "tcp", "--count", "100000"];
    assert!(mistake(&many).contains("--clients"));
    assert!(mistake(&["flood", "--to", "8.8.8.8:9899"]).contains("--i-own-this-network"));
    assert!(mistake(&["flood", "--duration", "1e9"]).contains("--duration"));
}

#[test]
fn lines_are_answered_once_they_are_whole() {
    let arguments = ["--tcp", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--sctp", "0", "--sctp-many", "0"];
    let (_server, listening) =
        Server::start(&[&["--lines", "--encapsulation", "127.0.0.1:0"], &arguments[..]].concat());
    let text = |name: &str| listening[name].as_str().unwrap();
    let port = |name: &str| format!("127.0.0.1:{}", listening[name]);
    let encapsulation = text("encapsulation").rsplit(':').next().unwrap();
    for (transport, server, size) in [
        ("tcp", text("tcp").to_owned(), "100000"),
        ("udp", text("udp").to_owned(), "1000"),
        ("sctp", port("sctp"), "100000"),
        ("sctp-many", port("sctp_many"), "100000"),
    ] {
        for style in ["regular", "piggyback"] {
            let what = ["echo", "--lines", "--transport", transport, "--server", &server, "--size", size];
            let how = ["--style", style, "--encapsulation", encapsulation, "--count", "20", "--rate", "200"];
            let report = load(&[&what[..], &how].concat());
            assert_eq!((&report["completed"], &report["failed"]), (&20.into(), &0.into()), "{report}");
        }
    }
    assert!(mistake(&["echo", "--lines", "--serve"]).contains("--serve"));
}

/// An echo server, which ends when this value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Server {
    /// Starts a server and returns the addresses that it announced.
    fn start(arguments: &[&str]) -> (Self, Value) {
        let mut command = Command::new(PROGRAM);
        let mut child =
            command.args(["echo", "--json"]).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Self(child), serde_json::from_str(&line).unwrap())
    }

    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

/// Floods a server for longer and longer, until an answer shows that packets have arrived: a busy host keeps them in
/// its queues for as long as it needs for those before. Returns the numbers of packets and of ABORTs.
fn flood_until_answered(to: &str, first_s: f64, more: &[&str]) -> (u64, u64) {
    let (mut sent, mut aborts) = (0, 0);
    for doublings in 0..8 {
        let duration = (first_s * f64::from(1 << doublings)).to_string();
        let report = load(&[&["flood", "--to", to, "--duration", &duration], more].concat());
        let number = |name: &str| report[name].as_u64().unwrap();
        (sent, aborts) = (sent + number("packets"), aborts + number("aborts"));
        if number("init_acks") > 0 {
            return (sent, aborts);
        }
    }
    panic!("none of {sent} INITs was answered");
}

#[test]
fn a_flooded_server_answers_and_keeps_nothing() {
    let (server, listening) = Server::start(&["--sctp-many", "7007", "--encapsulation", "127.0.0.1:0"]);
    let to = listening["encapsulation"].as_str().unwrap();

    // Run once so that buffers and queues reach their final size.
    load(&["flood", "--to", to, "--duration", "0.3"]);
    let before = server.memory();
    let (sent, _) = flood_until_answered(to, 1.0, &[]);
    let grown = server.memory().saturating_sub(before);
    assert!(sent > 1000 && grown < 4 << 20, "{grown} bytes more after {sent} INITs");
    let (_, aborts) = flood_until_answered(to, 0.2, &["--rate", "1000"]);
    assert_eq!(aborts, 0);

    let port = to.rsplit(':').next().unwrap();
    let arguments =
        ["echo", "--server", "127.0.0.1:7007", "--transport", "sctp-many", "--encapsulation", port];
    let after = load(&[&arguments[..], &["--count", "20"]].concat());
    assert_eq!((&after["completed"], &after["failed"]), (&20.into(), &0.into()), "{after}");
}
