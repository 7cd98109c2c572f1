//! Local addresses of associations to come, changed at run time.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::net::IpAddr;

use strandline::memory::Network;
use strandline::{Address, Association, Bind, Endpoint, Listener, LocalAddressError, Peer, SendInfo, Stack};

fn ip(host: u8, network: u8) -> IpAddr {
    IpAddr::from([10, network, 0, host])
}

/// A stack on a host in three networks, of which peers are told the first two.
fn host(network: &Network, host: u8, shards: usize) -> Stack {
    Stack::builder()
        .shards(shards)
        .local_addresses([ip(host, 0), ip(host, 1)])
        .memory(network, [ip(host, 0), ip(host, 1), ip(host, 2)])
        .unwrap()
}

fn known(association: &Association) -> Vec<IpAddr> {
    association.paths().iter().map(|path| path.address.ip()).collect()
}

/// Both the INIT and the INIT ACK of new associations list the new address and no longer the removed one, on
/// all shards.
#[tokio::test(start_paused = true)]
async fn stacks_gain_and_lose_addresses() {
    let network = Network::new();
    let (here, there) = (host(&network, 1, 4), host(&network, 2, 4));
    let listener = Listener::bind(&there, 7).unwrap();
    let before = Association::connect(&here, Peer::new(ip(2, 0), 7)).await.unwrap();
    let accepted = listener.accept().await.unwrap();
    for stack in [&here, &there] {
        let own = if std::ptr::eq(stack, &here) { 1 } else { 2 };
        stack.add_local_address(ip(own, 2)).unwrap();
        stack.remove_local_address(ip(own, 1)).unwrap();
        assert_eq!(stack.local_addresses(), [ip(own, 0), ip(own, 2)].map(Address::from));
        let twice = Err(LocalAddressError::AlreadyLocal { address: ip(own, 2) });
        assert_eq!(stack.add_local_address(ip(own, 2)), twice);
        let gone = Err(LocalAddressError::NotLocal { address: ip(own, 1) });
        assert_eq!(stack.remove_local_address(ip(own, 1)), gone);
    }
    for shard in 0..4 {
        let client = Association::connect(&here.on_shard(shard), Peer::new(ip(2, 0), 7)).await.unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(known(&client), [ip(2, 0), ip(2, 2)]);
        assert_eq!(known(&server), [ip(1, 0), ip(1, 2)]);
    }
    assert_eq!((known(&before), known(&accepted)), (vec![ip(2, 0), ip(2, 1)], vec![ip(1, 0), ip(1, 1)]));
}

#[tokio::test(start_paused = true)]
async fn listeners_gain_and_lose_addresses() {
    let network = Network::new();
    let (here, there) = (host(&network, 1, 1), host(&network, 2, 2));
    let listener = Listener::bind(&there, Bind::port(7).at(ip(2, 0)).at(ip(2, 1))).unwrap();
    listener.add_local_address(ip(2, 2)).unwrap();
    listener.remove_local_address(ip(2, 1)).unwrap();
    let client = Association::connect(&here, Peer::new(ip(2, 0), 7)).await.unwrap();
    assert_eq!(known(&client), [ip(2, 0), ip(2, 2)]);
    assert!(Association::connect(&here, Peer::new(ip(2, 1), 7)).await.is_err());
    listener.remove_local_address(ip(2, 0)).unwrap();
    let last = Err(LocalAddressError::LastAddress { address: ip(2, 2) });
    assert_eq!(listener.remove_local_address(ip(2, 2)), last);
    let unbound = Listener::bind(&there, 8).unwrap();
    assert_eq!(unbound.add_local_address(ip(2, 2)), Err(LocalAddressError::NotBound));
}

/// Associations that a one-to-many endpoint sets up itself list what it is bound to, too.
#[tokio::test(start_paused = true)]
async fn endpoints_gain_and_lose_addresses() {
    let network = Network::new();
    let (here, there) = (host(&network, 1, 2), host(&network, 2, 1));
    let listener = Listener::bind(&there, 7).unwrap();
    let endpoint = Endpoint::bind(&here, Bind::port(0).at(ip(1, 0)).at(ip(1, 1))).unwrap();
    endpoint.add_local_address(ip(1, 2)).unwrap();
    endpoint.remove_local_address(ip(1, 0)).unwrap();
    let peer = Peer::new(ip(2, 1), 7);
    endpoint.send_to_peer(peer, bytes::Bytes::from_static(b"hello"), SendInfo::default()).await.unwrap();
    let server = listener.accept().await.unwrap();
    assert_eq!(known(&server), [ip(1, 1), ip(1, 2)]);
    assert_eq!(
        endpoint.add_local_address(ip(1, 1)),
        Err(LocalAddressError::AlreadyLocal { address: ip(1, 1) })
    );
}
