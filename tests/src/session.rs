//! Tests common to all other stacks: an association with a [`PeerProcess`], and operations on it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use strandline_proto::config::AssociationConfig;
use strandline_proto::endpoint::Connect;
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::reliability::Reliability;
use strandline_proto::stats::Reachability;
use strandline_wire::chunk::kind;

use crate::driver::Driver;
use crate::peer::{PeerProcess, free_udp_port};
use crate::traffic::{Planned, plan, unordered};

/// Packets lost in each direction in tests with losses, of a thousand.
const LOSS_PER_MILLE: u32 = 30;
/// How long nothing arrives: longer than the lifetimes of tests.
const BLACKOUT: Duration = Duration::from_millis(100);

/// Returns the number behind `name` in a line of the peer that begins with `start`.
fn field(line: &str, start: &str, name: &str) -> Option<u32> {
    let words = line.strip_prefix(start)?.split_whitespace();
    words.filter_map(|word| word.strip_prefix(name)).find_map(|number| number.parse().ok())
}

/// Checks the PPIDs of messages that were received, and of those that were reported as failed, if they are.
fn check_limits(plan: &[Planned], received: &[u32], failed: Option<&[u32]>) {
    let missing: Vec<u32> = (1..=plan.len() as u32).filter(|ppid| !received.contains(ppid)).collect();
    assert!(!missing.is_empty() && missing.len() < plan.len(), "{} missing", missing.len());
    let is_unknown = |ppid: &&u32| failed.is_some_and(|failed| !failed.contains(ppid));
    let unknown: Vec<_> = missing.iter().filter(is_unknown).collect();
    assert!(unknown.is_empty(), "neither arrived nor reported: {unknown:?}");
    let mut last = BTreeMap::new();
    for planned in received.iter().filter_map(|ppid| plan.get(*ppid as usize - 1)) {
        let before = last.insert(planned.stream, planned.number);
        assert!(before.is_none_or(|before| before < planned.number), "{before:?} before {planned:?}");
    }
}

/// Parses an address in a test's table.
///
/// # Panics
/// If it isn't an address.
#[must_use]
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns timers for a network with a round trip of milliseconds, so that failures are detected within
/// seconds.
#[must_use]
pub fn quick() -> AssociationConfig {
    AssociationConfig {
        rto_initial: Duration::from_millis(300),
        rto_min: Duration::from_millis(300),
        rto_max: Duration::from_millis(1200),
        heartbeat_interval: Some(Duration::from_millis(300)),
        path_retrans_max: 2,
        ..AssociationConfig::default()
    }
}

/// An association between this side and another stack. Each method fails the test if something else happens.
#[derive(Debug)]
pub struct Session {
    /// This side.
    pub driver: Driver,
    /// The other stack.
    pub peer: PeerProcess,
    /// Identifier of the association on this side.
    pub id: AssociationId,
}

