//! Settings and flags of a path in one byte: its loss recovery, whether it has its own controller, and what the
//! latest SACKs and requests for immediate acknowledgement (I bit) showed.

use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Algorithm, Congestion};

/// Flags of a path. One byte, because there may be millions of paths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices(u8);

const BY_TIME: u8 = 1;
const OWN_CONTROLLER: u8 = 2;
const GAP_SEEN: u8 = 4;
const IMMEDIATE: u8 = 8;
const HURRIED: u8 = 16;
const UNHEEDED: u8 = 32;
const IMMEDIATE_ALONE: u8 = 64;
const WINDOW_SHUT: u8 = 128;

impl Choices {
    pub(super) const fn new(recovery: Recovery) -> Self {
        let mut choices = Self(0);
        choices.set_recovery(recovery);
        choices
    }

    const fn set(&mut self, bit: u8, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    pub(super) const fn recovery(self) -> Recovery {
        if self.0 & BY_TIME != 0 { Recovery::Rack } else { Recovery::Rfc9260 }
    }

    pub(super) const fn set_recovery(&mut self, recovery: Recovery) {
        self.set(BY_TIME, matches!(recovery, Recovery::Rack));
    }

    /// True if the latest SACK reported a gap. The peer then acknowledges every packet at once (RFC 9260 section
    /// 6.7), even a single one.
    pub(super) const fn gap_seen(self) -> bool {
        self.0 & GAP_SEEN != 0
    }

    pub(super) const fn set_gap_seen(&mut self, seen: bool) {
        self.set(GAP_SEEN, seen);
    }

    /// True if the peer has answered that it has no room for the lowest chunk. A probe would reveal nothing more.
    pub(super) const fn window_shut(self) -> bool {
        self.0 & WINDOW_SHUT != 0
    }

    pub(super) const fn set_window_shut(&mut self, shut: bool) {
        self.set(WINDOW_SHUT, shut);
    }

    /// True if the latest packet with DATA asked for an immediate acknowledgement (I bit).
    pub(super) const fn immediate(self) -> bool {
        self.0 & IMMEDIATE != 0
    }

    /// Records that a packet with data is sent; see [`immediate`](Self::immediate) and
    /// [`immediate_alone`](Self::immediate_alone).
    pub(super) const fn set_immediate(&mut self, immediate: bool, alone: bool) {
        self.set(IMMEDIATE, immediate);
        self.set(IMMEDIATE_ALONE, alone);
    }

    /// True if the packet that asked carries only first transmissions, had nothing else in flight, and is not
    /// answered yet.
    pub(super) const fn immediate_alone(self) -> bool {
        self.0 & IMMEDIATE_ALONE != 0
    }

    pub(super) const fn end_immediate_alone(&mut self) {
        self.set(IMMEDIATE_ALONE, false);
    }

    /// True if the latest tail-loss probe did not allow for a delayed acknowledgement, because the packet before it
    /// had the I bit.
    pub(super) const fn hurried(self) -> bool {
        self.0 & HURRIED != 0
    }

    pub(super) const fn set_hurried(&mut self, hurried: bool) {
        self.set(HURRIED, hurried);
    }

    /// True if such a probe was spurious. The peer may ignore the I bit.
    pub(super) const fn unheeded(self) -> bool {
        self.0 & UNHEEDED != 0
    }

    pub(super) const fn set_unheeded(&mut self, unheeded: bool) {
        self.set(UNHEEDED, unheeded);
    }

    pub(super) const fn has_own_controller(self) -> bool {
        self.0 & OWN_CONTROLLER != 0
    }

    pub(super) const fn set_own_controller(&mut self, own: bool) {
        self.set(OWN_CONTROLLER, own);
    }
}

/// Creates a controller in its initial state. `pmdcs` is in bytes.
pub(super) fn controller(
    algorithm: Algorithm,
    pmdcs: u32,
    ipv6: bool,
    config: &AssociationConfig,
) -> Congestion {
    let mut congestion = Congestion::new(algorithm, pmdcs, ipv6);
    if let Congestion::Rfc9260(controller) = &mut congestion {
        controller.set_letter(config.to_the_letter);
    }
    congestion
}
