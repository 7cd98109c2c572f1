//! The values of timers (RFC 3261 table 4, RFC 6026 section 7.1).

use core::time::Duration;

/// T1, T2, T4 and timer C, from which all others follow.
///
/// | timer | value | for |
/// |---|---|---|
/// | A | T1, doubled each time | INVITE retransmitted, UDP only |
/// | B | 64 T1 | INVITE given up |
/// | C | more than 3 minutes | a proxy's INVITE without final response |
/// | D | 64 T1, or at least 32 s; none over reliable transports | retransmissions of the response awaited |
/// | E | T1, doubled up to T2 | non-INVITE retransmitted, UDP only |
/// | F | 64 T1 | non-INVITE given up |
/// | G | T1, doubled up to T2 | final response to INVITE retransmitted, UDP only |
/// | H | 64 T1 | ACK given up |
/// | I | T4; none over reliable transports | retransmissions of ACK awaited |
/// | J | 64 T1; none over reliable transports | retransmissions of a non-INVITE awaited |
/// | K | T4; none over reliable transports | retransmissions of its response awaited |
/// | L | 64 T1 | retransmissions of an INVITE that was accepted, on the server's side |
/// | M | 64 T1 | retransmissions of its 2xx, and those of other branches, on the client's side |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// An estimate of the round trip time.
    pub t1: Duration,
    /// The longest interval between retransmissions of anything but an INVITE.
    pub t2: Duration,
    /// How long a message may stay in the network.
    pub t4: Duration,
    /// How long an INVITE may ring at a proxy (section 16.6, step 11).
    pub c: Duration,
}

/// Who hears nothing for longer may ask again.
const TRYING: Duration = Duration::from_millis(200);

impl Default for Timings {
    /// 500 ms, 4 s, 5 s, and 185 s for C.
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            c: Duration::from_secs(185),
        }
    }
}

impl Timings {
    /// B, F, H, J, L and M: 64 T1.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        self.t1.saturating_mul(64)
    }

    /// How long 100 waits for another answer to an INVITE: 200 ms (section 17.2.1), well before an INVITE comes again.
    #[must_use]
    pub fn trying(&self) -> Duration {
        TRYING.min(self.t1 / 5 * 2)
    }

    /// D: at least 32 s (section 17.1.1.2).
    #[must_use]
    pub fn d(&self) -> Duration {
        self.patience().max(Duration::from_secs(32))
    }

    /// The interval after `interval`, doubled up to T2.
    #[must_use]
    pub fn doubled(&self, interval: Duration) -> Duration {
        interval.saturating_mul(2).min(self.t2)
    }
}
