//! Congestion control (RFC 9260 section 7): the [`Controller`] trait, one file for each controller, and the
//! enum [`Congestion`], which dispatches to the chosen one. It is an enum and not a boxed trait object,
//! because every path of every association holds one.
//!
//! A new controller is a file that implements [`Controller`], a variant of [`Algorithm`] with its name, a
//! variant of [`Congestion`] with its arms in `new`, `algorithm` and `dispatch!`, and a row in
//! docs/congestion.md. If it needs ECN, `AssociationConfig::wants_ecn` lists it.

mod additive;
mod bbr;
mod controller;
mod cubic;
mod dctcp;
mod hystart;
mod rfc9260;
mod swift;
mod undo;

use std::fmt;
use std::str::FromStr;

use crate::time::Time;

pub use bbr::Bbr;
pub use controller::{Ack, Controller};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use rfc9260::Rfc9260;
pub(crate) use rfc9260::initial_window_of_ten;
pub use swift::Swift;

/// The congestion controller that a new path uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// RFC 9260 section 7.2: slow start and congestion avoidance with byte counting.
    Rfc9260,
    /// RFC 9438 with the slow start of RFC 9406 (HyStart++), as almost all TCP stacks use it.
    #[default]
    Cubic,
    /// BBR, modelled on version 3: sends at the measured bandwidth of the path, does not slow down for random loss,
    /// and keeps queues short.
    Bbr,
    /// RFC 8257, for data centers whose switches mark packets (ECN). It enables ECN by itself; both ends must use it.
    Dctcp,
    /// Modelled on Swift (SIGCOMM 2020), for data centers whose switches do not mark packets: keeps the delay near a
    /// target.
    Swift,
}

impl Algorithm {
    /// The name in reports and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc9260 => "rfc9260",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Dctcp => "dctcp",
            Self::Swift => "swift",
        }
    }

    const ALL: [Self; 5] = [Self::Rfc9260, Self::Cubic, Self::Bbr, Self::Dctcp, Self::Swift];
}

/// A name that no congestion controller has; the message lists those that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown algorithm: use {}", Algorithm::ALL.map(Algorithm::name).join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    /// Parses a [name](Self::name).
    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or(UnknownAlgorithm)
    }
}

/// The congestion controller of one path.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Congestion {
    /// See [`Algorithm::Rfc9260`].
    Rfc9260(Rfc9260),
    /// See [`Algorithm::Cubic`].
    Cubic(Cubic),
    /// See [`Algorithm::Bbr`].
    Bbr(Bbr),
    /// See [`Algorithm::Dctcp`].
    Dctcp(Dctcp),
    /// See [`Algorithm::Swift`].
    Swift(Swift),
}

impl Congestion {
    /// Returns the algorithm of this controller.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rfc9260(_) => Algorithm::Rfc9260,
            Self::Cubic(_) => Algorithm::Cubic,
            Self::Bbr(_) => Algorithm::Bbr,
            Self::Dctcp(_) => Algorithm::Dctcp,
            Self::Swift(_) => Algorithm::Swift,
        }
    }

    /// Creates the controller of a new path. `pmdcs` is the size in bytes of the largest DATA chunk, header included,
    /// that fits the path MTU. `ipv6` selects the initial window of RFC 9260 section 7.2.1, which depends on the IP
    /// version.
    #[must_use]
    pub fn new(algorithm: Algorithm, pmdcs: u32, ipv6: bool) -> Self {
        match algorithm {
            Algorithm::Rfc9260 => Self::Rfc9260(Rfc9260::new(pmdcs, ipv6)),
            Algorithm::Cubic => Self::Cubic(Cubic::new(pmdcs)),
            Algorithm::Bbr => Self::Bbr(Bbr::new(pmdcs)),
            Algorithm::Dctcp => Self::Dctcp(Dctcp::new(pmdcs)),
            Algorithm::Swift => Self::Swift(Swift::new(pmdcs)),
        }
    }
}

/// Evaluates an expression with the chosen controller.
macro_rules! dispatch {
    ($congestion:expr, $controller:ident => $call:expr) => {
        match $congestion {
            Congestion::Rfc9260($controller) => $call,
            Congestion::Cubic($controller) => $call,
            Congestion::Bbr($controller) => $call,
            Congestion::Dctcp($controller) => $call,
            Congestion::Swift($controller) => $call,
        }
    };
}

impl Controller for Congestion {
    fn window(&self) -> u32 {
        dispatch!(self, controller => controller.window())
    }

    fn slow_start_threshold(&self) -> u32 {
        dispatch!(self, controller => controller.slow_start_threshold())
    }

    fn pacing_rate(&self) -> Option<u64> {
        dispatch!(self, controller => controller.pacing_rate())
    }

    fn recovers_in_proportion(&self) -> bool {
        dispatch!(self, controller => controller.recovers_in_proportion())
    }

    fn on_ack(&mut self, ack: &Ack) {
        dispatch!(self, controller => controller.on_ack(ack));
    }

    fn counts_marks(&self) -> bool {
        dispatch!(self, controller => controller.counts_marks())
    }

    fn on_ecn(&mut self, now: Time) {
        dispatch!(self, controller => controller.on_ecn(now));
    }

    fn on_starved(&mut self, flight: u32) {
        dispatch!(self, controller => controller.on_starved(flight));
    }

    fn on_sent(&mut self, now: Time, bytes: u32) {
        dispatch!(self, controller => controller.on_sent(now, bytes));
    }

    fn on_lost(&mut self, bytes: u32) {
        dispatch!(self, controller => controller.on_lost(bytes));
    }

    fn on_fast_retransmit(&mut self, now: Time) {
        dispatch!(self, controller => controller.on_fast_retransmit(now));
    }

    fn on_timeout(&mut self, now: Time) {
        dispatch!(self, controller => controller.on_timeout(now));
    }

    fn on_certain(&mut self) {
        dispatch!(self, controller => controller.on_certain());
    }

    fn on_undo(&mut self) {
        dispatch!(self, controller => controller.on_undo());
    }

    fn heap_bytes(&self) -> usize {
        dispatch!(self, controller => controller.heap_bytes())
    }

    fn release_idle(&mut self) {
        dispatch!(self, controller => controller.release_idle());
    }

    fn on_idle(&mut self, rto_periods: u32) {
        dispatch!(self, controller => controller.on_idle(rto_periods));
    }

    fn on_mtu(&mut self, pmdcs: u32) {
        dispatch!(self, controller => controller.on_mtu(pmdcs));
    }
}
