//! Interoperability tests of `strandline sip` with sipp, installed by `tests/interop/setup`.

use crate::ports::free_port;
use crate::sip_server::Server;
use crate::sipp::{start, start_at, succeed};

const CALLS: &str = "100";

#[test]
fn sipp_registers() {
    let server = Server::start(&[]);
    for (protocol, transport) in [("udp", "u1"), ("tcp", "t1")] {
        let child = start(&server, protocol, transport, "register", &["-r", "500", "-m", "500"]);
        succeed(child, protocol);
    }
}

#[test]
fn sipp_calls_sipp_through_the_proxy() {
    let server = Server::start(&[]);
    for (protocol, transport) in [("udp", "u1"), ("tcp", "t1")] {
        let port = free_port();
        let bob = port.to_string();
        let more = ["-m", "1", "-key", "bob_port", &bob];
        succeed(start(&server, protocol, transport, "register_bob", &more), "registering");
        let callee = start_at(&server, protocol, transport, "callee", port, &["-m", CALLS]);
        let caller = start(&server, protocol, transport, "caller", &["-m", CALLS, "-r", "50"]);
        succeed(caller, "calling");
        succeed(callee, "being called");
    }
}
