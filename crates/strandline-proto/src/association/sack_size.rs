//! Maximum length of a SACK. SACKs are not acknowledged, so a SACK with many gap blocks that exceeds the path MTU is
//! lost without notice, and the peer retransmits again and again what has arrived. A SACK exceeds what every path
//! carries only while a HEARTBEAT of the path MTU's size was answered recently (RFC 8899 section 4.3).

use strandline_wire::COMMON_HEADER_LEN;

use super::context::EndpointContext;
use super::diagnostics::log_mtu_change;
use super::{Association, auth};
use crate::path::{Proof, Step};
use crate::path_index::PathIndex;
use crate::time::Time;

impl Association {
    /// Returns the maximum length of a SACK now, including its header.
    pub(super) fn sack_len_max(&self, now: Time, index: PathIndex) -> usize {
        if !self.inbound.has_gaps() || !self.config.probes_mtu() {
            return usize::MAX;
        }
        let proof = self.extras.as_ref().and_then(|extras| extras.proof.as_ref());
        let proved = proof.is_some_and(|proof| proof.path() == index && proof.holds(now));
        let path = self.paths.get(index);
        let packet = if proved { path.payload_max() } else { path.pmtu.floor_len() };
        packet.saturating_sub(COMMON_HEADER_LEN + auth::reserve(self))
    }

    /// Requests a proof if a SACK that ends at `len` bytes in its packet would be longer with more room, or exceeds
    /// what every path carries.
    pub(super) fn on_sack_written(&mut self, index: PathIndex, len: usize) {
        let len = len + auth::reserve(self);
        let path = self.paths.get(index);
        if len < path.pmtu.floor_len() || path.payload_max() <= path.pmtu.floor_len() {
            return;
        }
        let proof = self.extras.get_or_insert_default().proof.get_or_insert_with(|| Proof::new(index));
        if proof.path() != index {
            *proof = Proof::new(index);
        }
        proof.want();
    }

    /// Sends a HEARTBEAT to prove that long SACKs arrive, or lowers the path MTU if several were not answered.
    pub(super) fn prove_sack_size(&mut self, cx: &mut EndpointContext, now: Time) {
        let heartbeats = self.state.heartbeats() && self.config.probes_mtu();
        let proof = self.extras.as_mut().and_then(|extras| extras.proof.as_mut());
        let Some(proof) = proof.filter(|proof| heartbeats && proof.is_wanted()) else { return };
        let index = proof.path();
        if !self.paths.contains(index) {
            forget(self, |_| true);
            return;
        }
        match proof.step(now, self.paths.get(index).rto.rto()) {
            Step::Rest => {}
            Step::Send => {
                let nonce = cx.nonce();
                proof.on_sent(now, nonce);
                let size = self.paths.get(index).payload_max();
                self.send_padded(cx, now, index, (size, nonce));
            }
            Step::GiveUp => {
                let before = self.paths.get(index).pmtu.mtu();
                if self.paths.get_mut(index).on_black_hole() {
                    cx.known.forget_mtu(self.paths.get(index).remote.ip());
                    log_mtu_change(self, index, before);
                }
            }
        }
    }

    /// Processes a HEARTBEAT ACK on a path.
    pub(super) fn on_size_proved(&mut self, now: Time, index: PathIndex, nonce: u64) {
        let proof = self.extras.as_mut().and_then(|extras| extras.proof.as_mut());
        if let Some(proof) = proof.filter(|proof| proof.path() == index) {
            let _ = proof.on_answer(now, nonce);
        }
    }

    /// Revokes the proof because the peer sent duplicates: the SACK may have been too long.
    pub(super) fn revoke_sack_size(&mut self) {
        if let Some(proof) = self.extras.as_mut().and_then(|extras| extras.proof.as_mut()) {
            proof.revoke();
        }
    }
}

/// Forgets the proof that long SACKs arrive if it is `which`.
pub(super) fn forget(association: &mut Association, which: impl FnOnce(&Proof) -> bool) {
    if let Some(extras) = &mut association.extras {
        extras.proof.take_if(|proof| which(proof));
    }
}
