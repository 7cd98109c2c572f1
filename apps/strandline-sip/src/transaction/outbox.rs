//! Outgoing messages, collected in one buffer for each batch.

use bytes::BytesMut;

use super::flow::Flow;
use super::id::ClientId;

/// An outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// The flow over which it is sent.
    pub flow: Flow,
    /// The transaction to notify if sending fails.
    pub client: Option<ClientId>,
    start: usize,
    end: usize,
}

/// Messages to send, in order. The I/O layer sends them and clears the outbox.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: BytesMut,
    items: Vec<Outgoing>,
}

impl Outbox {
    /// Creates an empty outbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a message.
    pub fn push(&mut self, flow: Flow, client: Option<ClientId>, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.close(flow, client, start);
    }

    /// Queues the bytes that `write` appends to the buffer. Queues nothing if it fails.
    ///
    /// # Errors
    /// Returns the error of `write`.
    pub fn write<E>(
        &mut self,
        flow: Flow,
        client: Option<ClientId>,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        let start = self.bytes.len();
        if let Err(error) = write(&mut self.bytes) {
            self.bytes.truncate(start);
            return Err(error);
        }
        self.close(flow, client, start);
        Ok(self.bytes.get(start..).unwrap_or(&[]))
    }

    fn close(&mut self, flow: Flow, client: Option<ClientId>, start: usize) {
        self.items.push(Outgoing { flow, client, start, end: self.bytes.len() });
    }

    /// Removes the message queued last.
    pub fn take_back(&mut self) {
        if let Some(last) = self.items.pop() {
            self.bytes.truncate(last.start);
        }
    }

    /// Appends all messages of another outbox.
    pub fn append(&mut self, other: &Self) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = |item: &Outgoing| Outgoing { start: item.start + at, end: item.end + at, ..*item };
        self.items.extend(other.items.iter().map(moved));
    }

    /// Takes all messages. An outbox with room for as many remains.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let (bytes, items) =
            (BytesMut::with_capacity(self.bytes.len()), Vec::with_capacity(self.items.len()));
        core::mem::replace(self, Self { bytes, items })
    }

    /// Iterates over the queued messages.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Outgoing, &[u8])> {
        self.items.iter().map(|item| (item, self.bytes.get(item.start..item.end).unwrap_or(&[])))
    }

    /// The queued message with this index.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<(&Outgoing, &[u8])> {
        self.items.get(number).map(|item| (item, self.bytes.get(item.start..item.end).unwrap_or(&[])))
    }

    /// The number of queued messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The total size of the queued messages, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all messages, and keeps the capacity of a usual batch.
    pub fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
        if self.bytes.capacity() > 1 << 20 {
            self.bytes = BytesMut::new();
        }
    }
}
