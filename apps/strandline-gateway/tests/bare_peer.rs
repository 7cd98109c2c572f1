//! Gateways whose peer is a program with the library: it sends what gateways don't, and sees in which
//! messages they send.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};

use strandline::{
    Association, AssociationConfig, Bind, DynamicStreams, ExtensionsConfig, Listener, Peer, RecvStream,
    SendStream, Stack, StackBuilder, StreamCredit, StreamScheduler,
};
use tokio::runtime::Runtime;

use crate::common::{
    Gateway, Home, PATIENCE, PROGRAM, accept, at_last, free_address, log_lines, patient, read_exactly,
};
use crate::datagrams::metric;
use crate::programs;

/// Kinds of openings.
const CONNECT: u8 = 1;
const FLOW: u8 = 4;
const REPORT: u8 = 5;

/// A peer that works while a method of it does.
struct Bare {
    runtime: Runtime,
    association: Association,
    held: Vec<(RecvStream, SendStream)>,
}

impl Bare {
    fn connect(far: SocketAddr) -> Self {
        Self::connect_from([127, 0, 0, 1], far)
    }

    fn connect_from(from: [u8; 4], far: SocketAddr) -> Self {
        let runtime = runtime();
        let association = runtime.block_on(async {
            let stack = builder().udp((from, 0).into()).unwrap();
            Association::connect(&stack, Peer::encapsulated(far, 5101)).await.unwrap()
        });
        association.set_dynamic_streams(DynamicStreams::default()).unwrap();
        Self { runtime, association, held: Vec::new() }
    }

    /// Opens as many streams, each with this message, all parts of which are sent by turns. Returns the codes
    /// of the first replies, as many as asked for.
    fn open_many(&self, count: usize, opening: &[u8], replies: usize) -> Vec<u8> {
        self.runtime.block_on(async {
            let (told, mut codes) = tokio::sync::mpsc::unbounded_channel();
            for _ in 0..count {
                let (association, opening, told) =
                    (self.association.clone(), bytes::Bytes::copy_from_slice(opening), told.clone());
                tokio::spawn(async move {
                    let (mut recv, mut send) = association.open_stream().await.unwrap().into_split();
                    send.send(opening).await.unwrap();
                    if let Ok(Some(reply)) = recv.recv().await {
                        let _ = told.send(reply.data[1]);
                    }
                    // Both directions are held.
                    std::future::pending::<()>().await;
                    drop((recv, send));
                });
            }
            let mut first = Vec::new();
            while first.len() < replies {
                first.push(tokio::time::timeout(PATIENCE, codes.recv()).await.unwrap().unwrap());
            }
            first
        })
    }

    /// Waits for the association of a near gateway.
    fn accept(listen: SocketAddr) -> Self {
        let runtime = runtime();
        let association = runtime.block_on(async {
            let stack = builder().udp(listen).unwrap();
            let listener = Listener::bind(&stack, 5101).unwrap();
            tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap()
        });
        association.set_dynamic_streams(DynamicStreams::default()).unwrap();
        Self { runtime, association, held: Vec::new() }
    }

    /// Waits for the next stream of a connection or a flow. Returns what its first message has behind the header.
    fn first_data(&mut self) -> Vec<u8> {
        loop {
            let (stream, message) = self.runtime.block_on(async {
                let stream = tokio::time::timeout(PATIENCE, self.association.accept_stream()).await.unwrap();
                let (mut recv, send) = stream.unwrap().into_split();
                let message = tokio::time::timeout(PATIENCE, recv.recv()).await.unwrap().unwrap().unwrap();
                ((recv, send), message.data)
            });
            self.held.push(stream);
            if let [_, CONNECT | FLOW, high, low, ..] = message[..] {
                return message[usize::from(u16::from_be_bytes([high, low]))..].to_vec();
            }
        }
    }

