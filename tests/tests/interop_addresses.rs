//! Interoperability of dynamic addresses (RFC 5061) with usrsctp and the Linux kernel's SCTP, over raw IP and
//! on two paths, while three of a hundred packets are lost in each direction. `make interop` starts the
//! peers' hosts.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
use strandline_proto::endpoint::Connect;
use strandline_proto::event::{Event, PathChange};
use strandline_proto::stats::Reachability;
use strandline_tests::driver::Driver;
use strandline_tests::peer::PeerProcess;
use strandline_tests::session::{Session, ip, quick};
use strandline_tests::traffic::plan;

const SCTP_PORT: u16 = 5001;
/// This side's addresses, the first of which the association begins with.
const HERE: [&str; 2] = ["10.132.1.1", "10.132.2.1"];
/// Packets lost of a thousand, in each direction.
const LOSS: u32 = 30;
/// Number of messages between two changes.
const MESSAGES: u32 = 50;

/// Another stack.
struct Other {
    start: fn(&str) -> PeerProcess,
    /// Its addresses, the first of which the association begins with.
    addresses: [&'static str; 2],
    /// Its number of the event that a path was added. Those of the paths removed and made primary stand around it.
    added: u32,
    /// True if its DATA may be outstanding at an address that this side deletes. See docs/interop.md.
    moves_data: bool,
    /// True if a request of its own may be lost. See docs/interop.md.
    repeats_requests: bool,
}

const USRSCTP: Other = Other {
    start: PeerProcess::usrsctp_on_a_host_of_its_own,
    addresses: ["10.132.1.2", "10.132.2.2"],
    added: 4,
    moves_data: false,
    repeats_requests: false,
};

const KERNEL: Other = Other {
    start: PeerProcess::lksctp,
    addresses: ["10.132.1.11", "10.132.2.11"],
    added: 3,
    moves_data: true,
    repeats_requests: true,
};

impl Other {
    fn driver(seed: u8) -> Driver {
        let mut association = AssociationConfig { path_retrans_max: 8, ..quick() };
        association.extensions.dynamic_addresses = true;
        let config = EndpointConfig {
            association: Arc::new(association),
            local_addresses: vec![ip(HERE[0])],
            ..EndpointConfig::default()
        };
        Driver::raw(ip("0.0.0.0"), config, seed)
    }

    /// Returns a session in which the peer echoes and this side connects.
    fn connected(&self, seed: u8, option: &str) -> Session {
        let mut driver = Self::driver(seed);
        let arguments = format!("echo {option} -T 300 -b {} -p {SCTP_PORT}", self.addresses[0]);
        let peer = driver.while_waiting(|| (self.start)(&arguments));
        let id = driver.connect(Connect::to(SocketAddr::new(ip(self.addresses[0]), 0), SCTP_PORT));
        let mut session = Session { driver, peer, id };
        session.expect("UP");
        session
    }

    /// Returns a session in which the peer connects, and sends messages for all steps, or for the first one.
    fn accepted(&self, seed: u8, option: &str) -> Session {
        let mut driver = Self::driver(seed);
        driver.endpoint.listen(SCTP_PORT).expect("the port is free");
        let count = if self.moves_data { MESSAGES * 6 } else { MESSAGES };
        let arguments = format!(
            "call -T 300 -B 6001 -b {} -c {} -n {count} -l 3000 {option}",
            self.addresses[0], HERE[0]
        );
        let peer = driver.while_waiting(|| (self.start)(&arguments));
        let id = driver.accept();
        Session { driver, peer, id }
    }

    /// Checks that the peer's path to this side's address has changed.
    fn sees(&self, session: &mut Session, address: &str, change: PathChange) {
        let number = match change {
            PathChange::Removed => self.added - 1,
            PathChange::Added => self.added,
            _ => self.added + 1,
        };
        session.expect(&format!("PATH {address} state={number}"));
    }

    /// Has the peer ask for a change of its addresses, and waits until this side has made it.
    fn requests(&self, session: &mut Session, command: &str, of: &str, wanted: PathChange) {
        session.driver.lose(if self.repeats_requests { LOSS } else { 0 });
        session.peer.tell(command);
        session.driver.event(&format!("{of} {wanted:?}"), |_, event| match event {
            Event::PathChanged { address, change } if address.ip() == ip(of) && *change == wanted => Some(()),
            _ => None,
        });
        session.driver.lose(LOSS);
    }

