//! What was chosen for a path: how losses are found on it, and whose controller it has; what the latest SACK showed, and what of
//! acknowledgements at once.

use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Algorithm, Congestion};

/// How losses are found on a path, whether its controller was chosen for it alone, whether a gap is known, and what is with packets that ask
/// for their acknowledgement: one byte, as there may be millions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices(u8);

const BY_TIME: u8 = 1;
const OWN_CONTROLLER: u8 = 2;
const GAP_SEEN: u8 = 4;
const ASKED: u8 = 8;
const HURRIED: u8 = 16;
const UNHEEDED: u8 = 32;
const ASKED_ALONE: u8 = 64;
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

    /// The latest SACK told of a gap: the peer acknowledges each packet at once (RFC 9260 section 6.7), a single one, too.
    pub(super) const fn gap_seen(self) -> bool {
        self.0 & GAP_SEEN != 0
    }

    pub(super) const fn set_gap_seen(&mut self, seen: bool) {
        self.set(GAP_SEEN, seen);
    }

    /// The peer has answered that it has no room for the lowest chunk: a probe would find out nothing more.
    pub(super) const fn window_shut(self) -> bool {
        self.0 & WINDOW_SHUT != 0
    }

    pub(super) const fn set_window_shut(&mut self, shut: bool) {
        self.set(WINDOW_SHUT, shut);
    }

    /// The latest packet with DATA asked for an acknowledgement at once (I bit).
    pub(super) const fn asked(self) -> bool {
        self.0 & ASKED != 0
    }

    /// A packet with data goes; see [`asked`](Self::asked) and [`asked_alone`](Self::asked_alone).
    pub(super) const fn set_asked(&mut self, asked: bool, alone: bool) {
        self.set(ASKED, asked);
        self.set(ASKED_ALONE, alone);
    }

    /// Whether the packet that asked is the first transmission of its chunks, with nothing else in flight, and was not answered yet.
    pub(super) const fn asked_alone(self) -> bool {
        self.0 & ASKED_ALONE != 0
    }

    pub(super) const fn end_asked_alone(&mut self) {
        self.set(ASKED_ALONE, false);
    }

    /// The latest tail-loss probe was not the later for a delayed acknowledgement, because the packet before it had asked.
    pub(super) const fn hurried(self) -> bool {
        self.0 & HURRIED != 0
    }

    pub(super) const fn set_hurried(&mut self, hurried: bool) {
        self.set(HURRIED, hurried);
    }

    /// Such a probe was needless: the peer doesn't know the I bit, perhaps.
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

/// A controller that knows nothing yet. `pmdcs` in bytes.
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