    /// Opens a stream with this message, and waits for nothing.
    fn begin(&mut self, opening: Vec<u8>) {
        let stream = self.runtime.block_on(async {
            let (recv, mut send) = self.association.open_stream().await.unwrap().into_split();
            send.send(opening.into()).await.unwrap();
            (recv, send)
        });
        self.held.push(stream);
    }

    /// Opens a stream with this message. Returns the code of the reply.
    fn open(&mut self, opening: Vec<u8>) -> u8 {
        let (stream, code) = self.runtime.block_on(async {
            let (mut recv, mut send) = self.association.open_stream().await.unwrap().into_split();
            send.send(opening.into()).await.unwrap();
            let reply = tokio::time::timeout(PATIENCE, recv.recv()).await.unwrap().unwrap().unwrap();
            ((recv, send), reply.data[1])
        });
        self.held.push(stream);
        code
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A stack that supports what gateways need.
fn builder() -> StackBuilder {
    let extensions = ExtensionsConfig {
        interleaving: true,
        stream_credit: Some(StreamCredit::default()),
        ..ExtensionsConfig::default()
    };
    Stack::builder().association(AssociationConfig {
        extensions,
        send_buffer_max: 256 << 20,
        stream_scheduler: StreamScheduler::RoundRobinPerPacket,
        ..AssociationConfig::default()
    })
}

/// An opening of this kind with a destination, other fields, and data.
fn opening(kind: u8, to: SocketAddr, fields: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 12 + fields.len() as u8, 1, 6, 127, 0, 0, 1];
    bytes.extend_from_slice(&to.port().to_be_bytes());
    bytes.extend_from_slice(fields);
    bytes.extend_from_slice(data);
    bytes
}

/// Starts a far gateway with these limits, and connects a peer to it.
fn limited(name: &str, allowed: SocketAddr, limits: &str) -> (Gateway, Bare) {
    let (listen, home) = (free_address(), Home::new(name));
    let file = home.write("far.toml", &format!("[limits]\n{limits}"));
    let options =
        format!("--listen {listen} --allow {allowed} --shards 1 --config {file} --admin 127.0.0.1:0");
    (Gateway::start(&options), Bare::connect(listen))
}

/// Connections beyond a limit hold nothing here, however much comes with their openings.
#[test]
fn refused_streams_hold_nothing() {
    const COUNT: usize = 1500;
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let (far, mut peer) = limited("refused-streams", to, "connections_max = 1\nbuffer_mib = 16\n");
    assert_eq!(peer.open(opening(1, to, &[], b"data")), 0);
    let before = far.memory();
    let codes = peer.open_many(COUNT, &opening(1, to, &[], &[7; 64 << 10]), COUNT);
    assert_eq!(codes, [7; COUNT], "all but the first one are refused");
    assert_eq!(metric(&far, "connection_ends_total{end=\"limit\"}"), COUNT as u64);
    let more = far.memory_most() - before;
    assert!(more < 48 << 20, "{more} bytes");
}

/// Requests to report, and to listen, take no connection's place, also while it is not known what a stream is for.
#[test]
fn requests_are_no_connections() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let (_far, mut peer) = limited("requests", to, "connections_max = 1\n");
    for _ in 0..100 {
        peer.begin(vec![1, REPORT, 0, 4]);
    }
    assert_eq!(peer.open(opening(CONNECT, to, &[], &[])), 0);
    assert_eq!(peer.open(opening(CONNECT, to, &[], &[])), 7, "two are too many");
}

/// A peer that names a listener for which it was not asked is refused, and the access log says which one.
#[test]
fn unknown_listeners_are_named() {
    const ARRIVED: u8 = 3;
    let (listen, home) = (free_address(), Home::new("unknown-listeners"));
    let log = home.write("access.log", "");
    let far =
        Gateway::start(&format!("--listen {listen} --allow h:1 --access-log {log} --admin 127.0.0.1:0"));
    let mut peer = Bare::connect(listen);
    // The field of a token, 7.
    assert_eq!(peer.open(vec![1, ARRIVED, 0, 10, 4, 4, 0, 0, 0, 7]), 6, "not allowed");
    let read = || std::fs::read_to_string(&log).unwrap();
    at_last("a line of the log", || read().ends_with('\n'));
    assert!(read().contains("\"destination\":\"reverse 7\""), "{}", read());
    assert_eq!(metric(&far, "connection_ends_total{end=\"not_allowed\"}"), 1);
}

