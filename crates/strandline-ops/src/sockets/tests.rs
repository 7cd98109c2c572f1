use std::io::ErrorKind;
use std::net::TcpStream;

use super::*;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The system's default doesn't matter: each socket asks for both versions.
#[test]
fn all_addresses_are_those_of_both_versions() {
    for kind in [Type::STREAM, Type::DGRAM] {
        assert!(!socket_for(at("[::]:0"), kind).unwrap().only_v6().unwrap());
    }
    let listener = listen_tcp(at("[::]:0"), false).unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "::1"] {
        TcpStream::connect((host, port)).unwrap();
    }
    let socket = bind_udp(at("[::]:0"), false).unwrap();
    let taken = bind_udp(SocketAddr::from(([0, 0, 0, 0], socket.local_addr().unwrap().port())), false);
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse);
}

#[test]
fn ports_are_shared_on_request() {
    let one = listen_tcp(at("127.0.0.1:0"), true).unwrap();
    let address = one.local_addr().unwrap();
    assert!(listen_tcp(address, false).is_err());
    assert!(listen_tcp(address, true).is_ok());
    let one = bind_udp(at("127.0.0.1:0"), true).unwrap();
    let address = one.local_addr().unwrap();
    assert!(bind_udp(address, false).is_err());
    assert!(bind_udp(address, true).is_ok());
}

#[test]
fn errors_say_what_can_be_done() {
    let taken = bind_udp(at("127.0.0.1:0"), false).unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind_udp(address, false).unwrap_err();
    let error = not_listening(&format!("listening on UDP {address}"), error);
    let said = error.to_string();
    assert!(said.starts_with("listening on UDP 127.0.0.1:"), "{said}");
    assert!(said.contains("is another server running there"), "{said}");
    let source = error.downcast_ref::<io::Error>();
    assert_eq!(source.map(io::Error::kind), Some(ErrorKind::AddrInUse));
    assert_eq!(format!("{error:#}").matches("in use").count(), 1, "{error:#}");
}
