#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;

use crate::server::style::{SctpCarrier, SctpStyle};

use super::*;

fn listen(protocol: Protocol, address: SocketAddr) -> Listen {
    Listen {
        protocol,
        address,
        advertise: None,
        sctp_port: 5060,
        sctp_style: SctpStyle::default(),
        sctp_carrier: SctpCarrier::default(),
        sctp_encryption: None,
    }
}

fn handed(protocol: Protocol, address: SocketAddr, bound: SocketAddr) -> Handed {
    Handed { protocol: protocol.name().to_owned(), address, bound }
}

#[test]
fn sockets_are_matched_in_any_order() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (udp, tcp, ws) =
        (UdpSocket::bind(any).unwrap(), TcpListener::bind(any).unwrap(), TcpListener::bind(any).unwrap());
    let all = vec![
        handed(Protocol::Ws, any, ws.local_addr().unwrap()),
        handed(Protocol::Udp, any, udp.local_addr().unwrap()),
        handed(Protocol::Tcp, any, tcp.local_addr().unwrap()),
    ];
    let raw = [tcp.as_raw_fd(), udp.as_raw_fd(), ws.as_raw_fd()];
    let mut sockets = Inherited::new(all, vec![ws.into(), udp.into(), tcp.into()]).unwrap();
    let elsewhere = sockets.take(&listen(Protocol::Tcp, "127.0.0.2:0".parse().unwrap())).unwrap_err();
    assert!(
        elsewhere
            .to_string()
            .contains("no socket for this address; the ones left are for ws 127.0.0.1:0, udp")
    );
    assert!(sockets.take(&listen(Protocol::Tls, any)).is_err());
    for (protocol, raw) in [Protocol::Tcp, Protocol::Udp, Protocol::Ws].into_iter().zip(raw) {
        assert_eq!(sockets.take(&listen(protocol, any)).unwrap().as_raw_fd(), raw, "{protocol:?}");
        assert!(sockets.take(&listen(protocol, any)).is_err(), "there is one of each");
    }
}

#[test]
fn wrong_socket_is_not_accepted() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let one = || TcpListener::bind(any).unwrap();
    let (tcp, other, udp) = (one(), one(), UdpSocket::bind(any).unwrap());
    let (at, udp_at) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    for (socket, bound) in [(OwnedFd::from(other), at), (OwnedFd::from(udp), udp_at)] {
        let mut sockets = Inherited::new(vec![handed(Protocol::Tcp, any, bound)], vec![socket]).unwrap();
        let error = sockets.take(&listen(Protocol::Tcp, any)).unwrap_err();
        assert!(error.to_string().contains("is not that of tcp"), "{error}");
    }
    assert!(Inherited::new(vec![handed(Protocol::Tcp, any, at)], Vec::new()).is_err());
    let mut right = Inherited::new(vec![handed(Protocol::Tcp, any, at)], vec![tcp.into()]).unwrap();
    assert!(right.take(&listen(Protocol::Tcp, any)).is_ok());
}
