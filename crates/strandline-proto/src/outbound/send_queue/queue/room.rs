//! Room in the send buffer: whether a message is accepted, and when the application learns that there is room again.
//!
//! A byte counts against the send buffer from `push` until it is cumulatively acknowledged: a receiver may revoke a
//! gap acknowledgement (RFC 9260 section 6.2.1 D iii), so the bytes must be kept until then.

use super::{Queue, unparked};
use crate::config::AssociationConfig;
use crate::error::SendError;
use crate::number::StreamId;
use crate::outbound::send_queue::parked::BEYOND_CREDIT_MAX;
use crate::outbound::send_queue::scheduler::Scheduler;

/// Fraction of a send buffer that has grown with the congestion window which must be free before the application is
/// notified.
const GROWN_FREE_DIVISOR: u32 = 4;

/// Fraction of the send buffer that a stream with nothing queued may use beyond it.
const RESERVE_DIVISOR: u32 = 4;

/// When to notify the application that it may send again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocked {
    /// Maximum number of buffered bytes.
    bytes_max: u32,
    /// Maximum number of queued messages.
    messages_max: u32,
}

impl Queue {
    pub(crate) const fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Checks whether there is room for a message of `len` bytes; if not, the application will be notified
    /// when there is. `credit` is that of the stream, if streams have any. `limit` returns the current send
    /// buffer and is called only if the buffer was full by its previous size.
    #[inline]
    pub(crate) fn check_room(
        &mut self,
        stream: StreamId,
        len: usize,
        credit: Option<u32>,
        config: &AssociationConfig,
        limit: impl FnOnce() -> u32,
    ) -> Result<(), SendError> {
        let crowded = self.waiting >= config.send_messages_max as usize;
        if crowded || self.buffered_bytes + len > self.limit as usize || credit.is_some() {
            return self.check_full(stream, len, credit, config, limit);
        }
        Ok(())
    }

    /// Checks a buffer that seems to be full, or whose streams wait for credit.
    #[cold]
    fn check_full(
        &mut self,
        stream: StreamId,
        len: usize,
        credit: Option<u32>,
        config: &AssociationConfig,
        limit: impl FnOnce() -> u32,
    ) -> Result<(), SendError> {
        match self.stream_room(stream, len, credit, config) {
            Some(true) => Ok(()),
            Some(false) => Err(SendError::StreamBlocked { stream: stream.0 }),
            None => self.check_buffer(stream, len, config, limit),
        }
    }

    /// Returns whether a message has room on a stream that waits for credit, or that has queued as much as it
    /// may beyond it. `None` if only the send buffer matters.
    pub(crate) fn stream_room(
        &mut self,
        stream: StreamId,
        len: usize,
        credit: Option<u32>,
        config: &AssociationConfig,
    ) -> Option<bool> {
        let parked = self.has_parked_room(stream, len, config);
        parked.or_else(|| (!self.keeps_credit(stream, len, credit)).then_some(false))
    }

    /// Returns whether the unsent messages of a dynamic stream stay close to its credit with another one:
    /// what lies beyond it would stay here if the stream's reader stopped.
    fn keeps_credit(&mut self, stream: StreamId, len: usize, credit: Option<u32>) -> bool {
        let unsent = self.tracking.as_mut().and_then(|tracking| tracking.unsent.as_mut());
        let (Some(unsent), Some(credit)) = (unsent, credit) else { return true };
        unsent.has_room(stream, len, (credit as usize).saturating_add(BEYOND_CREDIT_MAX))
    }

    /// Checks a buffer that seems to be full, for a stream that does not wait for credit.
    pub(crate) fn check_buffer(
        &mut self,
        stream: StreamId,
        len: usize,
        config: &AssociationConfig,
        limit: impl FnOnce() -> u32,
    ) -> Result<(), SendError> {
        let messages_max = config.send_messages_max as usize;
        let crowded = unparked(self) >= messages_max;
        if self.is_over(len) {
            self.limit = limit();
        }
        if crowded || (self.is_over(len) && !self.fits_reserve(stream, len)) {
            self.block(len, config);
            return Err(SendError::WouldBlock);
        }
        Ok(())
    }

    /// Returns true if a message of `len` bytes has room although the buffer is full: streams that have queued data
    /// don't keep others from their turn.
    pub(crate) fn fits_reserve(&self, stream: StreamId, len: usize) -> bool {
        let most = self.limit.saturating_add(self.limit / RESERVE_DIVISOR) as usize;
        self.buffered_bytes + len <= most && self.scheduler.has_reserve(stream)
    }

    /// True if a message of `len` bytes has room once `bytes` bytes and `count` unsent messages have left.
    /// The queue holds at most `messages_max`.
    pub(crate) fn has_room_after(
        &self,
        (len, messages_max): (usize, usize),
        bytes: usize,
        count: usize,
    ) -> bool {
        let buffered = self.buffered_bytes.saturating_sub(bytes);
        let waiting = unparked(self).saturating_sub(count);
        waiting < messages_max && !exceeds(self, buffered, len)
    }

    fn is_over(&self, len: usize) -> bool {
        exceeds(self, self.buffered_bytes, len)
    }

    /// Remembers to notify the application: once half of the buffer is free, or later if the refused message needs
    /// more. If the buffer has grown with the congestion window, once a quarter is free, because the flight may
    /// exceed half of it. Of several refused messages the most demanding counts.
    #[cold]
    fn block(&mut self, len: usize, config: &AssociationConfig) {
        let send_buffer = self.limit;
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let grown = send_buffer > config.send_buffer_start();
        let low = if grown { send_buffer - send_buffer / GROWN_FREE_DIVISOR } else { send_buffer / 2 };
        let least = if self.is_fixed { 0 } else { send_buffer / 2 };
        let bytes_max = send_buffer.saturating_sub(len).max(least).min(low);
        let messages_max = config.send_messages_max / 2;
        let before = self.blocked.unwrap_or(Blocked { bytes_max, messages_max });
        self.blocked = Some(Blocked {
            bytes_max: bytes_max.min(before.bytes_max),
            messages_max: messages_max.min(before.messages_max),
        });
    }

    /// Returns true once when there is room again after a refusal.
    pub(crate) fn take_writable(&mut self) -> bool {
        let Some(Blocked { bytes_max, messages_max }) = self.blocked else { return false };
        let room = self.buffered_bytes <= bytes_max as usize && unparked(self) <= messages_max as usize;
        if room {
            self.blocked = None;
        }
        room
    }

    /// Allows waiting senders to retry at once, because the congestion window is much larger than when a message was
    /// refused.
    pub(crate) fn retry_blocked(&mut self) {
        if let Some(blocked) = &mut self.blocked {
            *blocked = Blocked { bytes_max: u32::MAX, messages_max: u32::MAX };
        }
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }
}

/// True if a message of `len` bytes has to wait while `buffered` bytes are in the send buffer. A long one
/// need not fit an auto-tuned buffer: it is accepted once half of that is free, as otherwise the path would
/// run dry before it.
fn exceeds(queue: &Queue, buffered: usize, len: usize) -> bool {
    let limit = queue.limit as usize;
    let low = if queue.is_fixed { 0 } else { limit / 2 };
    buffered > low && buffered + len > limit
}
