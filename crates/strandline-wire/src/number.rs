//! Protocol numbers as distinct types. Serial numbers compare as in RFC 1982 (RFC 9260 section 1.6).

use core::fmt;
use core::ops::{Add, AddAssign};

/// Transmission Sequence Number: one for each DATA chunk, modulo 2^32.
///
/// ```
/// use strandline_wire::number::Tsn;
/// let last = Tsn(u32::MAX);
/// assert_eq!(last.next(), Tsn(0));
/// assert!(last.is_before(Tsn(5)));
/// assert_eq!(Tsn(5).distance_from(last), 6);
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Tsn(pub u32);

/// Stream Sequence Number: one for each ordered message of a stream, modulo 2^16.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ssn(pub u16);

/// Message Identifier: one for each ordered message of a stream, and one for each unordered one, modulo 2^32
/// (RFC 8260).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Mid(pub u32);

/// Fragment Sequence Number: one for each fragment of a message, from 0 on, modulo 2^32 (RFC 8260).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Fsn(pub u32);

/// Stream identifier within one direction of an association.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId(pub u16);

/// Payload Protocol Identifier: the application's own label, carried in network byte order.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ppid(pub u32);

/// Re-configuration Request Sequence Number: one for each request to reconfigure streams, modulo 2^32 (RFC 6525).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct RequestNumber(pub u32);

/// Sequence number of an ASCONF: one for each, modulo 2^32 (RFC 5061).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct AsconfNumber(pub u32);

/// Verification Tag of the common header; zero only in a packet that holds an INIT.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct VerificationTag(pub u32);

macro_rules! serial {
    ($name:ident, $int:ty, $half:expr) => {
        impl $name {
            /// Returns the next number.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.wrapping_add(1))
            }

            /// Returns the previous number.
            #[must_use]
            pub const fn previous(self) -> Self {
                Self(self.0.wrapping_sub(1))
            }

            /// Returns the number of steps from `earlier` to this number, modulo the number space.
            #[must_use]
            pub const fn distance_from(self, earlier: Self) -> $int {
                self.0.wrapping_sub(earlier.0)
            }

            /// Returns whether this number is less than `other` in the sense of RFC 1982. Two numbers exactly
            /// half the space apart are not ordered: the result is false both ways.
            #[must_use]
            pub const fn is_before(self, other: Self) -> bool {
                let ahead = other.0.wrapping_sub(self.0);
                ahead != 0 && ahead < $half
            }

            /// Returns whether this number is greater than `other` in the sense of RFC 1982.
            #[must_use]
            pub const fn is_after(self, other: Self) -> bool {
                other.is_before(self)
            }

            /// Returns whether this number equals `other` or is before it.
            #[must_use]
            pub const fn is_at_or_before(self, other: Self) -> bool {
                self.0 == other.0 || self.is_before(other)
            }

            /// Returns whether this number equals `other` or is after it.
            #[must_use]
            pub const fn is_at_or_after(self, other: Self) -> bool {
                self.0 == other.0 || other.is_before(self)
            }
        }

        impl Add<$int> for $name {
            type Output = Self;
            fn add(self, steps: $int) -> Self {
                Self(self.0.wrapping_add(steps))
            }
        }

        impl AddAssign<$int> for $name {
            fn add_assign(&mut self, steps: $int) {
                self.0 = self.0.wrapping_add(steps);
            }
        }
    };
}

serial!(Tsn, u32, 1 << 31);
serial!(RequestNumber, u32, 1 << 31);
serial!(AsconfNumber, u32, 1 << 31);
serial!(Ssn, u16, 1 << 15);
serial!(Mid, u32, 1 << 31);
serial!(Fsn, u32, 1 << 31);

macro_rules! show {
    ($($name:ident $format:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "(", $format, ")"), self.0)
            }
        }
    )*};
}

show!(Tsn "{}", Ssn "{}", Mid "{}", Fsn "{}", StreamId "{}", Ppid "{}", RequestNumber "{}", AsconfNumber "{}");
show!(VerificationTag "{:#010x}");

#[cfg(test)]
mod tests;
