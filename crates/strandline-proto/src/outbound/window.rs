//! The peer's receive window as the sender sees it (RFC 9260 sections 6.1 A and 6.2.1), window probes included.

use super::fragment::{self, FRAGMENT_MIN, Rest};

/// Whether data may go out although the peer has no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// The window holds nothing back, or something is outstanding whose acknowledgement will tell.
    NotNeeded,
    /// Data waits, nothing is outstanding: only a probe finds out whether the window is open again.
    Wanted,
    /// The wait of one RTO is over: the next chunk may go whatever the window.
    Permitted,
}

/// The peer's window.
#[derive(Debug)]
pub(super) struct PeerWindow {
    /// Bytes that may still be sent. Below 0 when more is outstanding than the peer has room for: what is marked for
    /// retransmission is given back to that first. A SACK sets it anew, and a send window has 65,535 chunks at most between
    /// two SACKs, so that it stays far from the ends of its range.
    rwnd: i64,
    /// The largest window the peer ever had.
    rwnd_max: u32,
    probe: Probe,
    /// The peer's window had no room for the lowest outstanding chunk at the last SACK, or a probe is on its way.
    shut: bool,
    /// A SACK came since the last time-out or probe.
    answered: bool,
}

impl PeerWindow {
    pub(super) const fn new(rwnd: u32) -> Self {
        Self { rwnd: rwnd as i64, rwnd_max: rwnd, probe: Probe::NotNeeded, shut: false, answered: false }
    }

    /// Section 6.2.1 A and D ii: what the peer has room for less what is still outstanding. True: it was shut and is open.
    pub(super) fn update(&mut self, a_rwnd: u32, in_flight: u32, lowest: Option<usize>) -> bool {
        let was_shut = self.shut;
        self.rwnd = i64::from(a_rwnd) - i64::from(in_flight);
        self.rwnd_max = self.rwnd_max.max(a_rwnd);
        self.shut = a_rwnd == 0 || lowest.is_some_and(|len| len > a_rwnd as usize);
        self.answered = true;
        self.probe = Probe::NotNeeded;
        was_shut && !self.shut
    }

    /// A SACK out of order came: it says nothing of the window, but the peer lives.
    pub(super) fn on_stale_answer(&mut self) {
        self.answered = true;
    }

    /// Section 6.2.1 B.
    pub(super) fn spend(&mut self, len: usize) {
        self.rwnd -= len as i64;
    }

    /// Section 6.2.1 C.
    pub(super) fn give_back(&mut self, len: u32) {
        self.rwnd += i64::from(len);
    }

    /// Section 6.1 A: how much of the `len` bytes that fit the packet may go, if any.
    pub(super) fn admit(&mut self, len: usize, rest: Rest, packet_space: usize, idle: bool) -> Option<usize> {
        if len as i64 <= self.rwnd {
            return Some(len);
        }
        let rwnd = self.rwnd() as usize;
        // Silly window avoidance (RFC 1122 section 4.2.3.4): less than a full packet only if that is half of the
        // largest window the peer ever had, and only of a message that has to be cut in any case.
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
            self.answered = false;
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

    /// The window is shut and the peer says so: a time-out now is no sign of a dead path.
    pub(super) fn is_probed(&self) -> bool {
        self.shut && self.answered
    }

    /// See [`Outbound::window_is_shut`](super::Outbound::window_is_shut).
    pub(super) const fn is_shut(&self) -> bool {
        self.shut
    }

    pub(super) fn on_timeout(&mut self) {
        self.answered = false;
    }

    pub(super) const fn rwnd(&self) -> u32 {
        // It may exceed the type's range by what was given back.
        if self.rwnd < 0 {
            0
        } else if self.rwnd > u32::MAX as i64 {
            u32::MAX
        } else {
            self.rwnd as u32
        }
    }
}
