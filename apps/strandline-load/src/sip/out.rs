//! The output buffer of user agents.

/// Messages to send: the source of each, and its position in the buffer.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    pub(super) messages: Vec<(usize, usize, usize)>,
}

impl Out {
    pub(super) fn add(&mut self, source: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.messages.push((source, start, self.bytes.len()));
    }

    pub(super) fn last(&self) -> &[u8] {
        let Some((_, start, end)) = self.messages.last() else { return &[] };
        self.bytes.get(*start..*end).unwrap_or(&[])
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
    }
}
