//! Tests with real UDP sockets on the loopback interface, in real time.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::common::{if_permitted, pattern, peer_at, recv_whole, udp_stack};
use strandline::{
    Address, Algorithm, Association, AssociationConfig, ConnectError, Ended, Endpoint, Listener,
    Notification, PathError, Peer, Reliability, SendInfo, Stack, StackError, StreamId,
};

#[tokio::test]
async fn small_and_large_messages_are_echoed() {
    let (here, there) = (udp_stack(), udp_stack());
    let listener = Listener::bind(&there, 7).unwrap();
    tokio::spawn(async move {
        let peer = listener.accept().await.unwrap();
        while let Some(message) = recv_whole(&peer).await {
            peer.send_bytes(message.into(), SendInfo::default()).await.unwrap();
        }
    });
    let client = Association::connect(&here, peer_at(&there, 7)).await.unwrap();
    for size in [1, 100, 1550, 8192, 65_536, 1_000_000] {
        let sent = pattern(size, size as u8);
        client.send_bytes(sent.clone(), SendInfo::default()).await.unwrap();
        assert!(recv_whole(&client).await.unwrap() == sent, "{size} bytes");
    }
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}

/// Messages whose lifetime ends behind a full window are reported, and the others arrive.
#[tokio::test]
async fn messages_expire_behind_a_full_window() {
    let small = AssociationConfig {
        receive_buffer: Some(20_000),
        partial_delivery_point: 20_000,
        ..AssociationConfig::default()
    };
    let udp = || Stack::builder().association(small.clone()).udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let (here, there) = (udp(), udp());
    let listener = Listener::bind(&there, 7).unwrap();
    let client = Association::connect(&here, peer_at(&there, 7)).await.unwrap();
    let server = listener.accept().await.unwrap();
    assert!(client.status().unwrap().extensions.partial_reliability);
    let mut events = client.events();
    let short = Reliability::lifetime(Duration::from_millis(50));
    for number in 0..40_u8 {
        let info = SendInfo::on(StreamId(1)).context(number.into()).reliability(short);
        client.send_bytes(vec![number; 2000].into(), info).await.unwrap();
    }
    let mut failed = Vec::new();
    while failed.len() < 20 {
        let Some(Notification::SendFailed(message)) = events.next().await else { continue };
        assert!(!message.sent);
        failed.push(message.info.context as u8);
    }
    client.send_bytes(vec![40; 2000].into(), SendInfo::on(StreamId(1))).await.unwrap();
    let ended = tokio::spawn(async move { client.shutdown().await });
    let mut arrived = Vec::new();
    while let Some(message) = recv_whole(&server).await {
        arrived.push(message[0]);
    }
    assert_eq!(ended.await.unwrap(), Ended::ShutDown);
    while let Some(notification) = events.next().await {
        if let Notification::SendFailed(message) = notification {
            failed.push(message.info.context as u8);
        }
    }
    assert!(arrived.is_sorted_by(|one, next| one < next) && arrived.last() == Some(&40), "{arrived:?}");
    let mut all = [arrived, failed].concat();
    all.sort_unstable();
    assert_eq!(all, (0..=40).collect::<Vec<u8>>());
}

