//! Captured connections, in network namespaces: a client behind a router with the near gateway, and the far
//! gateway with a server behind it. Needs root, nftables, iproute2 and curl.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::common::{Gateway, Home, PATIENCE, PROGRAM, at_last, children, patient, read_all};
use crate::programs;

/// What a captured connection comes from at the server, and what a direct one does.
const BY_GATEWAYS: &str = "10.2.0.7";
const DIRECTLY: &str = "10.9.0.1";

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip: apt-get install iproute2");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Three network namespaces in a row: client, near, far. They are removed when this value is dropped.
struct Row {
    name: String,
}

impl Row {
    fn new(name: &str) -> Self {
        let row = Self { name: format!("stg{}{name}", std::process::id()) };
        for place in ["client", "near", "far"] {
            ip(&format!("netns add {}", row.at(place)));
            ip(&format!("-n {} link set lo up", row.at(place)));
        }
        for (link, (one, of_one), (other, of_other)) in
            [(1, ("client", 2), ("near", 1)), (9, ("near", 1), ("far", 2))]
        {
            let (a, b) = (row.at(one), row.at(other));
            ip(&format!("-n {a} link add to{link} type veth peer name to{link} netns {b}"));
            for (namespace, number) in [(&a, of_one), (&b, of_other)] {
                ip(&format!("-n {namespace} address add 10.{link}.0.{number}/24 dev to{link}"));
                ip(&format!("-n {namespace} address add fd00:{link}::{number}/64 dev to{link} nodad"));
                ip(&format!("-n {namespace} link set to{link} up"));
            }
        }
        let (client, near, far) = (row.at("client"), row.at("near"), row.at("far"));
        for (namespace, network, by) in [
            (&client, "10.0.0.0/8", "10.1.0.1"),
            (&client, "fd00::/16", "fd00:1::1"),
            (&near, "10.2.0.0/16", "10.9.0.2"),
            (&near, "fd00:2::/32", "fd00:9::2"),
            (&far, "10.1.0.0/24", "10.9.0.1"),
            (&far, "fd00:1::/64", "fd00:9::1"),
        ] {
            ip(&format!("-n {namespace} route add {network} via {by}"));
        }
        ip(&format!("-n {far} address add 10.2.0.7/32 dev lo"));
        ip(&format!("-n {far} address add fd00:2::7/128 dev lo nodad"));
        let forwards = "cd /proc/sys/net; echo 1 | tee ipv4/ip_forward ipv6/conf/all/forwarding";
        row.told("near", &["sh", "-c", forwards]);
        row
    }

    fn at(&self, place: &str) -> String {
        format!("{}{place}", self.name)
    }

    fn command(&self, place: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.at(place), program]);
        command
    }

    fn run(&self, place: &str, program: &[&str]) -> Output {
        self.command(place, program[0]).args(&program[1..]).output().unwrap()
    }

    /// Runs a program that must succeed, and returns what it writes.
    fn told(&self, place: &str, program: &[&str]) -> String {
        let output = self.run(place, program);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program:?}: {}: {errors}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    fn curl(&self, place: &str, url: &str) -> String {
        self.told(place, &["curl", "-sS", "--noproxy", "*", "--max-time", "60", url])
    }

    fn gateway(&self, place: &str, options: &str) -> Gateway {
        let mut command = self.command(place, PROGRAM);
        command.args(options.split_whitespace()).env("XDG_CONFIG_HOME", "/nonexistent");
        Gateway::spawn(command)
    }

    /// Starts the far gateway, which reaches the server.
    fn far(&self, options: &str) -> Gateway {
        // The server's addresses are those of the far gateway's host.
        let allow = "--allow 10.2.0.7:* --allow [fd00:2::7]:*";
        self.gateway("far", &format!("--listen 10.9.0.2:9899 --insecure {allow} {options}"))
    }

    fn near(&self, options: &str) -> Gateway {
        self.gateway("near", &format!("--insecure --peer far=10.9.0.2:9899 {options}"))
    }

    /// Serves HTTP in the far namespace: the body is the address that a connection comes from. The channel has what the
    /// client has sent first.
    fn serve(&self, address: &str) -> Receiver<Vec<u8>> {
        let namespace = std::fs::File::open(format!("/run/netns/{}", self.at("far"))).unwrap();
        let (sender, requests) = channel();
        let (ready, is_ready) = channel();
        let address = address.to_owned();
        std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let listener = TcpListener::bind(address).unwrap();
            ready.send(()).unwrap();
            for mut tcp in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    let from: SocketAddr = tcp.peer_addr().unwrap();
                    let _ = write!(tcp, "HTTP/1.0 200 OK\r\n\r\n{}", from.ip());
                    let _ = tcp.shutdown(std::net::Shutdown::Write);
                    let mut request = Vec::new();
                    let _ = tcp.read_to_end(&mut request);
                    let _ = sender.send(request);
                });
            }
        });
        is_ready.recv().unwrap();
        requests
    }

    /// Returns the rules of a namespace: of nftables, and of routing for diverted packets.
    fn rules(&self, place: &str) -> String {
        let mut text = self.told(place, &["nft", "list", "tables"]);
        for family in ["-4", "-6"] {
            let rules = self.told(place, &["ip", family, "rule"]);
            text.extend(rules.lines().filter(|line| line.contains("fwmark")).map(|line| format!("{line}\n")));
        }
        text
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for place in ["client", "near", "far"] {
            let _ = Command::new("ip").args(["netns", "del", &self.at(place)]).status();
        }
    }
}