/// A stream with a request that the far gateway does not know is counted and logged, with the peer's reason.
#[test]
fn unknown_requests_are_counted() {
    let (listen, home) = (free_address(), Home::new("unknown-requests"));
    let log = home.write("access.log", "");
    let far =
        Gateway::start(&format!("--listen {listen} --allow h:1 --access-log {log} --admin 127.0.0.1:0"));
    let mut peer = Bare::connect(listen);
    assert_eq!([vec![1, 99, 0, 4], vec![1], vec![9, 9]].map(|opening| peer.open(opening)), [8; 3]);
    assert_eq!(metric(&far, "connection_ends_total{end=\"not_supported\"}"), 3);
    at_last("lines of the log", || log_lines(&log).len() == 3);
    let is_meant = |line: &serde_json::Value| line["end"] == "not_supported" && line["destination"] == "";
    assert!(log_lines(&log).iter().all(is_meant), "{:?}", log_lines(&log));
}

/// What comes with openings waits for connections up to a limit of the association.
#[test]
fn openings_share_a_limit() {
    const COUNT: usize = 1500;
    let (silent, _full) = silent_server();
    let (far, mut peer) = limited("openings", silent, "buffer_mib = 16\nconnect_timeout_secs = 600\n");
    assert_eq!(peer.open(opening(9, silent, &[], b"data")), 8);
    let before = far.memory();
    // 4 MiB wait, the rest is refused.
    let codes = peer.open_many(COUNT, &opening(1, silent, &[], &[7; 32 << 10]), COUNT / 2);
    assert_eq!(codes, [7; COUNT / 2]);
    let refused = metric(&far, "connection_ends_total{end=\"limit\"}");
    assert!(refused >= COUNT as u64 / 2, "{refused} are counted");
    let more = far.memory_most() - before;
    assert!(more < 48 << 20, "{more} bytes");
}

/// A byte in a message of its own takes not much more room than a byte.
#[test]
fn waiting_bytes_take_little_room() {
    const COUNT: usize = 300_000;
    let (listen, home) = (free_address(), Home::new("waiting-bytes"));
    let (silent, _full) = silent_server();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let file = home.write("far.toml", "[limits]\nbuffer_mib = 16\nconnect_timeout_secs = 600\n");
    let allow = format!("--allow {silent} --allow {to}");
    let _far = Gateway::start(&format!("--listen {listen} {allow} --shards 1 --config {file}"));
    let mut peer = Bare::connect(listen);
    let stalled = peer.runtime.block_on(async {
        let (recv, mut send) = peer.association.open_stream().await.unwrap().into_split();
        send.send(opening(1, silent, &[], &[]).into()).await.unwrap();
        for _ in 0..COUNT {
            send.send(bytes::Bytes::from_static(b"x")).await.unwrap();
        }
        (recv, send)
    });
    assert_eq!(peer.open(opening(1, to, &[], b"data")), 0);
    assert_eq!(read_exactly(&mut accept(&server), 4), b"data");
    drop(stalled);
}

