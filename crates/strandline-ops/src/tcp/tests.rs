use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::tcp_figures;

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
