//! Link-local peers on two links (RFC 4007), with the programs as a user runs them. Needs root: it makes
//! network namespaces.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::announced::announced;
use crate::sip_generator::unrefused;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

fn run(command: &str) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A network namespace that exists as long as this value.
struct Host(String);

impl Host {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = rustix::process::geteuid().is_root();
        assert!(root, "this test makes network namespaces: run it as root (see README.md)");
        let name = format!("zones-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        Self(name)
    }

    /// A client that has fe80::1 on the links v1 and v2, and a server that has fe80::2 on both.
    fn pair() -> (Self, Self) {
        let (client, server) = (Self::new(), Self::new());
        for link in ["v1", "v2"] {
            run(&format!(
                "ip link add {link} netns {} type veth peer name {link} netns {}",
                client.0, server.0
            ));
            for (host, address) in [(&client.0, "fe80::1"), (&server.0, "fe80::2")] {
                run(&format!("ip -n {host} link set {link} addrgenmode none"));
                run(&format!("ip -n {host} link set {link} up"));
                run(&format!("ip -n {host} addr add {address}/64 dev {link} nodad"));
            }
        }
        (client, server)
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, PROGRAM]).args(arguments);
        command
    }

    /// What a program prints as JSON.
    fn report(&self, arguments: &[&str]) -> Value {
        let output = self.program(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a program that fails says of it.
    fn error(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

struct Server(Child);

impl Server {
    fn start(host: &Host, arguments: &[&str]) -> (Self, Value) {
        let (child, listening) = announced(&mut host.program(arguments));
        (Self(child), listening)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn echo_over_either_link() {
    let (client, server) = Host::pair();
    let arguments =
        ["echo", "--json", "--sctp", "7", "--encapsulation", "[::]:9899", "--raw", "::", "--tcp", "[::]:7"];
    let (_server, _) = Server::start(&server, &arguments);
    for link in ["v1", "v2"] {
        let server = format!("[fe80::2%{link}]:7");
        for carrier in [&["--transport", "sctp"][..], &["--raw"], &["--transport", "tcp"]] {
            let load = ["load", "echo", "--json", "--count", "20", "--rate", "100", "--server", &server];
            let report = client.report(&[&load, carrier].concat());
            assert_eq!(report["completed"], 20, "{link} {carrier:?}: {report}");
        }
    }
    for (server, named) in [("[fe80::2]:7", "as in fe80::2%eth0"), ("[fe80::2%v3]:7", "v1 (")] {
        let error = client.error(&["load", "echo", "--server", server]);
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn servers_bound_to_one_link() {
    let (client, server) = Host::pair();
    let arguments =
        ["echo", "--json", "--sctp", "7", "--encapsulation", "[fe80::2%v2]:9899", "--raw", "fe80::2%v2"];
    let (_server, listening) = Server::start(&server, &arguments);
    let zone = listening["raw"].as_str().unwrap().strip_prefix("fe80::2%").unwrap();
    assert_eq!(listening["encapsulation"], format!("[fe80::2%{zone}]:9899"));
    for carrier in [&["--transport", "sctp"][..], &["--raw"]] {
        let load = ["load", "echo", "--json", "--count", "20", "--rate", "100", "--server", "[fe80::2%v2]:7"];
        assert_eq!(client.report(&[&load, carrier].concat())["completed"], 20);
    }
    let error = server.error(&["echo", "--sctp", "7", "--encapsulation", "[::]:9900", "--raw", "fe80::2"]);
    assert!(error.contains("as in fe80::2%eth0"), "{error}");
}

#[test]
fn perf_over_the_second_link() {
    let (client, server) = Host::pair();
    let (_server, _) = {
        let mut program = server.program(&["perf", "server", "--bind", "fe80::2%v2", "--raw", "--quiet"]);
        let mut child = program.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stderr = child.stderr.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).unwrap();
        assert!(line.contains("[fe80::2%"), "{line}");
        (Server(child), line)
    };
    for transport in [&[][..], &["--raw"], &["--transport", "tcp"]] {
        let test = ["perf", "client", "fe80::2%v2", "-n", "1M", "--json"];
        let report = client.report(&[&test, transport].concat());
        assert_eq!(report["end"]["sum_received"]["bytes"], 1 << 20, "{report}");
    }
    let error = client.error(&["perf", "client", "fe80::2", "-n", "1M"]);
    assert!(error.contains("as in fe80::2%eth0"), "{error}");
}

#[test]
fn phones_register_on_both_links() {
    let (client, server) = Host::pair();
    let mut arguments = vec!["sip", "--json", "--domain", "example.com", "--listen", "udp:[::]:5060"];
    arguments.extend(["--listen", "tcp:[::]:5060", "--listen", "sctp:[fe80::2%v2]:9899"]);
    arguments.extend(["--advertise", "sip.example.com"]);
    let (_server, _) = Server::start(&server, &arguments);
    for (link, transport) in [("v1", "udp"), ("v2", "udp"), ("v1", "tcp"), ("v2", "tcp"), ("v2", "sctp")] {
        let address = format!("[fe80::2%{link}]:5060");
        let mut load = vec!["load", "sip", "--json", "--server", &address, "--transport", transport];
        load.extend([
            "--users",
            "20",
            "--sources",
            "2",
            "--rate",
            "50",
            "--time",
            "1",
            "--warm-up",
            "0",
            "register",
        ]);
        let report = unrefused(|| client.program(&load).output().unwrap());
        assert_eq!((&report["succeeded"], &report["success"]), (&50.into(), &1.0.into()), "{report}");
    }
    let bound =
        ["load", "sip", "--json", "--server", "[fe80::2%v1]:5060", "--local", "fe80::1%v1", "--users", "5"];
    for transport in ["udp", "tcp"] {
        let how =
            ["--transport", transport, "--sources", "2", "--rate", "50", "--time", "1", "--warm-up", "0"];
        let load = [&bound[..], &how, &["register"]].concat();
        let report = unrefused(|| client.program(&load).output().unwrap());
        assert_eq!(&report["succeeded"], 50, "{report}");
    }
    let error = server.error(&["sip", "--domain", "example.com", "--listen", "udp:[fe80::2]:5070"]);
    assert!(error.contains("as in fe80::2%eth0"), "{error}");
}

/// `[::]` is both IP versions, also on a host where it is only IPv6 unless a program asks for both.
#[test]
fn sockets_of_both_versions_ignore_the_host() {
    let host = Host::new();
    run(&format!("ip netns exec {} sysctl -qw net.ipv6.bindv6only=1", host.0));
    let folder = std::env::temp_dir().join(format!("strandline-both-{}", host.0));
    std::fs::create_dir_all(&folder).unwrap();
    let token = folder.join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let (token, folder_name) = (token.to_str().unwrap(), folder.to_str().unwrap());
    let sip = format!(
        "sip --json --listen udp:[::]:1 --listen tcp:[::]:1 --listen ws:[::]:2 --listen sctp:[::]:3 --advertise a.example \
         --metrics [::]:4 --admin [::]:5 --admin-token {token}"
    );
    for (arguments, sockets) in [
        (sip.clone(), ["udp 1", "tcp 1", "tcp 2", "udp 3", "tcp 4", "tcp 5"].as_slice()),
        (format!("{sip} --processes 2"), &["udp 1", "tcp 1", "tcp 2", "udp 3", "tcp 4", "tcp 5"]),
        ("echo --json --tcp [::]:7 --udp [::]:7".to_owned(), &["tcp 7", "udp 7"]),
        (
            format!(
                "http serve --json --listen [::]:8 --encapsulation [::]:9 --metrics [::]:10 {folder_name}"
            ),
            &["tcp 8", "udp 9", "tcp 10"],
        ),
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let (_server, _) = Server::start(&host, &arguments);
        let output = Command::new("ip").args(["netns", "exec", &host.0, "ss", "-Hltun"]).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        for socket in sockets {
            let (protocol, port) = socket.split_once(' ').unwrap();
            let both = format!("*:{port}");
            let is_both = |line: &str| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields.first() == Some(&protocol) && fields.get(4) == Some(&both.as_str())
            };
            assert!(listed.lines().any(is_both), "{socket} of {arguments:?}: {listed}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// An error of a server whose address is taken says what can be done.
#[test]
fn taken_addresses_are_reported_with_advice() {
    let host = Host::new();
    let (_server, _) = Server::start(&host, &["echo", "--json", "--tcp", "[::]:7", "--udp", "[::]:7"]);
    for arguments in [
        "echo --tcp 127.0.0.1:7",
        "echo --udp 127.0.0.1:7",
        "http serve --listen 127.0.0.1:7 .",
        "http serve --metrics 127.0.0.1:7 .",
        "sip --listen udp:127.0.0.1:7",
        "sip --listen tcp:127.0.0.1:7",
        "sip --listen udp:127.0.0.1:8 --metrics 127.0.0.1:7",
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let error = host.error(&arguments);
        let says = ["127.0.0.1:7", "is another server running there", "in use"];
        assert!(says.iter().all(|says| error.contains(says)), "{arguments:?}: {error}");
    }
    for arguments in ["echo --sctp 7 --encapsulation [::]:7", "sip --listen sctp:127.0.0.1:7"] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let error = host.error(&arguments);
        assert!(error.contains("in use by another socket: choose another port"), "{arguments:?}: {error}");
    }
}