/// Names that no server resolves hold up other names of their peer, but none of another one.
#[test]
fn peers_do_not_wait_for_names_of_others() {
    const COUNT: usize = 1000;
    let (listen, home) = (free_address(), Home::new("silent-names"));
    // An address of this process's own: a name server has port 53.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let name_server = Ipv4Addr::new(127, 77, high, low.max(1));
    let silent = UdpSocket::bind((name_server, 53)).unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let file = home.write("far.toml", "[limits]\nconnect_timeout_secs = 5\n");
    let resolver =
        home.write("resolv.conf", &format!("nameserver {name_server}\noptions timeout:30 attempts:1\n"));
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .arg(format!("mount --bind {resolver} /etc/resolv.conf && exec \"$@\""));
    command.args(["sh", PROGRAM, "--listen", &listen.to_string(), "--config", &file, "--shards", "1"]);
    command.args(["--allow", "*.silent.test:80", "--allow", &format!("localhost:{port}")]);
    let _far = Gateway::spawn(command);
    let named = |name: &str, port: u16| {
        let len = name.len() as u8;
        let mut bytes = vec![1, 1, 0, 8 + len, 2, len + 2];
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes
    };
    let waiting = Bare::connect(listen);
    // The first ones have given up: their look-ups go on, and others are done in their place, if there is any.
    let codes = waiting.open_many(COUNT, &named("a.silent.test", 80), COUNT);
    assert!(codes.iter().all(|code| [4, 5].contains(code)), "{codes:?}");
    assert_eq!(silent_questions(&silent), 32, "questions that are asked at a time");
    let mut other = Bare::connect_from([127, 0, 0, 2], listen);
    assert_eq!(other.open(named("localhost", port)), 0);
}

/// A peer that resets the request to listen is asked again.
#[test]
fn requests_to_listen_are_repeated() {
    const LISTEN: u8 = 2;
    let at = free_address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stack = builder().udp(at).unwrap();
        let listener = Listener::bind(&stack, Bind::port(5101)).unwrap();
        let _near = Gateway::start(&format!("--peer far={at} --reverse 127.0.0.1:2222=127.0.0.1:1"));
        let asked = async {
            let association = listener.accept().await.unwrap();
            association.set_dynamic_streams(DynamicStreams::default()).unwrap();
            let mut count = 0;
            while count < 2 {
                let (mut recv, send) = association.accept_stream().await.unwrap().into_split();
                let opening = recv.recv().await.unwrap().unwrap();
                count += usize::from(opening.data[1] == LISTEN);
                // Both directions are reset.
                drop((recv, send));
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("a second request");
    });
}

/// A peer that sends states of its socket as often as it can doesn't fill the log. A long message is one state,
/// whatever its parts begin with, and one that repeats the last state, or is none, changes nothing.
#[test]
fn states_of_listeners_do_not_fill_the_log() {
    const LISTEN: u8 = 2;
    let at = free_address();
    let mut command = Command::new(PROGRAM);
    command.args(["--peer", &format!("far={at}"), "--reverse", "127.0.0.1:2222=127.0.0.1:1"]);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("RUST_LOG", "strandline_gateway=info");
    let near = Gateway::spawn(command);
    let peer = Bare::accept(at);
    // Answers the next request to listen, and sends these states. The next one comes once they are read.
    let listen = |states: Vec<Vec<u8>>| {
        let serve = async {
            loop {
                let (mut recv, mut send) = peer.association.accept_stream().await.unwrap().into_split();
                if recv.recv().await.unwrap().unwrap().data[1] != LISTEN {
                    continue;
                }
                for message in [vec![1, 0, 0, 4]].into_iter().chain(states) {
                    send.send(message.into()).await.unwrap();
                }
                send.finish().unwrap();
                send.finished().await.unwrap();
                return;
            }
        };
        peer.runtime.block_on(async { tokio::time::timeout(PATIENCE, serve).await.expect("a request") });
    };
    let lines = |text: &str| near.log().matches(text).count();
    // It comes in parts.
    let mut long = vec![1; 4 << 20];
    long[0] = 0;
    listen(vec![long, vec![0], vec![7]]);
    listen(Vec::new());
    at_last("a second request", || lines("the peer listens peer=") == 2);
    assert_eq!(lines("the peer's socket has failed"), 0);
    listen((0..2000).map(|number| vec![u8::from(number % 2 == 0)]).collect());
    listen(Vec::new());
    at_last("a fourth request", || lines("the peer listens peer=") == 4);
    let (failed, again) = (lines("the peer's socket has failed"), lines("the peer listens again"));
    assert!((1..10).contains(&failed) && again <= failed, "{failed} and {again} lines");
}

