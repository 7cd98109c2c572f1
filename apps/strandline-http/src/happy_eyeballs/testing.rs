//! Hosts that swallow attempts to connect.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A TCP port that drops each SYN: its queue of connections is full, and nobody accepts them.
pub(crate) struct Silent {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _queued: TcpStream,
}

impl Silent {
    pub(crate) async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let queued = TcpStream::connect(address).await.unwrap();
        Self { address, _listener: listener, _queued: queued }
    }
}
