use std::net::UdpSocket;
use std::time::Duration;

use super::*;
use crate::server::clock::Clock;
use crate::server::inbox::{Inbox, InboxSettings};
use crate::server::socket::Connections;
use crate::service::{Seeds, Service, Settings};

/// Enough time for any machine.
const LONG: Duration = Duration::from_secs(120);
/// Number of datagrams sent before one of them is handled.
const AT_ONCE: usize = 100;

/// A shard in which only the receiver runs, and its socket.
fn shard() -> (Rc<Hub>, Rc<Udp>) {
    let clock = Clock::start();
    let seeds = Seeds { tokens: [2; 16], ..Seeds::repeated(1) };
    let service = Service::new(Settings::default(), &seeds, clock.epoch_unix_secs);
    let (connections, _) = Connections::new(clock.epoch_unix_secs);
    let inbox = Inbox::new(InboxSettings::default(), None, [3; 16]);
    let hub = Hub::new(service, clock, connections, None, inbox);
    let udp = Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    hub.transports.udp.replace(Some(Rc::clone(&udp)));
    (hub, udp)
}

/// Sends new calls.
fn flood(from: &UdpSocket, made: &mut u64) {
    for _ in 0..AT_ONCE {
        *made += 1;
        let invite = format!(
            "INVITE sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK{made};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=7\r\nTo: <sip:b@example.com>\r\n\
             Call-ID: {made}@127.0.0.1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        from.send(invite.as_bytes()).unwrap();
    }
}

/// In a flood, timers are late, so the receiver itself must close the gate.
#[test]
fn who_reads_closes_the_gate() {
    let (hub, udp) = shard();
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(udp.local_addr().unwrap()).unwrap();
    let mut made = 0;
    while hub.intake.let_through.get() == 1.0 {
        flood(&from, &mut made);
        while take(&udp, &hub).0 > 0 {}
        // Handle one of them.
        hub.intake.inbox(|inbox| inbox.next(hub.clock.elapsed()));
        assert!(hub.clock.elapsed() < LONG, "of {made} calls that came at once nobody was stopped");
    }
    assert!(hub.intake.let_through.get() < 0.9, "{}", hub.intake.let_through.get());
    // The kernel drops the others.
    let before = udp.stopped();
    flood(&from, &mut made);
    assert!(udp.stopped() > before);
}
