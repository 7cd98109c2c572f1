//! Log events of the engine (docs/diagnostics.md), as a subscriber prints them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first error")]

use core::net::IpAddr;
use core::time::Duration;
use std::io::Write;
use std::sync::{Arc, Mutex};

use strandline_netem::{Change, LinkConfig};
use strandline_proto::config::{AssociationConfig, EndpointConfig, Recovery};
use strandline_proto::endpoint::{Connect, Listen};
use strandline_proto::event::{AssociationId, Datagram, Event};
use strandline_sim::pair::{Fate, Pair, Side, with_chunk};
use strandline_wire::chunk::kind;
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

/// The lines of a log.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Runs with a subscriber for this thread, and returns what it printed.
fn logged(level: Level, run: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_writer(log.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(|line| line.trim_start().to_owned()).collect()
}

/// Returns what follows the spans of the lines in which all of `parts` occur.
fn found(lines: &[String], parts: &[&str]) -> Vec<String> {
    let matching = lines.iter().filter(|line| parts.iter().all(|part| line.contains(part)));
    matching.map(|line| line.rsplit_once("strandline_proto::").unwrap().1.to_owned()).collect()
}

/// Asserts that the events of `target` with `message` are these, by what follows the message.
fn assert_found(lines: &[String], parts: &[&str], expected: &[&str]) {
    assert_eq!(found(lines, parts), expected, "in\n{}", lines.join("\n"));
}

fn link() -> LinkConfig {
    LinkConfig::with_delay(Duration::from_millis(10))
}

fn pair() -> Pair {
    Pair::new(EndpointConfig::default(), EndpointConfig::default(), link())
}

fn config(change: impl FnOnce(&mut AssociationConfig)) -> EndpointConfig {
    let mut association = AssociationConfig::default();
    change(&mut association);
    EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() }
}

/// The two sides are told apart by the peer's address in the span.
const OF_A: &str = "association{peer=10.0.1.1:9899 local_port=";
const OF_B: &str = "association{peer=10.0.0.1:9899 local_port=5000 ";

#[test]
fn set_up_and_shutdown_are_state_changes() {
    let lines = logged(Level::DEBUG, || {
        let mut pair = pair();
        let (a, _) = pair.connect();
        let now = pair.now;
        pair.a.endpoint.shutdown(now, a).unwrap();
        pair.settle();
    });
    assert_found(
        &lines,
        &[OF_A, "state changed"],
        &[
            "association: state changed from=CLOSED to=COOKIE-WAIT",
            "association: state changed from=COOKIE-WAIT to=COOKIE-ECHOED",
            "association: state changed from=COOKIE-ECHOED to=ESTABLISHED",
            "association: state changed from=ESTABLISHED to=SHUTDOWN-PENDING",
            "association: state changed from=SHUTDOWN-PENDING to=SHUTDOWN-SENT",
            "association: state changed from=SHUTDOWN-SENT to=CLOSED",
        ],
    );
    assert_found(
        &lines,
        &[OF_B, "state changed"],
        &[
            "association: state changed from=CLOSED to=ESTABLISHED",
            "association: state changed from=ESTABLISHED to=SHUTDOWN-RECEIVED",
            "association: state changed from=SHUTDOWN-RECEIVED to=SHUTDOWN-ACK-SENT",
            "association: state changed from=SHUTDOWN-ACK-SENT to=CLOSED",
        ],
    );
    let ends = found(&lines, &["association ended"]);
    assert!(ends.len() == 2 && ends.iter().all(|end| end.contains("reason=\"shutdown\"")), "{ends:?}");
    assert!(found(&lines, &["loss"]).is_empty() && found(&lines, &["discarded"]).is_empty(), "{lines:?}");
}

/// Nothing is logged above debug: a peer causes events at will.
#[test]
fn nothing_is_logged_at_info() {
    let lines = logged(Level::INFO, || {
        let mut pair = pair();
        let (a, _) = pair.connect();
        let source = pair.addresses(Side::A)[0];
        pair.inject(Side::B, source, b"rubbish");
        let now = pair.now;
        pair.a.endpoint.abort(now, a, "enough".into()).unwrap();
        pair.settle();
    });
    assert_eq!(lines, Vec::<String>::new());
}

fn lose_one_of_many(recovery: Recovery) -> Vec<String> {
    logged(Level::DEBUG, || {
        let config = || config(|association| association.recovery = recovery);
        let mut pair = Pair::new(config(), config(), link());
        let (a, _) = pair.connect();
        pair.settle();
        pair.drop_next(Side::A, with_chunk(kind::DATA));
        pair.send(Side::A, a, 0, vec![1; 12_000]);
        pair.run_for(Duration::from_millis(900));
    })
}

