//! The association's state (RFC 9260 section 4).

use crate::stats::AssociationState;
use crate::time::Time;

/// The state. Each variant owns the data that only it needs, so that an association cannot hold a cookie after set-up.
///
/// ```text
///                 connect                                   COOKIE ECHO (valid)
///   (none) ------------------> CookieWait      (listener) -----------------------> Established
///                                  | INIT ACK
///                                  v
///                             CookieEchoed ------ COOKIE ACK ------> Established
///
///   Established --shutdown()--> ShutdownPending --all acknowledged--> ShutdownSent
///   Established --SHUTDOWN----> ShutdownReceived --all acknowledged--> ShutdownAckSent
///   ShutdownSent --SHUTDOWN (both at once)--> ShutdownAckSent
///   ShutdownSent --SHUTDOWN ACK--> Closed        ShutdownAckSent --SHUTDOWN COMPLETE / SHUTDOWN ACK--> Closed
///   any --ABORT, too many errors, abort()--> Closed
/// ```
#[derive(Debug)]
pub(crate) enum State {
    /// INIT sent, T1-init running.
    CookieWait(Box<Setup>),
    /// COOKIE ECHO sent, T1-cookie running.
    CookieEchoed(Box<Setup>),
    Established,
    /// The application asked for a shutdown; data is still queued or unacknowledged.
    ShutdownPending,
    /// SHUTDOWN sent, T2-shutdown running.
    ShutdownSent {
        /// When the association ends at the latest, though the peer still delivers data.
        end: Time,
    },
    /// SHUTDOWN received; data is still queued or unacknowledged.
    ShutdownReceived,
    /// SHUTDOWN ACK sent, T2-shutdown running.
    ShutdownAckSent,
    /// The association has ended: only what arrived before can still be read.
    Closed,
}

/// State that only the set-up needs.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Number of retransmissions of INIT or COOKIE ECHO so far.
    pub(crate) attempts: u16,
    /// Number of restarts of the set-up after a Stale Cookie error.
    pub(crate) stale: u8,
    /// Cookie Preservative to ask for, in milliseconds; 0 for none.
    pub(crate) preservative_ms: u32,
    /// Number of packets with the COOKIE ECHO that have been sent at this attempt.
    pub(crate) echoes: u8,
    /// True once a COOKIE ECHO with this cookie was sent.
    pub(crate) echoed: bool,
    /// When the COOKIE ECHO was first sent: measures the round-trip time for the preservative and the first RTT.
    pub(crate) sent_at: Time,
    /// The peer's State Cookie, once the INIT ACK arrived.
    pub(crate) cookie: Vec<u8>,
    /// Causes to report in an ERROR with the COOKIE ECHO (unrecognised parameters of the INIT ACK).
    pub(crate) report: Vec<u8>,
    /// Whether this side opens the even dynamic streams, as the application knows it by an INIT ACK.
    pub(crate) even: Option<bool>,
    /// True once an INIT ACK was refused because of its tags.
    pub(crate) refused: bool,
}

impl Setup {
    /// Creates the state of a set-up that begins now.
    pub(crate) fn new(now: Time) -> Self {
        Self {
            attempts: 0,
            stale: 0,
            preservative_ms: 0,
            echoes: 0,
            echoed: false,
            sent_at: now,
            cookie: Vec::new(),
            report: Vec::new(),
            even: None,
            refused: false,
        }
    }

    /// Takes the peer's State Cookie, which is sent next.
    pub(crate) fn take_cookie(&mut self, now: Time, cookie: &[u8]) {
        (self.attempts, self.echoes, self.echoed) = (0, 0, false);
        self.sent_at = now;
        self.cookie = cookie.to_vec();
    }

    /// Counts a packet with the COOKIE ECHO.
    pub(crate) fn on_echoed(&mut self) {
        self.echoes = self.echoes.saturating_add(1);
        self.echoed = true;
    }
}

impl State {
    /// Returns the state without its data, for the application.
    pub(crate) fn public(&self) -> AssociationState {
        match self {
            Self::CookieWait(_) => AssociationState::CookieWait,
            Self::CookieEchoed(_) => AssociationState::CookieEchoed,
            Self::Established => AssociationState::Established,
            Self::ShutdownPending => AssociationState::ShutdownPending,
            Self::ShutdownSent { .. } => AssociationState::ShutdownSent,
            Self::ShutdownReceived => AssociationState::ShutdownReceived,
            Self::ShutdownAckSent => AssociationState::ShutdownAckSent,
            Self::Closed => AssociationState::Closed,
        }
    }

    /// Moves to the other state of the set-up, which has the same data. Does nothing in any other state.
    pub(crate) fn move_setup(&mut self, to: fn(Box<Setup>) -> Self) {
        *self = match core::mem::replace(self, Self::Closed) {
            Self::CookieWait(setup) | Self::CookieEchoed(setup) => to(setup),
            other => other,
        };
    }

    /// True if DATA is accepted (section 6).
    pub(crate) fn receives_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent { .. })
    }

    /// True if DATA may be sent (section 6), apart from data with a COOKIE ECHO.
    pub(crate) fn sends_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// True if the application may send messages.
    pub(crate) fn takes_messages(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_) | Self::Established)
    }

    pub(crate) fn in_setup(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_))
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// True if paths are probed (section 8.3: until SHUTDOWN or SHUTDOWN ACK was sent).
    pub(crate) fn heartbeats(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }
}
