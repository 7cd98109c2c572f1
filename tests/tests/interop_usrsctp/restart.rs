//! Restarts of either side (RFC 9260 section 5.2), with and without authentication. Three of a hundred packets are lost
//! during the second set-up and after it.

use std::net::SocketAddr;

use strandline_proto::authentication::HmacAlgorithms;
use strandline_proto::endpoint::Connect;
use strandline_tests::authentication::{SECRET, demand, options, share_key};
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::session::{LOSS_PER_MILLE, Session};
use strandline_tests::traffic::plan;
use strandline_wire::chunk::kind;

use crate::{LOCALHOST, SCTP_PORT, driver_at};

/// Chunk types that each side demands to be authenticated. A COOKIE ECHO is not among them: it would need the keys
/// of the first life (RFC 4895 section 6.3).
const DEMANDED: [u8; 3] = [kind::DATA, kind::SACK, kind::HEARTBEAT];

/// What the two lives of a side have in common.
struct Case {
    seed: u8,
    demands: bool,
    secret: Option<&'static str>,
    /// Arguments of usrsctp.
    options: String,
}

impl Case {
    fn plain(seed: u8) -> Self {
        Self { seed, demands: false, secret: None, options: String::new() }
    }

    /// Both sides demand authentication, with the null key or a shared one.
    fn authenticated(seed: u8, secret: Option<&'static str>) -> Self {
        Self { seed, demands: true, secret, options: options(&DEMANDED, secret) }
    }

    /// Returns this side in its first or second life.
    fn driver(&self, own: SocketAddr, life: u8) -> Driver {
        let mut driver = driver_at(own, self.seed + life, |association| {
            if self.demands {
                demand(association, &DEMANDED, HmacAlgorithms::default());
            }
        });
        if self.demands {
            driver.demanded = DEMANDED.into();
        }
        if let Some(secret) = self.secret {
            share_key(&mut driver, secret);
        }
        driver
    }

    fn usrsctp_restarts(&self) {
        let udp_port = free_udp_port();
        let mut driver = self.driver(SocketAddr::new(LOCALHOST, 0), 0);
        driver.endpoint.listen(SCTP_PORT).expect("the port is free");
        let own = driver.local_addr().port();
        let addresses = format!("-c 127.0.0.1 -b 127.0.0.1 -B 6001 -u {udp_port} -U {own} -p {SCTP_PORT}");
        let start = || PeerProcess::usrsctp(&format!("call -n 20 -l 500 {addresses} {}", self.options));
        let first = start();
        let id = driver.accept();
        let mut session = Session { driver, peer: first, id };
        session.echo_under_losses(20);
        let Session { mut driver, peer, id } = session;
        peer.vanish();
        driver.forget_received();
        driver.lose(LOSS_PER_MILLE);
        let mut session = Session { driver, peer: start(), id };
        session.restarted();
        session.echo_under_losses(20);
        session.is_authenticated(self.demands, self.secret);
        session.shut_down();
    }

    fn this_side_restarts(&self) {
        let udp_port = free_udp_port();
        let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT} {}", self.options));
        let there = SocketAddr::new(LOCALHOST, udp_port);
        let request = || Connect { local_port: 6002, ..Connect::to(there, SCTP_PORT) };
        let mut first = self.driver(SocketAddr::new(LOCALHOST, 0), 0);
        let own = first.local_addr();
        let id = first.connect(request());
        first.exchange(id, &plan(20, 500, 1));
        drop(first);
        let mut second = self.driver(own, 1);
        second.lose(LOSS_PER_MILLE);
        let id = second.connect(request());
        let mut session = Session { driver: second, peer, id };
        session.expect("RESTART");
        session.exchange_under_losses(&[plan(20, 500, 1)]);
        session.is_authenticated(self.demands, self.secret);
        session.shut_down();
    }
}

#[test]
fn usrsctp_restarts() {
    Case::plain(17).usrsctp_restarts();
}

#[test]
fn this_side_restarts() {
    Case::plain(18).this_side_restarts();
}

/// The keys of the second life contain its random numbers (RFC 4895 section 6.1), which both sides have drawn anew. If
/// this side restarts, usrsctp keeps its old ones, and accepts nothing: see docs/interop.md.
#[test]
fn restarts_derive_new_keys() {
    for (seed, secret) in [(115, None), (119, Some(SECRET))] {
        Case::authenticated(seed, secret).usrsctp_restarts();
    }
}