impl Session {
    /// Starts a session with usrsctp, on this SCTP port and with these options: the driver connects to its echo server, or
    /// usrsctp connects and sends 200 messages of 20,000 bytes on seven streams.
    ///
    /// # Panics
    /// If there is no association in time.
    #[must_use]
    pub fn usrsctp(mut driver: Driver, connects: bool, sctp_port: u16, options: &str) -> Self {
        let udp_port = free_udp_port();
        if connects {
            let peer = PeerProcess::usrsctp(&format!("echo {options} -u {udp_port} -p {sctp_port}"));
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, udp_port));
            let id = driver.connect(Connect::to(to, sctp_port));
            let mut session = Self { driver, peer, id };
            session.expect("UP");
            return session;
        }
        driver.endpoint.listen(sctp_port).expect("the port is free");
        let own = driver.local_addr().port();
        let peer = PeerProcess::usrsctp(&format!(
            "call {options} -c 127.0.0.1 -b 127.0.0.1 -u {udp_port} -U {own} -p {sctp_port} -n 200 -l 20000 -s 7"
        ));
        let id = driver.accept();
        Self { driver, peer, id }
    }

    /// Waits for a line of the peer with this prefix, and returns it.
    pub fn expect(&mut self, start: &str) -> String {
        self.driver.while_waiting(|| self.peer.expect(start))
    }

    /// Sends messages to a peer that echoes, and waits for all of them to come back.
    pub fn exchange(&mut self, plan: &[Planned]) {
        self.driver.exchange(self.id, plan);
    }

    /// Exchanges small and large messages, on many streams, ordered and unordered.
    pub fn exchange_many_kinds(&mut self) {
        self.exchange(&plan(1000, 64, 200));
        self.exchange(&plan(3, 1 << 20, 2));
        self.exchange(&unordered(200, 700, 3));
    }

    /// Exchanges messages while three of a hundred packets are lost in each direction.
    pub fn exchange_with_losses(&mut self) {
        self.driver.lose(30);
        self.exchange(&plan(60, 5000, 3));
        self.driver.lose(0);
    }

    /// Echoes all messages of a peer that connected, which then reports that they came back.
    pub fn echo(&mut self, count: usize) {
        self.driver.echo(self.id, count);
        self.expect(&format!("ECHOED {count}"));
    }

    /// Waits for the end of the association on this side.
    pub fn closed(&mut self) -> CloseReason {
        self.driver.closed(self.id)
    }

    /// Waits until the path to this address of the peer has the wanted state.
    pub fn path_is(&mut self, address: &str, wanted: Reachability) {
        self.driver.path_is(self.id, ip(address), wanted);
    }

    /// Waits until the peer has restarted the association.
    pub fn restarted(&mut self) {
        let id = self.id;
        self.driver.event("Restarted", |of, event| {
            (of == id && matches!(event, Event::Restarted { .. })).then_some(())
        });
    }

    /// Sends messages with a limit to a peer that prints what it receives, while three of a hundred packets are lost in
    /// each direction, and all for `BLACKOUT` in the middle. Each arrives, or is reported as given up. Those of a stream stay in order.
    ///
    /// # Panics
    /// If that isn't so, or nothing was given up.
    pub fn send_with_limits(&mut self, plan: &[Planned], limit: Reliability) {
        for (index, planned) in plan.iter().enumerate() {
            let blackout = index == plan.len() / 2;
            self.driver.lose(if blackout { 1000 } else { LOSS_PER_MILLE });
            self.driver.send(self.id, planned.info().reliability(limit), planned.data());
            self.driver.run_for(if blackout { BLACKOUT } else { Duration::from_millis(1) });
        }
        self.driver.until("nothing is outstanding", |driver| {
            driver.endpoint.status(self.id).is_some_and(|status| status.send_buffered == 0).then_some(())
        });
        self.driver.lose(0);
        let last = Planned { number: plan.len() as u32, stream: 0, length: 100, unordered: false };
        self.driver.send(self.id, last.info(), last.data());
        self.expect(&format!("RX len=100 stream=0 ppid={}", last.number + 1));
        let received: Vec<u32> =
            self.peer.seen().iter().filter_map(|line| field(line, "RX", "ppid=")).collect();
        check_limits(plan, &received, Some(&self.driver.failed));
    }

    /// Receives messages with a limit of a peer that sends them, started with `send`, while three of a hundred packets
    /// are lost in each direction, and all for `BLACKOUT` at the beginning. `reports` is true if that stack reports messages
    /// that it has given up.
    ///
    /// # Panics
    /// If one neither arrives nor is reported to the peer's application, or messages of a stream change their order, or
    /// nothing was given up.
    pub fn receive_with_limits(mut self, plan: &[Planned], reports: bool) {
        let status = self.driver.endpoint.status(self.id);
        let interleaves = status.is_some_and(|status| status.extensions.interleaving);
        self.driver.lose(1000);
        self.driver.run_for(BLACKOUT);
        self.driver.lose(LOSS_PER_MILLE);
        let (mut received, mut parts) = (Vec::new(), Vec::new());
        self.expect("SENT");
        self.peer.tell("shutdown");
        let id = self.id;
        let reason = self.driver.until("the shutdown", |driver| {
            while let Some(message) = driver.recv(id, &mut parts) {
                let number = message.ppid.0 - 1;
                plan[number as usize].assert_is(&message);
                received.push(message.ppid.0);
            }
            driver.events.iter().find_map(|(of, event)| match event {
                Event::Closed(reason) if *of == id => Some(reason.clone()),
                _ => None,
            })
        });
        assert_eq!(reason, CloseReason::Shutdown);
        self.expect("CLOSED");
        let wanted = if interleaves { kind::I_FORWARD_TSN } else { kind::FORWARD_TSN };
        assert!(self.driver.kinds_received.contains(&wanted), "{:?}", self.driver.kinds_received);
        let failed: Vec<u32> =
            self.peer.seen().iter().filter_map(|line| field(line, "FAILED", "ppid=")).collect();
        check_limits(plan, &received, reports.then_some(&failed));
    }

    /// Shuts down from this side, and checks that both sides see the graceful end and no other.
    ///
    /// # Panics
    /// If a side doesn't.
    pub fn shut_down(mut self) {
        self.driver.endpoint.shutdown(self.driver.now(), self.id).expect("the association lives");
        assert_eq!(self.closed(), CloseReason::Shutdown);
        self.expect("CLOSED");
        assert!(!self.peer.seen().iter().any(|line| line.starts_with("LOST")), "{:?}", self.peer.seen());
    }

    /// Waits until the peer, started with `send -n 100 -l 2000 -s 4`, has sent everything and shuts down.
    ///
    /// # Panics
    /// If not everything arrives before the graceful end.
    pub fn is_shut_down(mut self) {
        self.driver.receive_all(self.id, &plan(100, 2000, 4));
        self.expect("SENT 100");
        self.peer.tell("shutdown");
        assert_eq!(self.closed(), CloseReason::Shutdown);
        self.expect("CLOSED");
    }

    /// Aborts from this side, and checks that the peer reports it as `told`.
    ///
    /// # Panics
    /// If this side doesn't end.
    pub fn abort(mut self, told: &str) {
        self.exchange(&plan(10, 100, 1));
        let now = self.driver.now();
        self.driver.endpoint.abort(now, self.id, "enough".into()).expect("the association lives");
        assert_eq!(self.closed(), CloseReason::Aborted);
        self.expect(told);
    }

    /// Waits for the peer's abort; returns the reason that it gave.
    ///
    /// # Panics
    /// If this side sees another end, or none.
    pub fn is_aborted(mut self) -> Bytes {
        self.exchange(&plan(10, 100, 1));
        self.peer.tell("abort");
        match self.closed() {
            CloseReason::PeerAborted { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }
}
