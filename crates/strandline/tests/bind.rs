//! Sockets bound to some of the stack's addresses.
#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use std::net::IpAddr;

use crate::common::peer_at;
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, Bind, ConnectError, Ended, Endpoint, Listener, Peer, SendInfo, Stack,
};

const HERE: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 1, 0, 1]];
const THERE: [[u8; 4]; 3] = [[10, 0, 0, 2], [10, 1, 0, 2], [10, 2, 0, 2]];

fn stack(network: &Network, shards: usize, addresses: &[[u8; 4]], seed: u8) -> Stack {
    let builder = Stack::builder().shards(shards).seed([seed; 32]);
    builder.memory(network, addresses.iter().map(|address| IpAddr::from(*address))).unwrap()
}

fn addresses(association: &Association) -> Vec<IpAddr> {
    association.paths().iter().map(|path| path.address.ip()).collect()
}

#[tokio::test(start_paused = true)]
async fn listeners_serve_their_addresses() {
    let network = Network::new();
    let (here, there) = (stack(&network, 1, &HERE, 1), stack(&network, 2, &THERE, 2));
    let listener = Listener::bind(&there, Bind::port(7).at(THERE[0]).at(THERE[2])).unwrap();
    for address in [THERE[0], THERE[2]] {
        let client = Association::connect(&here, Peer::new(address, 7)).await.unwrap();
        let mut listed = addresses(&client);
        listed.sort_unstable();
        assert_eq!(listed, [IpAddr::from(THERE[0]), IpAddr::from(THERE[2])]);
        let server = listener.accept().await.unwrap();
        server.send(b"hello", SendInfo::default()).await.unwrap();
        assert_eq!(client.recv().await.unwrap().unwrap().data, "hello");
    }
    let refused = Association::connect(&here, Peer::new(THERE[1], 7)).await.map(drop);
    assert!(matches!(refused, Err(ConnectError::Ended(Ended::PeerAborted { .. }))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn endpoints_send_from_their_addresses() {
    let network = Network::new();
    let (here, there) = (stack(&network, 2, &HERE, 1), stack(&network, 1, &THERE, 2));
    let listener = Listener::bind(&there, 7).unwrap();
    let endpoint = Endpoint::bind(&here, Bind::port(0).at(HERE[1])).unwrap();
    // With and without waiting for the set-up, and after peers can no longer set up associations.
    let connected = endpoint.connect(Peer::new(THERE[1], 7)).await.unwrap();
    let server = listener.accept().await.unwrap();
    assert_eq!(addresses(&server), [IpAddr::from(HERE[1])]);
    endpoint.peel_off(connected).unwrap().shutdown().await;
    endpoint.stop_accepting();
    endpoint.send_to_peer(Peer::new(THERE[1], 7), "hello".into(), SendInfo::default()).await.unwrap();
    let server = listener.accept().await.unwrap();
    assert_eq!(server.recv().await.unwrap().unwrap().data, "hello");
    assert_eq!(addresses(&server), [IpAddr::from(HERE[1])]);
}

#[tokio::test(start_paused = true)]
async fn associations_begin_at_their_addresses() {
    for shards in [1, 3] {
        let network = Network::new();
        let listener = Listener::bind(&stack(&network, 1, &THERE, 2), 7).unwrap();
        let here = stack(&network, shards, &HERE, 1);
        let config = AssociationConfig::default;
        let peer = || Peer::new(THERE[0], 7);
        for from in [Bind::port(0).at(HERE[1]), Bind::port(4000).at(HERE[1])] {
            let client = Association::connect_with(&here, peer(), from, config()).await.unwrap();
            let server = listener.accept().await.unwrap();
            assert_eq!(addresses(&server), [IpAddr::from(HERE[1])]);
            server.send(b"hello", SendInfo::default()).await.unwrap();
            assert_eq!(client.recv().await.unwrap().unwrap().data, "hello");
            client.shutdown().await;
        }
        let error = Association::connect_with(&here, peer(), Bind::port(0).at(THERE[1]), config()).await;
        let error = error.map(drop).unwrap_err().to_string();
        assert!(error.starts_with("10.1.0.2 is not a local address of this endpoint"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_name_what_is_wrong() {
    let network = Network::new();
    let stack = stack(&network, 1, &THERE, 1);
    let error = |bind: Bind| Listener::bind(&stack, bind).map(drop).unwrap_err().to_string();
    let foreign = error(Bind::port(7).at(THERE[0]).at(HERE[0]));
    assert!(foreign.starts_with("10.0.0.1 is not a local address of this endpoint"), "{foreign}");
    let many = (0..9).fold(Bind::port(7), |bind, _| bind.at(THERE[0]));
    assert!(error(many).starts_with("9 addresses are too many"));
    let _bound = Listener::bind(&stack, Bind::port(7).at(THERE[0])).unwrap();
    let taken = error(Bind::port(7).at(THERE[1]));
    assert!(taken.starts_with("SCTP port 7 is in use in this endpoint"), "{taken}");
}

#[tokio::test]
async fn udp_sockets_are_bound() {
    let any = "0.0.0.0:0".parse().unwrap();
    let (here, there) = (crate::common::udp_stack(), Stack::builder().udp(any).unwrap());
    let listener = Listener::bind(&there, Bind::port(7).at([127, 0, 0, 2])).unwrap();
    let port = peer_at(&there, 7);
    let peer = |address: [u8; 4]| {
        let udp = there.local_addr().unwrap().port();
        Peer::encapsulated((IpAddr::from(address), udp).into(), port.port())
    };
    let client = Association::connect(&here, peer([127, 0, 0, 2])).await.unwrap();
    let server = listener.accept().await.unwrap();
    client.send(b"hello", SendInfo::default()).await.unwrap();
    assert_eq!(server.recv().await.unwrap().unwrap().data, "hello");
    assert_eq!(addresses(&client), [IpAddr::from([127, 0, 0, 2])]);
    let refused = Association::connect(&here, peer([127, 0, 0, 1])).await.map(drop);
    assert!(matches!(refused, Err(ConnectError::Ended(Ended::PeerAborted { .. }))), "{refused:?}");

    // An endpoint that sends from an address of its own.
    let endpoint = Endpoint::bind(&there, Bind::port(0).at([127, 0, 0, 3])).unwrap();
    let other = Listener::bind(&here, 7).unwrap();
    endpoint.send_to_peer(peer_at(&here, 7), "from 3".into(), SendInfo::default()).await.unwrap();
    let accepted = other.accept().await.unwrap();
    assert_eq!(accepted.recv().await.unwrap().unwrap().data, "from 3");
    assert_eq!(addresses(&accepted), [IpAddr::from([127, 0, 0, 3])]);
}
