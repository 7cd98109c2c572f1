//! End-to-end tests of `strandline perf`: a server, and clients of every kind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use strandline::{Association, Peer, SendInfo, Stack};

use crate::perf_server::{Server, text};
use crate::waiting::{at_last, found_at_last};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

impl Server {
    /// Runs a test that succeeds, and returns its JSON report.
    fn test(&self, arguments: &[&str]) -> Value {
        let output = self.client(arguments).args(["--json", "--quiet"]).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Interrupts the server as Ctrl-C does, and returns its output.
    fn interrupt(mut self) -> (Option<i32>, String) {
        interrupt(&self.child);
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        (self.child.wait().unwrap().code(), printed)
    }
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

const TRANSPORTS: [&str; 2] = ["sctp", "tcp"];

/// Only the peer's answer shows whether ECN was negotiated: a client whose request for ECN failed reports it.
#[test]
fn missing_ecn_agreement_is_reported() {
    let (without, with) = (Server::start(&[]), Server::start(&["--ecn"]));
    for (asked, named) in [(["--congestion", "dctcp"], "dctcp"), (["--ecn", "--unordered"], "cubic")] {
        for (server, agreed) in [(&without, false), (&with, true)] {
            let client = |more: &[&str]| {
                let mut client = server.client(&["-n", "1M", "-q"]);
                client.args(asked).args(more).output().unwrap()
            };
            let output = client(&["--pauses"]);
            let (told, report) = (text(&output.stderr), text(&output.stdout));
            assert!(output.status.success(), "{told}");
            let warned = told.contains("not negotiate ECN") && told.contains(&format!("server {}", asked[0]));
            assert_eq!(warned, !agreed, "{told}");
            let control =
                format!("congestion control: {named}; {}", if agreed { "ECN: 0" } else { "no ECN" });
            assert!(report.contains(&control) && report.contains("longest pause: "), "{report}");
            let end = serde_json::from_slice::<Value>(&client(&["--json"]).stdout).unwrap()["end"].clone();
            assert_eq!(
                (&end["sum_sent"]["ecn"], &end["sum_received"]["ecn"]),
                (&agreed.into(), &agreed.into())
            );
            assert_eq!(end["sum_sent"]["marks_answered"].as_u64(), agreed.then_some(0), "{end}");
            assert_eq!(end["sum_received"]["marks_received"].as_u64(), agreed.then_some(0), "{end}");
        }
    }
}

#[test]
fn report_without_disk_space_is_an_error() {
    let server = Server::start(&[]);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for how in ["--json", "--json-stream", "--quiet"] {
        let output = server.client(&["-n", "10K", how]).stdout(full()).output().unwrap();
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains("No space left"), "{how}: {told}");
    }
    let client = server.client(&["-n", "10K", "-i", "0.05", "-vv"]).stderr(full()).output().unwrap();
    assert!(client.status.success() && text(&client.stdout).contains("received"), "{}", text(&client.stdout));
}

#[test]
fn trace_is_complete_and_the_lab_draws_it() {
    let server = Server::start(&[]);
    let folder = std::env::temp_dir().join(format!("strandline-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("run.jsonl");
    let report = server.test(&["-n", "1M", "--trace", file.to_str().unwrap()]);
    let trace = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let port = &report["start"]["connected"][0]["local_port"];
    let new = lines.iter().filter(|line| {
        (&line["event"], &line["port"], &line["sent"]) == (&"data".into(), port, &true.into())
            && line["again"].is_null()
    });
    let bytes: u64 = new.map(|line| line["bytes"].as_u64().unwrap()).sum();
    // The messages that join the test and report its size are counted as well.
    assert!((1 << 20..(1 << 20) + 500).contains(&bytes), "{bytes}");

    let draw = |more: &[&str]| {
        let output = Command::new(PROGRAM).args(["lab", "trace"]).arg(&file).args(more).output().unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    assert_eq!(draw(&[]).0, Some(0));
    assert!(std::fs::read_to_string(folder.join("run.html")).unwrap().contains("acknowledged cumulatively"));
    assert_eq!(draw(&["--format", "png"]).0, Some(0));
    assert!(std::fs::read(folder.join("run-window.png")).unwrap().starts_with(b"\x89PNG"));
    let (code, told) = draw(&["--from", "999"]);
    assert!(code == Some(1) && told.contains("no packets of port"), "{told}");
    let (code, told) = draw(&["--output", "/nowhere"]);
    assert!(code == Some(1) && told.contains("does the directory exist"), "{told}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn unwritable_trace_is_reported_before_sending() {
    let server = Server::start(&[]);
    let output = server.client(&["-n", "1M", "--trace", "/nowhere/run.jsonl"]).output().unwrap();
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("does the directory exist"));
    let output = server.client(&["-n", "1M", "--transport", "tcp", "--trace", "run.jsonl"]).output().unwrap();
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--trace requires SCTP"));
}

#[test]
fn every_byte_arrives_in_each_direction_and_transport() {
    let server = Server::start(&[]);
    for transport in TRANSPORTS {
        for (direction, sums) in
            [("--nagle", 1), ("--reverse", 1), ("--bidir", 2)].map(|(flag, sums)| (flag, sums))
        {
            let report =
                server.test(&["--transport", transport, direction, "-n", "100001", "-l", "1000", "-P", "3"]);
            let end = &report["end"];
            let mut keys = vec!["sum_sent", "sum_received"];
            if sums == 2 {
                keys.extend(["sum_sent_bidir_reverse", "sum_received_bidir_reverse"]);
            }
            for key in keys {
                assert_eq!(end[key]["bytes"], 100_001, "{transport} {direction} {key}: {end}");
                // 33,334 + 33,334 + 33,333 bytes in messages of 1,000 and a remainder.
                if transport == "sctp" {
                    assert_eq!(end[key]["messages"], 102, "{transport} {direction} {key}");
                }
            }
            assert_eq!(end["sum_sent"]["sender"], direction != "--reverse");
            assert_eq!(end["streams"].as_array().unwrap().len(), 3 * sums);
            let of_flow = &end["streams"][0]["receiver"];
            assert_eq!((&of_flow["bytes"], &of_flow["socket"]), (&Value::from(33_334), &Value::from(1)));
        }
    }
}

#[test]
fn messages_of_all_sizes_streams_and_orders_arrive() {
    let server = Server::start(&["--receive-buffer", "200K", "--send-buffer", "200K"]);
    for (size, bytes, messages) in
        [("1", "2000", 2000), ("64", "64000", 1000), ("1M", "3000000", 3), ("3M", "4M", 2)]
    {
        for order in [&["--streams", "7"][..], &["--streams", "65535", "--unordered"]] {
            let arguments =
                [&["-l", size, "-n", bytes, "--receive-buffer", "100K", "--bidir"], order].concat();
            let end = &server.test(&arguments)["end"];
            for sum in [&end["sum_received"], &end["sum_received_bidir_reverse"]] {
                assert_eq!(sum["messages"], messages, "{arguments:?}");
            }
            assert_eq!(end["sum_sent"]["bytes"], end["sum_received"]["bytes"]);
        }
    }
}

#[test]
fn timed_test_has_intervals_and_uncounted_warm_up() {
    let server = Server::start(&[]);
    for transport in TRANSPORTS {
        let report = server.test(&["--transport", transport, "-t", "0.3", "-O", "0.1", "-i", "0.05"]);
        let intervals = report["intervals"].as_array().unwrap();
        let omitted = |interval: &&Value| interval["sum"]["omitted"] == true;
        assert!(intervals.iter().any(|interval| omitted(&interval)));
        let bytes = |interval: &Value| interval["sum"]["bytes"].as_u64().unwrap();
        let counted: u64 = intervals.iter().filter(|interval| !omitted(interval)).map(bytes).sum();
        assert_eq!(report["end"]["sum_sent"]["bytes"], counted);
        let first = intervals.iter().find(|interval| !omitted(interval)).unwrap();
        assert_eq!(first["sum"]["start"], 0.0);
        assert!(report["end"]["sum_sent"]["seconds"].as_f64().unwrap() >= 0.29);
        let stream = &first["streams"][0];
        for key in ["retransmits", "snd_cwnd", "rtt", "pmtu", "bits_per_second"] {
            assert!(stream[key].is_number(), "{transport} {key}: {stream}");
        }
        for side in ["host", "remote"] {
            assert!(report["end"]["cpu"][side]["user_seconds"].is_number());
            assert!(report["end"]["cpu_utilization_percent"][format!("{side}_total")].is_number());
        }
    }
}

#[test]
fn a_rate_is_not_exceeded() {
    let server = Server::start(&[]);
    for transport in TRANSPORTS {
        // In so short a time a busy host may send nothing else.
        at_last("more than the first messages is sent", || {
            let report = server.test(&[
                "--transport",
                transport,
                "-t",
                "0.3",
                "--rate",
                "8M",
                "-l",
                "1000",
                "-P",
                "2",
            ]);
            let sent = &report["end"]["sum_sent"];
            let (bytes, seconds) = (sent["bytes"].as_f64().unwrap(), sent["seconds"].as_f64().unwrap());
            // The first message of each association is due at once.
            assert!(bytes <= seconds * 1e6 + 2000.0, "{sent}");
            bytes > 2000.0
        });
    }
}

#[test]
fn several_clients_at_once_and_server_report() {
    let server = Server::start(&["--json"]);
    let arguments: [&[&str]; 4] =
        [&["-n", "1M"], &["-n", "1M", "-R"], &["--transport", "tcp", "-n", "1M"], &["-n", "1M", "--bidir"]];
    let clients = arguments.map(|arguments| {
        let mut client = server.client(arguments);
        client.args(["--json", "--quiet"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    let mut cookies = Vec::new();
    for client in clients {
        let Output { status, stdout, stderr } = client.wait_with_output().unwrap();
        assert!(status.success(), "{}", text(&stderr));
        let report: Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(report["end"]["sum_received"]["bytes"], 1 << 20);
        cookies.push(report["start"]["cookie"].clone());
    }
    let (code, printed) = server.interrupt();
    assert_eq!(code, Some(0));
    let reports: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 4);
    for report in reports {
        assert!(cookies.contains(&report["start"]["cookie"]));
        assert_eq!(report["end"]["sum_received"]["bytes"], 1 << 20);
    }
}

#[test]
fn a_server_for_one_test_ends_after_it() {
    let mut server = Server::start(&["--once"]);
    server.test(&["-n", "1000"]);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let mut printed = String::new();
    server.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(printed.contains("received by the server"), "{printed}");
}

#[test]
fn json_stream_has_an_event_for_each_step() {
    let server = Server::start(&[]);
    let output = server.client(&["-t", "0.2", "-i", "0.05", "--json-stream", "-q"]).output().unwrap();
    let events: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"start"), Some(&"end")));
    assert!(names.contains(&"interval"));
    assert_eq!(events[0]["data"]["test_start"]["protocol"], "SCTP");
}

/// Every name in iperf3's JSON for which this program has a value must be in its JSON too.
#[test]
fn names_are_those_of_iperf3() {
    // In a network namespace of its own, since it can't choose a free port and report it.
    let script = "ip link set lo up; iperf3 -s -1 >/dev/null & until ss -Hltn | grep -q :5201; do sleep 0.01; done; \
                  iperf3 -c 127.0.0.1 -n 1M -J; wait";
    let output = Command::new("timeout").args(["60", "unshare", "-n", "sh", "-c", script]).output().unwrap();
    let theirs: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("run it as root with iperf3: {}", text(&output.stderr)));
    assert!(theirs["error"].is_null(), "{theirs}");

    // Names that apply only to IP, to sockets or to iperf3.
    let theirs_alone = [
        "system_info",
        "tcp_mss_default",
        "sock_bufsize",
        "sndbuf_actual",
        "rcvbuf_actual",
        "target_bitrate",
        "time",
        "tos",
        "max_snd_wnd",
        "interval",
        "gso",
        "gro",
        "fq_rate",
        "snd_mss",
    ];
    let server = Server::start(&[]);
    let ours = server.test(&["--transport", "tcp", "-n", "1M"]);
    let missing = missing("", &theirs, &ours);
    let missing: Vec<_> =
        missing.iter().filter(|name| !theirs_alone.contains(&name.rsplit('.').next().unwrap())).collect();
    assert_eq!(missing, Vec::<&String>::new());
    // SCTP has the same names, except for the kernel's congestion control and its list of local addresses.
    let sctp = server.test(&["-n", "1M"]);
    let missing: Vec<_> = self::missing("", &ours, &sctp)
        .into_iter()
        .filter(|name| !name.ends_with("_tcp_congestion") && !name.ends_with("local_host"))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
    // Integers stay integers, also with several flows.
    let several = server.test(&["-n", "1M", "-P", "2"]);
    for name in ["max_snd_cwnd", "max_rtt"] {
        assert!(several["end"]["sum_sent"][name].is_u64(), "{name}: {several}");
    }
}

/// Every kernel has Reno.
#[test]
fn tcp_takes_the_congestion_control_asked_for() {
    let server = Server::start(&["--congestion", "rfc9260"]);
    for direction in [&[][..], &["-R"]] {
        let report = server
            .test(&[&["--transport", "tcp", "--congestion", "rfc9260", "-n", "1M"], direction].concat());
        assert_eq!(report["end"]["sender_tcp_congestion"], "reno", "{report}");
    }
}

/// Returns the paths in one value that are missing in the other or have another type there.
fn missing(path: &str, one: &Value, other: &Value) -> Vec<String> {
    match (one, other) {
        (Value::Object(fields), Value::Object(_)) => fields
            .iter()
            .flat_map(|(name, value)| missing(&format!("{path}.{name}"), value, &other[name]))
            .collect(),
        (Value::Array(one), Value::Array(other)) => match (one.first(), other.first()) {
            (Some(one), Some(other)) => missing(path, one, other),
            (Some(_), None) => vec![path.to_owned()],
            _ => Vec::new(),
        },
        (Value::Null, _) => Vec::new(),
        _ if std::mem::discriminant(one) == std::mem::discriminant(other) => Vec::new(),
        _ => vec![path.to_owned()],
    }
}

/// Starts a client whose test has no end, and reads the header and a line.
fn started(server: &Server, arguments: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut client = server.client(arguments);
    let client = client.args(["-t", "600", "-i", "0.05", "--json"]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut live = BufReader::new(client.stderr.take().unwrap());
    for _ in 0..2 {
        live.read_line(&mut String::new()).unwrap();
    }
    (client, live)
}

#[test]
fn in_time_figure_excludes_buffered_data() {
    let server = Server::start(&[]);
    for transport in TRANSPORTS {
        let by_bytes = server.test(&["--transport", transport, "-n", "1M"]);
        assert_eq!(by_bytes["end"]["sum_received"]["bytes_in_time"], 1 << 20, "{transport}");

        // A busy host may deliver nothing in so short a time.
        let by_time = found_at_last("data arrives in time", || {
            let by_time = server.test(&["--transport", transport, "-t", "0.3", "-P", "2"]);
            let in_time = by_time["end"]["sum_received"]["bytes_in_time"].as_f64().unwrap();
            if in_time > 0.0 { Ok(by_time) } else { Err(by_time["end"].to_string()) }
        });
        let received = &by_time["end"]["sum_received"];
        let number = |key: &str| received[key].as_f64().unwrap();
        assert!(number("bytes_in_time") <= number("bytes"), "{received}");
        assert!(number("seconds_in_time") >= 0.3, "{received}");
        // Each flow was sampled at its own moment.
        let flows = by_time["end"]["streams"].as_array().unwrap().iter().map(|flow| &flow["receiver"]);
        let rate: f64 = flows.map(|flow| flow["bits_per_second_in_time"].as_f64().unwrap()).sum();
        assert!((number("bits_per_second_in_time") / rate - 1.0).abs() < 1e-6, "{received} {rate}");
    }
}

#[test]
fn ctrl_c_at_client_prints_results_so_far() {
    let server = Server::start(&[]);
    for arguments in [&[][..], &["-R"], &["--bidir"], &["--transport", "tcp"], &["--transport", "tcp", "-R"]]
    {
        let (mut client, mut live) = started(&server, arguments);
        interrupt(&client);
        let mut printed = String::new();
        client.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        live.read_to_string(&mut String::new()).unwrap();
        assert_eq!(client.wait().unwrap().code(), Some(130), "{arguments:?}");
        let report: Value = serde_json::from_str(&printed).unwrap();
        let end = &report["end"];
        assert_eq!(end["interrupted"], true);
        assert!(end["sum_sent"]["bytes"].as_u64().unwrap() > 0, "{arguments:?}");
        assert_eq!(end["sum_sent"]["bytes"], end["sum_received"]["bytes"], "{arguments:?}");
        assert!(report["error"].is_null(), "{report}");
    }
}

#[test]
fn ctrl_c_at_server_is_reported_to_client() {
    for arguments in [&[][..], &["--transport", "tcp", "-R"]] {
        let server = Server::start(&[]);
        let (mut client, mut live) = started(&server, arguments);
        assert_eq!(server.interrupt().0, Some(0));
        let mut printed = String::new();
        client.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        live.read_to_string(&mut String::new()).unwrap();
        assert_eq!(client.wait().unwrap().code(), Some(1));
        let report: Value = serde_json::from_str(&printed).unwrap();
        assert!(report["error"].as_str().unwrap().contains("the server was stopped"), "{report}");
    }
}

#[test]
fn a_client_that_dies_leaves_the_server_serving() {
    let server = Server::start(&[]);
    for arguments in [&[][..], &["-R"], &["--transport", "tcp"], &["--transport", "tcp", "-R"]] {
        let (mut client, _live) = started(&server, arguments);
        client.kill().unwrap();
        client.wait().unwrap();
        server.test(&["-n", "1000"]);
    }
}

/// Returns a server's answer to bytes on a new TCP connection.
fn tcp_answer(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", server.port)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // The server may close the connection before it has read everything, which resets it.
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes(), message].concat()
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let server = Server::start(&[]);
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "at most 327680 bytes"),
        (u32::MAX.to_be_bytes().to_vec(), "at most 327680 bytes"),
        (framed(b"hello"), "the peer is not `strandline perf`"),
        (framed(br#"{"strandline_perf":99,"test":{}}"#), "version 99"),
        (framed(br#"{"strandline_perf":1,"test":{"flows":1e99}}"#), "malformed control message"),
        (framed(&[0xff; 1000]), "the peer is not `strandline perf`"),
        (framed(&b"[".repeat(200_000)), "the peer is not `strandline perf`"),
        (b"\0\0".to_vec(), ""),
    ] {
        let answer = tcp_answer(&server, &bytes);
        assert!(answer.contains(reason), "{reason}: {answer}");
    }
    // A silent client does not block others.
    let _silent = TcpStream::connect(format!("127.0.0.1:{}", server.port)).unwrap();
    server.test(&["-n", "1000", "--transport", "tcp"]);
}

#[tokio::test]
async fn nonsense_over_sctp_is_refused_too() {
    let server = Server::start(&[]);
    let encapsulation = server.encapsulation.parse().unwrap();
    let stack = Stack::builder().remote_encapsulation_port(encapsulation).udp("127.0.0.1:0".parse().unwrap());
    let (stack, port) = (stack.unwrap(), server.port.parse().unwrap());
    let large = vec![b'['; 400_000];
    for (message, reason) in [
        (&b"hello"[..], "the peer is not `strandline perf`"),
        (br#"{"strandline_perf":99,"test":{}}"#, "version 99"),
        (&large, "at most 327680 bytes"),
        (br#"{"strandline_perf":1,"join":{"token":"00","flow":7,"attempt":0}}"#, "no such test"),
    ] {
        let peer = Peer::new([127, 0, 0, 1], port);
        let association = Association::connect(&stack, peer).await.unwrap();
        association.send(message, SendInfo::default()).await.unwrap();
        let answer = association.recv().await.unwrap().unwrap();
        assert!(text(&answer.data).contains(reason), "{reason}: {}", text(&answer.data));
        association.abort("enough");
    }
    server.test(&["-n", "1000"]);
}

#[test]
fn mistakes_are_explained() {
    let fails = |arguments: &[&str]| {
        let output = Command::new(PROGRAM).arg("perf").args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        text(&output.stderr)
    };
    // Port 1 (tcpmux) is never assigned to a socket that asks for any port.
    let nobody = fails(&["client", "127.0.0.1", "--encapsulation-port", "1"]);
    assert!(nobody.contains("perf server -p 5001 --encapsulation-port"), "{nobody}");
    assert!(nobody.contains("no SCTP stack responds there"), "{nobody}");
    let nobody = ["perf", "client", "127.0.0.1", "--transport", "tcp", "-p", "1"];
    let refused = fails(&nobody[1..]);
    assert!(refused.contains("perf server") && refused.contains("refused"), "{refused}");
    let output = Command::new(PROGRAM).args(nobody).arg("--json").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(refused.contains(report["error"].as_str().unwrap()), "{report}");
    assert!(fails(&["client", "no-such-host.invalid"]).contains("looking up no-such-host.invalid"));
    assert!(fails(&["client", "::1", "-l", "0"]).contains("1 byte to 16M"));
    assert!(fails(&["client", "::1", "--interval", "-1"]).contains("0.05 to 3600 s"));
    assert!(fails(&["client", "::1", "-t", "-1"]).contains("more than 0"));
    assert!(fails(&["client", "::1", "-t", "1", "-n", "1K"]).contains("cannot be used with"));
    assert!(fails(&["client", "::1", "-R", "--bidir"]).contains("cannot be used with"));
    assert!(fails(&["client", "::1", "--transport", "tcp", "--streams", "2"]).contains("no streams"));
    assert!(fails(&["client", "::1", "-b", "1"]).contains("once in 10 s"));
    let nothing = Command::new(PROGRAM).args(["perf", "client", "::1", "-t", "0"]).output().unwrap();
    assert!(text(&nothing.stderr).contains("more than 0"), "{nothing:?}");
    assert_eq!(nothing.status.code(), Some(2));
    assert!(fails(&[]).contains("Examples:"));
    assert!(fails(&["server", "--bind", "192.0.2.1"]).contains("192.0.2.1"));
}

/// Runs in its own network namespace, without other SCTP stacks.
#[test]
fn raw_ip_carries_it_too() {
    let script = "ip link set lo up; \"$0\" perf server --raw --once --quiet & \
                  until ss -Hlnw | grep -q :132; do sleep 0.01; done; \
                  \"$0\" perf client 127.0.0.1 --raw -n 100K --json --quiet; wait";
    let output = Command::new("unshare").args(["-n", "sh", "-c", script, PROGRAM]).output().unwrap();
    assert!(output.status.success(), "run it as root: {}", text(&output.stderr));
    let report =
        text(&output.stdout).lines().find_map(|line| serde_json::from_str::<Value>(line).ok()).unwrap();
    assert_eq!(report["end"]["sum_received"]["bytes"], 102_400);
    assert_eq!(report["start"]["test_start"]["encapsulation"], "raw");
}

#[test]
fn associations_spread_over_shards() {
    let server = Server::start(&["--shards", "3"]);
    for direction in [&[][..], &["-R"], &["--bidir"]] {
        // At a rate, which gives each association its share even if others begin before it.
        let arguments = ["--shards", "2", "-P", "6", "-n", "3M", "-l", "1000", "-b", "24M"];
        let report = server.test(&[&arguments[..], direction].concat());
        let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert_eq!(received, 3 << 20, "{direction:?}");
        assert_eq!(report["end"]["streams"].as_array().unwrap().len() % 6, 0);
        // Each shard of the client has three associations; their packets arrive on it, except in the set-up, which a
        // busy host repeats. Without steering every other packet is handed over.
        let shards = report["end"]["cpu"]["host"]["by_shard"].as_array().unwrap();
        assert_eq!(shards.len(), 2);
        for shard in shards {
            let [received, handed_over] =
                ["packets_received", "handed_over"].map(|it| shard[it].as_u64().unwrap());
            assert!(received > 10 && handed_over <= 6 + received / 20, "{shards:?}");
        }
        assert_eq!(report["end"]["cpu"]["remote"]["by_shard"].as_array().unwrap().len(), 3);
    }
    assert_eq!(server.interrupt().0, Some(0));
}
