//! What is set of a path while the association lasts: parameters, how losses are found, the congestion controller.

use core::time::Duration;

use super::choices::controller;
use super::destination::{Exempt, Path};
use super::pacer::Pacer;
use super::path_cache::Known;
use super::prr::Prr;
use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Algorithm, Congestion};
use crate::time::Time;

impl Path {
    /// Whether the latest SACK told of a gap.
    pub(crate) fn set_gap_seen(&mut self, seen: bool) {
        self.choices.set_gap_seen(seen);
    }

    /// Earlier associations knew this of the way: to be called before anything is sent.
    pub(crate) fn acquaint(&mut self, now: Time, known: Known, config: &AssociationConfig) {
        if config.to_the_letter {
            return;
        }
        if let Some(mtu) = known.mtu {
            self.pmtu.begin_at(now, mtu);
            self.on_mtu();
        }
        if let Some((srtt, rttvar)) = known.rtt {
            self.rto.begin_from(srtt, rttvar);
        }
    }

    /// An acknowledgement showed so many bytes as lost. True if the PMTU fell: long packets vanish and short ones don't.
    pub(crate) fn on_long_lost(&mut self, lost: u32, config: &AssociationConfig) -> bool {
        let fell = config.probes_mtu() && self.pmtu.on_lost(lost as usize);
        if fell {
            self.on_mtu();
        }
        fell
    }

    /// The INIT ACK came after `rtt`: the answer to the COOKIE ECHO, which goes at once as well, is waited for no longer than it
    /// should take.
    pub(crate) fn on_setup_answer(&mut self, rtt: Duration, config: &AssociationConfig) {
        self.rto.on_sample(rtt, config);
        if let (false, Some(srtt), Some(rttvar)) = (config.to_the_letter, self.rto.srtt(), self.rto.rttvar())
        {
            self.rto.begin_from(srtt, rttvar);
        }
    }

    /// T1-cookie expired: data went along, perhaps in packets that are too long. True if the PMTU fell.
    pub(crate) fn on_setup_timeout(&mut self, config: &AssociationConfig) -> bool {
        let fell = config.probes_mtu() && self.pmtu.on_timeout(self.flight as usize);
        if fell {
            self.on_mtu();
        }
        fell
    }

    /// How losses are found on it.
    pub(super) const fn recovery(&self) -> Recovery {
        self.choices.recovery()
    }

    /// The configuration changed. A new heartbeat interval holds from the next
    /// [`start_heartbeats`](Self::start_heartbeats).
    pub(crate) fn on_configure(&mut self, config: &AssociationConfig) {
        self.rto.clamp(config);
        // DCTCP is for whole associations: what it was chosen with is gone.
        let own = self.own_congestion().filter(|own| *own != Algorithm::Dctcp || config.congestion == *own);
        self.choices.set_own_controller(own.is_some());
        self.choose(own.unwrap_or(config.congestion), config);
        self.pmtu.set_max(config.path_mtu_max);
        self.on_mtu();
    }

    /// From now on losses of data on it are found and repaired so; the sending half changes at the same moment, when nothing
    /// is outstanding.
    pub(crate) fn set_recovery(&mut self, recovery: Recovery) {
        if self.recovery() != recovery {
            self.choices.set_recovery(recovery);
            self.prr = Prr::default();
            self.exempt = Exempt::No;
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
