//! Tests that a request for a peer that refuses associations is sent to the next target at once.

use crate::sip_server::Server;
use crate::udp_phone::Phone;

/// A stack at the encapsulation port without a listener on this SCTP port: it answers with ABORT.
const NOBODY: &str = "127.0.0.77:5099";

fn message(phone: &Phone, to: &str) -> String {
    let at = phone.socket.local_addr().unwrap();
    format!(
        "MESSAGE sip:{to}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{to};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <sip:{to}@example.com>\r\nCall-ID: {to}\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

#[test]
fn target_refusing_associations_is_skipped_at_once() {
    let _there = Server::start(&["--listen", "sctp:127.0.0.77:9899"]);
    for style in ["one-to-many", "one-to-one"] {
        let (caller, trunk) = (Phone::new(), Phone::new());
        // The hops' time-outs are longer than the phone waits, so only the ABORT can cause the failover.
        let config = format!(
            "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n[[listen]]\n\
             protocol = \"sctp\"\naddress = \"127.0.0.1:0\"\nstyle = \"{style}\"\n[relay]\nopen = true\n[timers]\n\
             failover_ms = 32000\nt1_ms = 10000\nt2_ms = 10000\n[[route]]\nprefix = \"+44\"\n\
             to = [{{ uri = \"sip:{NOBODY};transport=sctp\", priority = 1 }}, {{ uri = \"sip:{}\", priority = 2 }}]\n\
             [[route]]\nprefix = \"+45\"\nto = [\"sip:{NOBODY};transport=sctp\"]\n",
            trunk.socket.local_addr().unwrap()
        );
        let file = std::env::temp_dir().join(format!("strandline-sctp-{style}-{}.toml", std::process::id()));
        std::fs::write(&file, config).unwrap();
        let server = Server::configured(&file);
        std::fs::remove_file(&file).unwrap();
        caller.send(&server, &message(&caller, "+441"));
        let came = trunk.receive();
        assert!(came.starts_with("MESSAGE sip:+441@"), "{style}: {came}");
        // Without another target, the caller receives an error.
        caller.send(&server, &message(&caller, "+451"));
        let answer = caller.receive();
        assert!(answer.starts_with("SIP/2.0 500 "), "{style}: {answer}");
    }
}
