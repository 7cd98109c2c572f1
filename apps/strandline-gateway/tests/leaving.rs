//! A peer that goes on opening streams of an association that it was told to leave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use strandline::{
    Association, AssociationConfig, DynamicStreams, ExtensionsConfig, Peer, RecvStream, SendStream, Stack,
    StreamCredit,
};

use crate::common::{Gateway, accept};

/// The SCTP port of gateways.
const SCTP_PORT: u16 = 5101;
/// Codes of answers: there is a connection, or the gateway ends.
const DONE: u8 = 0;
const ENDING: u8 = 12;

/// Asks for a connection. Returns the code of the answer.
async fn connect(association: &Association, to: SocketAddr) -> (u8, RecvStream, SendStream) {
    let SocketAddr::V4(to) = to else { panic!("an IPv4 address") };
    let (mut recv, mut send) = association.open_stream().await.unwrap().into_split();
    let (ip, port) = (to.ip().octets(), to.port().to_be_bytes());
    let opening = [&[1, 1, 0, 12, 1, 6], &ip[..], &port[..]].concat();
    send.send(opening.into()).await.unwrap();
    let answer = recv.recv().await.unwrap().unwrap();
    (answer.data[1], recv, send)
}

#[test]
fn streams_of_a_peer_that_stays_are_refused() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {address}"));
    let listen = far.listens().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let extensions = ExtensionsConfig {
            interleaving: true,
            stream_credit: Some(StreamCredit::new(1 << 20, 1 << 20)),
            ..ExtensionsConfig::default()
        };
        let config = AssociationConfig { extensions, ..AssociationConfig::default() };
        let stack = Stack::builder().association(config).udp(([127, 0, 0, 1], 0).into()).unwrap();
        let association = Association::connect(&stack, Peer::encapsulated(listen, SCTP_PORT)).await.unwrap();
        association.set_dynamic_streams(DynamicStreams::default()).unwrap();
        let (answer, _recv, mut send) = connect(&association, address).await;
        assert_eq!(answer, DONE);
        let mut served = accept(&server);
        far.terminate();
        let told = association.accept_stream().await.unwrap();
        assert_eq!(connect(&association, address).await.0, ENDING);
        send.send(b"goes on".as_slice().into()).await.unwrap();
        let mut data = [0; 7];
        // The association's task runs meanwhile.
        let read = tokio::task::spawn_blocking(move || served.read_exact(&mut data).map(|()| (served, data)));
        let (mut served, data) = read.await.unwrap().unwrap();
        assert_eq!(&data, b"goes on");
        served.write_all(b"both ways").unwrap();
        drop(told);
    });
}
