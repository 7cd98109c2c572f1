//! A message on its way through the sending half.

use bytes::Bytes;

use super::copies::{Copies, Place};
use crate::event::{FailedMessage, SendInfo};
use crate::number::Ssn;

/// Where a message's bytes are.
#[derive(Debug)]
pub(super) enum Payload {
    /// In the user's own buffer.
    Shared(Bytes),
    /// Among the association's copies: counting references to a small message would cost more than the copy.
    Copied(Place),
}

impl Payload {
    /// How many bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Copied(place) => place.len(),
        }
    }

    #[inline]
    pub(super) fn bytes<'a>(&'a self, copies: &'a Copies) -> &'a [u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Copied(place) => copies.bytes(*place),
        }
    }
}

/// A user message.
#[derive(Debug)]
pub(super) struct Message {
    /// The whole message.
    pub(super) payload: Payload,
    /// As given to `push`.
    pub(super) info: SendInfo,
    /// Given when the first fragment is sent; 0 before and for unordered messages.
    pub(super) ssn: Ssn,
}

impl Message {
    pub(super) fn new(info: SendInfo, payload: Payload) -> Self {
        Self { payload, info, ssn: Ssn(0) }
    }

    /// Bytes of user data.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.payload.len()
    }

    /// The message as it is given back to the user. Its copy, if it has one, stays.
    pub(super) fn failed(self, sent: bool, copies: &Copies) -> FailedMessage {
        let data = match self.payload {
            Payload::Shared(bytes) => bytes,
            Payload::Copied(place) => Bytes::copy_from_slice(copies.bytes(place)),
        };
        FailedMessage { info: self.info, data, sent }
    }
}
