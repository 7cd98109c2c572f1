//! The output of a service, which the I/O layer carries out.

use crate::bindings::Journal;
use crate::transaction::{Flow, Outbox};

use super::workers::Misdirected;

/// The output of a service: messages to send, changes to store, connections to alias and to close.
#[derive(Debug, Default)]
pub struct Output {
    /// Messages to send immediately.
    pub out: Outbox,
    /// Responses to send once the journal is durable.
    pub held: Outbox,
    /// Changes of bindings to be stored.
    pub journal: Journal,
    /// Whether changes that were taken from the journal are not durable yet.
    pub unsettled: bool,
    pub(super) aliased: Vec<(u64, u16)>,
    pub(super) replaced: Vec<Flow>,
    pub(super) misdirected: Vec<Misdirected>,
    pub(super) closed: Vec<u64>,
}

impl Output {
    /// Empty. `durable`: whether changes of bindings are stored.
    pub(super) fn new(durable: bool) -> Self {
        let journal = if durable { Journal::default() } else { Journal::off() };
        Self { journal, ..Self::default() }
    }

    /// Whether a response that confirms a change must be held, because an earlier change may not be durable
    /// yet.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled || !self.journal.is_empty()
    }

    /// Returns, once, connections over which requests to their peers may go, and the ports where these listen
    /// (RFC 5923).
    pub fn take_aliased(&mut self) -> Vec<(u64, u16)> {
        core::mem::take(&mut self.aliased)
    }

    /// Returns, once, connections to be closed: their phones have replaced them.
    pub fn take_replaced(&mut self) -> Vec<Flow> {
        core::mem::take(&mut self.replaced)
    }

    /// Returns, once, messages that arrived here and belong to other workers.
    pub fn take_misdirected(&mut self) -> Vec<Misdirected> {
        core::mem::take(&mut self.misdirected)
    }

    /// Returns, once, connections of this worker that have closed, for the other workers.
    pub fn take_closed(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.closed)
    }
}
