use std::cell::RefCell;
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
    let phone = all[0].0.id;
    let shed = |now| connections.shed_strangers(ms(now), |connection| connection == phone);
    assert_eq!(shed(0), 0, "all are too young");
    let young = pair(&connections);
    assert_eq!(shed(600), 2);
    let closed: Vec<bool> = all.iter().chain([&young]).map(|(_, peer)| is_closed(peer)).collect();
    assert_eq!(closed, [false, true, true, false]);
    assert_eq!(shed(601), 0, "looked a moment ago");
}

#[test]
fn strangers_make_room_and_phones_do_not() {
    let (connections, _wanted) = Connections::new(1);
    let room = Room { connections: 2, of_source: None };
    let newcomer = "192.0.2.1:5060".parse().unwrap();
    let phones = RefCell::new(Vec::new());
    let makes_room =
        |now| connections.makes_room(newcomer, &room, ms(now), |one| phones.borrow().contains(&one));
    assert!(makes_room(0));
    let (phone, stranger) = (pair(&connections), pair(&connections));
    phones.borrow_mut().push(phone.0.id);
    assert!(!makes_room(200), "both are too young");
    assert!(makes_room(900));
    assert!(is_closed(&stranger.1));
    assert!(!makes_room(901), "one went, one came");
    connections.remove(&stranger.0);
    stranger.0.ended();
    let second = pair(&connections);
    phones.borrow_mut().push(second.0.id);
    assert!(!makes_room(2000), "only phones are left");
    assert!(!is_closed(&phone.1));
}

/// A stranger that has sent a message is one still.
#[test]
fn strangers_that_spoke_are_shed_after_silent_ones() {
    let (connections, _wanted) = Connections::new(1);
    let all: Vec<_> = (0..3 * SHED_MIN).map(|_| pair(&connections)).collect();
    let is_served = |connection| connection == all[0].0.id;
    let places = |from: usize| all.iter().skip(from).step_by(3);
    let (served, busy, silent) = (places(0), places(1), places(2));
    assert_eq!(connections.shed_strangers(ms(0), is_served), 0, "all are too young");
    served.clone().chain(busy.clone()).for_each(|(one, _)| one.life.on_message());
    // Those that were heard last are shed last.
    all.iter().for_each(|(one, _)| assert_eq!(one.life.silent_since(1), 1));
    busy.clone().for_each(|(one, _)| one.life.on_message());
    connections.now_secs.set(40);
    assert_eq!(connections.shed_strangers(ms(40_000), is_served), SHED_MIN);
    assert!(silent.clone().all(|(_, peer)| is_closed(peer)));
    assert!(served.clone().chain(busy.clone()).all(|(_, peer)| !is_closed(peer)));
    silent.for_each(|(one, _)| connections.remove(one));
    assert_eq!(connections.shed_strangers(ms(41_000), is_served), SHED_MIN);
    assert_eq!(served.clone().filter(|(_, peer)| is_closed(peer)).count(), SHED_MIN - 1);
    assert!(!is_closed(&all[0].1), "a phone stays");
    assert_eq!(busy.clone().filter(|(_, peer)| is_closed(peer)).count(), 1);
}

#[test]
fn the_limit_of_a_source_sheds_nobody() {
    let (connections, _wanted) = Connections::new(1);
    let room = Room { connections: 2, of_source: Some(1) };
    let stranger = pair(&connections);
    assert!(!connections.makes_room(stranger.0.peer, &room, ms(0), |_| false));
    assert!(!connections.makes_room(stranger.0.peer, &room, ms(900), |_| false));
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
    assert_eq!(connections.shed_strangers(ms(100), |_| false), 0, "too young");
    assert_eq!(connections.shed_strangers(ms(700), |_| false), 1);
    assert!(is_closed(&peer));
}
