//! The next SSN of each of up to 65,536 streams, in pages that are allocated where streams are used.

use crate::number::{Ssn, StreamId};

/// Number of streams in a page of 128 bytes.
const PAGE: usize = 64;
/// Number of pages in a node, and of nodes in the root, of 256 bytes each. 32 nodes of 32 pages of 64 make 65,536
/// streams.
const FANOUT: usize = 32;

type Page = [Ssn; PAGE];
type Node = [Option<Box<Page>>; FANOUT];

/// The next SSN by stream; 0 for a stream that was never used (section 6.5). Streams below 64 have a page at hand,
/// the others are two steps away.
#[derive(Debug, Default)]
pub(super) struct StreamTree {
    low: Option<Box<Page>>,
    high: Option<Box<[Option<Box<Node>>; FANOUT]>>,
}

impl StreamTree {
    /// Returns the SSN of the stream's next ordered message.
    pub(super) fn next(&self, stream: StreamId) -> Ssn {
        let number = usize::from(stream.0);
        self.page(number).and_then(|page| page.get(number % PAGE).copied()).unwrap_or_default()
    }

    /// Records that the stream's next message was delivered.
    pub(super) fn advance(&mut self, stream: StreamId) {
        let number = usize::from(stream.0);
        if let Some(ssn) = self.page_mut(number).and_then(|page| page.get_mut(number % PAGE)) {
            *ssn = ssn.next();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.low.is_none() && self.high.is_none()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let mut bytes = self.low.as_ref().map_or(0, |_| size_of::<Page>());
        if let Some(root) = &self.high {
            bytes += size_of_val(&**root);
            for node in root.iter().flatten() {
                bytes += size_of::<Node>() + node.iter().flatten().count() * size_of::<Page>();
            }
        }
        bytes
    }

    fn page(&self, number: usize) -> Option<&Page> {
        if number < PAGE {
            return self.low.as_deref();
        }
        let node = self.high.as_ref()?.get(number / (PAGE * FANOUT))?.as_ref()?;
        node.get(number / PAGE % FANOUT)?.as_deref()
    }

    /// Returns the page of a stream, creating it if needed. Every stream number has its place in the tree.
    fn page_mut(&mut self, number: usize) -> Option<&mut Page> {
        let new = || Box::new([Ssn(0); PAGE]);
        if number < PAGE {
            return Some(self.low.get_or_insert_with(new));
        }
        let node =
            self.high.get_or_insert_default().get_mut(number / (PAGE * FANOUT))?.get_or_insert_default();
        Some(node.get_mut(number / PAGE % FANOUT)?.get_or_insert_with(new))
    }
}

#[cfg(test)]
mod tests;
