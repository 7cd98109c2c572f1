//! Limits what is sent to addresses that the peer has listed and not confirmed (RFC 9260 section 5.4), because they
//! may belong to other hosts. An association sends them at most three times the bytes that it received from its peer,
//! as QUIC does (RFC 9000 section 8), and all together follow
//! [`VerificationBudget`](crate::path::VerificationBudget).

use core::net::IpAddr;
use std::sync::Arc;

use strandline_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, TLV_HEADER_LEN, padded};

use super::Association;
use super::context::EndpointContext;
use super::heartbeat::INFO_LEN;
use crate::packet_sizes::{IPV4_HEADER_LEN, IPV6_HEADER_LEN};
use crate::path_index::PathIndex;
use crate::time::Time;

/// Bytes allowed to unconfirmed addresses for each received byte.
const FACTOR: u32 = 3;

/// Length of our HEARTBEAT packet in bytes, from the common header on.
const HEARTBEAT_LEN: u32 = (COMMON_HEADER_LEN + CHUNK_HEADER_LEN + padded(TLV_HEADER_LEN + INFO_LEN)) as u32;

/// Lengths of address parameters in bytes (RFC 9260 section 3.3.2.1).
const IPV4_PARAMETER_LEN: usize = TLV_HEADER_LEN + 4;
const IPV6_PARAMETER_LEN: usize = TLV_HEADER_LEN + 16;

/// Bytes that may still be sent to unconfirmed addresses. Headers below SCTP count only when sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AmplificationBudget(u32);

impl AmplificationBudget {
    /// Returns the budget of a peer's INIT, of which only the cookie was kept: it had at least these addresses.
    pub(super) fn for_init(listed: impl Iterator<Item = IpAddr>) -> Self {
        let len_of =
            |address: IpAddr| if address.is_ipv4() { IPV4_PARAMETER_LEN } else { IPV6_PARAMETER_LEN };
        let addresses: usize = listed.map(len_of).sum();
        let mut budget = Self::default();
        budget.on_received(INIT_LEN + addresses);
        budget
    }

    /// Records `len` bytes received from the peer.
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

/// Length of an INIT without parameters in bytes, from the common header on (RFC 9260 section 3.3.2).
pub(super) const INIT_LEN: usize = COMMON_HEADER_LEN + CHUNK_HEADER_LEN + 16;

impl Association {
    /// Returns true if a HEARTBEAT may be sent to an unconfirmed address now, and charges it.
    pub(super) fn may_verify(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) -> bool {
        let address = self.paths.get(index).remote.ip();
        let peer = self.paths.primary_address();
        let header = if address.is_ipv4() { IPV4_HEADER_LEN } else { IPV6_HEADER_LEN };
        let below = u32::from(cx.config.encapsulation_overhead) + u32::from(header);
        let len = HEARTBEAT_LEN + below;
        // The association's own limit comes first, so that what it may not send does not count against others.
        let allowed = self.verification.has(len) && cx.verification.take(now, peer, address);
        if allowed {
            self.verification.spend(len);
        }
        allowed
    }

    /// Retries after an RTO, which doubles each time, so that a peer with many such associations causes no work.
    pub(super) fn verify_later(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        let random = cx.rng_word();
        let config = Arc::clone(&self.config);
        let path = self.paths.get_mut(index);
        path.rto.back_off(&config);
        path.heartbeat.defer_varied(now, path.rto.rto(), random);
    }

    /// Probes addresses again that had been given up, if the peer has deleted all others: with none to send to, nothing
    /// would ever be sent again.
    #[cold]
    pub(super) fn verify_if_lost(&mut self, cx: &mut EndpointContext, now: Time) {
        if !is_lost(self) || !self.state.heartbeats() {
            return;
        }
        let config = Arc::clone(&self.config);
        for index in self.paths.indices() {
            let random = cx.rng_word();
            self.paths.get_mut(index).verify_again(now, random, &config);
        }
    }
}

/// Probes an address that had been given up, or whose HEARTBEAT stays unanswered: the peer answers none from
/// an address of which it has not learned that it was added (RFC 5061 section 5.3).
#[cold]
pub(super) fn on_packet_from_unconfirmed(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    index: PathIndex,
) {
    let random = cx.rng_word();
    let config = Arc::clone(&association.config);
    let path = association.paths.get_mut(index);
    if path.is_given_up(&config) {
        path.verify_again(now, random, &config);
    } else {
        path.heartbeat.repeat(now, config.rto_initial);
        // With no confirmed address, giving this one up would end the association.
        if association.flags.held {
            path.heartbeat.on_heard();
        }
    }
}

/// True if no address of the peer is confirmed, and none answers.
pub(super) fn is_lost(association: &Association) -> bool {
    association.flags.held && association.paths.iter().all(|(_, path)| path.is_given_up(&association.config))
}