/// The loopback interface's MTU is 65,536 bytes.
#[tokio::test]
async fn packets_are_as_long_as_the_interface_allows() {
    let (here, there) = (udp_stack(), udp_stack());
    let listener = Listener::bind(&there, 7).unwrap();
    let client = Association::connect(&here, peer_at(&there, 7)).await.unwrap();
    let server = listener.accept().await.unwrap();
    let mtu = || client.paths()[0].mtu;
    let sent = pattern(100_000, 7);
    for _ in 0..100 {
        client.send_bytes(sent.clone(), SendInfo::default()).await.unwrap();
        assert!(recv_whole(&server).await.unwrap() == sent);
        if mtu() == u16::MAX {
            break;
        }
    }
    assert_eq!(mtu(), u16::MAX);
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_at_once_on_several_threads() {
    let (here, there) = (udp_stack(), udp_stack());
    let server = Endpoint::bind(&there, 7).unwrap();
    tokio::spawn(async move {
        while let Ok((from, message)) = server.recv_from().await {
            let info = SendInfo::on(message.stream);
            let _ = server.send_to(from, message.data, info).await;
        }
    });
    let client = Association::connect(&here, peer_at(&there, 7)).await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..100_u16 {
        let stream = client.open(StreamId(number)).unwrap();
        tasks.push(tokio::spawn(async move {
            let (mut recv, mut send) = stream.into_split();
            for round in 0..20 {
                let sent = pattern(500, number as u8 ^ round);
                send.send(sent.clone()).await.unwrap();
                assert_eq!(recv.recv().await.unwrap().unwrap().data, sent);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn icmp_tells_that_nobody_is_there() {
    let here = udp_stack();
    // Port 1 (tcpmux) is never assigned to a socket that asks for any port. A port that was free a moment ago
    // may be taken again, or be held by a process that another test is starting.
    let nobody = Peer::new([127, 0, 0, 1], 7).encapsulation_port(1);
    let error = tokio::time::timeout(Duration::from_secs(5), Association::connect(&here, nobody)).await;
    assert_eq!(error.unwrap().unwrap_err(), ConnectError::Ended(Ended::Unreachable));
}

/// An IPv6 socket reports IPv4 peers by IPv4-mapped addresses. An application that passes one on reaches the peer.
#[tokio::test]
async fn mapped_addresses_reach_ipv4_peers() {
    let there = udp_stack();
    let listener = Listener::bind(&there, 7).unwrap();
    let IpAddr::V4(ipv4) = there.local_addr().unwrap().ip() else { unreachable!("127.0.0.1") };
    let udp = SocketAddr::new(ipv4.to_ipv6_mapped().into(), there.local_addr().unwrap().port());
    for any in ["[::]:0", "0.0.0.0:0"] {
        let here = Stack::builder().udp(any.parse().unwrap()).unwrap();
        let named = Peer::new(udp.ip(), 7).encapsulation_port(udp.port());
        for peer in [Peer::encapsulated(udp, 7), named] {
            let client = Association::connect(&here, peer).await.unwrap();
            let server = listener.accept().await.unwrap();
            client.control().set_primary(udp.ip()).unwrap();
            client.send(b"mapped", SendInfo::default()).await.unwrap();
            assert_eq!(server.recv().await.unwrap().unwrap().data, "mapped");
        }
    }
}

#[tokio::test]
async fn missing_route_is_an_error_at_once() {
    let here = udp_stack();
    let foreign = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
    let attempt = Association::connect(&here, Peer::new(foreign, 7));
    // Without the ICMP message the set-up would be tried for minutes.
    let error = tokio::time::timeout(Duration::from_secs(5), attempt).await;
    assert_eq!(error.unwrap().unwrap_err(), ConnectError::Ended(Ended::NoRoute));
    // If the peer has another address, that one is tried.
    let there = udp_stack();
    let listener = Listener::bind(&there, 7).unwrap();
    let port = there.local_addr().unwrap().port();
    let both = Peer::new(foreign, 7).address([127, 0, 0, 1]).encapsulation_port(port);
    let client = Association::connect(&here, both).await.unwrap();
    assert!(listener.accept().await.is_ok());
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}

#[tokio::test]
async fn peer_may_list_an_address_of_this_host() {
    let shared = IpAddr::from([127, 0, 31, 2]);
    let server = Stack::builder().udp((shared, 0).into()).unwrap();
    let port = server.local_addr().unwrap().port();
    let address = IpAddr::from([127, 0, 31, 1]);
    let client = Stack::builder().local_addresses([address, shared]).udp((address, port).into()).unwrap();
    let listener = Listener::bind(&server, 7).unwrap();
    let here = Association::connect(&client, peer_at(&server, 7)).await.unwrap();
    let there = listener.accept().await.unwrap();
    assert_eq!(there.control().paths().len(), 1, "the server has that address itself");
    here.send(b"still there?", SendInfo::default()).await.unwrap();
    assert_eq!(recv_whole(&there).await.unwrap(), b"still there?");
    assert_eq!(here.shutdown().await, Ended::ShutDown);
}

/// What arrives while the program is busy with something else overflows the socket's queue, and is counted.
#[tokio::test]
async fn drops_of_a_full_queue_are_counted() {
    let stack = udp_stack();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = stack.local_addr().unwrap();
    // The queue has 4 MiB, half of which is the kernel's own; the driver runs when this task waits.
    for _ in 0..10_000 {
        sender.send_to(&[0; 1000], to).unwrap();
    }
    let datagrams = async {
        while stack.stats().receive_queue_drops == 0 {
            sender.send_to(&[0; 1000], to).unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), datagrams).await.expect("drops are counted");
    let stats = stack.stats();
    assert!(stats.packets_received > 0 && stats.receive_queue_drops < 10_000, "{stats:?}");
}

#[tokio::test]
async fn a_graceful_end_delivers_everything() {
    let (here, there) = (udp_stack(), udp_stack());
    let listener = Listener::bind(&there, 7).unwrap();
    let client = Association::connect(&here, peer_at(&there, 7)).await.unwrap();
    let peer = listener.accept().await.unwrap();
    for number in 0..2000_u32 {
        client.send(&number.to_be_bytes(), SendInfo::default()).await.unwrap();
    }
    drop(client);
    let mut expected = 0_u32;
    while let Some(message) = peer.recv().await.unwrap() {
        assert_eq!(message.data[..], expected.to_be_bytes());
        expected += 1;
    }
    assert_eq!(expected, 2000);
    here.wait_idle().await;
}

#[tokio::test]
async fn an_address_in_use_is_told() {
    let stack = udp_stack();
    let error = Stack::builder().udp(stack.local_addr().unwrap()).unwrap_err();
    assert!(matches!(error, StackError::Open(_)), "{error}");
}

#[tokio::test]
async fn raw_ip_works_or_says_what_is_missing() {
    let Some(here) = if_permitted(Stack::builder().raw([127, 0, 0, 1])) else { return };
    let there = Stack::builder().raw([127, 0, 0, 2]).unwrap();
    let listener = Listener::bind(&there, 5007).unwrap();
    let client = Association::connect(&here, Peer::new([127, 0, 0, 2], 5007)).await.unwrap();
    let peer = listener.accept().await.unwrap();
    client.send_bytes(pattern(100_000, 1), SendInfo::default()).await.unwrap();
    assert!(recv_whole(&peer).await.unwrap() == pattern(100_000, 1));
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}

/// A path's congestion controller can be changed while data is sent; invalid changes are refused.
#[tokio::test]
async fn a_controller_for_one_path() {
    let (here, there) = (udp_stack(), udp_stack());
    let listener = Listener::bind(&there, 5008).unwrap();
    let client = Association::connect(&here, peer_at(&there, 5008)).await.unwrap();
    let peer = listener.accept().await.unwrap();
    let address = Address::from([127, 0, 0, 1]);
    for congestion in [Algorithm::Bbr, Algorithm::Rfc9260, Algorithm::Swift] {
        client.control().set_path_congestion(address, Some(congestion)).unwrap();
        let sending = client.send_bytes(pattern(500_000, 1), SendInfo::default());
        let (sent, received) = tokio::join!(sending, recv_whole(&peer));
        sent.unwrap();
        assert!(received.unwrap() == pattern(500_000, 1));
        assert_eq!(client.paths()[0].congestion, congestion.name());
    }
    client.control().set_path_congestion(address, None).unwrap();
    assert_eq!(client.paths()[0].congestion, Algorithm::Cubic.name());
    let refused = client.control().set_path_congestion([192, 0, 2, 1], Some(Algorithm::Bbr));
    assert_eq!(refused, Err(PathError::UnknownAddress));
    let refused = client.control().set_path_congestion(address, Some(Algorithm::Dctcp));
    assert_eq!(refused, Err(PathError::Dctcp));
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}
