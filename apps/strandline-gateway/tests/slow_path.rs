//! Paths for datagrams between gateways: slow ones, and those that lose some.
#![allow(clippy::disallowed_methods, reason = "a slow path pauses in real time")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that a path passes on before it pauses, and for how long: about 10 MB/s.
const PART: usize = 20_000;
const PAUSE: Duration = Duration::from_millis(2);

/// Passes datagrams on in both directions, slowly, and loses each of this number.
pub fn slow_path(to: SocketAddr, lost: u64) -> SocketAddr {
    path(to, slowly(lost), slowly(lost))
}

/// Passes datagrams on in both directions: those to this address of which the first closure returns true, and
/// answers of which the second one does.
pub fn path(
    to: SocketAddr,
    up: impl FnMut(&[u8]) -> bool + Send + 'static,
    down: impl FnMut(&[u8]) -> bool + Send + 'static,
) -> SocketAddr {
    let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = front.local_addr().unwrap();
    let client = Arc::new(std::sync::Mutex::new(None));
    let (known, from, out) = (Arc::clone(&client), Arc::clone(&front), Arc::clone(&back));
    std::thread::spawn(move || {
        pass(&from, up, |data, source| {
            *known.lock().unwrap() = Some(source);
            let _ = out.send_to(data, to);
        });
    });
    std::thread::spawn(move || {
        pass(&back, down, |data, _| {
            let client = *client.lock().unwrap();
            if let Some(client) = client {
                let _ = front.send_to(data, client);
            }
        });
    });
    address
}

fn pass(from: &UdpSocket, mut passes: impl FnMut(&[u8]) -> bool, mut send: impl FnMut(&[u8], SocketAddr)) {
    let mut buffer = vec![0; 65536];
    while let Ok((len, source)) = from.recv_from(&mut buffer) {
        if passes(&buffer[..len]) {
            send(&buffer[..len], source);
        }
    }
}

fn slowly(lost: u64) -> impl FnMut(&[u8]) -> bool {
    let (mut passed, mut count) = (0, 0_u64);
    move |data| {
        count += 1;
        passed += data.len();
        if passed >= PART {
            passed = 0;
            // Sleeps because the path is slow.
            std::thread::sleep(PAUSE);
        }
        count % lost != 0
    }
}
