//! What is set of a path while the association lasts: parameters, how losses are found, the congestion controller.

use super::choices::controller;
use super::destination::Path;
use super::pacer::Pacer;
use super::prr::Prr;
use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Algorithm, Congestion};

impl Path {
    /// How losses are found on it.
    pub(super) const fn recovery(&self) -> Recovery {
        self.choices.recovery()
    }

    /// The configuration changed. A new heartbeat interval holds from the next
    /// [`start_heartbeats`](Self::start_heartbeats).
    pub(crate) fn on_configure(&mut self, config: &AssociationConfig) {
        self.rto.clamp(config);
        self.choose(self.own_congestion().unwrap_or(config.congestion), config);
        self.pmtu.set_max(config.path_mtu_max);
        self.on_mtu();
    }

    /// From now on losses of data on it are found and repaired so; the sending half changes at the same moment, when nothing
    /// is outstanding.
    pub(crate) fn set_recovery(&mut self, recovery: Recovery) {
        if self.recovery() != recovery {
            self.choices.set_recovery(recovery);
            self.prr = Prr::default();
            self.exempt = false;
            self.pacer = Pacer::new();
        }
    }

    /// The congestion controller of this path, whatever the association's is; `None`: that one.
    pub(crate) fn set_congestion(&mut self, own: Option<Algorithm>, config: &AssociationConfig) {
        self.choices.set_own_controller(own.is_some());
        self.choose(own.unwrap_or(config.congestion), config);
    }

    /// The controller that was chosen for this path alone.
    pub(crate) fn own_congestion(&self) -> Option<Algorithm> {
        self.choices.has_own_controller().then(|| self.congestion.algorithm())
    }

    fn choose(&mut self, algorithm: Algorithm, config: &AssociationConfig) {
        if self.congestion.algorithm() != algorithm {
            // Another controller knows nothing of the path: it begins as on a new one.
            let ipv6 = self.remote.ip().to_canonical().is_ipv6();
            self.congestion = controller(algorithm, self.data_chunk_len_max(), ipv6, config);
            self.prr = Prr::default();
        } else if let Congestion::Rfc9260(controller) = &mut self.congestion {
            controller.set_letter(config.to_the_letter);
        }
    }
}
