//! Tests of three nodes of `strandline sip` with one database, and calls between phones at different nodes.

use std::collections::HashSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::databases::{Database, Kind, for_each_kind};
use crate::phones::{Carrier, Phone};
use crate::ports::free_port;
use crate::sip_server::{PROGRAM, Server};
use crate::waiting::{at_last, exceeds_at_last};

/// A node at its own address.
struct Node {
    config: std::path::PathBuf,
    server: Option<Server>,
}

impl Node {
    fn new(database: &Database, number: u8) -> Self {
        let (udp, tcp) = (free_port(), free_port());
        let address = format!("127.0.0.{}", number + 2);
        let text = format!(
            "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"{address}:{udp}\"\n\
             [[listen]]\nprotocol = \"tcp\"\naddress = \"{address}:{tcp}\"\n[metrics]\naddress = \"127.0.0.1:0\"\n\
             [node]\nname = \"n{number}\"\naddress = \"tcp:{address}:{tcp}\"\nlease_ms = 5000\n{}",
            database.config()
        );
        let config = database.folder.join(format!("n{number}.toml"));
        std::fs::write(&config, text).unwrap();
        let mut node = Self { config, server: None };
        node.start();
        node
    }

    fn start(&mut self) {
        self.server = Some(Server::configured(&self.config));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// Returns the output of `strandline sip top`.
    fn top(&self) -> String {
        let mut top = Command::new(PROGRAM);
        let output = top.args(["sip", "top", "--once", self.server().metrics_address()]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn metric(&self, name: &str) -> f64 {
        self.find_metric(name).unwrap()
    }

    fn find_metric(&self, name: &str) -> Option<f64> {
        let page = self.server().metrics("/metrics");
        page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Returns whether it knows of as many other live nodes. It tells of others once it has looked for them.
    fn knows_alive(&self, others: u32) -> bool {
        self.find_metric("strandline_sip_nodes_alive") == Some(others.into())
    }
}

fn nodes(database: &Database) -> Vec<Node> {
    let nodes: Vec<Node> = (0..3).map(|number| Node::new(database, number)).collect();
    at_last("all nodes know one another", || nodes.iter().all(|node| node.knows_alive(2)));
    nodes
}

fn wait_for_users(nodes: &[&Node], users: usize) {
    at_last("all nodes know all users", || {
        nodes.iter().all(|node| node.metric("strandline_sip_users") == users as f64)
    });
}

/// Returns phones of each kind at each node.
fn phones(nodes: &[Node]) -> Vec<Phone> {
    let mut phones = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        for carrier in [Carrier::Udp, Carrier::UdpBehindNat, Carrier::Tcp] {
            let mut phone = Phone::new(&format!("{}{number}", carrier.name()), carrier, node.server());
            assert!(phone.register().starts_with("SIP/2.0 200"));
            phones.push(phone);
        }
    }
    phones
}

fn phones_of_all_nodes_call_one_another(kind: Kind) {
    let database = Database::start(kind);
    let mut nodes = nodes(&database);
    let mut phones = phones(&nodes);
    wait_for_users(&nodes.iter().collect::<Vec<_>>(), phones.len());
    for caller in 0..phones.len() {
        for callee in 0..phones.len() {
            if caller != callee {
                crate::phones::call(&mut phones, caller, callee);
            }
        }
    }
    // Other nodes are reported by name.
    let is_alive =
        |node: &Node, other: &str| node.metric(&format!("strandline_sip_node_alive{{node=\"{other}\"}}"));
    assert_eq!(nodes[0].metric("strandline_sip_node_info{node=\"n0\"}"), 1.0);
    assert_eq!(["n1", "n2"].map(|other| is_alive(&nodes[0], other)), [1.0, 1.0]);
    assert!(nodes[1].top().contains(", healthy, "), "{}", nodes[1].top());
    // A node dies: its phones behind connections and NATs become unreachable, those with public addresses
    // don't.
    nodes[2].kill();
    at_last("the others see that", || nodes[..2].iter().all(|node| node.knows_alive(1)));
    assert_eq!(["n1", "n2"].map(|other| is_alive(&nodes[0], other)), [1.0, 0.0]);
    let top = nodes[1].top();
    for told in [", nodes down: n2, ", "\nnode n0: up, tcp:127.0.0.2:", "\nnode n2: down, tcp:127.0.0.4:"] {
        assert!(top.contains(told), "{told}: {top}");
    }
    crate::phones::call(&mut phones, 0, 6);
    crate::phones::call(&mut phones, 3, 6);
    crate::phones::call(&mut phones, 1, 4);
    assert!(crate::phones::refused(&mut phones[0], "nat2").starts_with("SIP/2.0 480"));
    assert!(crate::phones::refused(&mut phones[4], "nat2").starts_with("SIP/2.0 480"));
    // One of them registers at another node, where all reach it.
    phones[7].server = nodes[0].server().address("udp");
    assert!(phones[7].register().starts_with("SIP/2.0 200"));
    wait_for_users(&[&nodes[0], &nodes[1]], 9);
    at_last("the other node knows where it is now", || {
        crate::phones::try_call(&mut phones, 3, 7).starts_with("SIP/2.0 200")
    });
    // The node returns, loads all bindings, and doesn't undo that.
    nodes[2].start();
    assert_eq!(nodes[2].server().users(), 9);
    at_last("all nodes are there", || nodes.iter().all(|node| node.knows_alive(2)));
    phones[8] = Phone::new("tcp2", Carrier::Tcp, nodes[2].server());
    assert!(phones[8].register().starts_with("SIP/2.0 200"));
    crate::phones::call(&mut phones, 8, 7);
    crate::phones::call(&mut phones, 8, 0);
    at_last("the others know its new connection", || {
        crate::phones::try_call(&mut phones, 1, 8).starts_with("SIP/2.0 200")
    });
    // A binding removed at another node is gone everywhere, also at a node that starts later.
    phones[7].server = nodes[1].server().address("udp");
    assert!(phones[7].unregister().starts_with("SIP/2.0 200"));
    wait_for_users(&nodes.iter().collect::<Vec<_>>(), 8);
    nodes[2].kill();
    nodes[2].start();
    assert_eq!(nodes[2].server().users(), 8);
}

/// Registers users at a node, which may be killed, one after the other until told to end. Returns the users that were
/// acknowledged, with their contacts.
fn register_on(
    server: std::net::SocketAddr,
    prefix: String,
    end: Arc<AtomicBool>,
) -> HashSet<(String, String)> {
    let mut acknowledged = HashSet::new();
    let mut phone = Phone::at("", Carrier::Udp, server);
    phone.is_patient = false;
    for number in 0.. {
        if end.load(Ordering::Relaxed) {
            break;
        }
        phone.name = format!("{prefix}{}", number % 500);
        match phone.try_register(3600) {
            Some(answer) if answer.starts_with("SIP/2.0 200") => {
                acknowledged.insert((phone.name.clone(), phone.contact()));
            }
            Some(answer) => assert!(answer.starts_with("SIP/2.0 503"), "{answer}"),
            // The node has been killed, or the host is busy.
            None => {}
        }
    }
    acknowledged
}

fn a_node_dies_under_load(kind: Kind) {
    let database = Database::start(kind);
    let mut nodes = nodes(&database);
    let mut phones: Vec<Phone> = phones(&nodes[..2]);
    let ends = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let load: Vec<_> = (0..3)
        .map(|number| {
            let (server, end) = (nodes[number].server().address("udp"), Arc::clone(&ends[number]));
            // Two nodes register different contacts of the same users at once.
            let prefix = if number == 0 { "own".to_owned() } else { "both".to_owned() };
            std::thread::spawn(move || register_on(server, prefix, end))
        })
        .collect();
    exceeds_at_last("there is load", 300.0, || nodes[2].metric("strandline_sip_registered_total"));
    nodes[2].kill();
    ends[2].store(true, Ordering::Relaxed);
    // Calls between phones of the other nodes continue.
    for round in 0..5 {
        crate::phones::call(&mut phones, round % 3, 3 + round % 3);
    }
    exceeds_at_last("there is more load", 1500.0, || nodes[1].metric("strandline_sip_registered_total"));
    ends[..2].iter().for_each(|end| end.store(true, Ordering::Relaxed));
    let acknowledged: Vec<HashSet<(String, String)>> =
        load.into_iter().map(|load| load.join().unwrap()).collect();
    nodes[2].start();
    let users: HashSet<&String> = acknowledged.iter().flatten().map(|(user, _)| user).collect();
    at_last("the node that died has caught up", || {
        nodes.iter().all(|node| node.metric("strandline_sip_users") >= (users.len() + phones.len()) as f64)
    });
    // The contacts bound at two nodes at once are all there, and the node that died serves again. The query
    // uses TCP, because UDP responses larger than their requests are limited per address.
    let mut asking = Phone::new("", Carrier::Tcp, nodes[2].server());
    for (user, contact) in acknowledged.into_iter().flatten() {
        asking.name = user;
        let answer = asking.query();
        assert!(answer.contains(&contact), "{contact} isn't in {answer}");
    }
}

for_each_kind! {
    phones_call_one_another_with_mariadb: MySql phones_of_all_nodes_call_one_another;
    phones_call_one_another_with_postgresql: PostgreSql phones_of_all_nodes_call_one_another;
    phones_call_one_another_with_redis: Redis phones_of_all_nodes_call_one_another;
    a_node_dies_under_load_with_mariadb: MySql a_node_dies_under_load;
    a_node_dies_under_load_with_postgresql: PostgreSql a_node_dies_under_load;
    a_node_dies_under_load_with_redis: Redis a_node_dies_under_load;
}