/// Returns how many questions a name server has got.
fn silent_questions(server: &UdpSocket) -> usize {
    server.set_nonblocking(true).unwrap();
    let mut sources = std::collections::BTreeSet::new();
    while let Ok((_, source)) = server.recv_from(&mut [0; 512]) {
        sources.insert(source);
    }
    sources.len()
}

/// Returns the address of a server that answers no connection, and what fills its queue.
fn silent_server() -> (SocketAddr, Vec<socket2::Socket>) {
    let new = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let server = new();
    server.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    server.listen(0).unwrap();
    let address = server.local_addr().unwrap();
    let mut all = vec![server];
    for _ in 0..4 {
        let client = new();
        client.set_nonblocking(true).unwrap();
        // In progress.
        let _ = client.connect(&address);
        all.push(client);
    }
    (address.as_socket().unwrap(), all)
}

/// A server that expects a header gets one, also without the address of the client.
#[test]
fn unknown_clients_have_a_header() {
    let (server, listen, home) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), free_address(), Home::new("bare"));
    let to = server.local_addr().unwrap();
    let access = format!("[[access]]\nallow = [\"{to}\"]\nproxy_protocol = true\n");
    let _far = Gateway::start(&format!("--listen {listen} --config {}", home.write("far.toml", &access)));
    let mut peer = Bare::connect(listen);
    assert_eq!(peer.open(opening(CONNECT, to, &[], b"data")), 0);
    let mut served = accept(&server);
    let bytes = read_exactly(&mut served, 20);
    assert_eq!(bytes[..16], *b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    assert_eq!(bytes[16..], *b"data");
}

/// A flow that is refused delivers nothing.
#[test]
fn a_token_in_use_delivers_nothing() {
    let (server, listen) = (UdpSocket::bind("127.0.0.1:0").unwrap(), free_address());
    let to = server.local_addr().unwrap();
    let _far = Gateway::start(&format!("--listen {listen} --allow-udp {to}"));
    let mut peer = Bare::connect(listen);
    let mut flow = |token: u8, data: &[u8]| peer.open(opening(FLOW, to, &[4, 4, 0, 0, 0, token], data));
    assert_eq!([flow(1, b"first"), flow(1, b"again"), flow(2, b"other")], [0, 10, 0]);
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let received = [(); 2].map(|()| {
        let mut room = [0; 16];
        let len = server.recv(&mut room).unwrap();
        room[..len].to_vec()
    });
    assert_eq!(received, [b"first", b"other"]);
}

/// A flow is refused, and not reset, if its first datagram is larger than any.
#[test]
fn too_large_datagrams_are_refused() {
    let (udp, listen) = (UdpSocket::bind("127.0.0.1:0").unwrap(), free_address());
    let to = udp.local_addr().unwrap();
    let _far = Gateway::start(&format!("--listen {listen} --allow-udp {to}"));
    let mut peer = Bare::connect(listen);
    // More than the credit of a stream, so that it comes in parts.
    let code = peer.open(opening(FLOW, to, &[4, 4, 0, 0, 0, 1], &[7; 2 << 20]));
    assert_eq!(code, 10);
    udp.set_nonblocking(true).unwrap();
    assert!(udp.recv(&mut [0; 10]).is_err(), "nothing is delivered");
}

