//! What waits for a request about streams that are opened and closed at run time.

use std::collections::{BTreeSet, VecDeque};

use crate::number::{StreamId, Tsn};

/// What waits for a request.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Streams to reset once their last TSNs are acknowledged, in the order of these.
    pub(super) drained: VecDeque<(Tsn, StreamId)>,
    /// Streams of this side that the peer is to be asked to stop once it has a message of each: up to these TSNs.
    pub(super) starting: VecDeque<(Tsn, StreamId)>,
    /// Streams that the peer is to be asked to stop.
    pub(super) stopping: BTreeSet<StreamId>,
    /// Streams to abandon and to reset then.
    pub(super) abandoning: BTreeSet<StreamId>,
    /// Number of outgoing and incoming streams to ask for.
    pub(super) wanted: Option<(u16, u16)>,
    /// The latest request was about outgoing streams.
    pub(super) alternates: bool,
    /// Number of requests in a row that the peer did not perform because of another one.
    pub(super) crossed: u8,
}

impl Closing {
    /// Forgets what waits, because nothing more is sent.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets what the peer is to be asked for: it shuts down.
    pub(super) fn cancel_requests(&mut self) {
        self.stopping.clear();
        self.starting.clear();
        self.wanted = None;
    }

    /// Returns the heap bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.drained.capacity() + self.starting.capacity()) * size_of::<(Tsn, StreamId)>()
            + (self.stopping.len() + self.abandoning.len()) * size_of::<StreamId>()
    }
}
