//! Classifies a datagram before it is parsed: SIP, a keep-alive, or STUN on the same port (RFC 5626 section
//! 4.4.2).

/// Length of the STUN header, in bytes (RFC 8489 section 5).
const STUN_HEADER_BYTES: usize = 20;

/// The kind of a datagram, judged by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram {
    /// A SIP message: pass it to [`Message::parse`](super::Message::parse).
    Sip,
    /// Empty, or only line ends or zeros. It keeps a NAT binding open and gets no response.
    KeepAlive,
    /// A STUN message (RFC 8489): it starts with two zero bits and contains the magic cookie.
    Stun,
}

impl Datagram {
    /// Classifies a datagram by its first bytes.
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
            [first, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..]
                if *first < 0x40 && bytes.len() >= STUN_HEADER_BYTES =>
            {
                Self::Stun
            }
            [b'A'..=b'Z' | b'a'..=b'z', ..] => Self::Sip,
            _ if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) => Self::KeepAlive,
            _ => Self::Sip,
        }
    }
}
