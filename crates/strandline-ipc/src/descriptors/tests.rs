use std::io::{Read, Write};
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
}

#[test]
fn more_descriptors_than_a_message_holds() {
    for count in [0, 1, DESCRIPTORS_MAX, DESCRIPTORS_MAX + 1, 2 * DESCRIPTORS_MAX + 5] {
        let (mut one, other) = UnixStream::pair().unwrap();
        let all = vec![one.as_fd(); count];
        send_descriptors(&one, &all).unwrap();
        one.write_all(b"behind").unwrap();
        assert_eq!(receive_descriptors(&other).unwrap().len(), count);
        let mut behind = [0; 6];
        (&other).read_exact(&mut behind).unwrap();
        assert_eq!(&behind, b"behind");
    }
}

#[test]
fn notes_arrive_one_by_one() {
    let (one, other) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    send_note(&one, b'a', None).unwrap();
    send_note(&one, b'b', Some(listener.as_fd())).unwrap();
    send_note(&one, b'c', None).unwrap();
    drop(one);
    assert!(matches!(receive_note(&other).unwrap(), Some((b'a', None))));
    let Some((b'b', Some(passed))) = receive_note(&other).unwrap() else { panic!("no descriptor") };
    assert_eq!(TcpListener::from(passed).local_addr().unwrap(), listener.local_addr().unwrap());
    assert!(matches!(receive_note(&other).unwrap(), Some((b'c', None))));
    assert!(receive_note(&other).unwrap().is_none());
}