#[test]
fn losses_have_mechanism_and_recovery() {
    for (recovery, mechanism) in [(Recovery::Rack, "RACK"), (Recovery::Rfc9260, "fast retransmit")] {
        let lines = lose_one_of_many(recovery);
        let lost = found(&lines, &["path{address=10.0.1.1:9899}", "chunks lost"]);
        let expected = format!("loss: chunks lost mechanism=\"{mechanism}\" chunks=1 bytes=");
        assert!(lost.len() == 1 && lost[0].starts_with(&expected), "{lost:?} in\n{}", lines.join("\n"));
        let steps = ["recovery began", "recovery ended"].map(|what| found(&lines, &[OF_A, what]));
        assert!(steps.iter().all(|lines| lines.len() == 1), "{steps:?} in\n{}", lines.join("\n"));
        assert!(found(&lines, &["timer expired"]).is_empty(), "{lines:?}");
    }
}

#[test]
fn a_time_out_without_a_loss_is_undone() {
    let lines = logged(Level::DEBUG, || {
        let mut pair = pair();
        let (a, _) = pair.connect();
        pair.settle();
        // Everything that B sends is late for a while, so that T3-rtx expires although nothing was lost.
        pair.send(Side::A, a, 0, vec![1; 8_000]);
        pair.filter(move |from, _| match from {
            Side::B => Fate::Delay(Duration::from_secs(3)),
            Side::A => Fate::Pass,
        });
        pair.run_for(Duration::from_millis(300));
        pair.clear_filters();
        pair.run_for(Duration::from_secs(20));
    });
    let expiries = found(&lines, &[OF_A, "timer expired", "timer=\"T3-rtx\""]);
    assert!(!expiries.is_empty() && expiries[0].contains("window_probe=false"), "{lines:?}");
    assert!(!found(&lines, &[OF_A, "undone"]).is_empty(), "{}", lines.join("\n"));
}

