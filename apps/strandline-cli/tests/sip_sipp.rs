//! `strandline sip` with sipp, a user agent that isn't ours: `tests/interop/setup` installs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first error")]

mod sip_server;

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use sip_server::Server;

const CALLS: &str = "100";

fn sipp(server: &Server, protocol: &str, scenario: &str, port: u16, more: &[&str]) -> Child {
    let scenario = format!("{}/tests/sipp/{scenario}.xml", env!("CARGO_MANIFEST_DIR"));
    let transport = if protocol == "udp" { "u1" } else { "t1" };
    Command::new("sipp")
        .arg(server.address(protocol).to_string())
        .args(["-sf", &scenario, "-t", transport, "-i", "127.0.0.1", "-p", &port.to_string(), "-nostdin"])
        .args(["-timeout", "60", "-timeout_error"])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("sipp: {error}; tests/interop/setup installs it"))
}

fn succeed(child: Child, what: &str) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}; sipp said: {said}", output.status);
}

/// A port that nothing has for either protocol, each once in a process. It lies below the kernel's
/// ephemeral ports (from 32,768), or a connection of the other test may take it before sipp binds.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + (std::process::id() % 100) as u16 * 100;
    (0..100)
        .map(|_| start + NEXT.fetch_add(1, Ordering::Relaxed) % 100)
        .find(|&port| {
            UdpSocket::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok()
        })
        .unwrap_or_else(|| panic!("no port of {start} to {} is free", start + 99))
}

#[test]
fn sipp_registers() {
    let server = Server::start(&[]);
    for protocol in ["udp", "tcp"] {
        let child = sipp(&server, protocol, "register", free_port(), &["-r", "500", "-m", "500"]);
        succeed(child, protocol);
    }
}

#[test]
fn sipp_calls_sipp_through_the_proxy() {
    let server = Server::start(&[]);
    for protocol in ["udp", "tcp"] {
        let port = free_port();
        let bob = port.to_string();
        succeed(
            sipp(&server, protocol, "register_bob", free_port(), &["-m", "1", "-key", "bob_port", &bob]),
            "registering",
        );
        let callee = sipp(&server, protocol, "callee", port, &["-m", CALLS]);
        let caller = sipp(&server, protocol, "caller", free_port(), &["-m", CALLS, "-r", "50"]);
        succeed(caller, "calling");
        succeed(callee, "being called");
    }
}
