//! Timer values (RFC 3261 table 4, RFC 6026 section 7.1).

use core::time::Duration;

/// T1, T2, T4 and timer C, from which all other timers are derived.
///
/// | timer | value | meaning |
/// |---|---|---|
/// | A | T1, doubled each time | retransmit an INVITE, UDP only |
/// | B | 64 T1 | give up an INVITE |
/// | C | more than 3 minutes | end a proxied INVITE without final response |
/// | D | 64 T1, or at least 32 s; none over reliable transports | wait for retransmitted responses to an
/// INVITE |
/// | E | T1, doubled up to T2 | retransmit a non-INVITE request, UDP only |
/// | F | 64 T1 | give up a non-INVITE request |
/// | G | T1, doubled up to T2 | retransmit the final response to an INVITE, UDP only |
/// | H | 64 T1 | give up waiting for an ACK |
/// | I | T4; none over reliable transports | wait for retransmitted ACKs |
/// | J | 64 T1; none over reliable transports | wait for retransmitted non-INVITE requests |
/// | K | T4; none over reliable transports | wait for retransmitted responses to a non-INVITE request |
/// | L | 64 T1 | server: wait for retransmissions of an accepted INVITE |
/// | M | 64 T1 | client: wait for retransmitted 2xx responses and those of other branches |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// An estimate of the round-trip time.
    pub t1: Duration,
    /// The longest interval between retransmissions of a non-INVITE request or of a final response to an
    /// INVITE.
    pub t2: Duration,
    /// The longest time that a message stays in the network.
    pub t4: Duration,
    /// The time that a proxied INVITE may ring (section 16.6, step 11).
    pub c: Duration,
}

/// The delay of a 100 response (RFC 3261 section 17.2.1). A client that receives nothing for longer
/// retransmits.
const TRYING: Duration = Duration::from_millis(200);

impl Default for Timings {
    /// 500 ms, 4 s and 5 s, and 185 s for timer C.
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
    /// Timers B, F, H, J, L and M: 64 T1.
    #[must_use]
    pub const fn transaction_timeout(&self) -> Duration {
        self.t1.saturating_mul(64)
    }

    /// The delay of a 100 response to an INVITE: 200 ms (section 17.2.1), well before the INVITE is
    /// retransmitted.
    #[must_use]
    pub fn trying(&self) -> Duration {
        TRYING.min(self.t1 / 5 * 2)
    }

    /// Timer D: at least 32 s (section 17.1.1.2).
    #[must_use]
    pub fn d(&self) -> Duration {
        self.transaction_timeout().max(Duration::from_secs(32))
    }

    /// The interval that follows `interval`: doubled, up to T2.
    #[must_use]
    pub fn doubled(&self, interval: Duration) -> Duration {
        interval.saturating_mul(2).min(self.t2)
    }
}
