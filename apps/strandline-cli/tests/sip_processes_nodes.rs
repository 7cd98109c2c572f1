//! Two nodes with two processes each, and one database: phones of all four call one another.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first error")]
#![allow(clippy::disallowed_methods, reason = "real servers take real time to start")]

mod databases;
#[allow(dead_code, reason = "not every test has all of it")]
mod phones;
mod sip_server;

use std::time::Duration;

use databases::{Database, Kind, for_each_kind, free_port};
use phones::{Carrier, Phone};
use sip_server::Server;

fn node(database: &Database, number: u8) -> Server {
    let (udp, tcp) = (free_port(), free_port());
    let address = format!("127.0.0.{}", number + 12);
    let text = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"{address}:{udp}\"\n\
         [[listen]]\nprotocol = \"tcp\"\naddress = \"{address}:{tcp}\"\n[metrics]\naddress = \"127.0.0.1:0\"\n\
         [server]\nprocesses = 2\n[node]\nname = \"p{number}\"\naddress = \"tcp:{address}:{tcp}\"\nlease_ms = 1500\n{}",
        database.config()
    );
    let config = database.folder.join(format!("p{number}.toml"));
    std::fs::write(&config, text).unwrap();
    Server::configured(&config)
}

/// Waits for something that comes sooner or later.
fn at_last(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        // Sleeps because another program's state is asked for again and again, and tells nobody when it changes.
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}

/// A metric at both processes.
fn are(server: &Server, name: &str, value: usize) -> bool {
    let (page, begin) = (server.metrics("/metrics"), format!("strandline_sip_{name}{{worker=\""));
    let samples = page.lines().filter_map(|line| line.strip_prefix(begin.as_str())?.rsplit_once(' '));
    let samples: Vec<f64> = samples.map(|(_, sample)| sample.parse().unwrap()).collect();
    samples == [value as f64; 2]
}

fn phones_of_all_processes_of_all_nodes_call_one_another(kind: Kind) {
    let database = Database::start(kind);
    let mut nodes = [node(&database, 0), node(&database, 1)];
    at_last("all know one another", || nodes.iter().all(|node| are(node, "nodes_alive", 3)));
    let mut phones = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        for carrier in [Carrier::Udp, Carrier::UdpBehindNat, Carrier::Tcp, Carrier::Tcp] {
            let mut phone = Phone::new(&format!("{}{number}{}", carrier.name(), phones.len()), carrier, node);
            assert!(phone.register().starts_with("SIP/2.0 200"));
            phones.push(phone);
        }
    }
    at_last("all know all", || nodes.iter().all(|node| are(node, "users", phones.len())));
    for caller in 0..phones.len() {
        for callee in 0..phones.len() {
            if caller != callee {
                phones::call(&mut phones, caller, callee);
            }
        }
    }
    for node in &mut nodes {
        assert!(node.terminate().success());
    }
}

for_each_kind! {
    all_call_with_mariadb: MySql phones_of_all_processes_of_all_nodes_call_one_another;
    all_call_with_postgresql: PostgreSql phones_of_all_processes_of_all_nodes_call_one_another;
    all_call_with_redis: Redis phones_of_all_processes_of_all_nodes_call_one_another;
}
