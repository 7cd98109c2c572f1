use std::os::fd::AsFd;

use socket2::SockRef;

use super::super::accept::{accept, listen};
use super::*;

const LIMITS: ConnectionLimits = ConnectionLimits {
    first_message: Duration::from_secs(30),
    idle: None,
    keep_alive: Duration::from_secs(77),
    write: Duration::from_secs(30),
    buffered_bytes_max: 1 << 20,
};

/// Checks that TCP keep-alive is on: after this time of silence, the system probes the peer four times within
/// a minute, and then gives up.
fn is_asked(socket: &impl AsFd) {
    let socket = SockRef::from(socket);
    assert!(socket.keepalive().unwrap(), "SO_KEEPALIVE");
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(77));
    assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(15));
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 4);
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(77 + 60)));
    assert!(socket.tcp_nodelay().unwrap());
}

#[tokio::test]
async fn the_system_finds_out_whose_peer_is_gone() {
    let listening = listen("127.0.0.1:0".parse().unwrap(), &LIMITS).unwrap();
    let address = listening.get_ref().local_addr().unwrap();
    let opened = connect(Protocol::Tcp, address, None, None, None, LIMITS).await.unwrap();
    let Opened::Plain(opened) = opened else { panic!("without TLS") };
    listening.readable().await.unwrap().clear_ready();
    let (accepted, _) = accept(listening.get_ref()).unwrap();
    is_asked(&opened);
    is_asked(&accepted);
}
