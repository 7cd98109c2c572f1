//! Tests of `strandline sip` with several processes at one address.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they measure")]
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::phones::{Carrier, Phone};
use crate::processes::{is_there, kill, metric, restarts, workers};
use crate::sip_server::{PROGRAM, Server, again};
use crate::waiting::{at_last, exceeds_at_last};

/// The beginning of a response that refuses a request.
const REFUSED: &str = "SIP/2.0 503";

/// A folder, which is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("strandline-processes-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> String {
        self.0.join("sip.db").to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Registers phones of each kind at the process that the kernel chooses. Each can be called as soon as it has
/// its 200.
fn phones(server: &Server, count: usize) -> Vec<Phone> {
    let mut phones = Vec::new();
    for number in 0..count {
        for carrier in [Carrier::Udp, Carrier::UdpBehindNat, Carrier::Tcp] {
            let mut phone = Phone::new(&format!("{}{number}", carrier.name()), carrier, server);
            assert!(phone.register().starts_with("SIP/2.0 200"));
            phones.push(phone);
        }
    }
    phones
}

fn all_call_one_another(phones: &mut [Phone]) {
    for caller in 0..phones.len() {
        for callee in 0..phones.len() {
            if caller != callee {
                crate::phones::call(phones, caller, callee);
            }
        }
    }
}

#[test]
fn phones_of_two_processes_call_one_another() {
    let folder = Folder::new("calls");
    let server = Server::start(&["--processes", "2", "--metrics", "127.0.0.1:0", "--store", &folder.store()]);
    let mut phones = phones(&server, 4);
    let registered = metric(&server, "registered_total");
    assert_eq!(registered.iter().sum::<f64>(), phones.len() as f64);
    assert_eq!(metric(&server, "users"), [phones.len() as f64; 2]);
    all_call_one_another(&mut phones);
    at_last("all is over", || metric(&server, "malformed_total") == [0.0, 0.0]);
}

/// Registers users over UDP until told to end. Returns the users that were acknowledged, with their contacts.
fn register_on(server: SocketAddr, end: &AtomicBool) -> HashSet<(String, String)> {
    let mut acknowledged = HashSet::new();
    for number in 0.. {
        if end.load(Ordering::Relaxed) {
            break;
        }
        // Each phone has its own port, so that all processes receive some.
        let mut phone = Phone::at(&format!("load{}", number % 300), Carrier::Udp, server);
        phone.is_patient = false;
        // Requests held by a process that died are lost: phones retry.
        let answer = (0..5).find_map(|_| phone.try_register(3600)).unwrap();
        if answer.starts_with("SIP/2.0 200") {
            acknowledged.insert((phone.name.clone(), phone.contact()));
        } else {
            assert!(answer.starts_with("SIP/2.0 503"), "{answer}");
        }
    }
    acknowledged
}

fn has(server: &Server, acknowledged: &HashSet<(String, String)>) {
    // Over TCP, because UDP responses larger than their requests are limited per address.
    let mut asking = Phone::new("", Carrier::Tcp, server);
    for (user, contact) in acknowledged {
        asking.name.clone_from(user);
        let answer = asking.query();
        assert!(answer.contains(contact), "{contact} isn't in {answer}");
    }
}

#[test]
fn killed_process_is_replaced_under_load() {
    let folder = Folder::new("dies");
    let server = Server::start(&["--processes", "2", "--metrics", "127.0.0.1:0", "--store", &folder.store()]);
    let mut phones = phones(&server, 4);
    let end = Arc::new(AtomicBool::new(false));
    let (address, ends) = (server.address("udp"), Arc::clone(&end));
    let load = std::thread::spawn(move || register_on(address, &ends));
    exceeds_at_last("there is load", 300.0, || metric(&server, "registered_total").iter().sum());
    let before = workers(&server);
    assert_eq!(before.len(), 2);
    kill(before[1]);
    // UDP phones are reached by the surviving process, and by the new one.
    let (udp, nat) = (0, 1);
    for round in 1..4 {
        crate::phones::call(&mut phones, 3 * round + udp, udp);
        crate::phones::call(&mut phones, 3 * round + nat, nat);
    }
    at_last("another has taken its place", || {
        restarts(&server) == 1 && metric(&server, "registered_total").len() == 2
    });
    let after = workers(&server);
    assert_eq!((after.len(), after[0]), (2, before[0]));
    assert_ne!(after[1], before[1]);
    end.store(true, Ordering::Relaxed);
    let acknowledged = load.join().unwrap();
    has(&server, &acknowledged);
    // Phones that were connected to the dead process are unreachable until they register again; the others are
    // reached.
    let mut lost = 0;
    for number in 0..4 {
        let tcp = 3 * number + 2;
        let caller = 3 * ((number + 1) % 4);
        let answer = crate::phones::try_call(&mut phones, caller, tcp);
        if answer.starts_with("SIP/2.0 480") {
            lost += 1;
            let name = phones[tcp].name.clone();
            phones[tcp] = Phone::new(&name, Carrier::Tcp, &server);
            assert!(phones[tcp].register().starts_with("SIP/2.0 200"));
            crate::phones::call(&mut phones, caller, tcp);
        } else {
            assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        }
    }
    println!("{lost} of 4 phones over TCP were at the process that died");
}

