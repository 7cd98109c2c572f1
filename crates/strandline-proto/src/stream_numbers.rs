//! The next Stream Sequence Number of each of up to 65,536 streams (RFC 9260 section 6.5), for either direction.
//!
//! The numbers of the first streams are stored inline. Further ones are in pages that are allocated where streams are
//! used: stream 65,535 alone costs less than 1 KB.

use crate::number::{Ssn, StreamId};
use crate::reconfiguration::Streams;

/// Number of streams whose number is stored inline.
const INLINE: usize = 4;
/// Number of streams in a page of 128 bytes.
const PAGE: usize = 64;
/// Number of pages in a node, and of nodes in the root, of 256 bytes each. 32 nodes of 32 pages of 64 make 65,536
/// streams.
const FANOUT: usize = 32;

type Page = [Ssn; PAGE];
type Node = [Option<Box<Page>>; FANOUT];

/// The next number of each stream; 0 for a stream that was never used. `T` is further state of the direction, which is
/// allocated together with the numbers beyond the first streams.
#[derive(Debug, Default)]
pub(crate) struct StreamNumbers<T> {
    first: [Ssn; INLINE],
    more: Option<Box<More<T>>>,
}

#[derive(Debug, Default)]
struct More<T> {
    tree: StreamTree,
    state: T,
}

impl<T: Default> StreamNumbers<T> {
    /// Returns the number of the stream's next ordered message.
    #[inline]
    pub(crate) fn next(&self, stream: StreamId) -> Ssn {
        match self.first.get(usize::from(stream.0)) {
            Some(&ssn) => ssn,
            None => self.more.as_ref().map_or(Ssn(0), |more| more.tree.next(stream)),
        }
    }

    /// Returns the number of the stream's next ordered message, which is used by that; the one after 65,535 is 0.
    #[inline]
    pub(crate) fn take(&mut self, stream: StreamId) -> Ssn {
        match self.first.get_mut(usize::from(stream.0)) {
            Some(ssn) => core::mem::replace(ssn, ssn.next()),
            None => self.more.get_or_insert_default().tree.take(stream),
        }
    }

    /// Sets the numbers of streams back to 0.
    pub(crate) fn reset(&mut self, streams: &Streams) {
        match streams {
            Streams::All => {
                self.first = Default::default();
                if let Some(more) = &mut self.more {
                    more.tree = StreamTree::default();
                }
            }
            Streams::Listed(list) => list.iter().for_each(|stream| self.reset_one(*stream)),
        }
    }

    /// Sets the number of a stream.
    pub(crate) fn set(&mut self, stream: StreamId, ssn: Ssn) {
        match self.first.get_mut(usize::from(stream.0)) {
            Some(known) => *known = ssn,
            None => self.more.get_or_insert_default().tree.set(stream, ssn),
        }
    }

    fn reset_one(&mut self, stream: StreamId) {
        if let Some(ssn) = self.first.get_mut(usize::from(stream.0)) {
            *ssn = Ssn(0);
        } else if self.next(stream) != Ssn(0)
            && let Some(more) = &mut self.more
        {
            more.tree.clear(stream);
        }
    }

    /// True if each of the streams has the number 0.
    pub(crate) fn are_zero(&self, streams: &Streams) -> bool {
        match streams {
            Streams::All => {
                self.first == [Ssn(0); INLINE] && self.more.as_ref().is_none_or(|more| more.tree.is_zero())
            }
            Streams::Listed(list) => list.iter().all(|stream| self.next(*stream) == Ssn(0)),
        }
    }

    /// Returns the further state, if it is allocated.
    #[inline]
    pub(crate) fn state(&self) -> Option<&T> {
        self.more.as_ref().map(|more| &more.state)
    }

    /// Returns the further state, if it is allocated.
    #[inline]
    pub(crate) fn state_mut(&mut self) -> Option<&mut T> {
        self.more.as_mut().map(|more| &mut more.state)
    }

    /// Returns the further state, allocating it if needed.
    pub(crate) fn state_or_default(&mut self) -> &mut T {
        &mut self.more.get_or_insert_default().state
    }

    /// Frees the further state, which holds nothing, unless numbers are allocated together with it.
    pub(crate) fn release_idle(&mut self) {
        self.more.take_if(|more| more.tree.is_empty());
    }

    /// Returns the heap bytes, without those that the further state holds itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.more.as_ref().map_or(0, |more| size_of::<More<T>>() + more.tree.heap_bytes())
    }
}

/// The numbers beyond the first streams. Streams below 64 have a page at hand, the others are two steps away.
#[derive(Debug, Default)]
struct StreamTree {
    low: Option<Box<Page>>,
    high: Option<Box<[Option<Box<Node>>; FANOUT]>>,
}

impl StreamTree {
    /// Returns the SSN of the stream's next ordered message.
    fn next(&self, stream: StreamId) -> Ssn {
        let number = usize::from(stream.0);
        self.page(number).and_then(|page| page.get(number % PAGE).copied()).unwrap_or_default()
    }

    /// Returns the SSN of the stream's next ordered message, which is used by that.
    fn take(&mut self, stream: StreamId) -> Ssn {
        let number = usize::from(stream.0);
        let ssn = self.page_mut(number).and_then(|page| page.get_mut(number % PAGE));
        ssn.map_or(Ssn(0), |ssn| core::mem::replace(ssn, ssn.next()))
    }

    fn set(&mut self, stream: StreamId, ssn: Ssn) {
        let number = usize::from(stream.0);
        if let Some(known) = self.page_mut(number).and_then(|page| page.get_mut(number % PAGE)) {
            *known = ssn;
        }
    }

    /// Sets the number of a stream to 0. A page of which all numbers are 0 is freed.
    fn clear(&mut self, stream: StreamId) {
        self.set(stream, Ssn(0));
        let number = usize::from(stream.0);
        let is_zero = |page: &mut Box<Page>| **page == [Ssn(0); PAGE];
        if number < PAGE {
            self.low.take_if(is_zero);
            return;
        }
        let Some(root) = &mut self.high else { return };
        let Some(place) = root.get_mut(number / (PAGE * FANOUT)) else { return };
        let Some(node) = place else { return };
        let page = node.get_mut(number / PAGE % FANOUT).and_then(|page| page.take_if(is_zero));
        if page.is_some() && node.iter().all(Option::is_none) {
            *place = None;
            if root.iter().all(Option::is_none) {
                self.high = None;
            }
        }
    }

    fn is_zero(&self) -> bool {
        let nodes = self.high.iter().flat_map(|root| root.iter().flatten());
        let pages = nodes.flat_map(|node| node.iter().flatten()).chain(&self.low);
        pages.into_iter().all(|page| page.iter().all(|ssn| *ssn == Ssn(0)))
    }

    fn is_empty(&self) -> bool {
        self.low.is_none() && self.high.is_none()
    }

    fn heap_bytes(&self) -> usize {
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