fn two_paths() -> EndpointConfig {
    let association = AssociationConfig {
        rto_initial: Duration::from_millis(200),
        rto_min: Duration::from_millis(200),
        path_retrans_max: 2,
        heartbeat_interval: Some(Duration::from_millis(500)),
        ..AssociationConfig::default()
    };
    EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn path_failure_and_return_are_logged() {
    let lines = logged(Level::DEBUG, || {
        let a = ["10.0.0.1", "10.1.0.1"].map(address);
        let b = ["10.0.0.2", "10.1.0.2"].map(address);
        let a = EndpointConfig { local_addresses: a.to_vec(), ..two_paths() };
        let b = EndpointConfig { local_addresses: b.to_vec(), ..two_paths() };
        let mut pair = Pair::new(a, b, link());
        pair.connect();
        pair.run_for(Duration::from_secs(2));
        for (from, to) in [("10.1.0.1", "10.1.0.2"), ("10.1.0.2", "10.1.0.1")] {
            pair.network.link(address(from), address(to)).change(Change::Cut);
        }
        pair.run_for(Duration::from_secs(60));
        for (from, to) in [("10.1.0.1", "10.1.0.2"), ("10.1.0.2", "10.1.0.1")] {
            pair.network.link(address(from), address(to)).change(Change::Heal);
        }
        pair.run_for(Duration::from_secs(60));
    });
    let of_path = &["association{peer=10.0.0.2:", ":path{address=10.1.0.2:9899}"];
    let changes = found(&lines, &[of_path[0], of_path[1], "path changed"]);
    let states: Vec<&str> = changes.iter().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(states, ["confirmed", "potentially failed", "inactive", "active"], "{}", lines.join("\n"));
    let expiries = found(&lines, &[of_path[0], of_path[1], "timer=\"HEARTBEAT\""]);
    assert!(expiries[0].ends_with("error_count=1"), "{expiries:?}");
}

#[test]
fn both_sides_log_aborts_escaped() {
    let lines = logged(Level::DEBUG, || {
        let mut pair = pair();
        let (a, _) = pair.connect();
        let now = pair.now;
        pair.a.endpoint.abort(now, a, "\x1b[31mred\nERROR forged".into()).unwrap();
        pair.settle();
    });
    let causes = r#"causes=[User-Initiated Abort "\x1b[31mred\nERROR forged"]"#;
    assert_found(&lines, &[OF_A, "ABORT sent"], &[&format!("association: ABORT sent {causes}")]);
    let reported = format!("association: the peer reports an error chunk=\"ABORT\" {causes}");
    assert_found(&lines, &[OF_B, "reports an error"], &[&reported]);
    let ends = found(&lines, &[OF_B, "association ended"]);
    assert!(ends[0].contains("reason=\"aborted by the peer\""), "{ends:?}");
    assert!(lines.iter().all(|line| line.starts_with("DEBUG ")), "a line of its own: {lines:?}");
}

#[test]
fn a_restart_is_logged() {
    let lines = logged(Level::DEBUG, || {
        let config = config(|_| {});
        let config = EndpointConfig { ephemeral_ports: (40_000, 40_000), ..config };
        let mut pair = Pair::new(config, EndpointConfig::default(), link());
        pair.connect();
        pair.crash(Side::A);
        pair.start();
        pair.settle();
    });
    assert_found(
        &lines,
        &[OF_B, "restarted"],
        &["association: the peer restarted the association from=ESTABLISHED"],
    );
}

#[test]
fn unanswered_inits_are_counted() {
    let lines = logged(Level::DEBUG, || {
        let mut pair = pair();
        pair.drop_some(Side::A, 2, with_chunk(kind::INIT));
        pair.start();
        pair.run_for(Duration::from_secs(10));
    });
    let expiries = found(&lines, &[OF_A, "timer expired"]);
    let line = |count| format!("association: timer expired timer=\"T1-init\" retransmissions={count}");
    assert_eq!(expiries, [line(1), line(2)]);
}

fn associations(pair: &mut Pair) -> (AssociationId, AssociationId) {
    let ids = pair.connect();
    pair.settle();
    ids
}

#[test]
fn discarded_packets_are_logged_with_the_reason() {
    let lines = logged(Level::DEBUG, || {
        let mut pair = pair();
        let (a, _) = associations(&mut pair);
        pair.send(Side::A, a, 0, "data");
        pair.settle();
        let data = pair.captured().iter().rfind(|packet| packet.chunk_kinds() == [kind::DATA]);
        let bytes = data.expect("data was sent").datagram.bytes.to_vec();
        let source = pair.addresses(Side::A)[0];
        pair.inject(Side::B, source, &bytes[..8]);
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        pair.inject(Side::B, source, &damaged);
        let foreign = std::net::SocketAddr::new(address("10.9.9.9"), source.port());
        pair.inject(Side::B, foreign, &bytes);
        assert!(!pair.events(Side::B).iter().any(|event| matches!(event, Event::Closed(_))));
    });
    let reasons: Vec<String> = found(&lines, &["packet discarded"])
        .iter()
        .map(|line| line.split('"').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(reasons, ["too short", "wrong checksum", "its source is not one of the peer's addresses"]);
    assert!(!lines.iter().any(|line| line.contains("received source")), "packets are logged at trace only");
}

#[test]
fn packets_to_another_local_address_are_logged() {
    let lines = logged(Level::DEBUG, || {
        let b = ["10.0.0.2", "10.1.0.2"].map(address);
        let b = EndpointConfig { local_addresses: b.to_vec(), ..EndpointConfig::default() };
        let mut pair = Pair::new(EndpointConfig::default(), b, link());
        let (now, remote) = (pair.now, pair.addresses(Side::B)[0]);
        pair.b.endpoint.listen(Listen { port: 6000, addresses: vec![remote.ip()] }).unwrap();
        let id = pair.a.endpoint.connect(now, Connect::to(remote, 6000)).unwrap();
        pair.settle();
        pair.send(Side::A, id, 0, "data");
        pair.settle();
        let data = pair.captured().iter().rfind(|packet| packet.chunk_kinds() == [kind::DATA]);
        let bytes = data.expect("data was sent").datagram.bytes.to_vec();
        let (now, source) = (pair.now, pair.addresses(Side::A)[0]);
        let destination = Some(address("10.1.0.2"));
        pair.b.endpoint.handle_datagram(now, Datagram { source, destination, bytes: &bytes, ecn: 0 });
    });
    let discarded = found(&lines, &["packet discarded"]);
    let reason = "reason=\"its destination is not an address of the association\"";
    assert!(discarded.len() == 1 && discarded[0].contains(reason), "{discarded:?}");
}

#[test]
fn every_packet_is_logged_at_trace() {
    let lines = logged(Level::TRACE, || {
        let mut pair = pair();
        let (a, _) = associations(&mut pair);
        pair.send(Side::A, a, 0, "data");
        pair.settle();
    });
    for (direction, count) in [("packet: sent ", 2), ("packet: received ", 2)] {
        let packets = found(&lines, &["TRACE strandline_proto::", direction, "INIT"]);
        assert_eq!(packets.len(), count, "{}", lines.join("\n"));
    }
    let data = found(&lines, &["packet: sent ", "DATA tsn "]);
    assert!(data[0].contains(" > 5000 tag ") && data[0].contains(" 4 bytes"), "{data:?}");
}