/// Builds the static program.
fn static_program(home: &Home) -> String {
    let (program, source) = (home.path.join("connect"), "tests/programs/connect.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-static", "-o"]).arg(&program).arg(source).current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = compiler.status().expect("cc: apt-get install gcc libc6-dev");
    assert!(built.success());
    program.display().to_string()
}

/// Builds the program in Go.
fn go_program(home: &Home) -> String {
    let program = home.path.join("connect-go");
    // Where its packages put it, if not in the path.
    let places = ["go", "/usr/local/go/bin/go"].map(|go| {
        let mut compiler = Command::new(go);
        compiler.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg("tests/programs/connect.go");
        compiler.env("CGO_ENABLED", "0").current_dir(env!("CARGO_MANIFEST_DIR")).status()
    });
    let built = places.into_iter().find_map(Result::ok).expect("go: tests/interop/setup quick installs it");
    assert!(built.success());
    program.display().to_string()
}

#[test]
fn own_connections_of_a_host_are_captured() {
    let (row, home) = (Row::new("own"), Home::new("static"));
    let programs = [go_program(&home), static_program(&home)];
    let (_far, _requests) = (row.far(""), row.serve("10.2.0.7:80"));
    let _left_out = row.serve("10.2.0.7:81");
    let url = "http://10.2.0.7/";
    assert_eq!(row.curl("near", url), DIRECTLY);
    let mut near = row.near("--capture 10.2.0.0/16 --capture !10.2.0.0/16:81");
    for program in &programs {
        let answer = row.told("near", &[program, "10.2.0.7", "80"]);
        assert!(answer.ends_with(&format!("\r\n\r\n{BY_GATEWAYS}")), "{program}: {answer}");
    }
    assert_eq!(row.curl("near", url), BY_GATEWAYS);
    assert_eq!(row.curl("near", "http://10.2.0.7:81/"), DIRECTLY);
    // Killed, it leaves nothing behind.
    assert_ne!(row.rules("near"), "");
    near.kill();
    at_last("the rules are gone", || row.rules("near").is_empty());
    assert_eq!(row.curl("near", url), DIRECTLY);
    // And so does one that ends, while a connection is open.
    let near = row.near("--capture 10.2.0.0/16:80");
    assert_eq!(row.curl("near", url), BY_GATEWAYS);
    near.terminate();
    at_last("the rules are gone", || row.rules("near").is_empty());
    assert_eq!(row.curl("near", url), DIRECTLY);
}

#[test]
fn connections_of_other_hosts_are_captured() {
    let row = Row::new("fwd");
    let (_far, _requests) = (row.far(""), row.serve("[::]:80"));
    assert_eq!(row.curl("client", "http://10.2.0.7/"), "::ffff:10.1.0.2");
    let near = row.near("--redirect [::]:0 --capture 10.2.0.0/16 --capture fd00:2::/32");
    assert_eq!(row.curl("client", "http://10.2.0.7/"), "::ffff:10.2.0.7");
    assert_eq!(row.curl("client", "http://[fd00:2::7]/"), "fd00:2::7");
    drop(near);
    at_last("the rules are gone", || row.rules("near").is_empty());
    assert_eq!(row.curl("client", "http://[fd00:2::7]/"), "fd00:1::2");
}

