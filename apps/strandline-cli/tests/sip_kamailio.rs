//! Interoperability tests with Kamailio as the hop of a route, as an edge proxy that adds a Path, and as an
//! upstream proxy that adds a Record-Route; each over UDP and TCP, with an INVITE, a re-INVITE and a BYE from
//! either end.

use std::net::{Ipv4Addr, SocketAddr};

use crate::kamailio::Kamailio;
use crate::kamailio::agent::Agent;
use crate::sip_server::Server;

const PROTOCOLS: [&str; 2] = ["udp", "tcp"];

struct Both {
    server: Server,
    kamailio: Kamailio,
    /// Kamailio's address.
    at: SocketAddr,
    gateway: Agent,
}

/// Starts Strandline and Kamailio, connected over this protocol.
fn start(name: &str, protocol: &str, oc: &str) -> Both {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, crate::ports::free_port()));
    let gateway = Agent::new("gateway", "udp", at);
    let config = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n[[listen]]\n\
         protocol = \"tcp\"\naddress = \"127.0.0.1:0\"\n[[route]]\nprefix = \"+44\"\n\
         to = [\"sip:{at};transport={protocol}\"]\n{oc}\n[relay]\nfrom = [\"127.0.0.0/8\"]\n"
    );
    let file = std::env::temp_dir().join(format!("strandline-kamailio-{}-{name}.toml", std::process::id()));
    std::fs::write(&file, config).unwrap();
    let server = Server::configured(&file);
    std::fs::remove_file(&file).unwrap();
    let upstream = format!("sip:{};transport={protocol}", server.address(protocol));
    let kamailio = Kamailio::start(name, at, &upstream, gateway.address());
    Both { server, kamailio, at, gateway }
}

/// Makes a call with a re-INVITE from either end, and ends it from one of them.
fn call(caller: &mut Agent, callee: &mut Agent, uri: &str, callee_ends: bool) {
    let mut dialog = caller.call(uri, &format!("{}-{}-{callee_ends}", caller.name, caller.address().port()));
    let invite = callee.request("INVITE");
    let mut taken = callee.taken(&invite);
    callee.accept(&invite);
    caller.acknowledge(&mut dialog);
    callee.request("ACK");

    caller.send_within("INVITE", &mut dialog);
    let again = callee.request("INVITE");
    callee.accept(&again);
    caller.acknowledge(&mut dialog);
    callee.request("ACK");

    callee.send_within("INVITE", &mut taken);
    let again = caller.request("INVITE");
    caller.accept(&again);
    callee.acknowledge(&mut taken);
    caller.request("ACK");

    let (from, to, dialog) =
        if callee_ends { (callee, caller, &mut taken) } else { (caller, callee, &mut dialog) };
    let cseq = from.send_within("BYE", dialog);
    let bye = to.request("BYE");
    to.accept(&bye);
    let ok = from.response(&cseq);
    assert!(ok.starts_with("SIP/2.0 200 "), "{ok}");
}

fn calls(caller: &mut Agent, callee: &mut Agent, uri: &str, kamailio: &Kamailio) {
    for callee_ends in [false, true] {
        call(caller, callee, uri, callee_ends);
    }
    let log = kamailio.log();
    assert!(!log.contains("parse_via") && !log.contains("ERROR"), "{log}");
}

#[test]
fn kamailio_is_the_hop_of_a_route() {
    for protocol in PROTOCOLS {
        // `loss` is offered by default.
        for oc in ["", "oc = \"none\""] {
            let mut both = start("hop", protocol, oc);
            let mut caller = Agent::new("caller", protocol, both.server.address(protocol));
            calls(&mut caller, &mut both.gateway, "sip:+442079460000@example.com", &both.kamailio);
        }
    }
}

#[test]
fn kamailio_is_an_edge_with_a_path() {
    for protocol in PROTOCOLS {
        let both = start("edge", protocol, "");
        let mut phone = Agent::new("phone", protocol, both.at);
        let ok = phone.register("bob", "r");
        assert!(ok.starts_with("SIP/2.0 200 ") && ok.contains("\r\nPath: "), "{ok}");
        let mut caller = Agent::new("caller", protocol, both.server.address(protocol));
        calls(&mut caller, &mut phone, "sip:bob@example.com", &both.kamailio);
    }
}

#[test]
fn kamailio_is_upstream_with_a_record_route() {
    for protocol in PROTOCOLS {
        let both = start("upstream", protocol, "");
        let mut phone = Agent::new("phone", protocol, both.server.address(protocol));
        assert!(phone.register("bob", "r").starts_with("SIP/2.0 200 "));
        let mut caller = Agent::new("caller", protocol, both.at);
        calls(&mut caller, &mut phone, "sip:bob@example.com", &both.kamailio);
    }
}
