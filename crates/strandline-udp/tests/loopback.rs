//! Sends and receives on the loopback interface: datagrams arrive unchanged and, for each peer, in order,
//! with and without GSO and GRO.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use strandline_udp::{
    BATCH, Receiving, Sending, TRAIN, choose_port_on_connect, note_times, send_train, take_trains,
};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// Receives from a socket until `count` datagrams have arrived.
fn receive(socket: &UdpSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut receiving = Receiving::new(TRAIN);
    let mut all = Vec::new();
    while all.len() < count {
        // Waits for the first datagram and leaves it in the socket.
        socket.peek_from(&mut [0; 1]).unwrap();
        receiving.receive(socket).unwrap();
        all.extend(receiving.datagrams().map(|(peer, bytes)| (peer.unwrap(), bytes.to_vec())));
    }
    all
}

/// Returns datagrams of the given lengths, each beginning with its number.
fn numbered(lengths: &[usize]) -> Vec<Vec<u8>> {
    let one = |(number, length): (usize, &usize)| {
        let mut bytes = vec![b'x'; *length];
        bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
        bytes
    };
    lengths.iter().enumerate().map(one).collect()
}

#[test]
fn equal_and_mixed_datagrams_arrive_in_order() {
    let (a, b) = (socket(), socket());
    let lengths = [300, 300, 300, 200, 200, 201, 201, 100, 300, 1400, 1400, 2, 2, 3];
    let sent = numbered(&lengths);
    let to = Some(b.local_addr().unwrap());
    Sending::new().send(&a, sent.iter().map(|bytes| (to, &bytes[..])));
    let came = receive(&b, sent.len());
    assert_eq!(came.iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), sent.iter().collect::<Vec<_>>());
    assert!(came.iter().all(|(peer, _)| *peer == a.local_addr().unwrap()));
}

#[test]
fn trains_are_split_and_singles_kept() {
    let (a, b) = (socket(), socket());
    take_trains(&b, true).unwrap();
    let to = Some(b.local_addr().unwrap());
    let mut sending = Sending::new();
    let mut receiving = Receiving::new(TRAIN);
    // One buffer for all cases: the segment size of one batch must not apply to a later datagram in its
    // place.
    for lengths in [&[300, 300, 300, 120][..], &[700], &[200; 60], &[1400, 1400, 1300], &[64], &[100, 100]] {
        let sent = numbered(lengths);
        sending.send(&a, sent.iter().map(|bytes| (to, &bytes[..])));
        let mut came = Vec::new();
        let mut calls = 0;
        while came.len() < sent.len() {
            b.peek_from(&mut [0; 1]).unwrap();
            calls += receiving.receive(&b).unwrap();
            came.extend(receiving.datagrams().map(|(_, bytes)| bytes.to_vec()));
        }
        assert_eq!(came, sent);
        assert!(calls == 1 || lengths.len() == 3, "{lengths:?} came as {calls}");
    }
    // Repeats without GRO, one datagram at a time.
    take_trains(&b, false).unwrap();
    let sent = numbered(&[300; 5]);
    sending.send(&a, sent.iter().map(|bytes| (to, &bytes[..])));
    assert_eq!(receive(&b, 5).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), sent);
}

#[test]
fn datagrams_have_their_times_on_request() {
    let (a, b) = (socket(), socket());
    take_trains(&b, true).unwrap();
    let to = Some(b.local_addr().unwrap());
    let mut receiving = Receiving::new(TRAIN);
    let mut sending = Sending::new();
    let sent = numbered(&[300; 5]);
    let mut have_times = || {
        sending.send(&a, sent.iter().map(|bytes| (to, &bytes[..])));
        let mut have = Vec::new();
        while have.len() < sent.len() {
            b.peek_from(&mut [0; 1]).unwrap();
            receiving.receive(&b).unwrap();
            for train in receiving.trains() {
                have.extend(train.datagrams().map(|datagram| (train.at.is_some(), datagram.len())));
            }
        }
        have
    };
    assert_eq!(have_times(), [(false, 300); 5]);
    note_times(&b, true).unwrap();
    // The length of each datagram of a train is known as well.
    assert_eq!(have_times(), [(true, 300); 5]);
    note_times(&b, false).unwrap();
    assert_eq!(have_times(), [(false, 300); 5]);
}

#[test]
fn each_peer_gets_its_own() {
    let (a, b, c) = (socket(), socket(), socket());
    let peers = [b.local_addr().unwrap(), c.local_addr().unwrap()];
    let sent = numbered(&[200; 24]);
    // The peers take turns of one, two and three datagrams.
    let whose = |number: usize| [0, 1, 1, 0, 0, 0][number % 6];
    let items = sent.iter().enumerate().map(|(number, bytes)| (Some(peers[whose(number)]), &bytes[..]));
    Sending::new().send(&a, items);
    for (who, socket) in [b, c].iter().enumerate() {
        let own: Vec<Vec<u8>> = (0..sent.len())
            .filter(|number| whose(*number) == who)
            .map(|number| sent[number].clone())
            .collect();
        let came = receive(socket, own.len());
        assert_eq!(came.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), own);
    }
}

#[test]
fn more_than_one_call_takes() {
    let (a, b) = (socket(), socket());
    a.connect(b.local_addr().unwrap()).unwrap();
    let sent = numbered(&[100; 3 * BATCH + 5]);
    Sending::new().send(&a, sent.iter().map(|bytes| (None, &bytes[..])));
    let came = receive(&b, sent.len());
    assert_eq!(came.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), sent);
}

#[test]
fn unsendable_datagram_holds_no_other_back() {
    let (a, b) = (socket(), socket());
    let to = Some(b.local_addr().unwrap());
    // Nobody can have port 0.
    let nobody = Some("127.0.0.1:0".parse().unwrap());
    let texts: [&[u8]; 4] = [b"first", b"lost", b"second", b"third, longer"];
    let items = texts.iter().map(|text| (if *text == b"lost" { nobody } else { to }, *text));
    Sending::new().send(&a, items);
    let came = receive(&b, 3);
    let texts: Vec<&[u8]> = came.iter().map(|(_, bytes)| &bytes[..]).collect();
    assert_eq!(texts, [&b"first"[..], b"second", b"third, longer"]);
}

#[test]
fn ipv6_addresses_arrive_unchanged() {
    let sockets = (UdpSocket::bind("[::1]:0"), UdpSocket::bind("[::1]:0"));
    let (Ok(a), Ok(b)) = sockets else { return eprintln!("this machine has no IPv6") };
    b.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let to = b.local_addr().unwrap();
    Sending::new().send(&a, [(Some(to), &b"first"[..]), (Some(to), &b"one more"[..])].into_iter());
    let peer = a.local_addr().unwrap();
    assert_eq!(receive(&b, 2), [(peer, b"first".to_vec()), (peer, b"one more".to_vec())]);
}

#[test]
fn one_call_sends_equal_datagrams_and_a_rest() {
    let (a, b) = (socket(), socket());
    let to = b.local_addr().unwrap();
    send_train(&a, to, b"aabbc", 2).unwrap();
    send_train(&a, to, b"dd", 2).unwrap();
    let came: Vec<Vec<u8>> = receive(&b, 4).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(came, [&b"aa"[..], b"bb", b"c", b"dd"]);
}

#[test]
fn port_is_chosen_when_the_socket_connects() {
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    choose_port_on_connect(&socket).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let name = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    assert_eq!(name, SocketAddr::from(([127, 0, 0, 1], 0)));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::connect(&socket, &listener.local_addr().unwrap()).unwrap();
    let name = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    assert_ne!(name.port(), 0);
}
