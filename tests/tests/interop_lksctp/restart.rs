//! Restarts of either side (RFC 9260 section 5.2), with and without authentication, over raw IP on two paths. Three
//! of a hundred packets are lost during the second set-up and after it.

use std::sync::Arc;
use std::time::Duration;

use strandline_proto::authentication::HmacAlgorithms;
use strandline_proto::config::AssociationConfig;
use strandline_proto::endpoint::Connect;
use strandline_tests::authentication::{SECRET, demand, options, share_key};
use strandline_tests::driver::Driver;
use strandline_tests::peer::PeerProcess;
use strandline_tests::session::{LOSS_PER_MILLE, Session, ip, quick};
use strandline_tests::traffic::plan;
use strandline_wire::chunk::kind;

use crate::{Carrier, ECHO, HERE, SCTP_PORT, THERE, driver_with, to_kernel};

/// Chunk types that each side demands to be authenticated. A COOKIE ECHO is not among them: it would need the keys
/// of the first life (RFC 4895 section 6.3).
const DEMANDED: [u8; 3] = [kind::DATA, kind::SACK, kind::HEARTBEAT];

/// What the two lives of a side have in common.
struct Case {
    seed: u8,
    association: AssociationConfig,
    secret: Option<&'static str>,
    /// Arguments of the kernel.
    options: String,
}

impl Case {
    fn plain(seed: u8) -> Self {
        Self { seed, association: quick(), secret: None, options: String::new() }
    }

    /// Both sides demand authentication, with the null key or a shared one.
    fn authenticated(seed: u8, secret: Option<&'static str>) -> Self {
        let mut case = Self { secret, options: options(&DEMANDED, secret), ..Self::plain(seed) };
        demand(&mut case.association, &DEMANDED, HmacAlgorithms::default());
        case
    }

    fn demands(&self) -> bool {
        self.association.extensions.authentication.is_some()
    }

    /// Returns this side in its first or second life.
    fn driver(&self, life: u8) -> Driver {
        let mut driver = driver_with(Carrier::Raw, &HERE, self.seed + life, self.association.clone());
        if self.demands() {
            driver.demanded = DEMANDED.into();
        }
        if let Some(secret) = self.secret {
            share_key(&mut driver, secret);
        }
        driver
    }

    fn the_kernel_restarts(&self) {
        let mut driver = self.driver(0);
        driver.endpoint.listen(SCTP_PORT).expect("the port is free");
        let addresses = format!("-c {} -b {} -b {}", HERE.join(","), THERE[0], THERE[1]);
        let arguments = format!("call -B 6001 -n 20 -l 500 {addresses} {}", self.options);
        let first = driver.while_waiting(|| PeerProcess::lksctp(&arguments));
        let id = driver.accept();
        let mut session = Session { driver, peer: first, id };
        session.echo_under_losses(20);
        // Its crash must not be announced: neither by the kernel at the end of the process, nor by its answer
        // to a heartbeat.
        let Session { mut driver, peer: first, id } = session;
        let silent = AssociationConfig { heartbeat_interval: None, ..self.association.clone() };
        driver.endpoint.configure(driver.now(), id, Arc::new(silent)).expect("the association lives");
        driver.run_for(Duration::from_secs(1));
        driver.cut(&HERE.map(ip));
        driver.while_waiting(|| drop(first));
        driver.run_for(Duration::from_millis(200));
        driver.heal();
        driver.forget_received();
        driver.lose(LOSS_PER_MILLE);
        let second = driver.while_waiting(|| PeerProcess::lksctp(&arguments));
        let mut session = Session { driver, peer: second, id };
        session.restarted();
        session.echo_under_losses(20);
        session.is_authenticated(self.demands(), self.secret);
        session.shut_down();
    }

    fn this_side_restarts(&self) {
        let peer = PeerProcess::lksctp(&format!("{ECHO} {}", self.options));
        let request = || Connect { local_port: 6002, ..to_kernel(Carrier::Raw) };
        let mut first = self.driver(0);
        let id = first.connect(request());
        first.exchange(id, &plan(20, 500, 1));
        drop(first);
        let mut second = self.driver(1);
        second.lose(LOSS_PER_MILLE);
        let id = second.connect(request());
        let mut session = Session { driver: second, peer, id };
        session.expect("RESTART");
        session.exchange_under_losses(&[plan(20, 500, 1)]);
        session.is_authenticated(self.demands(), self.secret);
        session.shut_down();
    }
}

#[test]
fn the_kernel_restarts() {
    Case::plain(10).the_kernel_restarts();
}

#[test]
fn this_side_restarts() {
    Case::plain(11).this_side_restarts();
}

/// The keys of the second life contain its random numbers (RFC 4895 section 6.1), which both sides have drawn anew.
#[test]
fn restarts_derive_new_keys() {
    for (seed, secret) in [(80, None), (84, Some(SECRET))] {
        Case::authenticated(seed, secret).the_kernel_restarts();
        Case::authenticated(seed + 2, secret).this_side_restarts();
    }
}
