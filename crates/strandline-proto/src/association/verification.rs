//! What may go to addresses that the peer has listed and not confirmed (RFC 9260 section 5.4): they may be somebody
//! else's. An association sends them no more than three times the bytes that it got from its peer, as QUIC does (RFC
//! 9000 section 8), and all together keep to [`VerificationBudget`](crate::path::VerificationBudget).

use core::net::IpAddr;
use std::sync::Arc;

use strandline_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN};

use super::Association;
use super::context::Shared;
use crate::path::PathIndex;
use crate::time::Time;

/// Bytes to unconfirmed addresses for each one that the peer sent.
const FACTOR: u32 = 3;

/// A HEARTBEAT of ours, from the common header on.
const HEARTBEAT_LEN: u32 = 40;

/// Bytes that may still be sent to unconfirmed addresses. Those of a packet's headers below SCTP count when they are sent only.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VerificationCredit(u32);

impl VerificationCredit {
    /// What the INIT of a peer brings, of which nothing but the cookie was kept: it had these addresses at least.
    pub(super) fn for_init(listed: impl Iterator<Item = IpAddr>) -> Self {
        let addresses: usize = listed.map(|address| if address.is_ipv4() { 8 } else { 20 }).sum();
        let mut credit = Self::default();
        credit.on_received(INIT_LEN + addresses);
        credit
    }

    /// The peer sent so many bytes.
    #[inline]
    pub(super) fn on_received(&mut self, len: usize) {
        self.0 = self.0.saturating_add(len as u32 * FACTOR);
    }

    fn has(self, len: u32) -> bool {
        self.0 >= len
    }

    fn spend(&mut self, len: u32) {
        self.0 = self.0.saturating_sub(len);
    }
}

/// An INIT without parameters, from the common header on.
const INIT_LEN: usize = COMMON_HEADER_LEN + CHUNK_HEADER_LEN + 16;

impl Association {
    /// True if a HEARTBEAT may go to an unconfirmed address now; it is charged.
    pub(super) fn may_verify(&mut self, cx: &mut Shared, now: Time, index: PathIndex) -> bool {
        let address = self.paths.get(index).remote.ip();
        let below = u32::from(cx.config.encapsulation_overhead) + if address.is_ipv4() { 20 } else { 40 };
        let len = HEARTBEAT_LEN + below;
        // The association's own limit comes first: what it may not send costs the others nothing.
        let allowed = self.verification.has(len) && cx.verification.take(now, address);
        if allowed {
            self.verification.spend(len);
        }
        allowed
    }

    /// Tries again after an RTO, which doubles each time: a peer that causes this by many associations causes no work either.
    pub(super) fn verify_later(&mut self, cx: &mut Shared, now: Time, index: PathIndex) {
        let random = cx.rng_word();
        let config = Arc::clone(&self.config);
        let path = self.paths.get_mut(index);
        path.rto.back_off(&config);
        path.heartbeat.defer_varied(now, path.rto.rto(), random);
    }
}
