//! What a datagram is before it is parsed: SIP, a keep-alive, or STUN on the same port (RFC 5626 section 4.4.2).

/// What a datagram is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram {
    /// Give it to [`Message::parse`](super::Message::parse).
    Sip,
    /// Nothing, line ends or zeros: keeps a NAT's binding open, and is not answered.
    KeepAlive,
    /// A STUN message (RFC 8489): it starts with two zero bits and has the magic cookie.
    Stun,
}

impl Datagram {
    /// Looks at the first bytes.
    ///
    /// ```
    /// use strandline_sip::codec::Datagram;
    ///
    /// assert_eq!(Datagram::of(b"\r\n\r\n"), Datagram::KeepAlive);
    /// assert_eq!(Datagram::of(b"\r\nBYE sip:a.example SIP/2.0\r\n"), Datagram::Sip);
    /// ```
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [first, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..] if *first < 0x40 && bytes.len() >= 20 => Self::Stun,
            [b'A'..=b'Z' | b'a'..=b'z', ..] => Self::Sip,
            _ if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) => Self::KeepAlive,
            _ => Self::Sip,
        }
    }
}
