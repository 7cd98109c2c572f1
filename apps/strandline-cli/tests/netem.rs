//! End-to-end tests of the network emulator. Needs root, to create network namespaces.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use rustix::net::sockopt::set_ip_tos;
use serde_json::Value;

use crate::netem_network::{Network, PROGRAM, Side, receive_all, require_root};
use crate::waiting::at_last;

fn strandline(arguments: &[&str]) -> Output {
    require_root();
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn numbers(from: u32, to: u32) -> Vec<u32> {
    (from..=to).collect()
}

#[test]
fn every_tenth_packet_is_lost_and_no_other() {
    let network = Network::up(&["--to-right", "loss-every=10"]);
    let (left, right) = network.sockets(1);
    network.send(&left, numbers(1, 1000), 100);
    let expected: Vec<u32> = numbers(1, 1000).into_iter().filter(|number| number % 10 != 0).collect();
    assert_eq!(receive_all(&right, expected.len()), expected);
    let report = network.down();
    let link = &report["links"][0];
    assert_eq!(
        (&link["offered"], &link["dropped_loss"]),
        (&Value::from(1000), &Value::from(100)),
        "{report}"
    );
    assert_eq!((&link["delivered"], &link["delivered_bytes"]), (&Value::from(900), &Value::from(900 * 128)));
}

#[test]
fn a_seed_loses_the_same_packets_again() {
    let lost = |seed: &str| {
        let network = Network::up(&["--burst-loss", "20%/3", "--seed", seed]);
        let (left, right) = network.sockets(1);
        network.send(&left, numbers(1, 500), 100);
        let offered = network.wait_for(|report| report["links"][0]["offered"] == 500);
        let delivered = offered["links"][0]["delivered"].as_u64().unwrap();
        receive_all(&right, delivered as usize)
    };
    let first = lost("7");
    assert!((250..500).contains(&first.len()), "{} arrived", first.len());
    assert_eq!(first, lost("7"));
    assert_ne!(first, lost("8"));
}

#[test]
fn nothing_arrives_before_its_delay() {
    let network = Network::up(&["--delay", "30ms", "--to-left", "delay=20ms"]);
    let (left, right) = network.sockets(1);
    for number in 1..=5 {
        let sent = crate::netem_network::now();
        network.send(&left, vec![number], 100);
        assert_eq!(receive_all(&right, 1), [number]);
        assert!(sent.elapsed() >= Duration::from_millis(30));
        network.send(&right, vec![number], 100);
        assert_eq!(receive_all(&left, 1), [number]);
        assert!(sent.elapsed() >= Duration::from_millis(50));
    }
    let report = network.down();
    assert_eq!(report["lateness"]["count"], 10);
}

#[test]
fn the_rate_is_kept() {
    // 100 packets of 1,250 bytes take 100 ms at 10 Mbit/s, and never less. The upper bound of 2 % more holds as
    // soon as no other process delays this machine.
    let network = Network::up(&["--rate", "10mbit"]);
    let (left, right) = network.sockets(1);
    let took = || {
        let begin = crate::netem_network::now();
        network.send(&left, numbers(1, 100), 1222);
        assert_eq!(receive_all(&right, 100).len(), 100);
        begin.elapsed()
    };
    at_last("as fast as 10 Mbit/s", || {
        let took = took();
        assert!(took >= Duration::from_millis(100), "{took:?}");
        took <= Duration::from_millis(102)
    });
}

#[test]
fn queue_holds_its_limit_and_drops_the_rest() {
    // Each packet takes a second to send, so the queue doesn't drain while they arrive.
    let network = Network::up(&["--rate", "8kbit", "--queue", "10k"]);
    let (left, _right) = network.sockets(1);
    network.send(&left, numbers(1, 50), 972);
    let report = network.wait_for(|report| report["links"][0]["offered"] == 50);
    let link = &report["links"][0];
    assert_eq!((&link["dropped_queue"], &link["queue_bytes_max"]), (&Value::from(40), &Value::from(10_000)));
    assert_eq!(link["queue_packets_max"], 10);
}

#[test]
fn marks_and_the_largest_queue_are_reported() {
    // Each packet takes a second to send, so the queue doesn't drain while they arrive. The fifth finds more
    // than 3,000 bytes.
    for (ecn, marked) in [(0, 0), (2, 4)] {
        let network = Network::up(&["--rate", "8kbit", "--queue", "10k", "--mark", "3k"]);
        let (left, _right) = network.sockets(1);
        set_ip_tos(&left, ecn).unwrap();
        network.send(&left, numbers(1, 8), 972);
        let report = network.wait_for(|report| report["links"][0]["offered"] == 8);
        let link = &report["links"][0];
        assert_eq!((&link["marked"], &link["congested"]), (&Value::from(marked), &Value::from(4)));
        assert_eq!(link["settings"]["mark_bytes"], 3000);
        let shown = text(&strandline(&["netem", "status", "--name", network.name()]).stdout);
        assert!(shown.contains("largest queue at 8 kbit/s: 8000 B (8 packets)"), "{shown}");
        let expected = if marked > 0 { "4 marked (ECN)" } else { "4 not marked for lack of ECN" };
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn help_has_examples() {
    for command in ["exec", "up", "enter", "status", "set", "cut", "heal", "down"] {
        let help = text(&strandline(&["netem", command, "--help"]).stdout);
        assert!(help.contains(&format!("\n  strandline netem {command}")), "{help}");
    }
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let empty = std::env::temp_dir().join(format!("strandline-empty-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let arguments = ["netem", "exec", "--right", "iperf3 -s -1", "--left", "iperf3 -c {right}"];
    let output = Command::new(PROGRAM).args(arguments).env("PATH", &empty).output().unwrap();
    std::fs::remove_dir(&empty).unwrap();
    assert_eq!(output.status.code(), Some(125));
    let told = text(&output.stderr);
    assert!(told.contains("iperf3 is not installed: apt-get install iperf3"), "{told}");
}

#[test]
fn packets_are_duplicated_and_reordered() {
    let network = Network::up(&["--duplicate", "50%", "--reorder", "20%/5ms"]);
    let (left, right) = network.sockets(1);
    network.send(&left, numbers(1, 200), 100);
    let report = network
        .wait_for(|report| report["links"][0]["on_their_way"] == 0 && report["links"][0]["offered"] == 200);
    let link = &report["links"][0];
    let duplicated = link["duplicated"].as_u64().unwrap();
    assert!((60..140).contains(&duplicated), "{link}");
    assert!(link["reordered"].as_u64().unwrap() > 0, "{link}");
    let mut arrived = receive_all(&right, 200 + duplicated as usize);
    assert!(!arrived.is_sorted());
    arrived.sort_unstable();
    arrived.dedup();
    assert_eq!(arrived, numbers(1, 200));
}

#[test]
fn paths_are_cut_and_healed_one_by_one() {
    let network = Network::up(&["--path", "", "--path", ""]);
    let (left, right) = network.sockets(1);
    let (left_2, right_2) = network.sockets(2);
    network.command(&["cut", "path=1", "to-right"]);
    network.send(&left, numbers(1, 10), 100);
    network.send(&left_2, numbers(1, 10), 100);
    assert_eq!(receive_all(&right_2, 10), numbers(1, 10));
    let report = network.wait_for(|report| report["links"][0]["offered"] == 10);
    assert_eq!(report["links"][0]["dropped_cut"], 10);
    right.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert_eq!(right.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    network.command(&["heal", "path=1", "to-right"]);
    network.send(&left, numbers(11, 20), 100);
    assert_eq!(receive_all(&right, 10), numbers(11, 20));
}

#[test]
fn a_schedule_changes_links() {
    let network = Network::up(&["--schedule", "0s to-right cut # at once; 50ms to-right heal"]);
    let (left, right) = network.sockets(1);
    network.send(&left, vec![1], 100);
    network.send(&right, vec![2], 100);
    assert_eq!(receive_all(&left, 1), [2]);
    let report = network.wait_for(|report| report["links"][0]["offered"] == 1);
    assert_eq!(report["links"][0]["dropped_cut"], 1, "the comment ends the line: it never heals");
}

#[test]
fn drops_outside_the_emulator_invalidate_a_run() {
    let network = Network::up(&[]);
    let (left, _right) = network.sockets(1);
    network.stop();
    // More packets than the kernel queues for a stopped emulator.
    network.send(&left, numbers(1, 20_000), 10);
    network.go_on();
    let report = network.down();
    assert_eq!(report["valid"], false, "{report}");
    assert!(report["links"][0]["faults"]["kernel_dropped_before"].as_u64().unwrap() > 0);
    assert!(report["invalid_because"].to_string().contains("dropped by the kernel"));
}

#[test]
fn remains_of_a_killed_emulator_are_removed() {
    let network = Network::up(&[]);
    let namespaces = Side::BOTH.map(|side| network.namespace(side));
    let state = Path::new("/run/strandline/netem").join(network.name());
    network.kill();
    assert!(strandline(&["netem", "exec", "-q", "--", "true"]).status.success());
    assert!(!state.exists());
    for namespace in namespaces {
        assert!(!Path::new("/run/netns").join(namespace).exists());
    }
}

#[test]
fn programs_get_addresses_labels_and_exit_codes() {
    let output = strandline(&[
        "netem",
        "exec",
        "--path=",
        "--path=delay=1ms",
        "--right=echo $SIDE $RIGHT; echo problem >&2; sleep 60",
        "--left=echo {left} {right.2} $LEFT_2; exit 7",
    ]);
    assert_eq!(output.status.code(), Some(7));
    let (printed, told) = (text(&output.stdout), text(&output.stderr));
    assert!(printed.contains("left  | 10.0.1.1 10.0.2.2 10.0.2.1\n"), "{printed}");
    assert!(printed.contains("right | right 10.0.1.2\n"), "{printed}");
    assert!(told.contains("right | problem\n"), "{told}");
    assert!(told.contains("path 2 to-left: sent 0 packets"), "{told}");
    let failing = strandline(&["netem", "exec", "-q", "--right=exit 3", "--left=sleep 60"]);
    assert_eq!(failing.status.code(), Some(3), "the client waits for nothing");
}

#[test]
fn a_late_emulator_makes_a_run_invalid() {
    // The left program reaches the right one, so packets were delivered, and none can be on time to the
    // nanosecond.
    let late = [
        "netem",
        "exec",
        "--json",
        "--late-limit=0us",
        "--right={program} echo --tcp 10.0.1.2:7",
        "--left={program} load echo --transport tcp --count 20 --server {right}:7",
    ];
    let late = late.map(|word| word.replace("{program}", PROGRAM));
    let words: Vec<&str> = late.iter().map(String::as_str).collect();
    let output = strandline(&words);
    assert_eq!(output.status.code(), Some(120), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["valid"], false);
    assert!(report["invalid_because"][0].as_str().unwrap().contains("late"), "{report}");
    assert_eq!(report["programs"][0]["exit_code"], 0);
    assert_eq!(report["programs"][1]["ended_by_us"], true);
}

#[test]
fn a_signal_ends_programs_and_network() {
    let name = format!("test-signal-{}", std::process::id());
    let arguments = ["netem", "exec", "--name", &name, "--left=sleep 60", "--right=sleep 60"];
    let child = Command::new(PROGRAM).args(arguments).spawn().unwrap();
    crate::netem_network::wait_until_up(&name);
    let output = crate::netem_network::signal_and_wait(child, rustix::process::Signal::INT);
    assert_eq!(output.code(), Some(130));
    assert!(!Path::new("/run/strandline/netem").join(&name).exists());
    assert!(!Path::new("/run/netns").join(format!("strandline-{name}-left")).exists());
}

#[test]
fn mistakes_are_explained() {
    let told = |arguments: &[&str]| {
        let output = strandline(&[&["netem", "exec"], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        text(&output.stderr)
    };
    assert!(told(&["--rate", "100", "--", "true"]).contains("100mbit"));
    assert!(told(&["--", "no-such-program"]).contains("program 'no-such-program' not found"));
    assert!(
        told(&["--report", "/nowhere/report.json", "--", "no-such-program"]).contains("/nowhere/report.json")
    );
    assert!(told(&["--tcp", "vegan", "--", "true"]).contains("this kernel has"));
    assert!(told(&["--name", "Ä", "--", "true"]).contains("a-z"));
    assert!(told(&[]).contains("nothing to run"));
    let down = strandline(&["netem", "down", "--name", "no-such-network"]);
    assert!(text(&down.stderr).contains("no network 'no-such-network' is up"));
    let nobody = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--", PROGRAM, "netem", "exec", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(125));
    assert!(text(&nobody.stderr).contains("sudo"), "{}", text(&nobody.stderr));
}