#[test]
fn tproxy_keeps_the_clients_address() {
    let (row, home) = (Row::new("tp"), Home::new("tproxy"));
    let config = home.write(
        "far.toml",
        "[[access]]\nallow = [\"10.2.0.7:*\", \"[fd00:2::7]:*\"]\nproxy_protocol = true\n",
    );
    let _far = row.gateway("far", &format!("--listen 10.9.0.2:9899 --insecure --config {config}"));
    let requests = row.serve("[::]:80");
    let mut near = row.near("--tproxy 0.0.0.0:0 --capture 10.2.0.0/16");
    assert_eq!(row.curl("client", "http://10.2.0.7/"), "::ffff:10.2.0.7");
    // PROXY protocol, version 2: 16 bytes, then the addresses of client and server.
    assert_eq!(requests.recv().unwrap()[16..24], [10, 1, 0, 2, 10, 2, 0, 7]);
    let rules = row.rules("near");
    assert!(rules.contains("fwmark"), "{rules}");
    near.kill();
    at_last("the rules are gone", || row.rules("near").is_empty());
    // Of one version each, at one port.
    let config = home.write(
        "near.toml",
        "[[peer]]\nname = \"far\"\naddresses = [\"10.9.0.2:9899\"]\n\
         [[tproxy]]\nlisten = \"0.0.0.0:12345\"\ncapture = [\"10.2.0.0/16\"]\n\
         [[tproxy]]\nlisten = \"[::]:12345\"\ncapture = [\"fd00:2::/32\"]\n",
    );
    let near = row.gateway("near", &format!("--insecure --config {config}"));
    assert_eq!(row.curl("client", "http://10.2.0.7/"), "::ffff:10.2.0.7");
    assert_eq!(requests.recv().unwrap()[16..24], [10, 1, 0, 2, 10, 2, 0, 7]);
    assert_eq!(row.curl("client", "http://[fd00:2::7]/"), "fd00:2::7");
    let client: std::net::Ipv6Addr = "fd00:1::2".parse().unwrap();
    assert_eq!(requests.recv().unwrap()[16..32], client.octets());
    assert!(near.end());
    at_last("the rules are gone", || row.rules("near").is_empty());
}

/// `[::]` is both IP versions, also on a host where it is only IPv6 unless a program asks for both.
#[test]
fn sockets_of_both_versions_ignore_the_host() {
    let row = Row::new("v6");
    for place in ["near", "far"] {
        row.told(place, &["sh", "-c", "echo 1 > /proc/sys/net/ipv6/bindv6only"]);
    }
    let allow = "--allow-listen *:2 --allow-listen-udp *:3";
    let _far = row.gateway("far", &format!("--listen [::]:9899 --insecure {allow} --admin [::]:1"));
    let near = "--socks [::]:1 --forward udp/[::]:2=h:1 --redirect [::]:3 --tproxy [::]:4";
    let near = row.near(&format!("{near} --reverse [::]:2=h:1 --reverse udp/[::]:3=h:1"));
    let listens = |place: &str, at: &str| {
        let sockets = row.told(place, &["ss", "-Hltun"]);
        sockets.lines().any(|line| line.split_whitespace().nth(4) == Some(at))
    };
    for port in 1..=3 {
        at_last("both versions at the far gateway", || listens("far", &format!("*:{port}")));
        assert!(listens("near", &format!("*:{port}")), "{port}");
    }
    assert!(listens("near", "[::]:4"));
    assert!(near.end());
}

/// A client with an open connection to 10.2.0.7:80, which has received everything: closing it with unread data would
/// reset it.
struct Open(Child);

