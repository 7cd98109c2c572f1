use std::time::Duration;

use tokio::time::Instant;

use super::*;

/// A socket that is shut down again and again is opened ever more slowly.
#[tokio::test(start_paused = true)]
async fn repeated_failures_slow_down() {
    let socket = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let at = socket.local_addr().unwrap();
    let socket = ClientSocket::new(socket, at);
    let (mut errors, begun) = (AcceptErrors::default(), Instant::now());
    for _ in 0..6 {
        let descriptor = socket.descriptor().unwrap().unwrap();
        // It is shut down, although the kernel says that it is not connected.
        let _ = rustix::net::shutdown(&descriptor, rustix::net::Shutdown::Both);
        drop(descriptor);
        let again = async {
            let mut has_failed = socket.failures();
            for expected in [true, false] {
                has_failed.wait_for(|has_failed| *has_failed == expected).await.unwrap();
            }
        };
        let mut room = [0; 16];
        tokio::select! {
            _ = socket.recv_from(&mut room, &mut errors) => unreachable!("nothing is sent"),
            () = again => {}
        }
    }
    // 0.2, 0.4, 0.8, 1.6, 3.2 and 5 s.
    assert!(begun.elapsed() >= Duration::from_secs(11), "{:?}", begun.elapsed());
}
