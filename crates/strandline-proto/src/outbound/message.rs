//! A message in the sending half.

use bytes::Bytes;

use super::copies::{Copies, Place};
use crate::event::{FailedMessage, SendInfo};
use crate::number::Ssn;

/// The location of a message's bytes.
#[derive(Debug)]
pub(super) enum Payload {
    /// In the user's own buffer.
    Shared(Bytes),
    /// Among the association's copies: counting references to a small message would cost more than the copy.
    Copied(Place),
}

impl Payload {
    /// Returns the length in bytes.
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
    /// The information given to `push`.
    pub(super) info: SendInfo,
    /// Assigned when the first fragment is sent; 0 before that, and for unordered messages.
    pub(super) ssn: Ssn,
}

impl Message {
    pub(super) fn new(info: SendInfo, payload: Payload) -> Self {
        Self { payload, info, ssn: Ssn(0) }
    }

    /// Returns the bytes of user data.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.payload.len()
    }

    /// Returns the message to the user as failed. Its copy, if it has one, stays.
    pub(super) fn failed(self, sent: bool, copies: &Copies) -> FailedMessage {
        let data = match self.payload {
            Payload::Shared(bytes) => bytes,
            Payload::Copied(place) => Bytes::copy_from_slice(copies.bytes(place)),
        };
        FailedMessage { info: self.info, data, sent }
    }
}