impl Open {
    fn begin(row: &Row, place: &str) -> Self {
        let script = "exec 3<>/dev/tcp/10.2.0.7/80; cat <&3 >/dev/null; echo open; read -r line; printf %s \"$line\" >&3";
        let mut command = row.command(place, "bash");
        let mut client =
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "open\n");
        Self(client)
    }

    /// Sends a word, and ends the connection.
    fn finish(mut self, word: &str) {
        writeln!(self.0.stdin.take().unwrap(), "{word}").unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

/// Rules for all addresses, or for a network, don't open the far gateway's own host by one of its other addresses.
#[test]
fn wide_rules_leave_out_the_far_host() {
    let row = Row::new("wide");
    let _requests = row.serve("[::]:80");
    let fetch = |near: &Gateway, url: &str| {
        let proxy = format!("socks5h://{}", near.listener(0));
        row.run("near", &["curl", "-sS", "-x", &proxy, "--max-time", "60", url])
    };
    for rules in ["--allow *:*", "--allow 10.2.0.0/16:* --allow 10.9.0.0/24:* --allow [fd00:2::/32]:*"] {
        let _far = row.gateway("far", &format!("--listen 10.9.0.2:9899 --insecure {rules}"));
        let near = row.near("--socks 0");
        for host in ["10.2.0.7", "10.9.0.2", "[fd00:2::7]", "[fd00:9::2]"] {
            let output = fetch(&near, &format!("http://{host}/"));
            let errors = String::from_utf8_lossy(&output.stderr);
            // Not allowed by the ruleset (RFC 1928 section 6).
            assert!(!output.status.success() && errors.contains("(2)"), "{rules} {host}: {errors}");
        }
    }
    let _far = row.far("");
    assert!(fetch(&row.near("--socks 0"), "http://10.2.0.7/").status.success(), "it is listed");
}

/// What the routes of the far gateway's host say of a destination is the error of the application.
#[test]
fn unreachable_destinations_are_told_apart() {
    let row = Row::new("unreach");
    ip(&format!("-n {} route add unreachable 10.2.8.0/24", row.at("far")));
    let allow = "--allow 10.2.8.1:80 --allow 10.3.0.1:80";
    let _far = row.gateway("far", &format!("--listen 10.9.0.2:9899 --insecure {allow}"));
    let near = row.near("--socks 0 --preload 0");
    let code = "import errno, socket, sys\n\
                for to in sys.argv[1:]: print(errno.errorcode[socket.socket().connect_ex((to, 80))])";
    let gateway = near.listener(1).to_string();
    let mut program = row.command("near", PROGRAM);
    program.args(["run", "--gateway", &gateway, "--", "python3", "-c", code, "10.2.8.1", "10.3.0.1"]);
    let output = program.env("STRANDLINE_PRELOAD_LIBRARY", &*programs::LIBRARY).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "EHOSTUNREACH\nENETUNREACH\n", "{}", String::from_utf8_lossy(&output.stderr));
    // Codes of RFC 1928 section 6.
    let proxy = format!("socks5h://{}", near.listener(0));
    for (host, code) in [("10.2.8.1", "(4)"), ("10.3.0.1", "(3)")] {
        let url = format!("http://{host}/");
        let output = row.run("near", &["curl", "-sS", "-x", &proxy, "--max-time", "60", &url]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(code), "{host}: {errors}");
    }
}

/// A connection that nothing has redirected has no destination: it is reset.
#[test]
fn connections_without_a_destination_are_reset() {
    let near = Gateway::start("--peer far=127.0.0.1:9 --redirect 0");
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    assert_eq!(read_all(&mut client), (Vec::new(), false));
}

/// A client whose host has vanished ends no connection, and nothing is on its way to it.
#[test]
fn connections_of_vanished_clients_end() {
    let (row, home) = (Row::new("dead"), Home::new("dead"));
    let (_far, requests) = (row.far(""), row.serve("10.2.0.7:80"));
    let limits = home.write("near.toml", "[limits]\nkeepalive_secs = 1\n");
    let log = home.write("near.log", "");
    let _near =
        row.near(&format!("--config {limits} --redirect 0.0.0.0:0 --capture 10.2.0.0/16 --access-log {log}"));
    let client = Open::begin(&row, "client");
    let is_idle = || row.told("near", &["ss", "-Htn", "state", "fin-wait-2"]).contains("10.1.0.2");
    at_last("the server's end has arrived", is_idle);
    ip(&format!("-n {} link set to1 down", row.at("client")));
    assert_eq!(requests.recv_timeout(PATIENCE).unwrap(), b"", "the server's connection ends");
    let logged = || std::fs::read_to_string(&log).unwrap();
    at_last("the access log has its end", || logged().contains("\"end\":"));
    assert!(logged().contains("\"end\":\"vanished\""), "{}", logged());
    client.finish("late");
}

