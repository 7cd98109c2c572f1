//! Ports for other programs, which can't be told to choose one and report it.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns a port that is free for UDP and TCP, and different in each call in a process. It is below the
/// kernel's ephemeral ports (from 32,768): otherwise a socket of another test may take it before the program
/// binds.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + (std::process::id() % 100) as u16 * 100;
    (0..100)
        .map(|_| start + NEXT.fetch_add(1, Ordering::Relaxed) % 100)
        .find(|&port| {
            UdpSocket::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok()
        })
        .unwrap_or_else(|| panic!("no port of {start} to {} is free", start + 99))
}
