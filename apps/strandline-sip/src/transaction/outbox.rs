//! Messages on their way out: all of a batch in one buffer.

use bytes::BytesMut;

use super::flow::Flow;
use super::id::ClientId;

/// A message to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub flow: Flow,
    /// The transaction to be told if it can't be sent.
    pub client: Option<ClientId>,
    start: usize,
    end: usize,
}

/// What the state machines want to be sent, in order. Whoever does the I/O sends it and clears it.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: BytesMut,
    items: Vec<Outgoing>,
}

impl Outbox {
    /// Nothing to send.
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

    /// Queues what `write` appends to the buffer; nothing if it fails.
    ///
    /// # Errors
    /// What `write` says.
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

    /// Forgets the message that was queued last.
    pub fn take_back(&mut self) {
        if let Some(last) = self.items.pop() {
            self.bytes.truncate(last.start);
        }
    }

    /// Queues all that another holds, after what is there.
    pub fn append(&mut self, other: &Self) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = |item: &Outgoing| Outgoing { start: item.start + at, end: item.end + at, ..*item };
        self.items.extend(other.items.iter().map(moved));
    }

    /// What there is to send.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Outgoing, &[u8])> {
        self.items.iter().map(|item| (item, self.bytes.get(item.start..item.end).unwrap_or(&[])))
    }

    /// The message number `number`.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<(&Outgoing, &[u8])> {
        self.items.get(number).map(|item| (item, self.bytes.get(item.start..item.end).unwrap_or(&[])))
    }

    /// How many messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// None.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all; keeps the room for a usual batch.
    pub fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
        if self.bytes.capacity() > 1 << 20 {
            self.bytes = BytesMut::new();
        }
    }
}