#[test]
fn acknowledged_bindings_survive_changed_process_counts() {
    let folder = Folder::new("all");
    let end = Arc::new(AtomicBool::new(false));
    let start = |count: &str| {
        Server::start(&["--processes", count, "--metrics", "127.0.0.1:0", "--store", &folder.store()])
    };
    let mut server = start("2");
    let (address, ends) = (server.address("udp"), Arc::clone(&end));
    let load = std::thread::spawn(move || register_on(address, &ends));
    exceeds_at_last("there is load", 200.0, || metric(&server, "registered_total").iter().sum());
    end.store(true, Ordering::Relaxed);
    let mut acknowledged = load.join().unwrap();
    assert!(acknowledged.len() > 10);
    let left = workers(&server);
    // Killing the parent ends all processes.
    server.kill();
    at_last("no process is left", || !left.iter().any(|pid| is_there(*pid)));
    let users: HashSet<&String> = acknowledged.iter().map(|(user, _)| user).collect();
    let users = users.len() as u64;
    for count in ["3", "1", "2"] {
        server = start(count);
        assert_eq!(server.users(), users, "{count} processes");
        has(&server, &acknowledged);
        // More phones, at any process.
        for number in 0..6 {
            let mut phone = Phone::new(&format!("load{number}"), Carrier::Udp, &server);
            assert!(phone.register().starts_with("SIP/2.0 200"));
            acknowledged.insert((phone.name.clone(), phone.contact()));
        }
        assert!(server.terminate().success());
    }
}

#[test]
fn bindings_in_memory_are_known_to_all_processes() {
    let server = Server::start(&["--processes", "3", "--metrics", "127.0.0.1:0"]);
    let mut phones = phones(&server, 3);
    all_call_one_another(&mut phones);
    // Bindings in memory live as long as the server, not just as long as one of its processes.
    kill(workers(&server)[2]);
    at_last("another has taken its place", || restarts(&server) == 1 && metric(&server, "users") == [9.0; 3]);
    crate::phones::call(&mut phones, 0, 3);
}

#[test]
fn restarted_process_drains_with_the_others() {
    let folder = Folder::new("drains");
    let token = folder.0.join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let token = token.to_str().unwrap();
    let admin = ["--admin", "127.0.0.1:0", "--admin-token", token];
    let server = Server::start(&[&["--processes", "2", "--metrics", "127.0.0.1:0"], &admin[..]].concat());
    let told = |what: &[&str]| {
        let whom = ["sip", "admin", "--address", server.admin(), "--token", token];
        let output = Command::new(PROGRAM).args(whom).args(what).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // So many ports that each process receives some of them.
    let all_get = |code: &str| {
        (0..20).all(|number| {
            let mut phone = Phone::new(&format!("phone{number}"), Carrier::Udp, &server);
            let answer = if code == REFUSED { phone.try_register(3600).unwrap() } else { phone.register() };
            answer.starts_with(code)
        })
    };
    assert_eq!(told(&["drain"]), "draining: new requests get 503\n");
    assert!(all_get(REFUSED));
    kill(workers(&server)[1]);
    at_last("another has taken its place", || {
        let page = server.metrics("/metrics");
        page.contains("strandline_sip_worker_restarts_total 1\n")
            && page.contains("strandline_sip_workers 2\n")
    });
    at_last("it drains too", || all_get(REFUSED));
    assert_eq!(told(&["drain", "--off"]), "not draining\n");
    assert!(all_get("SIP/2.0 200"));
}

/// A socket that sends requests and receives responses.
struct Asker(UdpSocket);

impl Asker {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(socket)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    fn send(&self, text: &str, to: SocketAddr) {
        self.0.send_to(text.as_bytes(), to).unwrap();
    }

    /// Returns the next message that isn't a 100.
    fn receive(&self) -> (String, SocketAddr) {
        loop {
            let mut room = [0; 4000];
            let (len, from) = again(|| self.0.recv_from(&mut room)).unwrap();
            let text = String::from_utf8(room[..len].to_vec()).unwrap();
            if !text.starts_with("SIP/2.0 100") {
                return (text, from);
            }
        }
    }
}

fn request(method: &str, to: &str, id: &str, more: &str) -> String {
    format!(
        "{method} {to} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK{id};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <{to}>\r\nCall-ID: {id}\r\nCSeq: 1 {method}\r\n{more}\
         Content-Length: 0\r\n\r\n"
    )
}

fn answer(code: &str, to: &str) -> String {
    let lines = to.lines().skip(1);
    let same =
        |line: &&str| ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name));
    let lines: String = lines.filter(same).map(|line| format!("{line}\r\n")).collect();
    format!(
        "SIP/2.0 {code}\r\n{}Content-Length: 0\r\n\r\n",
        lines.replace(">\r\nCall-ID", ">;tag=b\r\nCall-ID")
    )
}

