//! The header in front of DTLS records (docs/encryption.md, "The header").
//!
//! DTLS 1.3 has connection IDs of its own (RFC 9147 section 9), which the library for DTLS does not implement. This
//! header carries them instead, outside of the records.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+
//! |      Kind     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Destination connection ID; of an Initial: source      |
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        rest, by kind                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

/// A connection ID. The low bits name the shard that owns the connection. The high bits of one that a server
/// chose are the low bits of its client's: in a Reset they come last, so that it reaches the client's shard.
pub(crate) type Cid = u64;

/// Returns the connection ID of a server, with the high bits that its client's calls for.
pub(crate) fn with_bits_of(client: Cid, cid: Cid) -> Cid {
    cid << RESET_ROTATION >> RESET_ROTATION | client << (u64::BITS - RESET_ROTATION)
}

/// First bytes. Neither a DTLS record begins with one (20 to 63, RFC 9147 section 4.1) nor STUN, ZRTP, TURN,
/// QUIC or RTP (RFC 7983, RFC 9443).
const INITIAL: u8 = 8;
const RETRY: u8 = 9;
const HANDSHAKE: u8 = 10;
const DATA: u8 = 11;
const RESET: u8 = 12;

/// Bits by which the connection ID in a Reset is rotated.
const RESET_ROTATION: u32 = 16;

/// Length of the header in front of data.
pub const DATA_HEADER_LEN: usize = 9;

/// Length of a token.
pub(crate) const TOKEN_LEN: usize = 24;

/// Length of the longest header: of an Initial with a token.
pub(crate) const HEADER_LEN_MAX: usize = 1 + 8 + 1 + TOKEN_LEN;

/// A datagram's header, and what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header<'a> {
    /// From a client that does not know the server's connection ID: its own, and a token if it was given one.
    Initial { source: Cid, token: &'a [u8], records: &'a [u8] },
    /// Asks a client to begin again with a token, which proves that it receives at its address.
    Retry { destination: Cid, token: &'a [u8] },
    /// During a handshake.
    Handshake { destination: Cid, source: Cid, records: &'a [u8] },
    /// After a handshake.
    Data { destination: Cid, record: &'a [u8] },
    /// The receiver of a Data datagram does not know its connection ID. The token proves that it chose that ID before.
    Reset { destination: Cid, token: &'a [u8] },
    /// A DTLS record without a header of ours (RFC 8261).
    Plain { records: &'a [u8] },
}

impl<'a> Header<'a> {
    /// Returns `None` for anything else.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (kind, rest) = datagram.split_first()?;
        if (20..64).contains(kind) {
            return Some(Self::Plain { records: datagram });
        }
        if !(INITIAL..=RESET).contains(kind) {
            return None;
        }
        let (first, rest) = cid(rest)?;
        match *kind {
            INITIAL => {
                let (token_len, rest) = rest.split_first()?;
                let (token, records) = rest.split_at_checked(usize::from(*token_len))?;
                Some(Self::Initial { source: first, token, records })
            }
            RETRY => Some(Self::Retry { destination: first, token: rest }),
            HANDSHAKE => {
                let (source, records) = cid(rest)?;
                Some(Self::Handshake { destination: first, source, records })
            }
            DATA => Some(Self::Data { destination: first, record: rest }),
            _ => Some(Self::Reset { destination: first.rotate_right(RESET_ROTATION), token: rest }),
        }
    }

    /// Appends the datagram to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Initial { source, token, records } => {
                out.push(INITIAL);
                out.extend_from_slice(&source.to_be_bytes());
                out.push(token.len().min(TOKEN_LEN) as u8);
                out.extend_from_slice(token.get(..TOKEN_LEN).unwrap_or(token));
                out.extend_from_slice(records);
            }
            Self::Retry { destination, token } => {
                out.push(RETRY);
                out.extend_from_slice(&destination.to_be_bytes());
                out.extend_from_slice(token);
            }
            Self::Handshake { destination, source, records } => {
                out.push(HANDSHAKE);
                out.extend_from_slice(&destination.to_be_bytes());
                out.extend_from_slice(&source.to_be_bytes());
                out.extend_from_slice(records);
            }
            Self::Data { destination, record } => {
                out.push(DATA);
                out.extend_from_slice(&destination.to_be_bytes());
                out.extend_from_slice(record);
            }
            Self::Reset { destination, token } => {
                out.push(RESET);
                out.extend_from_slice(&destination.rotate_left(RESET_ROTATION).to_be_bytes());
                out.extend_from_slice(token);
            }
            Self::Plain { records } => out.extend_from_slice(records),
        }
    }
}

fn cid(bytes: &[u8]) -> Option<(Cid, &[u8])> {
    let (cid, rest) = bytes.split_first_chunk()?;
    Some((Cid::from_be_bytes(*cid), rest))
}

#[cfg(test)]
mod tests;
