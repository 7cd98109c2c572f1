//! `strandline sip` with several processes: phones over TLS and SCTP, and looking after all processes as one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first error")]
#![allow(clippy::disallowed_methods, reason = "real servers take real time to start")]

mod certificates;
#[allow(dead_code, reason = "not every test has all of it")]
mod phones;
mod sip_server;
mod wire;

use std::net::UdpSocket;
use std::process::{Command, Output};
use std::time::Duration;

use certificates::Folder;
use phones::{Carrier, Phone};
use serde_json::Value;
use sip_server::{PROGRAM, Server};
use strandline::{Endpoint, SendInfo, Stack};
use strandline_tls::Wire;
use tokio::net::TcpStream;
use wire::{PATIENCE, next};

fn register(transport: &str, user: &str) -> String {
    let secure = transport.to_lowercase();
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:5061;branch=z9hG4bK{user};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:{user}@192.0.2.7:5061;transport={secure};ob>\r\nSupported: outbound\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn message(to: &str, id: &str) -> String {
    format!(
        "MESSAGE sip:{to}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{id};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <sip:{to}@example.com>\r\nCall-ID: {id}\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: 2\r\n\r\nhi"
    )
}

fn ok(request: &str) -> String {
    let names = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let same = |line: &&str| names.iter().any(|name| line.starts_with(name));
    let lines: String = request.lines().filter(same).map(|line| format!("{line}\r\n")).collect();
    format!("SIP/2.0 200 OK\r\n{lines}Content-Length: 0\r\n\r\n")
}

/// Sockets of which each process gets some.
fn askers() -> Vec<UdpSocket> {
    let asker = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    (0..8).map(asker).collect()
}

/// Waits on a thread of its own, so that associations go on meanwhile.
async fn answer(asker: &UdpSocket) -> String {
    let asker = asker.try_clone().unwrap();
    let receive = move || {
        let mut room = [0; 4000];
        let len = asker.recv(&mut room).unwrap();
        String::from_utf8(room[..len].to_vec()).unwrap()
    };
    tokio::task::spawn_blocking(receive).await.unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn phones_over_tls_are_called_over_the_process_that_has_their_connection() {
    let folder = Folder::new("processes");
    let config = folder.config("[server]\nprocesses = 2\n");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let askers = askers();
    for number in 0..4 {
        let user = format!("tls{number}");
        let stream = TcpStream::connect(server.address("tls")).await.unwrap();
        let phone = Wire::opened(stream, &folder.client(None), "127.0.0.1").unwrap();
        phone.handshake().await.unwrap();
        phone.try_write(register("TLS", &user).as_bytes()).unwrap();
        assert!(next(&phone).await.starts_with("SIP/2.0 200"));
        for (at, asker) in askers.iter().enumerate() {
            let id = format!("{user}-{at}");
            asker.send_to(message(&user, &id).as_bytes(), server.address("udp")).unwrap();
            let came = next(&phone).await;
            assert!(came.starts_with("MESSAGE ") && came.contains(&id), "{came}");
            phone.try_write(ok(&came).as_bytes()).unwrap();
            let answered = answer(asker).await;
            assert!(answered.starts_with("SIP/2.0 200") && answered.contains(&id), "{answered}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn phones_over_sctp_are_called_by_all_processes() {
    for style in ["one-to-many", "one-to-one"] {
        let server =
            Server::start(&["--processes", "3", "--listen", "sctp:127.0.0.1:0", "--sctp-style", style]);
        let stack = Stack::builder()
            .remote_encapsulation_port(server.carrier())
            .udp("127.0.0.1:0".parse().unwrap())
            .unwrap();
        let phone = Endpoint::bind(&stack, 0).unwrap();
        let peer: std::net::SocketAddr = "127.0.0.1:5060".parse().unwrap();
        phone.send_to_peer(peer, register("SCTP", "bob").into(), SendInfo::default()).await.unwrap();
        let receive = async || tokio::time::timeout(PATIENCE, phone.recv_from()).await.unwrap().unwrap();
        let (id, came) = receive().await;
        assert!(came.data.starts_with(b"SIP/2.0 200 OK"), "{style}: {came:?}");
        for (at, asker) in askers().iter().enumerate() {
            let name = format!("sctp-{at}");
            asker.send_to(message("bob", &name).as_bytes(), server.address("udp")).unwrap();
            let (_, came) = receive().await;
            let text = String::from_utf8(came.data.to_vec()).unwrap();
            assert!(text.starts_with("MESSAGE ") && text.contains(&name), "{style}: {text}");
            phone.send_to(id, ok(&text).into(), SendInfo::default()).await.unwrap();
            let answered = answer(asker).await;
            assert!(answered.starts_with("SIP/2.0 200") && answered.contains(&name), "{style}: {answered}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn every_process_sets_up_associations_of_its_own() {
    let server = Server::start(&["--processes", "2", "--listen", "sctp:127.0.0.1:0", "--open-relay"]);
    let stack = Stack::builder().udp("127.0.0.79:9899".parse().unwrap()).unwrap();
    let phone = Endpoint::bind(&stack, 5070).unwrap();
    for (at, asker) in askers().iter().enumerate() {
        let name = format!("out-{at}");
        let text = message("bob", &name)
            .replace("MESSAGE sip:bob@example.com", "MESSAGE sip:bob@127.0.0.79:5070;transport=sctp");
        asker.send_to(text.as_bytes(), server.address("udp")).unwrap();
        let (id, came) = tokio::time::timeout(PATIENCE, phone.recv_from()).await.unwrap().unwrap();
        let text = String::from_utf8(came.data.to_vec()).unwrap();
        assert!(text.starts_with("MESSAGE ") && text.contains(&name), "{text}");
        phone.send_to(id, ok(&text).into(), SendInfo::default()).await.unwrap();
        assert!(answer(asker).await.starts_with("SIP/2.0 200"));
    }
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server with a configuration in a folder.
struct World {
    folder: std::path::PathBuf,
    server: Server,
}

impl World {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("strandline-processes-admin-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("token"), TOKEN).unwrap();
        Self::write(&folder, "");
        let server = Server::configured(&folder.join("sip.toml"));
        Self { folder, server }
    }

    fn write(folder: &std::path::Path, more: &str) {
        let listen = |protocol| format!("[[listen]]\nprotocol = \"{protocol}\"\naddress = \"127.0.0.1:0\"\n");
        let (udp, tcp, folder_name) = (listen("udp"), listen("tcp"), folder.display());
        let text = format!(
            "domains = [\"example.com\"]\n{udp}{tcp}[server]\nprocesses = 2\n[metrics]\naddress = \"127.0.0.1:0\"\n\
             [admin]\naddress = \"127.0.0.1:0\"\ntoken = \"{folder_name}/token\"\n\
             [store]\npath = \"{folder_name}/sip.db\"\n{more}"
        );
        std::fs::write(folder.join("sip.toml"), text).unwrap();
    }

    fn admin(&self, arguments: &str) -> Output {
        let token = self.folder.join("token");
        Command::new(PROGRAM)
            .args([
                "sip",
                "admin",
                "--json",
                "--address",
                self.server.admin(),
                "--token",
                token.to_str().unwrap(),
            ])
            .args(arguments.split_whitespace())
            .output()
            .unwrap()
    }

    fn told(&self, arguments: &str) -> Value {
        let output = self.admin(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn all_processes_are_looked_after_as_one() {
    let mut world = World::new();
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
    // Each connection is closed, whichever process has it, and the binding is gone at all.
    let (connected, others) = phones.split_at_mut(6);
    for (number, phone) in connected.iter_mut().enumerate() {
        let kicked = world.told(&format!("kick tcp{number}@example.com"));
        assert_eq!((&kicked["removed"], &kicked["closed"]), (&1.into(), &1.into()), "{number}");
        assert!(phone.is_closed());
    }
    assert_eq!(world.told("bindings tcp")["users"].as_array().unwrap().len(), 0);
    for caller in others {
        assert!(phones::refused(caller, "tcp0").starts_with("SIP/2.0 404"));
    }
    they_are_drained_and_read_the_configuration_again(&mut world, &mut phones[6..]);
}

fn they_are_drained_and_read_the_configuration_again(world: &mut World, phones: &mut [Phone]) {
    // While it drains nobody registers, at any.
    assert_eq!(world.told("drain")["draining"], true);
    for phone in phones.iter_mut() {
        assert!(phone.register().starts_with("SIP/2.0 503"));
    }
    assert_eq!(world.told("drain --off")["draining"], false);
    // All read the configuration again; what is wrong changes nothing.
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
    let page = world.server.metrics("/metrics");
    let registered = page.lines().filter_map(|line| {
        line.strip_prefix("strandline_sip_registered_total{worker=\"")?
            .rsplit_once(' ')?
            .1
            .parse::<f64>()
            .ok()
    });
    assert_eq!(registered.sum::<f64>(), 12.0 + 6.0 + 1.0);
    // Some second has what happened at both.
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
    // SIGHUP is passed on, and a graceful end is one of all.
    World::write(&world.folder, "[registrar]\nexpires_default_secs = 66\nexpires_max_secs = 66\n");
    world.server.hang_up();
    let mut read = |phone: &mut Phone| {
        (0..600).any(|_| {
            // Sleeps because nobody is told when a signal has done its work.
            std::thread::sleep(Duration::from_millis(20));
            phone.register().contains("expires=66")
        })
    };
    assert!(phones.iter_mut().all(&mut read));
    assert!(world.server.terminate().success());
}

#[test]
fn what_goes_with_one_process_only_is_told() {
    for (arguments, error) in [
        (vec!["--processes", "0"], "--processes: \"0\" is neither a number between 1 and 64 nor \"auto\""),
        (vec!["--processes", "many"], "--processes: \"many\" is neither"),
        (
            vec!["--processes", "2", "--listen", "sctp-ip:127.0.0.1:5060"],
            "listen.carrier: SCTP on IP goes with one process",
        ),
    ] {
        let output = Command::new(PROGRAM).args(["sip", "--check"]).args(&arguments).output().unwrap();
        assert!(!output.status.success());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(error), "{told}");
    }
    let output = Command::new(PROGRAM).args(["sip", "--check", "--processes", "auto"]).output().unwrap();
    assert!(output.status.success());
    // An address that somebody has is nobody else's.
    let server = Server::start(&["--processes", "2"]);
    let udp = server.address("udp").to_string();
    for processes in ["1", "2"] {
        let second = Command::new(PROGRAM)
            .args(["sip", "--processes", processes, "--listen", &format!("udp:{udp}")])
            .output()
            .unwrap();
        let told = String::from_utf8(second.stderr).unwrap();
        assert!(told.contains("is another server there"), "{told}");
    }
}
