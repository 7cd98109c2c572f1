//! Changes to a path while the association exists: parameters, loss recovery, and the congestion controller.

use core::time::Duration;

use super::choices::controller;
use super::destination::{Exempt, Path};
use super::link::Link;
use super::pacer::Pacer;
use super::path_cache::Known;
use super::prr::Prr;
use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Algorithm, Congestion};
use crate::time::Time;

impl Path {
    /// Sets whether the latest SACK reported a gap.
    pub(crate) fn set_gap_seen(&mut self, seen: bool) {
        self.choices.set_gap_seen(seen);
    }

    /// Applies what earlier associations learnt of this path. Call it before anything is sent.
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

    /// Handles an acknowledgement that reported packets of `lost` bytes at most as missing. Returns true if
    /// the PMTU fell, because only long packets are lost.
    pub(crate) fn on_long_lost(&mut self, lost: u32, config: &AssociationConfig) -> bool {
        let fell = config.probes_mtu() && self.pmtu.on_lost(lost as usize);
        if fell {
            self.on_mtu();
        }
        fell
    }

    /// Sets the RTO for the COOKIE ECHO after the INIT ACK came within `rtt`. The peer answers a COOKIE ECHO at once,
    /// so the wait need not allow for a delayed acknowledgement.
    pub(crate) fn on_setup_answer(&mut self, rtt: Duration, config: &AssociationConfig) {
        self.rto.on_sample(rtt, config);
        if let (false, Some(srtt), Some(rttvar)) = (config.to_the_letter, self.rto.srtt(), self.rto.rttvar())
        {
            self.rto.begin_from(srtt, rttvar);
        }
    }

    /// Handles an expiry of T1-cookie. Data was sent along, perhaps in packets that are too long, of `lost` bytes at
    /// most. Returns true if the PMTU fell.
    pub(crate) fn on_setup_timeout(&mut self, lost: u32, config: &AssociationConfig) -> bool {
        let fell = config.probes_mtu() && self.pmtu.on_timeout(lost as usize);
        if fell {
            self.on_mtu();
        }
        fell
    }

    /// Returns the loss recovery of the path.
    pub(crate) const fn recovery(&self) -> Recovery {
        self.choices.recovery()
    }

    /// Applies a changed configuration. A new heartbeat interval applies from the next
    /// [`start_heartbeats`](Self::start_heartbeats).
    pub(crate) fn on_configure(&mut self, config: &AssociationConfig, link: Link) {
        self.rto.clamp(config);
        // DCTCP needs the setting of the whole association, which is gone.
        let own = self.own_congestion().filter(|own| *own != Algorithm::Dctcp || config.congestion == *own);
        self.choices.set_own_controller(own.is_some());
        self.choose(own.unwrap_or(config.congestion), config);
        self.pmtu.set_max(link.mtu_max(config));
        self.on_mtu();
    }

    /// Changes the loss recovery of the path. The sending half changes at the same time, when nothing is outstanding.
    pub(crate) fn set_recovery(&mut self, recovery: Recovery) {
        if self.recovery() != recovery {
            self.choices.set_recovery(recovery);
            self.prr = Prr::default();
            self.exempt = Exempt::No;
            self.pacer = Pacer::new();
        }
    }

    /// Sets the congestion controller of this path. `None` selects the one of the association.
    pub(crate) fn set_congestion(&mut self, own: Option<Algorithm>, config: &AssociationConfig) {
        self.choices.set_own_controller(own.is_some());
        self.choose(own.unwrap_or(config.congestion), config);
    }

    /// Returns the controller that was selected for this path alone.
    pub(crate) fn own_congestion(&self) -> Option<Algorithm> {
        self.choices.has_own_controller().then(|| self.congestion.algorithm())
    }

    fn choose(&mut self, algorithm: Algorithm, config: &AssociationConfig) {
        if self.congestion.algorithm() != algorithm {
            // A new controller starts as on a new path, since it knows nothing of this one.
            let ipv6 = self.remote.ip().to_canonical().is_ipv6();
            self.congestion = controller(algorithm, self.data_chunk_len_max(), ipv6, config);
            self.prr = Prr::default();
        } else if let Congestion::Rfc9260(controller) = &mut self.congestion {
            controller.set_letter(config.to_the_letter);
        }
    }
}
