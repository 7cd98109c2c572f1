//! Messages between the layers of two hosts, as application data of DTLS. They begin with 0 where an SCTP
//! packet has its source port, which is never 0 (RFC 9260 section 3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               0               |      Kind     |     Flags     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |      a connection ID or nonce; of a Hello: both IDs, and      |
//! |      a server's token for Resets (16 bytes)                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::header::Cid;
use crate::token::ResetToken;

const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const RESPONSE: u8 = 3;
const REFUSE: u8 = 4;

/// Flag of a Hello: the sender has received the peer's.
const CONFIRMED: u8 = 1;

/// A message between layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// Both connection IDs as the sender knows them, so that nobody on the way can exchange them. A server
    /// adds the token by which the client recognises its Reset.
    Hello { own: Cid, peer: Cid, confirmed: bool, reset: Option<ResetToken> },
    /// Asks the peer to prove that it receives at the address where this was sent.
    Challenge { nonce: u64 },
    /// The answer, to where the challenge came from.
    Response { nonce: u64 },
    /// The server does not trust the client's key. It closes the connection.
    Refuse,
}

/// Returns whether application data is a message between layers rather than an SCTP packet.
pub(crate) fn is_control(data: &[u8]) -> bool {
    data.starts_with(&[0, 0])
}

impl Control {
    /// Returns `None` if the message is malformed or of an unknown kind.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let ([0, 0, kind, flags], rest) = data.split_first_chunk()? else { return None };
        if *kind == REFUSE {
            return Some(Self::Refuse);
        }
        let (first, rest) = rest.split_first_chunk()?;
        let first = u64::from_be_bytes(*first);
        match *kind {
            HELLO => {
                let (peer, rest) = rest.split_first_chunk()?;
                let (peer, reset) = (u64::from_be_bytes(*peer), rest.first_chunk().copied());
                Some(Self::Hello { own: first, peer, confirmed: flags & CONFIRMED != 0, reset })
            }
            CHALLENGE => Some(Self::Challenge { nonce: first }),
            RESPONSE => Some(Self::Response { nonce: first }),
            _ => None,
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let (kind, flags, words) = match self {
            Self::Hello { own, peer, confirmed, .. } => (HELLO, u8::from(confirmed), [Some(own), Some(peer)]),
            Self::Challenge { nonce } => (CHALLENGE, 0, [Some(nonce), None]),
            Self::Response { nonce } => (RESPONSE, 0, [Some(nonce), None]),
            Self::Refuse => (REFUSE, 0, [None, None]),
        };
        let mut bytes = vec![0, 0, kind, flags];
        bytes.extend(words.into_iter().flatten().flat_map(u64::to_be_bytes));
        if let Self::Hello { reset: Some(token), .. } = self {
            bytes.extend(token);
        }
        bytes
    }
}