    /// Each side adds an address, makes it primary and deletes the first one. `traffic` exchanges messages, and
    /// `first` does before the first change.
    fn both_sides_move(&self, mut session: Session, first: fn(&mut Session), traffic: fn(&mut Session)) {
        session.driver.lose(LOSS);
        first(&mut session);
        ask(&mut session, AddressRequest::Add(ip(HERE[1])));
        self.sees(&mut session, HERE[1], PathChange::Added);
        traffic(&mut session);
        ask(&mut session, AddressRequest::SetPrimary(ip(HERE[1])));
        self.sees(&mut session, HERE[1], PathChange::Primary);
        if !self.moves_data {
            session.driver.run_for(Duration::from_secs(2));
        }
        ask(&mut session, AddressRequest::Delete(ip(HERE[0])));
        self.sees(&mut session, HERE[0], PathChange::Removed);
        traffic(&mut session);
        let [first, second] = self.addresses;
        self.requests(&mut session, &format!("address add {second}"), second, PathChange::Added);
        session.path_is(second, Reachability::Active);
        traffic(&mut session);
        self.requests(&mut session, &format!("address primary {second}"), second, PathChange::Primary);
        traffic(&mut session);
        self.requests(&mut session, &format!("address delete {first}"), first, PathChange::Removed);
        traffic(&mut session);
        session.driver.lose(0);
        session.shut_down();
    }
}

/// Asks the peer for a change of this side's addresses, and waits until it is performed.
fn ask(session: &mut Session, wanted: AddressRequest) {
    let (now, id) = (session.driver.now(), session.id);
    assert_eq!(session.driver.endpoint.addresses(id).request(now, &[wanted]), Ok(()));
    let outcome = session.driver.event("AddressRequest", |_, event| match event {
        Event::AddressRequest { request, outcome } if *request == wanted => Some(*outcome),
        _ => None,
    });
    assert_eq!(outcome, AddressOutcome::Performed, "{wanted:?}");
}

fn exchange(session: &mut Session) {
    session.exchange(&plan(MESSAGES, 3000, 3));
}

fn echo(session: &mut Session) {
    session.driver.echo(session.id, MESSAGES as usize);
}

/// Sends messages, and waits until the peer has acknowledged them.
fn send(session: &mut Session) {
    let id = session.id;
    session.driver.send_all(id, &plan(MESSAGES, 3000, 3));
    session.driver.until("nothing is outstanding", |driver| {
        driver.endpoint.status(id).is_some_and(|status| status.send_buffered == 0).then_some(())
    });
}

#[test]
fn this_side_connects_to_usrsctp() {
    USRSCTP.both_sides_move(USRSCTP.connected(90, ""), exchange, exchange);
}

#[test]
fn usrsctp_connects() {
    USRSCTP.both_sides_move(USRSCTP.accepted(91, ""), echo, send);
}

#[test]
fn this_side_connects_to_the_kernel() {
    KERNEL.both_sides_move(KERNEL.connected(92, ""), exchange, exchange);
}

#[test]
fn the_kernel_connects() {
    KERNEL.both_sides_move(KERNEL.accepted(93, ""), echo, echo);
}

impl Other {
    /// A NAT gives this side another address. Requests for the wildcard address, which stands for the source
    /// of their packet (RFC 5061 sections 4.2.1, 4.2.2 and 4.2.4), move the association there.
    fn moves_behind_a_nat(&self, mut session: Session, first: fn(&mut Session), traffic: fn(&mut Session)) {
        session.driver.lose(LOSS);
        first(&mut session);
        session.driver.translate(ip(HERE[0]), ip(HERE[1]));
        ask(&mut session, AddressRequest::Add(ip("0.0.0.0")));
        self.sees(&mut session, HERE[1], PathChange::Added);
        session.expect_or_seen(&format!("PATH {} state={}", HERE[1], self.added + 2));
        ask(&mut session, AddressRequest::SetPrimary(ip("0.0.0.0")));
        self.sees(&mut session, HERE[1], PathChange::Primary);
        if !self.moves_data {
            session.driver.run_for(Duration::from_secs(2));
        }
        ask(&mut session, AddressRequest::Delete(ip("0.0.0.0")));
        self.sees(&mut session, HERE[0], PathChange::Removed);
        traffic(&mut session);
        session.driver.lose(0);
        session.shut_down();
    }
}

#[test]
fn a_nat_moves_this_side_from_usrsctp() {
    // With the option it takes the source of a packet for a wildcard address.
    USRSCTP.moves_behind_a_nat(USRSCTP.connected(94, "-W"), exchange, exchange);
    USRSCTP.moves_behind_a_nat(USRSCTP.accepted(95, "-W"), echo, send);
}

#[test]
fn a_nat_moves_this_side_from_the_kernel() {
    KERNEL.moves_behind_a_nat(KERNEL.connected(96, ""), exchange, exchange);
    KERNEL.moves_behind_a_nat(KERNEL.accepted(97, "-n 100"), echo, echo);
}
