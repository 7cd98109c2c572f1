//! A message on its way through the sending half.

use bytes::Bytes;

use crate::event::{FailedMessage, SendInfo};
use crate::number::Ssn;

/// A user message: the user's own buffer, shared, never copied.
#[derive(Debug)]
pub(super) struct Message {
    /// The whole message.
    pub(super) data: Bytes,
    /// As given to `push`.
    pub(super) info: SendInfo,
    /// Given when the first fragment is sent; 0 before and for unordered messages.
    pub(super) ssn: Ssn,
}

impl Message {
    pub(super) fn new(info: SendInfo, data: Bytes) -> Self {
        Self { data, info, ssn: Ssn(0) }
    }

    pub(super) fn failed(self, sent: bool) -> FailedMessage {
        FailedMessage { info: self.info, data: self.data, sent }
    }
}
