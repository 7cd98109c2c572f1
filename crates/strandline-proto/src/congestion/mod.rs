//! Congestion control (RFC 9260 section 7) as a choice: a trait, one file for each controller, and an enum that
//! dispatches to the chosen one without a heap allocation, because every path of every association holds one.

mod controller;
mod cubic;
mod hystart;
mod rfc9260;

use crate::time::Time;

pub use controller::{Ack, Controller};
pub use cubic::Cubic;
pub use rfc9260::Rfc9260;

/// Which controller a new path gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// RFC 9260 section 7.2: slow start and congestion avoidance with byte counting.
    Rfc9260,
    /// RFC 9438, with the slow start of RFC 9406 (HyStart++): what TCP uses almost everywhere.
    #[default]
    Cubic,
}

/// The controller of one path.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Congestion {
    /// See [`Algorithm::Rfc9260`].
    Rfc9260(Rfc9260),
    /// See [`Algorithm::Cubic`].
    Cubic(Cubic),
}

impl Congestion {
    /// A controller for a new path. `pmdcs` is the size in bytes of the largest DATA chunk, header included, that fits
    /// the path MTU; `ipv6` tells which of the two initial windows of section 7.2.1 applies.
    #[must_use]
    pub fn new(algorithm: Algorithm, pmdcs: u32, ipv6: bool) -> Self {
        match algorithm {
            Algorithm::Rfc9260 => Self::Rfc9260(Rfc9260::new(pmdcs, ipv6)),
            Algorithm::Cubic => Self::Cubic(Cubic::new(pmdcs, ipv6)),
        }
    }
}

impl Controller for Congestion {
    fn window(&self) -> u32 {
        match self {
            Self::Rfc9260(controller) => controller.window(),
            Self::Cubic(controller) => controller.window(),
        }
    }

    fn slow_start_threshold(&self) -> u32 {
        match self {
            Self::Rfc9260(controller) => controller.slow_start_threshold(),
            Self::Cubic(controller) => controller.slow_start_threshold(),
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        match self {
            Self::Rfc9260(controller) => controller.on_ack(ack),
            Self::Cubic(controller) => controller.on_ack(ack),
        }
    }

    fn on_fast_retransmit(&mut self, now: Time) {
        match self {
            Self::Rfc9260(controller) => controller.on_fast_retransmit(now),
            Self::Cubic(controller) => controller.on_fast_retransmit(now),
        }
    }

    fn on_timeout(&mut self, now: Time) {
        match self {
            Self::Rfc9260(controller) => controller.on_timeout(now),
            Self::Cubic(controller) => controller.on_timeout(now),
        }
    }

    fn on_undo(&mut self) {
        match self {
            Self::Rfc9260(controller) => controller.on_undo(),
            Self::Cubic(controller) => controller.on_undo(),
        }
    }

    fn on_idle(&mut self, rto_periods: u32) {
        match self {
            Self::Rfc9260(controller) => controller.on_idle(rto_periods),
            Self::Cubic(controller) => controller.on_idle(rto_periods),
        }
    }

    fn on_mtu(&mut self, pmdcs: u32) {
        match self {
            Self::Rfc9260(controller) => controller.on_mtu(pmdcs),
            Self::Cubic(controller) => controller.on_mtu(pmdcs),
        }
    }
}
