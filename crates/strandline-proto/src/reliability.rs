//! How long messages are transmitted and retransmitted (RFC 3758, RFC 7496).

use core::time::Duration;

/// Bits of the value; the kind of limit is above them.
const VALUE_BITS: u32 = 30;
const VALUE_MAX: u32 = (1 << VALUE_BITS) - 1;

const LIFETIME: u32 = 1;
const RETRANSMISSIONS: u32 = 2;
const PRIORITY: u32 = 3;

/// How long a message is transmitted and retransmitted.
///
/// A message that is abandoned is reported as [`Event::SendFailed`](crate::event::Event::SendFailed). If the
/// peer does not support partial reliability, a message is abandoned only while nothing of it was sent, and
/// retransmissions are not limited.
///
/// ```
/// use core::time::Duration;
/// use strandline_proto::event::SendInfo;
/// use strandline_proto::number::StreamId;
/// use strandline_proto::reliability::{Limit, Reliability};
///
/// // A position of a game: out of date after 50 ms.
/// let position = Reliability::lifetime(Duration::from_millis(50));
/// let info = SendInfo::on(StreamId(1)).unordered().reliability(position);
/// assert_eq!(info.reliability.limit(), Limit::Lifetime { millis: 50 });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reliability(u32);

/// What ends the transmission of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Only its acknowledgement.
    None,
    /// The time since it was given.
    Lifetime {
        /// In milliseconds.
        millis: u32,
    },
    /// The number of retransmissions of a chunk.
    Retransmissions {
        /// The largest number.
        max: u16,
    },
    /// A message of a higher priority that the send buffer has no room for.
    Priority {
        /// 0 is the highest.
        number: u32,
    },
}

impl Reliability {
    /// The limit of messages of the association ([`default_reliability`]), which is none unless one is set.
    ///
    /// [`default_reliability`]: crate::config::ExtensionsConfig::default_reliability
    pub const DEFAULT: Self = Self(0);

    /// The message is retransmitted until it is acknowledged, whatever the limit of the association is.
    pub const FULL: Self = Self(1);

    /// Gives the message up after this time, in milliseconds, at most 2^30 - 1 of them, which is 12 days (RFC 3758
    /// section 4.1). What is in flight then is abandoned once it is lost.
    #[must_use]
    pub fn lifetime(time: Duration) -> Self {
        Self::with(LIFETIME, u32::try_from(time.as_millis()).unwrap_or(u32::MAX))
    }

    /// Gives the message up once one of its chunks is lost that was retransmitted `max` times (RFC 7496 section 3.1). 0
    /// sends each chunk once.
    #[must_use]
    pub const fn retransmissions(max: u16) -> Self {
        Self::with(RETRANSMISSIONS, max as u32)
    }

    /// Gives the message up if the send buffer has no room for a message of a higher priority (RFC 7496
    /// section 3.2): of a lower number, or without a priority. Numbers above 2^30 - 1 are taken for that.
    #[must_use]
    pub const fn priority(number: u32) -> Self {
        Self::with(PRIORITY, number)
    }

    const fn with(kind: u32, value: u32) -> Self {
        let value = if value > VALUE_MAX { VALUE_MAX } else { value };
        Self(kind << VALUE_BITS | value)
    }

    /// Returns what ends the transmission.
    #[must_use]
    pub const fn limit(self) -> Limit {
        let value = self.0 & VALUE_MAX;
        match self.0 >> VALUE_BITS {
            LIFETIME => Limit::Lifetime { millis: value },
            RETRANSMISSIONS => Limit::Retransmissions { max: value as u16 },
            PRIORITY => Limit::Priority { number: value },
            _ => Limit::None,
        }
    }

    /// True if only the acknowledgement ends the transmission, unless the association has a limit for
    /// [`DEFAULT`](Self::DEFAULT).
    #[inline]
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.0 >> VALUE_BITS == 0
    }

    /// Returns this limit, or the one of the association if it is [`DEFAULT`](Self::DEFAULT).
    #[inline]
    pub(crate) const fn or(self, association: Self) -> Self {
        if self.0 == Self::DEFAULT.0 { association } else { self }
    }
}

#[cfg(test)]
mod tests;
