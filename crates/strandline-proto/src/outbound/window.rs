//! The peer's receive window as the sender sees it (RFC 9260 sections 6.1 A and 6.2.1), and window probes.

use super::fragment::{self, FRAGMENT_MIN, Rest};
use crate::path_index::{PathIndex, PathMask};

/// Whether data may be sent although the peer has no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// The window holds nothing back, or the acknowledgement of outstanding data will report it.
    NotNeeded,
    /// Data waits and nothing is outstanding: only a probe finds out whether the window has opened.
    Wanted,
    /// The wait of one RTO is over: the next chunk may be sent regardless of the window.
    Permitted,
}

/// The peer's window.
#[derive(Debug)]
pub(super) struct PeerWindow {
    /// Bytes that may still be sent. Negative when more is outstanding than the peer has room for: chunks marked for
    /// retransmission first reduce that excess. A SACK sets it anew, and a send window has at most 65,535 chunks
    /// between two SACKs, so that it stays far from the limits of its type.
    rwnd: i64,
    /// The largest window the peer ever had.
    rwnd_max: u32,
    probe: Probe,
    /// True if the peer's window had no room for the lowest outstanding chunk at the last SACK, or a probe is in
    /// flight.
    shut: bool,
    /// Paths without a SACK, on any path, since their last time-out or the last probe with new data.
    unanswered: PathMask,
}

impl PeerWindow {
    pub(super) const fn new(rwnd: u32) -> Self {
        Self {
            rwnd: rwnd as i64,
            rwnd_max: rwnd,
            probe: Probe::NotNeeded,
            shut: false,
            unanswered: PathMask::ALL,
        }
    }

    /// Section 6.2.1 A and D ii: sets the window to the peer's room less what is still outstanding. Returns true if
    /// it was closed and is open.
    pub(super) fn update(&mut self, a_rwnd: u32, in_flight: u32, lowest: Option<usize>) -> bool {
        let was_shut = self.shut;
        self.rwnd = i64::from(a_rwnd) - i64::from(in_flight);
        self.rwnd_max = self.rwnd_max.max(a_rwnd);
        self.shut = a_rwnd == 0 || lowest.is_some_and(|len| len > a_rwnd as usize);
        self.unanswered = PathMask::default();
        self.probe = Probe::NotNeeded;
        was_shut && !self.shut
    }

    /// Records that a SHUTDOWN acknowledges outstanding data: the peer had room for it. Only a SACK reports whether it
    /// has room for the rest.
    pub(super) fn on_shutdown_acked(&mut self) {
        self.shut = false;
    }

    /// Records a SACK out of order, which does not report the window, but shows that the peer is alive.
    pub(super) fn on_stale_answer(&mut self) {
        self.unanswered = PathMask::default();
    }

    /// Section 6.2.1 B.
    pub(super) fn spend(&mut self, len: usize) {
        self.rwnd -= len as i64;
    }

    /// Section 6.2.1 C.
    pub(super) fn give_back(&mut self, len: u32) {
        self.rwnd += i64::from(len);
    }

    /// Section 6.1 A: returns how much of the `len` bytes that fit the packet may be sent, if any.
    pub(super) fn admit(&mut self, len: usize, rest: Rest, packet_space: usize, idle: bool) -> Option<usize> {
        if len as i64 <= self.rwnd {
            return Some(len);
        }
        let rwnd = self.rwnd() as usize;
        // Silly window avoidance (RFC 1122 section 4.2.3.4): less than a full packet is sent only if that is half of
        // the largest window the peer ever had, and only of a message that must be fragmented anyway.
        let divided = fragment::is_divided(rest, packet_space) || rest.len > self.rwnd_max as usize;
        if divided && rwnd >= FRAGMENT_MIN && rwnd >= (self.rwnd_max / 2) as usize {
            return Some(rwnd & !3);
        }
        if !idle {
            return None;
        }
        if self.probe == Probe::Permitted {
            self.probe = Probe::NotNeeded;
            self.shut = true;
            self.unanswered = PathMask::ALL;
            return Some(len);
        }
        self.probe = Probe::Wanted;
        None
    }

    pub(super) fn probe_wanted(&self) -> bool {
        self.probe == Probe::Wanted
    }

    pub(super) fn permit_probe(&mut self) {
        if self.probe == Probe::Wanted {
            self.probe = Probe::Permitted;
        }
    }

    /// True if the peer reports that the window is closed, since the last time-out of the path: another one is no sign
    /// of a dead path. A time-out of another path does not count here, since its probe may still be answered.
    pub(super) fn is_probed(&self, path: PathIndex) -> bool {
        self.shut && !self.unanswered.contains(path)
    }

    /// See [`Outbound::window_is_shut`](super::Outbound::window_is_shut).
    pub(super) const fn is_shut(&self) -> bool {
        self.shut
    }

    pub(super) fn on_timeout(&mut self, path: PathIndex) {
        self.unanswered.insert(path);
    }

    pub(super) const fn rwnd(&self) -> u32 {
        // It may exceed the type's range by what was returned.
        if self.rwnd < 0 {
            0
        } else if self.rwnd > u32::MAX as i64 {
            u32::MAX
        } else {
            self.rwnd as u32
        }
    }
}
