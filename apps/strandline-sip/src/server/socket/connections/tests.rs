#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use std::net::TcpListener;

use super::*;

const REQUEST: &[u8] = b"OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\n\r\n";
const ANSWER: &[u8] = b"SIP/2.0 200 OK\r\n\r\n";

/// An accepted connection that is not registered yet, and its other end.
fn bare(all: &Connections) -> (Rc<Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let phone = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, peer) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let connection = all.add(Protocol::Tcp, peer);
    connection.accepted(stream);
    (connection, phone)
}

/// Closes the other end, and waits until that has arrived.
fn end(connection: &Connection, phone: TcpStream) {
    drop(phone);
    while !connection.has_ended_unseen() {
        std::thread::yield_now();
    }
}

#[test]
fn request_uses_an_unwatched_open_connection() {
    let (all, mut wanted) = Connections::new(0);
    let (connection, mut phone) = bare(&all);
    assert!(all.queue(connection.flow(), None, REQUEST));
    all.flush();
    let mut came = [0; REQUEST.len()];
    io::Read::read_exact(&mut phone, &mut came).unwrap();
    assert_eq!(came, REQUEST);
    assert!(wanted.try_recv().is_err());
}

#[test]
fn just_closed_connection_gets_no_request() {
    let (all, mut wanted) = Connections::new(0);
    let (connection, phone) = bare(&all);
    end(&connection, phone);
    assert!(!all.queue(connection.flow(), None, REQUEST), "it would be lost without a sign");
    // A message that may use any connection to the peer gets another one.
    let any = Flow::to(Protocol::Tcp, connection.peer);
    assert!(all.queue(any, None, REQUEST));
    let opened = wanted.try_recv().unwrap();
    assert_ne!(opened.id, connection.id);
    assert_eq!(opened.unsent(), REQUEST);
}

#[test]
fn half_closed_connection_still_gets_responses() {
    let (all, _wanted) = Connections::new(0);
    let (connection, mut phone) = bare(&all);
    phone.shutdown(std::net::Shutdown::Write).unwrap();
    while !connection.has_ended_unseen() {
        std::thread::yield_now();
    }
    assert!(all.queue(connection.flow(), None, ANSWER));
    all.flush();
    let mut came = [0; ANSWER.len()];
    io::Read::read_exact(&mut phone, &mut came).unwrap();
    assert_eq!(came, ANSWER);
}