#[test]
fn responses_reach_the_process_that_waits() {
    let server = Server::start(&["--processes", "2", "--open-relay", "--metrics", "127.0.0.1:0"]);
    let address = server.address("udp");
    let askers: Vec<Asker> = (0..6).map(|_| Asker::new()).collect();
    let hops: Vec<Asker> = (0..6).map(|_| Asker::new()).collect();
    for (number, asker) in askers.iter().enumerate() {
        for hop in &hops {
            let to = format!("sip:b@127.0.0.1:{}", hop.port());
            let id = format!("{number}-{}", hop.port());
            asker.send(&request("MESSAGE", &to, &id, ""), address);
            let (came, from) = hop.receive();
            assert!(came.starts_with("MESSAGE "), "{came}");
            hop.send(&answer("200 OK", &came), from);
            let (answered, _) = asker.receive();
            assert!(answered.starts_with("SIP/2.0 200") && answered.contains(&id), "{answered}");
        }
    }
    // Both processes had requests, so some responses arrived at the one that had not sent the request.
    let requests = metric(&server, "requests_total");
    assert_eq!(requests.iter().sum::<f64>(), 36.0);
}

#[test]
fn a_cancel_from_another_port_finds_its_call() {
    let server = Server::start(&["--processes", "3", "--open-relay"]);
    let address = server.address("udp");
    let hop = Asker::new();
    for round in 0..8 {
        let (caller, other) = (Asker::new(), Asker::new());
        let (to, id) = (format!("sip:b@127.0.0.1:{}", hop.port()), format!("cancel-{round}"));
        let contact = "Contact: <sip:a@192.0.2.9>\r\n";
        caller.send(&request("INVITE", &to, &id, contact), address);
        let (invite, from) = hop.receive();
        hop.send(&answer("180 Ringing", &invite), from);
        assert!(caller.receive().0.starts_with("SIP/2.0 180"));
        other.send(&request("CANCEL", &to, &id, ""), address);
        assert!(other.receive().0.starts_with("SIP/2.0 200"), "the CANCEL belongs to a call");
        let cancel = loop {
            let (came, from) = hop.receive();
            if came.starts_with("CANCEL ") {
                break (came, from);
            }
        };
        hop.send(&answer("200 OK", &cancel.0), cancel.1);
        hop.send(&answer("487 Request Terminated", &invite), from);
        let ended = loop {
            let came = caller.receive().0;
            if !came.starts_with("SIP/2.0 180") {
                break came;
            }
        };
        assert!(ended.starts_with("SIP/2.0 487"), "{ended}");
        let unknown = Asker::new();
        unknown.send(&request("CANCEL", &to, &format!("no-{round}"), ""), address);
        assert!(unknown.receive().0.starts_with("SIP/2.0 481"), "it belongs to nothing anywhere");
        // Ignore the ACK for the hop's response, and retransmissions.
        hop.0.set_nonblocking(true).unwrap();
        while hop.0.recv(&mut [0; 4000]).is_ok() {}
        hop.0.set_nonblocking(false).unwrap();
    }
}
