//! A slow path for datagrams, with losses.
#![allow(clippy::disallowed_methods, reason = "a slow path pauses in real time")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that a path passes on before it pauses, and for how long: about 10 MB/s.
const PART: usize = 20_000;
const PAUSE: Duration = Duration::from_millis(2);

/// Passes datagrams on in both directions, slowly, and loses each of this number.
pub fn slow_path(to: SocketAddr, lost: u64) -> SocketAddr {
    let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = front.local_addr().unwrap();
    let client = Arc::new(std::sync::Mutex::new(None));
    let (known, from, out) = (Arc::clone(&client), Arc::clone(&front), Arc::clone(&back));
    std::thread::spawn(move || {
        pass(&from, lost, |data, source| {
            *known.lock().unwrap() = Some(source);
            let _ = out.send_to(data, to);
        });
    });
    std::thread::spawn(move || {
        pass(&back, lost, |data, _| {
            let client = *client.lock().unwrap();
            if let Some(client) = client {
                let _ = front.send_to(data, client);
            }
        });
    });
    address
}

fn pass(from: &UdpSocket, lost: u64, mut send: impl FnMut(&[u8], SocketAddr)) {
    let mut buffer = vec![0; 65536];
    let (mut passed, mut count) = (0, 0_u64);
    while let Ok((len, source)) = from.recv_from(&mut buffer) {
        count += 1;
        if count % lost != 0 {
            send(&buffer[..len], source);
        }
        passed += len;
        if passed >= PART {
            passed = 0;
            // Sleeps because the path is slow.
            std::thread::sleep(PAUSE);
        }
    }
}
