use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::transaction::Protocol;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Accepts a connection, and returns the server's end and the peer's.
fn pair(connections: &Connections) -> (Rc<Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_nonblocking(true).unwrap();
    let (stream, address) = listener.accept().unwrap();
    let connection = connections.add(Protocol::Tcp, address);
    connection.accepted(stream);
    (connection, peer)
}

fn is_closed(mut peer: &TcpStream) -> bool {
    match peer.read(&mut [0]) {
        Ok(0) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn old_strangers_are_shed_and_phones_stay() {
    let (connections, _wanted) = Connections::new(1);
    let all: Vec<_> = (0..3).map(|_| pair(&connections)).collect();
    all[0].0.life.on_message();
    assert_eq!(connections.shed_strangers(ms(0)), 0, "all are too young");
    let young = pair(&connections);
    assert_eq!(connections.shed_strangers(ms(600)), 2);
    let closed: Vec<bool> = all.iter().chain([&young]).map(|(_, peer)| is_closed(peer)).collect();
    assert_eq!(closed, [false, true, true, false]);
    assert_eq!(connections.shed_strangers(ms(601)), 0, "looked a moment ago");
}

#[test]
fn strangers_make_room_and_phones_do_not() {
    let (connections, _wanted) = Connections::new(1);
    let room = Room { connections: 2, of_source: None };
    let newcomer = "192.0.2.1:5060".parse().unwrap();
    assert!(connections.makes_room(newcomer, &room, ms(0)));
    let (phone, stranger) = (pair(&connections), pair(&connections));
    phone.0.life.on_message();
    assert!(!connections.makes_room(newcomer, &room, ms(200)), "both are too young");
    assert!(connections.makes_room(newcomer, &room, ms(900)));
    assert!(is_closed(&stranger.1));
    assert!(!connections.makes_room(newcomer, &room, ms(901)), "one went, one came");
    connections.remove(&stranger.0);
    stranger.0.ended();
    let second = pair(&connections);
    second.0.life.on_message();
    assert!(!connections.makes_room(newcomer, &room, ms(2000)), "only phones are left");
    assert!(!is_closed(&phone.1));
}

#[test]
fn the_limit_of_a_source_sheds_nobody() {
    let (connections, _wanted) = Connections::new(1);
    let room = Room { connections: 2, of_source: Some(1) };
    let stranger = pair(&connections);
    assert!(!connections.makes_room(stranger.0.peer, &room, ms(0)));
    assert!(!connections.makes_room(stranger.0.peer, &room, ms(900)));
    assert!(!is_closed(&stranger.1));
}

#[tokio::test]
async fn a_stranger_in_a_handshake_is_shed() {
    let (connections, _wanted) = Connections::new(1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, address) = listener.accept().await.unwrap();
    let connection = connections.add(Protocol::Wss, address);
    connection.greeting(Rc::new(strandline_tls::Wire::plain(stream)));
    assert_eq!(connections.shed_strangers(ms(100)), 0, "too young");
    assert_eq!(connections.shed_strangers(ms(700)), 1);
    assert!(is_closed(&peer));
}
