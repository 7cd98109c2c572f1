//! The peer's receive window, as its SACKs report it and as far as data sent since then fills it (RFC 9260 sections
//! 6.1 A and 6.2.1).

/// The window of the peer.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The window in the last SACK.
    a_rwnd: Option<u32>,
    /// Bytes of it that were left after the last SACK and what was sent since. Negative if data was sent beyond it.
    room: i64,
    /// True if new data was sent without room, as a probe, since the last answer that reveals something of the window.
    probed: bool,
    /// True if the window had no room for the lowest chunk or for a probe, and has opened.
    opened: bool,
    /// True if the window is unknown: a SACK that reported one may have been ignored, or no SACK has arrived and a
    /// SHUTDOWN has acknowledged data, which took part of the window of the set-up.
    ambiguous: bool,
}

impl Window {
    /// Processes a SACK that leaves `outstanding` bytes of user data, with the lowest chunk of `lowest` bytes.
    pub(super) fn on_sack(&mut self, a_rwnd: u32, outstanding: i64, lowest: Option<u32>) {
        let before = self.a_rwnd.replace(a_rwnd);
        let had_no_room = |before| before < a_rwnd && lowest.is_some_and(|lowest| lowest > before);
        self.opened |= before.is_some_and(had_no_room) || (self.probed && a_rwnd > 0);
        self.room = i64::from(a_rwnd) - outstanding;
        (self.probed, self.ambiguous) = (false, false);
    }

    /// Processes a SACK of the numbers before a reset of all numbers that may have taken place: then it is ignored.
    pub(super) fn on_ambiguous(&mut self, a_rwnd: u32) {
        self.a_rwnd = self.a_rwnd.map(|before| before.max(a_rwnd));
        self.ambiguous = true;
    }

    /// Records that a SHUTDOWN acknowledges outstanding data. It reports no window, but there was room for that data.
    pub(super) fn on_shutdown(&mut self) {
        self.probed = false;
        self.ambiguous |= self.a_rwnd.is_none();
    }

    /// Records that new data is sent. The window of the set-up is not known here.
    pub(super) fn on_new_data(&mut self, payload: u32) {
        self.room -= i64::from(payload);
        self.probed |= (self.room < 0 && self.a_rwnd.is_some()) || self.ambiguous;
    }

    /// Returns the window in the last SACK; `None` before the first.
    pub(super) fn a_rwnd(&self) -> Option<u32> {
        self.a_rwnd
    }

    /// Returns true once if the window has opened since the last call.
    pub(super) fn take_opened(&mut self) -> bool {
        core::mem::take(&mut self.opened)
    }
}
