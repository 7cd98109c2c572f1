//! Stream Sequence Numbers of the outgoing streams (RFC 9260 section 6.5).
//!
//! The numbers of the first streams are stored inline. Further ones are in pages that are allocated with the first
//! message on one of their streams: stream 65,535 alone costs the directory (4 KiB) and one page, not 128 KiB.

use crate::number::{Ssn, StreamId};

/// Number of streams stored inline.
const INLINE: usize = 4;
/// Number of streams of one page.
const PAGE: usize = 128;

type Page = Box<[Ssn; PAGE]>;

/// The next number of each stream.
#[derive(Debug, Default)]
pub(super) struct StreamNumbers {
    first: [Ssn; INLINE],
    /// Entry `i` is the page of streams `i * PAGE ..`; as long as the highest used stream needs.
    pages: Box<[Option<Page>]>,
}

impl StreamNumbers {
    /// Returns the number of the stream's next ordered message; the one after 65,535 is 0.
    #[inline]
    pub(super) fn take(&mut self, stream: StreamId) -> Ssn {
        let StreamId(number) = stream;
        let place = match self.first.get_mut(usize::from(number)) {
            Some(place) => place,
            None => self.page_place(usize::from(number)),
        };
        let number = *place;
        *place = number.next();
        number
    }

    fn page_place(&mut self, stream: usize) -> &mut Ssn {
        let index = stream / PAGE;
        if index >= self.pages.len() {
            let mut pages = core::mem::take(&mut self.pages).into_vec();
            // Exact: the directory grows a few times in an association's life.
            pages.reserve_exact(index + 1 - pages.len());
            pages.resize_with(index + 1, || None);
            self.pages = pages.into_boxed_slice();
        }
        &mut self.pages[index].get_or_insert_with(|| Box::new([Ssn(0); PAGE]))[stream % PAGE]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count();
        size_of_val(&*self.pages) + pages * size_of::<[Ssn; PAGE]>()
    }
}
