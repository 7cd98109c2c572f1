use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::{Became, Place};

/// Returns a slot with a connection, and its other end.
fn connected() -> (Place, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let (peer, _) = listener.accept().unwrap();
    (Place { stream: Some(stream), source: 7, ..Place::default() }, peer)
}

/// Waits until something can be read, and reads.
fn read(place: &mut Place, room: &mut [u8]) -> (Became, Vec<String>) {
    let stream = place.stream.as_ref().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.peek(&mut [0]).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut came = Vec::new();
    let became = place.read(room, |source, message| {
        assert_eq!(source, 7);
        came.push(String::from_utf8(message.to_vec()).unwrap());
    });
    (became, came)
}

const FIRST: &str = "SIP/2.0 100 Trying\r\nContent-Length: 0\r\n\r\n";
const SECOND: &str = "SIP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn messages_in_pieces_are_put_together() {
    let (mut place, mut peer) = connected();
    let mut room = vec![0; 4096];
    peer.write_all(&FIRST.as_bytes()[..10]).unwrap();
    assert_eq!(read(&mut place, &mut room), (Became::On, Vec::new()));
    let rest = [&FIRST.as_bytes()[10..], SECOND.as_bytes(), &FIRST.as_bytes()[..3]].concat();
    peer.write_all(&rest).unwrap();
    let both = vec![FIRST.to_owned(), SECOND.to_owned()];
    assert_eq!(read(&mut place, &mut room), (Became::Answered, both));
    peer.write_all(&FIRST.as_bytes()[3..]).unwrap();
    assert_eq!(read(&mut place, &mut room), (Became::Answered, vec![FIRST.to_owned()]));
}

#[test]
fn excess_input_is_read_to_its_end() {
    let (mut place, mut peer) = connected();
    peer.write_all([FIRST, SECOND].concat().as_bytes()).unwrap();
    let both = vec![FIRST.to_owned(), SECOND.to_owned()];
    assert_eq!(read(&mut place, &mut [0; 16]), (Became::Answered, both));
}

#[test]
fn the_end_of_a_connection_is_found() {
    let (mut place, peer) = connected();
    drop(peer);
    assert_eq!(read(&mut place, &mut [0; 16]), (Became::Lost, Vec::new()));
}

#[test]
fn blocked_output_waits_in_order() {
    let (mut place, mut peer) = connected();
    let (mut sent, mut number) = (Vec::new(), 0_u32);
    while place.pending.is_empty() {
        let message = vec![number as u8; 100_000];
        place.write_first(&message);
        sent.extend(message);
        number += 1;
    }
    let mut came = Vec::new();
    let mut room = vec![0; 1 << 20];
    while came.len() < sent.len() {
        let len = peer.read(&mut room).unwrap();
        came.extend_from_slice(&room[..len]);
        place.write().unwrap();
    }
    assert!(came == sent && place.pending.is_empty());
}

#[tokio::test]
async fn abandoned_flow_is_reported_as_ended() {
    use super::Carrier;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let (set, _) = super::open(server, &["127.0.0.1".parse().unwrap()], 2, true).await.unwrap();
    let (mut first, _) = listener.accept().unwrap();
    let (_second, _) = listener.accept().unwrap();
    set.give_up(0);
    assert_eq!(first.read(&mut [0; 8]).unwrap(), 0, "the peer sees the end");
    let mut places = set.places.borrow_mut();
    assert_eq!(places[0].read(&mut [0; 16], |_, _| {}), Became::Lost);
    assert_eq!(places[1].read(&mut [0; 16], |_, _| {}), Became::On);
}
