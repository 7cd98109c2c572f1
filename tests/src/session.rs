//! Tests common to all other stacks: an association with a [`PeerProcess`], and operations on it.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use strandline_proto::config::AssociationConfig;
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::stats::Reachability;

use crate::driver::Driver;
use crate::peer::PeerProcess;
use crate::traffic::{Planned, plan, unordered};

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
