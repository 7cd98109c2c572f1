//! Tests of administering `strandline sip` with several processes as one server.

use std::process::Command;

use serde_json::Value;

use crate::looked_after::World;
use crate::phones::{Carrier, Phone};
use crate::processes::{kill, metric, restarts, workers};
use crate::sip_server::{PROGRAM, Server};
use crate::waiting::at_last;

#[test]
fn all_processes_are_looked_after_as_one() {
    let mut world = World::new("admin", "");
    let mut phones: Vec<Phone> = (0..6)
        .map(|number| Phone::new(&format!("tcp{number}"), Carrier::Tcp, &world.server))
        .chain((0..6).map(|number| Phone::new(&format!("udp{number}"), Carrier::Udp, &world.server)))
        .collect();
    for phone in &mut phones {
        assert!(phone.register().starts_with("SIP/2.0 200"));
    }
    let status = world.told("status");
    assert_eq!((&status["users"], &status["connections"]), (&12.into(), &6.into()));
    assert_eq!((&status["processes"], &status["totals"]["registered"]), (&2.into(), &12.into()));
    let shares = status["workers"].as_array().unwrap();
    assert_eq!(shares.len(), 2);
    let sum: u64 = shares.iter().map(|share| share["connections"].as_u64().unwrap()).sum();
    assert_eq!(sum, 6);
    assert_eq!(world.told("bindings")["users"].as_array().unwrap().len(), 12);
    let shown = world.told("show tcp3@example.com");
    assert_eq!(shown["bindings"][0]["connected"], true);
    // Each connection is closed, whichever process has it, and the binding is removed at all processes.
    let (connected, others) = phones.split_at_mut(6);
    for (number, phone) in connected.iter_mut().enumerate() {
        let kicked = world.told(&format!("kick tcp{number}@example.com"));
        assert_eq!((&kicked["removed"], &kicked["closed"]), (&1.into(), &1.into()), "{number}");
        assert!(phone.is_closed());
    }
    assert_eq!(world.told("bindings tcp")["users"].as_array().unwrap().len(), 0);
    for caller in others {
        assert!(crate::phones::refused(caller, "tcp0").starts_with("SIP/2.0 404"));
    }
    they_are_drained_and_read_the_configuration_again(&mut world, &mut phones[6..]);
}