/// A network between a near gateway and its peer that holds the gateway's packets back until `open` is true, and
/// records them.
struct Held {
    at: SocketAddr,
    open: Arc<AtomicBool>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Held {
    fn before(peer: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (at, open, sent) = (near.local_addr().unwrap(), Arc::<AtomicBool>::default(), Arc::default());
        let (client, source) = mpsc::channel();
        let (back, answers) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        std::thread::spawn(move || {
            let source = source.recv().unwrap();
            let mut packet = [0; 65_536];
            while let Ok(len) = answers.recv(&mut packet) {
                let _ = back.send_to(&packet[..len], source);
            }
        });
        let (is_open, log) = (Arc::clone(&open), Arc::<Mutex<Vec<Vec<u8>>>>::clone(&sent));
        std::thread::spawn(move || {
            let mut packet = [0; 65_536];
            while let Ok((len, source)) = near.recv_from(&mut packet) {
                // What comes before is lost, and sent again.
                if is_open.load(Ordering::Relaxed) {
                    let _ = client.send(source);
                    log.lock().unwrap().push(packet[..len].to_vec());
                    let _ = far.send_to(&packet[..len], peer);
                }
            }
        });
        Self { at, open, sent }
    }
}

/// A connection that comes before its association: the packet that follows the INIT ACK has the COOKIE ECHO, the
/// opening of the stream and what the client has sent.
#[test]
fn a_waiting_connection_travels_with_the_cookie_echo() {
    const COOKIE_ECHO: u8 = 10;
    const I_DATA: u8 = 64;
    let (listen, to) = (free_address(), "192.0.2.7:80");
    let network = Held::before(listen);
    let near =
        Gateway::start(&format!("--peer far={} --admin 127.0.0.1:0 --shards 1 --forward 0={to}", network.at));
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    client.write_all(b"GET / HTTP/1.1").unwrap();
    at_last("the connection waits", || near.status()["connections"].as_array().unwrap().len() == 1);
    network.open.store(true, Ordering::Relaxed);
    let mut peer = Bare::accept(listen);
    assert_eq!(peer.first_data(), b"GET / HTTP/1.1");
    let sent = network.sent.lock().unwrap().clone();
    let echo = sent.iter().find(|packet| packet[12] == COOKIE_ECHO).unwrap();
    let len = usize::from(u16::from_be_bytes([echo[14], echo[15]])).next_multiple_of(4);
    assert_eq!(echo.get(12 + len), Some(&I_DATA), "no data is behind the COOKIE ECHO");
    assert!(echo.windows(14).any(|bytes| bytes == b"GET / HTTP/1.1"));
    assert_eq!(sent.iter().filter(|packet| packet[12] == COOKIE_ECHO).count(), 1);
}

/// What a client has sent before there is an association needs no message, and no round trip, of its own.
#[test]
fn first_bytes_travel_with_the_opening() {
    let (listen, home, to) = (free_address(), Home::new("first"), "192.0.2.7:80");
    // Connections wait only for a minute, which building it may take.
    LazyLock::force(&programs::LIBRARY);
    let file = home.write(
        "near.toml",
        &format!("[[peer]]\nname = \"far\"\naddresses = [\"{listen}\"]\nwait_ms = 60000\n"),
    );
    let near = Gateway::start(&format!(
        "--config {file} --early-reply --socks 0 --http-connect 0 --preload 0 --forward 0={to} --forward udp/0={to}"
    ));
    let connect = |listener| patient(TcpStream::connect(near.listener(listener)).unwrap());
    let (mut socks, mut http, mut forwarded) = (connect(0), connect(1), connect(3));
    socks.write_all(&[5, 1, 0]).unwrap();
    read_exactly(&mut socks, 2);
    socks.write_all(b"\x05\x01\0\x01\xc0\0\x02\x07\0\x50by SOCKS").unwrap();
    write!(http, "CONNECT {to} HTTP/1.1\r\n\r\nby CONNECT").unwrap();
    forwarded.write_all(b"by forward").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(b"by UDP", near.listener(4)).unwrap();
    let code = "import socket, sys; s = socket.create_connection(('192.0.2.7', 80)); s.sendall(b'by program'); \
                print('sent', flush=True); sys.stdin.read()";
    let mut program = programs::command(&format!("--gateway {}", near.listener(2)), &["python3", "-c", code]);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "sent\n");
    let mut peer = Bare::accept(listen);
    let mut found = [(); 5].map(|()| String::from_utf8(peer.first_data()).unwrap());
    found.sort_unstable();
    assert_eq!(found, ["by CONNECT", "by SOCKS", "by UDP", "by forward", "by program"]);
    drop(program.stdin.take());
    program.wait().unwrap();
}
