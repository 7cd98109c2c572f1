//! What comes on a connection.

use std::io::ErrorKind;
use std::time::Duration;

use strandline_tls::Wire;

/// How long is waited for it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The next bytes; none if the connection has ended.
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
    let len = tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap_or(0);
    room.truncate(len);
    room
}

/// The next message, which comes as a whole here.
pub async fn next(wire: &Wire) -> String {
    String::from_utf8(read(wire).await).unwrap()
}