fn they_are_drained_and_read_the_configuration_again(world: &mut World, phones: &mut [Phone]) {
    // While draining, no process accepts registrations.
    assert_eq!(world.told("drain")["draining"], true);
    for phone in phones.iter_mut() {
        assert!(phone.try_register(3600).unwrap().starts_with("SIP/2.0 503"));
    }
    assert_eq!(world.told("drain --off")["draining"], false);
    // All processes reload the configuration; an invalid one changes nothing.
    World::write(&world.folder, "[registrar]\nexpires_default_secs = 77\nexpires_max_secs = 77\n");
    let told = world.told("reload");
    assert_eq!(told["changed"], Value::from(vec!["registrar"]));
    for phone in phones.iter_mut() {
        let answer = phone.register();
        assert!(answer.starts_with("SIP/2.0 200") && answer.contains("expires=77"), "{answer}");
    }
    World::write(&world.folder, "[registrar]\nexpires_default = 1\n");
    assert!(!world.admin("reload").status.success());
    assert!(phones[0].register().contains("expires=77"));
    assert_eq!(metric(&world.server, "registered_total").iter().sum::<f64>(), 12.0 + 6.0 + 1.0);
    // Some second has the events of both processes.
    let live = world.server.metrics("/live.json");
    let live: Value = serde_json::from_str(live.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert!(!live["seconds"].as_array().unwrap().is_empty());
    let top = Command::new(PROGRAM)
        .args(["sip", "top", "--once"])
        .arg(world.server.metrics_address())
        .output()
        .unwrap();
    let top = String::from_utf8(top.stdout).unwrap();
    assert!(top.contains("process 1: ") && top.contains("process 2: "), "{top}");
    // SIGHUP is forwarded, and a graceful shutdown is one of all processes.
    World::write(&world.folder, "[registrar]\nexpires_default_secs = 66\nexpires_max_secs = 66\n");
    world.server.hang_up();
    for phone in phones {
        at_last("the signal has done its work", || phone.register().contains("expires=66"));
    }
    assert!(world.server.terminate().success());
}

/// Returns the data of the live page.
fn live(world: &World) -> Value {
    let live = world.server.metrics("/live.json");
    serde_json::from_str(live.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn figures_are_right_while_a_process_dies() {
    let world = World::new("figures", "");
    let mut phones: Vec<Phone> =
        (0..8).map(|number| Phone::new(&format!("u{number}"), Carrier::Udp, &world.server)).collect();
    for phone in &mut phones {
        assert!(phone.register().starts_with("SIP/2.0 200"));
    }
    // The parent process is reported as well: its resources, and its writes on behalf of the others.
    let page = world.server.metrics("/metrics");
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix("strandline_sip_")?.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} isn't in {page}")).trim().parse().unwrap()
    };
    assert_eq!((value("workers "), value("workers_configured ")), (2.0, 2.0));
    for taken in ["process_resident_memory_bytes", "process_start_time_seconds", "process_max_fds"] {
        assert!(value(&format!("{taken}{{worker=\"supervisor\"}}")) > 0.0, "{taken}");
        assert!(value(&format!("{taken}{{worker=\"2\"}}")) > 0.0, "{taken}");
    }
    assert!(value("supervisor_commits_total{worker=\"supervisor\"}") >= 1.0);
    assert!(value("supervisor_commit_seconds_total{worker=\"supervisor\"}") > 0.0);
    assert_eq!(value("supervisor_commit_failures_total{worker=\"supervisor\"}"), 0.0);
    // After all counters were read, a process dies: its counts remain.
    let seconds = live(&world)["seconds"].as_array().unwrap().len();
    at_last("two more seconds", || live(&world)["seconds"].as_array().unwrap().len() >= seconds + 2);
    let before = live(&world);
    assert_eq!((&before["processes"], &before["totals"]["registered"]), (&2.into(), &8.into()));
    workers(&world.server).into_iter().for_each(kill);
    at_last("others have taken their places", || {
        restarts(&world.server) == 2 && metric(&world.server, "registered_total").len() == 2
    });
    let after = live(&world);
    assert_eq!((&after["totals"]["registered"], &after["users"]), (&8.into(), &8.into()), "{after}");
    assert!(after["uptime_secs"].as_u64() >= before["uptime_secs"].as_u64(), "{after}");
    assert_eq!((&after["restarts"], after["workers"].as_array().unwrap().len()), (&2.into(), 2));
    assert_eq!(metric(&world.server, "registered_total"), [0.0, 0.0]);
}

#[test]
fn what_goes_with_one_process_only_is_told() {
    for (arguments, error) in [
        (
            vec!["--processes", "0"],
            "--processes: expected a number from 1 to 64 or \"auto\" (one for each usable core), not \"0\"",
        ),
        (vec!["--processes", "many"], "--processes: expected a number from 1 to 64"),
        (
            vec!["--processes", "2", "--listen", "sctp-ip:127.0.0.1:5060"],
            "--listen: SCTP over IP requires a single process",
        ),
    ] {
        let output = Command::new(PROGRAM).args(["sip", "--check"]).args(&arguments).output().unwrap();
        assert!(!output.status.success());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(error), "{told}");
    }
    let output = Command::new(PROGRAM).args(["sip", "--check", "--processes", "auto"]).output().unwrap();
    assert!(output.status.success());
    // An address that is in use can't be bound by another server.
    let server = Server::start(&["--processes", "2"]);
    let udp = server.address("udp").to_string();
    for processes in ["1", "2"] {
        let second = Command::new(PROGRAM)
            .args(["sip", "--processes", processes, "--listen", &format!("udp:{udp}")])
            .output()
            .unwrap();
        let told = String::from_utf8(second.stderr).unwrap();
        assert!(told.contains("is another server running there"), "{told}");
    }
}
