use std::io::Write;
use std::net::TcpListener;

use super::*;

#[test]
fn descriptors_arrive_in_order() {
    let (one, other) = UnixStream::pair().unwrap();
    let sockets: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    send_descriptors(&one, &sockets.iter().map(AsFd::as_fd).collect::<Vec<_>>()).unwrap();
    let received: Vec<TcpListener> =
        receive_descriptors(&other).unwrap().into_iter().map(TcpListener::from).collect();
    let addresses = |all: &[TcpListener]| all.iter().map(|one| one.local_addr().unwrap()).collect::<Vec<_>>();
    assert_eq!(addresses(&received), addresses(&sockets));
}

#[test]
fn anything_else_is_an_error() {
    let (mut one, other) = UnixStream::pair().unwrap();
    one.write_all(b"x").unwrap();
    assert_eq!(receive_descriptors(&other).unwrap_err().kind(), io::ErrorKind::InvalidData);
    drop(one);
    assert_eq!(receive_descriptors(&other).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let (one, _other) = UnixStream::pair().unwrap();
    let too_many = vec![one.as_fd(); DESCRIPTORS_MAX + 1];
    assert!(send_descriptors(&one, &too_many).is_err());
}
