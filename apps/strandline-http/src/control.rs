//! Payload protocol identifiers, and the control messages that end connections on streams and grant credit.

/// Payload protocol identifiers of this mapping: `SH`, the version, and the kind and window of the sender.
const PREFIX: u32 = 0x5348_0000;
const PREFIX_MASK: u32 = 0xffff_0000;
/// The only version.
const VERSION: u32 = 1;
/// Set for control messages.
const CONTROL: u32 = 0x80;
/// Exponents of windows that the lowest bits can name.
const WINDOW_BITS: u32 = 0x1f;
/// Smallest window, as an exponent of two: 4 KiB. Smaller ones would cost a control message for each packet.
pub(crate) const WINDOW_EXPONENT_MIN: u32 = 12;
/// Largest window, as an exponent of two: 1 GiB.
pub(crate) const WINDOW_EXPONENT_MAX: u32 = 30;

/// Length of a control message, in bytes.
pub(crate) const CONTROL_LEN: usize = 16;

/// A label of a message: its payload protocol identifier.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-------------------------------+---------------+-+---+---------+
/// |             "SH"              |   version 1   |C| 0 | window  |
/// +-------------------------------+---------------+-+---+---------+
/// ```
///
/// `C` is set for a control message. `window` is an exponent of two: the number of bytes that the sender of
/// the label accepts ahead on each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) is_control: bool,
    pub(crate) window_exponent: u32,
}

impl Label {
    /// Returns the label of a payload protocol identifier; `None` if it is not of this mapping.
    pub(crate) fn parse(ppid: u32) -> Option<Self> {
        let window_exponent = ppid & WINDOW_BITS;
        let rest = ppid & !(WINDOW_BITS | CONTROL);
        let known = rest & PREFIX_MASK == PREFIX && rest == PREFIX | VERSION << 8;
        (known && (WINDOW_EXPONENT_MIN..=WINDOW_EXPONENT_MAX).contains(&window_exponent))
            .then_some(Self { is_control: ppid & CONTROL != 0, window_exponent })
    }

    /// Returns the payload protocol identifier.
    pub(crate) fn ppid(self) -> u32 {
        let control = if self.is_control { CONTROL } else { 0 };
        PREFIX | VERSION << 8 | control | self.window_exponent
    }

    /// Returns the window in bytes.
    pub(crate) fn window(self) -> u64 {
        1 << self.window_exponent
    }
}

/// A control message. `number` counts the connections on the stream from 0; a message about another connection
/// than the present one is ignored.
///
/// ```text
/// +---------------+-----------------------------------------------+
/// |     type      |                  reserved (0)                 |
/// +---------------+-----------------------------------------------+
/// |                            number                             |
/// +---------------------------------------------------------------+
/// |           value: 0, or for CREDIT the number of bytes         |
/// |            from the beginning of the connection               |
/// +---------------------------------------------------------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
}

/// What a control message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Type 1: the sender has sent everything in this connection.
    End,
    /// Type 2: the sender has given the connection up. It sends nothing more and reads nothing more.
    Reset,
    /// Type 3: the sender takes this many bytes, counted from the beginning of the connection.
    Credit(u64),
}

impl Control {
    /// Parses a control message; `None` if it has another length or an unknown type.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; CONTROL_LEN] = bytes.try_into().ok()?;
        let [kind, _, _, _, n0, n1, n2, n3, value @ ..] = bytes;
        let value = u64::from_be_bytes(*value);
        let kind = match kind {
            1 => Kind::End,
            2 => Kind::Reset,
            3 => Kind::Credit(value),
            _ => return None,
        };
        Some(Self { kind, number: u32::from_be_bytes([*n0, *n1, *n2, *n3]) })
    }

    /// Returns the message's bytes.
    pub(crate) fn to_bytes(self) -> [u8; CONTROL_LEN] {
        let (kind, value) = match self.kind {
            Kind::End => (1, 0),
            Kind::Reset => (2, 0),
            Kind::Credit(limit) => (3, limit),
        };
        let [n0, n1, n2, n3] = self.number.to_be_bytes();
        let [v0, v1, v2, v3, v4, v5, v6, v7] = u64::to_be_bytes(value);
        [kind, 0, 0, 0, n0, n1, n2, n3, v0, v1, v2, v3, v4, v5, v6, v7]
    }
}

#[cfg(test)]
mod tests;
