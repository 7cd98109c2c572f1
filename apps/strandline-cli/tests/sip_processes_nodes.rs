//! Tests of two nodes with two processes each and one database: phones at all four processes call each other.

use serde_json::Value;

use crate::databases::{Database, Kind, for_each_kind};
use crate::phones::{Carrier, Phone};
use crate::ports::free_port;
use crate::processes::metric;
use crate::sip_server::Server;
use crate::waiting::at_last;

fn node(database: &Database, number: u8) -> Server {
    let (udp, tcp) = (free_port(), free_port());
    let address = format!("127.0.0.{}", number + 12);
    let text = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"{address}:{udp}\"\n\
         [[listen]]\nprotocol = \"tcp\"\naddress = \"{address}:{tcp}\"\n[metrics]\naddress = \"127.0.0.1:0\"\n\
         [server]\nprocesses = 2\n[node]\nname = \"p{number}\"\naddress = \"tcp:{address}:{tcp}\"\nlease_ms = 5000\n{}",
        database.config()
    );
    let config = database.folder.join(format!("p{number}.toml"));
    std::fs::write(&config, text).unwrap();
    Server::configured(&config)
}

/// Returns whether a metric has this value at both processes.
fn are(server: &Server, name: &str, value: usize) -> bool {
    metric(server, name) == [value as f64; 2]
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
    // Reports of each server cover all of its processes; other nodes are those of the other server.
    for (server, others) in [(&nodes[0], ["p1.1", "p1.2"]), (&nodes[1], ["p0.1", "p0.2"])] {
        let live = server.metrics("/live.json");
        let live: Value = serde_json::from_str(live.split_once("\r\n\r\n").unwrap().1).unwrap();
        let told: Vec<&str> =
            live["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
        assert_eq!(told, others, "{live}");
        assert!(live["nodes"].as_array().unwrap().iter().all(|node| node["is_alive"] == true), "{live}");
        assert_eq!(
            (&live["users"], &live["totals"]["registered"]),
            (&phones.len().into(), &4.into()),
            "{live}"
        );
        assert_eq!((&live["processes"], live["workers"].as_array().unwrap().len()), (&2.into(), 2));
        let connections: u64 = metric(server, "connections").iter().map(|count| *count as u64).sum();
        assert_eq!(live["connections"], connections);
    }
    for caller in 0..phones.len() {
        for callee in 0..phones.len() {
            if caller != callee {
                crate::phones::call(&mut phones, caller, callee);
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
