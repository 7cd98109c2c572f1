//! Buffers of long messages, reused when the messages have been read: the system takes longer to hand out fresh pages
//! than the copy into them takes.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Maximum number of bytes of the buffers that are kept for reuse, whether in use or free.
const KEPT_MAX: usize = 16 << 20;

/// Maximum number of buffers kept.
const BUFFERS_MAX: usize = 256;

/// Capacities are this times a power of two, so that a message of a power of two and a fragment fits the next one.
const UNIT: usize = 9 << 11;

/// The second handle of a buffer, which can take it back when all of its message has been dropped.
#[derive(Debug)]
struct Kept {
    capacity: usize,
    handle: BytesMut,
}

/// Allocates buffers, and keeps a handle of each of the latest ones. At most 16 MiB are kept.
#[derive(Debug, Default)]
pub(super) struct LargeBuffers {
    /// Oldest first.
    kept: VecDeque<Kept>,
    /// Sum of the capacities.
    bytes: usize,
}

/// Returns the capacity of a buffer for so many bytes: at most about twice as much.
fn rounded(bytes: usize) -> usize {
    UNIT * bytes.div_ceil(UNIT).next_power_of_two()
}

impl LargeBuffers {
    /// Returns an empty buffer with room for at least so many bytes.
    pub(super) fn take(&mut self, bytes: usize) -> BytesMut {
        let capacity = rounded(bytes);
        let is_free = |kept: &mut Kept| kept.capacity == capacity && kept.handle.try_reclaim(capacity);
        let free = self.kept.iter_mut().position(is_free);
        let buffer = match free.and_then(|place| self.kept.remove(place)) {
            Some(kept) => {
                self.bytes -= capacity;
                kept.handle
            }
            None => BytesMut::with_capacity(capacity),
        };
        self.keep(capacity, buffer)
    }

    /// Returns a buffer with these bytes.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> BytesMut {
        let mut buffer = self.take(bytes.len());
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Keeps a handle of the buffer. The oldest ones make room.
    fn keep(&mut self, capacity: usize, mut buffer: BytesMut) -> BytesMut {
        if capacity > KEPT_MAX || buffer.capacity() < capacity {
            return buffer;
        }
        while self.bytes + capacity > KEPT_MAX || self.kept.len() >= BUFFERS_MAX {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.capacity;
        }
        let handle = buffer.split_off(capacity);
        self.kept.push_back(Kept { capacity, handle });
        self.bytes += capacity;
        buffer
    }

    /// Frees the buffers that are not in use.
    pub(super) fn release_idle(&mut self) {
        let Self { kept, bytes } = self;
        kept.retain_mut(|kept| {
            let is_free = kept.handle.try_reclaim(kept.capacity);
            *bytes -= if is_free { kept.capacity } else { 0 };
            !is_free
        });
        if kept.is_empty() {
            *kept = VecDeque::new();
        }
    }

    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes + self.kept.capacity() * size_of::<Kept>()
    }
}

#[cfg(test)]
mod tests;
