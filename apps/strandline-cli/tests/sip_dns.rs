//! Tests of locating the servers of other domains (RFC 3263), with a DNS server for the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use strandline::{Endpoint, Stack};

use crate::name_server::{NameServer, host, naptr, srv};
use crate::sip_server::{Server, again};
use crate::waiting::at_last;

const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A configuration file, which is removed when this value is dropped.
struct Config(PathBuf);

impl Config {
    fn new(test: &str, text: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("strandline-sip-dns-{test}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn start(&self, more: &[&str]) -> Server {
        let args = ["--open-relay", "--metrics", "127.0.0.1:0", "--config", self.0.to_str().unwrap()];
        Server::start(&[&args[..], more].concat())
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> String {
    let mut room = [0; 65_536];
    let len = again(|| socket.recv(&mut room)).unwrap();
    String::from_utf8(room[..len].to_vec()).unwrap()
}

/// Receives the next message that begins with this text.
fn receive_first(socket: &UdpSocket, begin: &str) -> String {
    loop {
        let came = receive(socket);
        if came.starts_with(begin) {
            return came;
        }
    }
}

fn port(address: SocketAddr) -> u16 {
    address.port()
}

/// A port without a listener: 1 (tcpmux) is never assigned to a socket that asks for any port. A port that was
/// free a moment ago may be taken again, or be held by a process that another test is starting.
const DEAD_PORT: u16 = 1;

fn request(method: &str, uri: &str, name: &str, transport: &str, at: SocketAddr) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{transport} {at};branch=z9hG4bK{name};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=1\r\nTo: <{uri}>\r\nCall-ID: {name}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:alice@{at}>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn ask(socket: &UdpSocket, server: &Server, method: &str, uri: &str, name: &str) {
    let text = request(method, uri, name, "UDP", socket.local_addr().unwrap());
    socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
}

/// Returns a response to a request.
fn answer(request: &str, line: &str) -> String {
    let copied = ["Via: ", "From: ", "Call-ID: ", "CSeq: ", "Record-Route: "];
    let lines = request.lines().filter(|line| copied.iter().any(|name| line.starts_with(name)));
    let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
    let to = request.lines().find(|line| line.starts_with("To: ")).unwrap();
    format!(
        "SIP/2.0 {line}\r\n{lines}{to};tag=2\r\nContact: <sip:bob@192.0.2.99>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn read_message(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let (mut text, mut room) = (String::new(), [0; 4096]);
    while !text.contains("\r\n\r\n") {
        let len = again(|| stream.read(&mut room)).unwrap();
        assert!(len > 0, "closed after {text}");
        text.push_str(std::str::from_utf8(&room[..len]).unwrap());
    }
    text
}

#[test]
fn naptr_and_srv_lead_to_another_domain() {
    let (alice, bob) = (udp(), udp());
    let records = [
        naptr(10, "SIP+D2U", "_sip._udp"),
        naptr(20, "SIP+D2T", "_sip._tcp"),
        srv("_sip._udp", port(bob.local_addr().unwrap()), 0),
        srv("_sip._tcp", DEAD_PORT, 0),
        host(),
    ];
    let dns = NameServer::start("call", &records);
    let config = Config::new("call", &dns.config());
    let server = config.start(&[]);
    ask(&alice, &server, "INVITE", "sip:bob@Other.example", "a");
    let invite = receive(&bob);
    assert!(invite.starts_with("INVITE sip:bob@Other.example SIP/2.0\r\n"), "{invite}");
    bob.send_to(answer(&invite, "200 OK").as_bytes(), server.address("udp")).unwrap();
    let ok = receive_first(&alice, "SIP/2.0 200");
    let route = ok.lines().find_map(|line| line.strip_prefix("Record-Route: ")).unwrap();
    let ack = request("ACK", "sip:bob@192.0.2.99", "a2", "UDP", alice.local_addr().unwrap())
        .replace("CSeq: 1", &format!("Route: {route}\r\nCSeq: 1"))
        .replace("Call-ID: a2", "Call-ID: a");
    alice.send_to(ack.as_bytes(), server.address("udp")).unwrap();
    receive_first(&bob, "ACK sip:bob@192.0.2.99 SIP/2.0");
    // The next request needs no DNS query.
    ask(&alice, &server, "MESSAGE", "sip:bob@other.example", "b");
    receive_first(&bob, "MESSAGE ");
    assert_eq!((dns.asked("NAPTR", "other.example"), dns.asked("SRV", "_sip._udp.other.example")), (1, 1));
    let page = server.metrics("/metrics");
    assert!(page.contains("strandline_sip_dns_lookups_total{result=\"found\"} 1\n"), "{page}");
    assert!(page.contains("strandline_sip_dns_lookups_total{result=\"cached\"}"), "{page}");
}

#[test]
fn dead_server_is_skipped_for_the_next() {
    let (alice, bob, late) = (udp(), TcpListener::bind("127.0.0.1:0").unwrap(), udp());
    let records = [
        // Over TCP a missing listener is detected at once; over UDP after timers.failover_ms.
        srv("_sip._tcp", DEAD_PORT, 0),
        srv("_sip._tcp", port(bob.local_addr().unwrap()), 10),
        srv("_sip._udp", DEAD_PORT, 0),
        srv("_sip._udp", port(late.local_addr().unwrap()), 10),
        host(),
    ];
    let dns = NameServer::start("dead", &records);
    let config = Config::new("dead", &format!("{}[timers]\nfailover_ms = 500\n", dns.config()));
    let server = config.start(&[]);
    ask(&alice, &server, "INVITE", "sip:bob@other.example;transport=tcp", "a");
    let (mut stream, _) = bob.accept().unwrap();
    let invite = read_message(&mut stream);
    assert!(invite.starts_with("INVITE sip:bob@other.example;transport=tcp SIP/2.0\r\n"), "{invite}");
    assert!(invite.contains("\r\nVia: SIP/2.0/TCP 127.0.0.1:"), "{invite}");
    stream.write_all(answer(&invite, "486 Busy Here").as_bytes()).unwrap();
    receive_first(&alice, "SIP/2.0 486");
    ask(&alice, &server, "INVITE", "sip:bob@other.example;transport=udp", "b");
    let invite = receive(&late);
    late.send_to(answer(&invite, "480 Temporarily Unavailable").as_bytes(), server.address("udp")).unwrap();
    receive_first(&alice, "SIP/2.0 480");
    // A failed target is skipped from then on, without a delay.
    let page = server.metrics("/metrics");
    assert!(page.contains("strandline_sip_failed_over_total 2\n"), "{page}");
}

#[test]
fn missing_names_are_reported_and_old_ones_refreshed() {
    let (alice, bob) = (udp(), udp());
    let records = [srv("_sip._udp", port(bob.local_addr().unwrap()), 0), host(), "local-ttl=1".to_owned()];
    let dns = NameServer::start("ttl", &records);
    let config = Config::new("ttl", &dns.config());
    let server = config.start(&[]);
    ask(&alice, &server, "OPTIONS", "sip:bob@nowhere.example", "n1");
    assert!(receive(&alice).starts_with("SIP/2.0 502 Unresolvable Destination\r\n"));
    ask(&alice, &server, "OPTIONS", "sip:bob@nowhere.example", "n2");
    assert!(receive(&alice).starts_with("SIP/2.0 502 "));
    assert_eq!(dns.asked("NAPTR", "nowhere.example"), 1, "that there is nothing is remembered");
    let mut count = 0;
    at_last("it is asked again", || {
        count += 1;
        ask(&alice, &server, "MESSAGE", "sip:bob@other.example", &format!("m{count}"));
        receive_first(&bob, "MESSAGE ");
        dns.asked("SRV", "_sip._udp.other.example") >= 2
    });
    assert!(count > 2, "within the second it is remembered");
    // A configuration with a DNS server that doesn't exist: later queries get no answer.
    let config_text = std::fs::read_to_string(&config.0).unwrap();
    let changed = config_text.replace(&dns.address.to_string(), &format!("127.0.0.1:{}", DEAD_PORT));
    std::fs::write(&config.0, format!("{changed}timeout_ms = 100\n")).unwrap();
    server.hang_up();
    at_last("the configuration is read again", || {
        count += 1;
        ask(&alice, &server, "OPTIONS", "sip:bob@fresh.example", &format!("f{count}"));
        receive(&alice).starts_with("SIP/2.0 504 No Answer From DNS\r\n")
    });
}

#[test]
fn silent_dns_does_not_hold_up_registered_flows() {
    // A name server that never answers, and ten seconds for each query.
    let (alice, bob, dns) = (udp(), udp(), udp());
    let dns_table =
        format!("[dns]\nservers = [\"{}\"]\nhosts = false\ntimeout_ms = 10000\n", dns.local_addr().unwrap());
    let config = Config::new("silent", &dns_table);
    let server = config.start(&[]);
    let register = request("REGISTER", "sip:example.com", "r", "UDP", bob.local_addr().unwrap());
    let register = register
        .replace("To: <sip:example.com>", "To: <sip:bob@example.com>")
        .replace(&format!("<sip:alice@{}>", bob.local_addr().unwrap()), "<sip:bob@phone-7.lan>");
    bob.send_to(register.as_bytes(), server.address("udp")).unwrap();
    assert!(receive(&bob).starts_with("SIP/2.0 200 OK\r\n"));
    for name in ["m1", "m2"] {
        ask(&alice, &server, "MESSAGE", "sip:bob@example.com", name);
        let message = receive_first(&bob, "MESSAGE ");
        bob.send_to(answer(&message, "200 OK").as_bytes(), server.address("udp")).unwrap();
        receive_first(&alice, "SIP/2.0 200");
    }
    // DNS was asked, and has not given up.
    let page = server.metrics("/metrics");
    assert!(page.contains("strandline_sip_dns_lookups_total{result=\"queried\"} 1\n"), "{page}");
    assert!(page.contains("strandline_sip_dns_lookups_total{result=\"no_answer\"} 0\n"), "{page}");
}

#[tokio::test]
async fn domain_preferring_sctp_is_reached_over_it() {
    // DNS gives the SCTP port; the UDP port that carries it is the registered one, which is free on this
    // loopback address.
    let stack = Stack::builder().udp("127.83.67.84:9899".parse().unwrap()).unwrap();
    let bob = Endpoint::bind(&stack, 5066).unwrap();
    let address = "host-record=host.other.example,127.83.67.84".to_owned();
    let dns =
        NameServer::start("sctp", &[naptr(10, "SIP+D2S", "_sip._sctp"), srv("_sip._sctp", 5066, 0), address]);
    let config = Config::new("sctp", &dns.config());
    for style in ["one-to-many", "one-to-one"] {
        let server = config.start(&["--listen", "sctp:127.0.0.1:0", "--sctp-style", style]);
        ask(&udp(), &server, "MESSAGE", "sip:bob@other.example", style);
        let (_, came) = tokio::time::timeout(READ_TIMEOUT, bob.recv_from()).await.unwrap().unwrap();
        let begin = b"MESSAGE sip:bob@other.example SIP/2.0\r\nVia: SIP/2.0/SCTP 127.0.0.1;";
        assert!(came.data.starts_with(begin), "{style}: {came:?}");
    }
}

#[test]
fn response_uses_via_address_when_connection_is_gone() {
    let (bob, listener) = (udp(), TcpListener::bind("127.0.0.1:0").unwrap());
    let config = Config::new("response", "[dns]\nenabled = false\n");
    let server = config.start(&[]);
    let mut alice = TcpStream::connect(server.address("tcp")).unwrap();
    let to = format!("sip:bob@{}", bob.local_addr().unwrap());
    let text = request("INVITE", &to, "r", "TCP", listener.local_addr().unwrap());
    alice.write_all(text.as_bytes()).unwrap();
    let invite = receive(&bob);
    read_message(&mut alice);
    drop(alice);
    at_last("the connection is gone", || {
        server.metrics("/metrics").contains("strandline_sip_connections 0\n")
    });
    bob.send_to(answer(&invite, "200 OK").as_bytes(), server.address("udp")).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let ok = read_message(&mut stream);
    assert!(ok.starts_with("SIP/2.0 200 OK\r\n") && ok.contains("\r\nVia: SIP/2.0/TCP 127.0.0.1:"), "{ok}");
}

#[test]
fn what_is_wrong_with_the_table_is_told() {
    let route = "[[route]]\nprefix = \"+4\"\nto = [\"sip:trunk.example\"]\n";
    let alias =
        "domains = [\"example.com\"]\n[aliases]\nusers = { \"a@example.com\" = [\"b@other.example\"] }\n";
    for (text, says) in [
        (route.to_owned(), ""),
        (alias.replace("b@", "sip:b@"), ""),
        ("[dns]\nservers = [\"192.0.2.1\", \"[2001:db8::1]:5353\"]\ncache_max = 16\n".to_owned(), ""),
        (
            "[dns]\nservers = [\"dns.example\"]\n".to_owned(),
            "dns.servers: expected an address such as \"192.0.2.53\"",
        ),
        ("[dns]\nservers = [\"0.0.0.0\"]\n".to_owned(), "dns.servers: expected an address such as"),
        ("[dns]\ntimeout_ms = 5\n".to_owned(), "dns.timeout_ms: 5 is not between 100 and 10000"),
        ("[dns]\ncache_max = 1\n".to_owned(), "dns.cache_max: 1 is not between 16 and 1000000"),
        ("[dns]\ncashe_max = 1\n".to_owned(), "unknown field `cashe_max`"),
        (format!("[dns]\nenabled = false\n{route}"), "route[0].to: \"sip:trunk.example\" has a host name"),
        (route.replace("sip:", "tel:"), "route[0].to: expected a URI such as"),
        (
            alias.to_owned(),
            "other.example is not one of `domains`; for another domain write \"sip:b@other.example\"",
        ),
        (format!("{}[dns]\nenabled = false\n", alias.replace("b@", "sip:b@")), "and dns.enabled is false"),
    ] {
        crate::checked::says(&text, says);
    }
}
