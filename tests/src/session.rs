//! Tests common to all other stacks: an association with a [`PeerProcess`], and operations on it.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use strandline_proto::config::{AssociationConfig, Multipath};
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::reliability::Reliability;
use strandline_proto::stats::{AgreedExtensions, Reachability};
use strandline_wire::chunk::kind;

use crate::driver::Driver;
use crate::peer::PeerProcess;
use crate::traffic::{Planned, check_limits, plan, unordered};

/// Packets lost in each direction in tests with losses, of a thousand.
pub const LOSS_PER_MILLE: u32 = 30;
/// How long nothing arrives: longer than the lifetimes of tests.
const BLACKOUT: Duration = Duration::from_millis(100);

/// Returns the number behind `name` in a line of the peer that begins with `start`.
fn field(line: &str, start: &str, name: &str) -> Option<u32> {
    let words = line.strip_prefix(start)?.split_whitespace();
    words.filter_map(|word| word.strip_prefix(name)).find_map(|number| number.parse().ok())
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
        self.driver.lose(LOSS_PER_MILLE);
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

    /// Sends messages with a limit to a peer that prints what it receives, while three of a hundred packets
    /// are lost in each direction, and all for `BLACKOUT` in the middle. Each arrives, or is reported as
    /// given up. Those of a stream stay in order.
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

    /// Receives messages with a limit of a peer that sends them once told to, while all packets are lost
    /// until it gives some up, and then three of a hundred in each direction, to the end if the stack
    /// [ends under losses](crate::peer::PeerProcess::ends_under_losses). `reports` is true if that stack
    /// reports messages that it has given up. Returns the PPIDs of those that arrived.
    ///
    /// # Panics
    /// If one neither arrives nor is reported to the peer's application, or messages of a stream change their order, or
    /// nothing was given up.
    pub fn receive_with_limits(mut self, plan: &[Planned], reports: bool) -> Vec<u32> {
        let skips = if self.agreed().interleaving { kind::I_FORWARD_TSN } else { kind::FORWARD_TSN };
        self.driver.lose(1000);
        self.peer.tell("go");
        self.driver.until("a FORWARD TSN", |driver| driver.kinds_lost.contains(&skips).then_some(()));
        self.driver.lose(LOSS_PER_MILLE);
        // pion waits for 16 s after its fifth retransmission.
        let peer = &mut self.peer;
        self.driver.until("SENT", |_| peer.seen().iter().any(|line| line.starts_with("SENT")).then_some(()));
        self.receive_rest_with_limits(plan, skips, reports)
    }

    /// As [`receive_with_limits`](Self::receive_with_limits), with a peer that was started with `-P LOW`: its
    /// first `low` messages give way to the others (RFC 7496 section 4.1).
    ///
    /// # Panics
    /// If the others don't all arrive.
    pub fn receive_by_priority(self, plan: &[Planned], low: u32, reports: bool) {
        let received = self.receive_with_limits(plan, reports);
        let lost: Vec<u32> = (low + 1..=plan.len() as u32).filter(|ppid| !received.contains(ppid)).collect();
        assert!(lost.is_empty(), "of high priority and lost: {lost:?}");
    }

    /// Makes the peer shut down after what it has sent with limits. Returns the PPIDs of what arrived.
    fn receive_rest_with_limits(mut self, plan: &[Planned], skips: u8, reports: bool) -> Vec<u32> {
        let (mut received, mut parts) = (Vec::new(), Vec::new());
        if !self.peer.ends_under_losses {
            self.driver.lose(0);
        }
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
        assert!(self.driver.kinds_received.contains(&skips), "{:?}", self.driver.kinds_received);
        let failed: Vec<u32> =
            self.peer.seen().iter().filter_map(|line| field(line, "FAILED", "ppid=")).collect();
        check_limits(plan, &received, reports.then_some(&failed));
        received
    }

    /// Sends 30 messages of low priority and 15 of high priority (RFC 7496 section 4.1) to a peer that prints
    /// what it receives, while everything is lost. The latter arrive, and only some of the others are
    /// reported as given up. The send buffer must have 64 KiB.
    ///
    /// # Panics
    /// If that isn't so.
    pub fn send_by_priority(&mut self) {
        self.driver.lose(1000);
        // What is in flight keeps its room in the send buffer until it is acknowledged.
        for (index, planned) in plan(45, 2000, 3).into_iter().enumerate() {
            let priority = if index < 30 { 9 } else { 1 };
            let info = planned.info().reliability(Reliability::priority(priority));
            self.driver.send(self.id, info, planned.data());
            self.driver.run_for(Duration::from_millis(1));
        }
        self.driver.lose(LOSS_PER_MILLE);
        self.expect("RX len=2000 stream=2 ppid=45");
        self.driver
            .until("the failed messages are reported", |driver| (!driver.failed.is_empty()).then_some(()));
        assert!(self.driver.failed.iter().all(|ppid| *ppid <= 30), "{:?}", self.driver.failed);
    }

    /// Sends messages on all paths at once (CMT), while three of a hundred packets are lost in each direction.
    ///
    /// # Panics
    /// If one of the peer's addresses gets less than a quarter of the packets.
    pub fn uses_both_paths(&mut self, there: &[IpAddr; 2]) {
        for address in there {
            self.driver.path_is(self.id, *address, Reachability::Active);
        }
        let now = self.driver.now();
        let mut association = quick();
        association.extensions.multipath = Multipath::Coupled;
        self.driver.endpoint.configure(now, self.id, association.into()).expect("the association lives");
        self.driver.lose(LOSS_PER_MILLE);
        self.driver.data_packets.clear();
        let id = self.id;
        self.driver.send_all(id, &plan(200, 20_000, 7));
        self.driver.until("nothing is outstanding", |driver| {
            (driver.endpoint.status(id)?.send_buffered == 0).then_some(())
        });
        self.driver.lose(0);
        assert!(self.both_have_data(there), "{:?}", self.driver.data_packets);
    }

    /// Returns whether each of these addresses, of one side, has received at least a quarter of the packets
    /// with data to both.
    #[must_use]
    pub fn both_have_data(&self, addresses: &[IpAddr; 2]) -> bool {
        let counts = addresses.map(|address| self.driver.data_packets.get(&address).copied().unwrap_or(0));
        counts.iter().all(|count| *count > 0 && *count >= counts.iter().sum::<usize>() / 4)
    }

    /// Waits until the kernel, started with `-m`, has found that packets of nearly 1,500 bytes pass.
    ///
    /// # Panics
    /// If it finds it not.
    pub fn kernel_finds_the_path_mtu(&mut self) {
        self.driver.until("a PAD chunk", |driver| driver.kinds_received.contains(&kind::PAD).then_some(()));
        let found = (0..600).any(|_| {
            self.peer.tell("mtu");
            let mtu = field(&self.expect("MTU "), "MTU", "");
            self.driver.run_for(Duration::from_millis(50));
            mtu.is_some_and(|mtu| (1480..=1500).contains(&mtu))
        });
        assert!(found, "{:?}", self.peer.seen());
        self.nothing_was_reported();
    }

    /// The network marks packets in both directions, which each side reports and answers, and loses three of
    /// a hundred, while messages are exchanged: the peer echoes, or sends 1,000 messages and waits for their
    /// echoes.
    ///
    /// # Panics
    /// If no report or no answer came, or the reports don't end.
    pub fn answers_marks(&mut self, peer_echoes: bool) {
        self.driver.lose(LOSS_PER_MILLE);
        self.driver.mark_every(10);
        self.driver.mark_sent(10);
        if peer_echoes {
            self.exchange(&plan(1000, 1000, 3));
        } else {
            self.driver.echo(self.id, 990);
        }
        let status = self.driver.endpoint.status(self.id).expect("the association lives");
        let kinds = self.driver.kinds_received.clone();
        assert!(status.stats.marks_received > 0 && kinds.contains(&kind::CWR), "{kinds:?} {status:?}");
        assert!(status.marks_answered > 0 && kinds.contains(&kind::ECNE), "{kinds:?} {status:?}");
        self.driver.mark_every(0);
        self.driver.mark_sent(0);
        if peer_echoes {
            // Answers to the last marks end the reports of both sides.
            let ends = (0..20).any(|_| {
                self.driver.kinds_received.clear();
                self.exchange(&plan(200, 1000, 3));
                let kinds = &self.driver.kinds_received;
                !kinds.contains(&kind::ECNE) && !kinds.contains(&kind::CWR)
            });
            assert!(ends, "{:?}", self.driver.kinds_received);
        } else {
            self.driver.echo(self.id, 10);
            self.expect("ECHOED 1000");
        }
        self.driver.lose(0);
    }

    /// A NAT gives this side another UDP port several times, while three of a hundred packets are lost. The peer
    /// echoes.
    pub fn changes_port_under_losses(mut self) {
        self.driver.lose(LOSS_PER_MILLE);
        self.exchange(&plan(100, 2000, 3));
        for _ in 0..3 {
            self.driver.rebind();
            self.exchange(&plan(200, 2000, 3));
        }
        self.driver.lose(0);
        self.shut_down();
    }

    /// Waits for the report of the peer's adaptation layer.
    ///
    /// # Panics
    /// If it is another one.
    pub fn hears_of_the_adaptation_layer(&mut self, wanted: u32) {
        let found = self.driver.event("AdaptationLayer", |_, event| match event {
            Event::AdaptationLayer { code_point } => Some(*code_point),
            _ => None,
        });
        assert_eq!((found, self.agreed().adaptation_layer), (wanted, Some(wanted)));
    }

    /// Waits for a line of the peer with this prefix, unless it has printed one already.
    pub fn expect_or_seen(&mut self, start: &str) {
        if !self.peer.seen().iter().any(|line| line.starts_with(start)) {
            self.expect(start);
        }
    }

    /// Asserts that the peer has reported nothing of this side as unknown or wrong.
    ///
    /// # Panics
    /// If it has.
    pub fn nothing_was_reported(&self) {
        let kinds = &self.driver.kinds_received;
        assert!(!kinds.contains(&kind::ERROR) && !kinds.contains(&kind::ABORT), "{kinds:?}");
    }

    /// Sends messages until this side has found that packets of 1,500 bytes pass on all paths (RFC 8899), by
    /// HEARTBEATs that are filled with a PAD chunk (RFC 4820).
    ///
    /// # Panics
    /// If it finds it not, or has known it before.
    pub fn finds_the_path_mtu(&mut self) {
        let is_found = |session: &Self| {
            let paths = session.driver.endpoint.paths(session.id).expect("the association lives");
            paths.iter().filter(|path| path.primary).all(|path| path.mtu == 1500)
        };
        assert!(!is_found(self), "it was known");
        let id = self.id;
        let found = (0..50).any(|_| {
            self.driver.send_all(id, &plan(50, 2000, 3));
            self.driver.until("nothing is outstanding", |driver| {
                (driver.endpoint.status(id)?.send_buffered == 0).then_some(())
            });
            is_found(self)
        });
        assert!(found, "{:?}", self.driver.endpoint.paths(id));
        self.nothing_was_reported();
    }

    /// Returns what the association has agreed on.
    ///
    /// # Panics
    /// If it has ended.
    #[must_use]
    pub fn agreed(&self) -> AgreedExtensions {
        self.driver.endpoint.status(self.id).expect("the association lives").extensions
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
