//! Methods (RFC 3261 section 7.1 and the extensions registered since).

use core::fmt;

/// A request's method. Methods are case-sensitive, and `%` does not start an escape in them (RFC 4475 section
/// 3.1.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method<'a> {
    /// INVITE (RFC 3261 section 13).
    Invite,
    /// ACK (section 17.1.1.3).
    Ack,
    /// BYE (section 15).
    Bye,
    /// CANCEL (section 9).
    Cancel,
    /// REGISTER (section 10).
    Register,
    /// OPTIONS (section 11).
    Options,
    /// PRACK (RFC 3262).
    Prack,
    /// SUBSCRIBE (RFC 6665).
    Subscribe,
    /// NOTIFY (RFC 6665).
    Notify,
    /// PUBLISH (RFC 3903).
    Publish,
    /// INFO (RFC 6086).
    Info,
    /// REFER (RFC 3515).
    Refer,
    /// MESSAGE (RFC 3428).
    Message,
    /// UPDATE (RFC 3311).
    Update,
    /// Any other token.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// Returns the method with this name.
    ///
    /// ```
    /// use strandline_sip::codec::Method;
    ///
    /// assert_eq!(Method::from_bytes(b"INVITE"), Method::Invite);
    /// assert_eq!(Method::from_bytes(b"invite"), Method::Other(b"invite"));
    /// ```
    #[inline]
    #[must_use]
    pub fn from_bytes(name: &'a [u8]) -> Self {
        match name {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            b"OPTIONS" => Self::Options,
            b"PRACK" => Self::Prack,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"PUBLISH" => Self::Publish,
            b"INFO" => Self::Info,
            b"REFER" => Self::Refer,
            b"MESSAGE" => Self::Message,
            b"UPDATE" => Self::Update,
            other => Self::Other(other),
        }
    }

    /// The name of the method.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        match self {
            Self::Invite => b"INVITE",
            Self::Ack => b"ACK",
            Self::Bye => b"BYE",
            Self::Cancel => b"CANCEL",
            Self::Register => b"REGISTER",
            Self::Options => b"OPTIONS",
            Self::Prack => b"PRACK",
            Self::Subscribe => b"SUBSCRIBE",
            Self::Notify => b"NOTIFY",
            Self::Publish => b"PUBLISH",
            Self::Info => b"INFO",
            Self::Refer => b"REFER",
            Self::Message => b"MESSAGE",
            Self::Update => b"UPDATE",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_bytes().escape_ascii(), f)
    }
}

impl fmt::Debug for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Method({self})")
    }
}
