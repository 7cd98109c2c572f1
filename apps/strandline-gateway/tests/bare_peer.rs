//! Gateways whose peer is a program with the library: it sends what gateways don't, and sees in which messages they send.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;

use strandline::{
    Association, AssociationConfig, DynamicStreams, ExtensionsConfig, Listener, Peer, RecvStream, SendStream,
    Stack, StackBuilder, StreamCredit,
};
use tokio::runtime::Runtime;

use crate::common::{Gateway, Home, PATIENCE, free_address, patient, read_exactly};
use crate::programs;

/// Kinds of openings.
const CONNECT: u8 = 1;
const FLOW: u8 = 4;

/// A peer that works while a method of it does.
struct Bare {
    runtime: Runtime,
    association: Association,
    held: Vec<(RecvStream, SendStream)>,
}

impl Bare {
    fn connect(far: SocketAddr) -> Self {
        let runtime = runtime();
        let association = runtime.block_on(async {
            let stack = builder().udp(([127, 0, 0, 1], 0).into()).unwrap();
            Association::connect(&stack, Peer::encapsulated(far, 5101)).await.unwrap()
        });
        association.set_dynamic_streams(DynamicStreams::default()).unwrap();
        Self { runtime, association, held: Vec::new() }
    }

    /// Waits for the association of a near gateway.
    fn accept(listen: SocketAddr) -> Self {
        let runtime = runtime();
        let association = runtime.block_on(async {
            let stack = builder().udp(listen).unwrap();
            Listener::bind(&stack, 5101).unwrap().accept().await.unwrap()
        });
        association.set_dynamic_streams(DynamicStreams::default()).unwrap();
        Self { runtime, association, held: Vec::new() }
    }

    /// Waits for the next stream of a connection or a flow. Returns what its first message has behind the header.
    fn first_data(&mut self) -> Vec<u8> {
        loop {
            let (stream, message) = self.runtime.block_on(async {
                let (mut recv, send) = self.association.accept_stream().await.unwrap().into_split();
                let message = recv.recv().await.unwrap().unwrap();
                ((recv, send), message.data)
            });
            self.held.push(stream);
            if let [_, CONNECT | FLOW, high, low, ..] = message[..] {
                return message[usize::from(u16::from_be_bytes([high, low]))..].to_vec();
            }
        }
    }

    /// Opens a stream with this message. Returns the code of the reply.
    fn open(&mut self, opening: Vec<u8>) -> u8 {
        let (stream, code) = self.runtime.block_on(async {
            let (mut recv, mut send) = self.association.open_stream().await.unwrap().into_split();
            send.send(opening.into()).await.unwrap();
            let reply = recv.recv().await.unwrap().unwrap();
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
    Stack::builder().association(AssociationConfig { extensions, ..AssociationConfig::default() })
}

/// An opening of this kind with a destination, other fields, and data.
fn opening(kind: u8, to: SocketAddr, fields: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 12 + fields.len() as u8, 1, 6, 127, 0, 0, 1];
    bytes.extend_from_slice(&to.port().to_be_bytes());
    bytes.extend_from_slice(fields);
    bytes.extend_from_slice(data);
    bytes
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
    let mut served = patient(server.accept().unwrap().0);
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

/// What a client has sent before there is an association needs no message, and no round trip, of its own.
#[test]
fn first_bytes_travel_with_the_opening() {
    let (listen, home, to) = (free_address(), Home::new("first"), "192.0.2.7:80");
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
