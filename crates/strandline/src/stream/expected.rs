//! The SSN that the reader of a stream expects next. It shows where the peer gave messages up (RFC 3758) of
//! which nothing arrived.

use strandline_proto::event::Message;
use strandline_proto::number::Ssn;

use crate::error::RecvError;

/// What is known of the next message of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// It has this SSN, or an earlier one if it had arrived when the stream was opened.
    UpTo(Ssn),
    /// It has this SSN.
    Exactly(Ssn),
    /// Its SSN is unknown: messages were given up, which was reported, or a restart or reset follows that set the
    /// numbers back.
    Any,
}

impl Expected {
    /// True if messages are missing before the one with this SSN.
    pub(super) fn misses(self, ssn: Ssn) -> bool {
        match self {
            Self::UpTo(last) => ssn.is_after(last),
            Self::Exactly(next) => ssn != next,
            Self::Any => false,
        }
    }

    /// Records what `recv` returned. Returns true if messages are missing before that.
    pub(super) fn on_received(&mut self, received: &Result<Option<Message>, RecvError>) -> bool {
        let before = *self;
        match received {
            Ok(Some(message)) if message.begins && !message.unordered => {
                *self = Self::Exactly(message.ssn.next());
                before.misses(message.ssn)
            }
            // A new numbering.
            Err(RecvError::Restarted | RecvError::Reset) => {
                *self = Self::Exactly(Ssn(0));
                false
            }
            Err(RecvError::Abandoned) => {
                *self = Self::Any;
                false
            }
            _ => false,
        }
    }

    /// Returns true once if messages are missing at the end, where `next` is the SSN of the next message.
    pub(super) fn on_end(&mut self, next: Ssn) -> bool {
        let misses = self.misses(next);
        *self = Self::Exactly(next);
        misses
    }
}

#[cfg(test)]
mod tests;
