//! sipp, an independent user agent, installed by `tests/interop/setup`.

use std::process::{Child, Command, Stdio};

use super::ports::free_port;
use super::sip_server::Server;

/// Starts sipp with a scenario; `transport` selects its number of sockets (`u1`, `un`).
pub fn start(server: &Server, protocol: &str, transport: &str, scenario: &str, more: &[&str]) -> Child {
    let port = free_port();
    start_at(server, protocol, transport, scenario, port, more)
}

/// Starts sipp on a given port.
pub fn start_at(
    server: &Server,
    protocol: &str,
    transport: &str,
    scenario: &str,
    port: u16,
    more: &[&str],
) -> Child {
    let scenario = format!("{}/tests/sipp/{scenario}.xml", env!("CARGO_MANIFEST_DIR"));
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

pub fn succeed(child: Child, what: &str) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}; sipp said: {said}", output.status);
}