/// Open connections of TPROXY need rules for each packet.
#[test]
fn diverted_connections_outlast_the_rules() {
    let row = Row::new("late");
    let (_far, requests) = (row.far(""), row.serve("10.2.0.7:80"));
    let near = row.near("--tproxy 0.0.0.0:0 --capture 10.2.0.0/16");
    let client = Open::begin(&row, "client");
    near.terminate();
    at_last("new connections are direct", || row.curl("client", "http://10.2.0.7/") == "10.1.0.2");
    client.finish("late");
    let mut word = std::iter::repeat_with(|| requests.recv_timeout(PATIENCE).unwrap());
    assert_eq!(word.find(|request| !request.starts_with(b"GET")).unwrap(), b"late");
    drop(near);
    at_last("the rules are gone", || row.rules("near").is_empty());
}

/// Redirected connections need the kernel's translation.
#[test]
fn redirected_connections_outlast_the_rules() {
    let row = Row::new("redir");
    let (_far, requests) = (row.far(""), row.serve("10.2.0.7:80"));
    let near = row.near("--redirect 0.0.0.0:0 --capture 10.2.0.0/16");
    let clients = [Open::begin(&row, "client"), Open::begin(&row, "near")];
    near.terminate();
    at_last("new connections are direct", || row.curl("client", "http://10.2.0.7/") == "10.1.0.2");
    // The server answers at once, so that a connection of curl's may end before its request has arrived.
    let of_curl = |request: &Vec<u8>| request.is_empty() || request.starts_with(b"GET");
    let mut words = requests.iter().filter(|request| !of_curl(request));
    for client in clients {
        client.finish("late");
        assert_eq!(words.next().unwrap(), b"late");
    }
}

/// Rules that are removed by something else are set again; those of a gateway that ends are not.
#[test]
fn rules_are_watched_until_the_end() {
    let (row, home) = (Row::new("watch"), Home::new("watch"));
    let (_far, requests) = (row.far(""), row.serve("10.2.0.7:80"));
    let config = home.write(
        "near.toml",
        "[[peer]]\nname = \"far\"\naddresses = [\"10.9.0.2:9899\"]\n\
         [[redirect]]\nlisten = \"0\"\ncapture = [\"10.2.0.0/16\"]\n",
    );
    let near = row.gateway("near", &format!("--insecure --config {config}"));
    let url = "http://10.2.0.7/";
    assert_eq!(row.curl("near", url), BY_GATEWAYS);
    assert!(requests.recv().unwrap().starts_with(b"GET"));
    let before = row.rules("near");
    // Those of new connections, and those of open ones.
    let nft = children(near.pid()).into_iter().flat_map(children).collect::<Vec<_>>();
    assert_eq!(nft.len(), 2);
    for nft in nft {
        let nft = rustix::process::Pid::from_raw(nft as i32).unwrap();
        rustix::process::kill_process(nft, rustix::process::Signal::KILL).unwrap();
    }
    at_last("other rules are set", || {
        let now = row.rules("near");
        now.lines().count() == 2 && now.lines().all(|line| !before.contains(line))
    });
    at_last("the log says so", || near.log().contains("they are set again"));
    assert_eq!(row.curl("near", url), BY_GATEWAYS);
    assert!(requests.recv().unwrap().starts_with(b"GET"));
    let client = Open::begin(&row, "near");
    near.terminate();
    at_last("new connections are direct", || row.curl("near", url) == DIRECTLY);
    near.hang_up();
    at_last("the signal is answered", || near.log().contains("configuration not reloaded"));
    assert_eq!(row.curl("near", url), DIRECTLY);
    client.finish("end");
    let mut word = std::iter::repeat_with(|| requests.recv_timeout(PATIENCE).unwrap());
    assert_eq!(word.find(|request| !request.starts_with(b"GET")).unwrap(), b"end");
    drop(near);
    at_last("the rules are gone", || row.rules("near").is_empty());
}

