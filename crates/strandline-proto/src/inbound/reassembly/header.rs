//! What the fragments of a message in DATA chunks have in common.

use bytes::Bytes;
use strandline_wire::Data;

use super::super::ordering::StreamOrder;
use crate::event::Message;
use crate::number::{Ppid, Ssn, StreamId, Tsn};

/// The fields that all fragments of a message have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Header {
    pub(in super::super) stream: StreamId,
    /// 0 if unordered: the field has no meaning then (section 6.6).
    pub(in super::super) ssn: Ssn,
    pub(in super::super) ppid: Ppid,
    pub(in super::super) unordered: bool,
}

impl Header {
    #[inline]
    pub(in super::super) fn of(data: &Data<'_>) -> Self {
        let ssn = if data.unordered { Ssn(0) } else { data.ssn };
        Self { stream: data.stream, ssn, ppid: data.ppid, unordered: data.unordered }
    }

    /// Returns a whole message of these bytes.
    #[inline]
    pub(in super::super) fn message(self, tsn: Tsn, data: Bytes) -> Message {
        let Self { stream, ssn, ppid, unordered } = self;
        Message { stream, ssn, tsn, ppid, unordered, begins: true, ends: true, data }
    }

    /// Returns true if the SSN of the message was used or abandoned.
    pub(super) fn is_past(self, order: &StreamOrder) -> bool {
        !self.unordered && self.ssn.is_before(order.next(self.stream))
    }

    /// Returns true if the message can be read as soon as it is complete.
    #[inline]
    pub(super) fn is_next(self, order: &StreamOrder) -> bool {
        self.unordered || order.is_next(self.stream, self.ssn)
    }
}
