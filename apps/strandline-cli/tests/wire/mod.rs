//! Messages received on a connection.

use std::io::ErrorKind;
use std::time::Duration;

use strandline_tls::Wire;

/// Time limit for receiving.
pub const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the next bytes; empty if the connection has ended.
pub async fn read(wire: &Wire) -> Vec<u8> {
    let mut room = vec![0; 64 << 10];
    let read = async {
        loop {
            std::future::poll_fn(|context| wire.poll_read_ready(context)).await?;
            match wire.try_read(&mut room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    };
    let len = tokio::time::timeout(READ_TIMEOUT, read).await.unwrap().unwrap_or(0);
    room.truncate(len);
    room
}

/// Returns the next message, which arrives in one piece here.
pub async fn next(wire: &Wire) -> String {
    String::from_utf8(read(wire).await).unwrap()
}