/// Routes have no owner: the next gateway removes those of one that was killed with its shell and nft.
#[test]
fn routes_of_a_killed_service_are_removed() {
    use rustix::process::{Pid, Signal, kill_process};

    let (row, home) = (Row::new("left"), Home::new("left"));
    let config = home.write(
        "near.toml",
        "[[peer]]\nname = \"far\"\naddresses = [\"10.9.0.2:9899\"]\n\
         [[tproxy]]\nlisten = \"0.0.0.0:0\"\ncapture = [\"10.2.0.0/16\"]\n\
         [[tproxy]]\nlisten = \"[::]:0\"\ncapture = [\"fd00:2::/32\"]\n",
    );
    let mut near = row.gateway("near", &format!("--insecure --config {config}"));
    let shells = children(near.pid());
    let nft: Vec<u32> = shells.iter().copied().flat_map(children).collect();
    // It sets no rules again meanwhile.
    near.stop(true);
    for child in shells.into_iter().chain(nft) {
        kill_process(Pid::from_raw(child as i32).unwrap(), Signal::KILL).unwrap();
    }
    near.kill();
    at_last("the tables are gone", || !row.rules("near").contains("table"));
    assert_ne!(row.rules("near"), "", "the routes are left");
    // Another one's stay.
    let other = row.near("--tproxy 0.0.0.0:0 --capture 10.2.0.0/16:81");
    let near = row.near("--tproxy 0.0.0.0:0 --capture 10.2.0.0/16:80");
    let routes = |row: &Row| row.rules("near").matches("fwmark").count();
    // For what is captured, and for open connections.
    at_last("only theirs are there", || routes(&row) == 4);
    for one in [near, other] {
        assert!(one.end());
    }
    at_last("the rules are gone", || row.rules("near").is_empty());
}

/// Routes whose tables `nft` can't list stay, and are removed once it can.
#[test]
fn a_failing_nft_removes_no_routes() {
    let (row, home) = (Row::new("nft"), Home::new("nft"));
    let [live, dead] = [("near", 0x5354_4702, 1_073_741_900), ("near", 0x5354_4702, 1_073_741_901)];
    for (place, mark, number) in [live, dead] {
        ip(&format!("-n {} rule add fwmark {mark:#x} lookup {number}", row.at(place)));
    }
    row.told("near", &["nft", "add", "table", "inet", &format!("strandline_gateway_{}", live.2)]);
    // An nft that fails to list while a file is there.
    let (real, broken) = ("$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v nft)", home.write("broken", ""));
    let nft = format!(
        "#!/bin/sh\n[ \"$1\" = list ] && [ -e {broken} ] && {{ echo broken >&2; exit 1; }}\nexec {real} \"$@\"\n"
    );
    let path = home.write("nft", &nft);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = row.command("near", "env");
    let path = format!("PATH={}:{}", home.path.display(), std::env::var("PATH").unwrap());
    command.args([&path, PROGRAM, "--insecure", "--peer", "far=10.9.0.2:9899"]);
    command.args(["--tproxy", "0.0.0.0:0", "--capture", "10.2.0.0/16"]);
    let near = Gateway::spawn(command);
    at_last("the log has the reason", || near.log().contains("looking for routes of killed gateways failed"));
    let has = |number: u32| row.rules("near").contains(&format!("lookup {number}"));
    assert!(has(live.2) && has(dead.2), "nothing is known of their tables");
    std::fs::remove_file(broken).unwrap();
    at_last("routes without a table are gone", || !has(dead.2));
    assert!(has(live.2), "those of another gateway stay");
}

#[test]
fn the_gateways_own_connections_pass() {
    let row = Row::new("loop");
    let _requests = row.serve("10.2.0.7:80");
    // No far gateway: it connects directly, which would come back to it for ever.
    let _near = row.near("--capture 10.2.0.0/16 --fallback-tcp");
    assert_eq!(row.curl("near", "http://10.2.0.7/"), DIRECTLY);
}

#[test]
fn what_is_missing_is_named() {
    let row = Row::new("err");
    let options = ["--peer", "far=10.9.0.2:9899", "--insecure", "--capture", "10.2.0.0/16"];
    let error = |output: Output| {
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let setpriv = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", PROGRAM];
    let text = error(row.run("near", &[&setpriv[..], &options].concat()));
    assert!(text.contains("it needs CAP_NET_ADMIN"), "{text}");
    let text = error(row.run("near", &[&["env", "PATH=/nowhere", PROGRAM], &options[..]].concat()));
    assert!(text.contains("apt-get install nftables"), "{text}");
    // Printing needs neither.
    let rules = row.told("near", &[&[PROGRAM, "rules"], &options[..]].concat());
    assert!(rules.contains("redirect to :PORT;"), "{rules}");
    assert_eq!(row.rules("near"), "");
}
