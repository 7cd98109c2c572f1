use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::{is_silent_since, tcp_figures};

#[test]
fn connections_have_figures() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    client.write_all(&[0; 1000]).unwrap();
    server.read_exact(&mut [0; 1000]).unwrap();
    server.write_all(&[0; 10]).unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    let figures = tcp_figures(&client).unwrap();
    // The handshake counts as a byte.
    assert_eq!((figures.bytes_acked, figures.bytes_received), (1001, 10));
    assert!(figures.rtt.is_some() && figures.delivery_rate > 0, "{figures:?}");
    assert!(tcp_figures(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
}

#[test]
fn silence_begins_with_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    assert!(is_silent_since(&server, Duration::ZERO));
    assert!(!is_silent_since(&server, Duration::from_secs(3600)));
    client.write_all(&[0; 10]).unwrap();
    server.peek(&mut [0; 10]).unwrap();
    assert!(!is_silent_since(&server, Duration::ZERO), "data has arrived, whether or not it was read");
}
