//! A far gateway whose peer is a program with the library: it sends what near gateways don't.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use strandline::{
    Association, AssociationConfig, DynamicStreams, ExtensionsConfig, Peer, RecvStream, SendStream, Stack,
    StreamCredit,
};
use tokio::runtime::Runtime;

use crate::common::{Gateway, Home, PATIENCE, free_address, patient, read_exactly};

/// A peer that works while a method of it does.
struct Bare {
    runtime: Runtime,
    association: Association,
    held: Vec<(RecvStream, SendStream)>,
}

impl Bare {
    fn connect(far: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let association = runtime.block_on(async {
            let extensions = ExtensionsConfig {
                interleaving: true,
                stream_credit: Some(StreamCredit::default()),
                ..ExtensionsConfig::default()
            };
            let config = AssociationConfig { extensions, ..AssociationConfig::default() };
            let stack = Stack::builder().association(config).udp(([127, 0, 0, 1], 0).into()).unwrap();
            let association = Association::connect(&stack, Peer::encapsulated(far, 5101)).await.unwrap();
            association.set_dynamic_streams(DynamicStreams::default()).unwrap();
            association
        });
        Self { runtime, association, held: Vec::new() }
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
    assert_eq!(peer.open(opening(1, to, &[], b"data")), 0);
    let mut served = patient(server.accept().unwrap().0);
    let bytes = read_exactly(&mut served, 20);
    assert_eq!(bytes[..16], *b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    assert_eq!(bytes[16..], *b"data");
}

/// A flow that is refused delivers nothing.
#[test]
fn a_token_in_use_delivers_nothing() {
    const FLOW: u8 = 4;
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
