//! Messages that were not sent yet, and the accounts of the send buffer.
//!
//! A byte counts against the send buffer from `push` until it is cumulatively acknowledged: a receiver may revoke a
//! gap acknowledgement (RFC 9260 section 6.2.1 D iii), so the bytes must be kept until then.

use crate::config::AssociationConfig;
use crate::error::SendError;

use super::message::Message;
use super::scheduler::Scheduler;

/// When to notify the application that it may send again.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    /// Maximum number of buffered bytes.
    bytes_max: u32,
    /// Maximum number of queued messages.
    messages_max: u32,
}

/// Messages that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Queue {
    scheduler: Scheduler,
    /// Payload bytes without a TSN, including those of a message that is partly sent.
    pending_bytes: usize,
    /// Payload bytes from `push` to the cumulative acknowledgement.
    buffered_bytes: usize,
    blocked: Option<Blocked>,
    /// Size of the send buffer in bytes.
    limit: u32,
}

impl Queue {
    pub(super) const fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Checks whether there is room for a message of `len` bytes; if not, the application will be notified when there
    /// is. `limit` returns the current send buffer and is called only if the buffer was full by its previous size.
    #[inline]
    pub(super) fn check_room(
        &mut self,
        len: usize,
        config: &AssociationConfig,
        limit: impl FnOnce() -> u32,
    ) -> Result<(), SendError> {
        let crowded = self.scheduler.len() >= config.send_messages_max as usize;
        if crowded || self.buffered_bytes + len > self.limit as usize {
            return self.check_full(len, config, limit);
        }
        Ok(())
    }

    /// Checks a buffer that seems to be full.
    #[cold]
    fn check_full(
        &mut self,
        len: usize,
        config: &AssociationConfig,
        limit: impl FnOnce() -> u32,
    ) -> Result<(), SendError> {
        let crowded = self.scheduler.len() >= config.send_messages_max as usize;
        if self.is_over(len) {
            self.limit = limit();
        }
        if crowded || self.is_over(len) {
            self.block(len, config);
            return Err(SendError::WouldBlock);
        }
        Ok(())
    }

    fn is_over(&self, len: usize) -> bool {
        self.buffered_bytes + len > self.limit as usize && self.buffered_bytes > 0
    }

    /// Adds a message for which there is room.
    #[inline]
    pub(super) fn push(&mut self, message: Message) {
        self.buffered_bytes += message.len();
        self.pending_bytes += message.len();
        self.scheduler.push(message);
    }

    /// Remembers to notify the application: once half of the buffer is free, or later if the refused message needs
    /// more. If the buffer has grown with the congestion window, once a quarter is free, because the flight may
    /// exceed half of it. Of several refused messages the most demanding counts.
    #[cold]
    fn block(&mut self, len: usize, config: &AssociationConfig) {
        let send_buffer = self.limit;
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let grown = send_buffer > config.send_buffer_start();
        let low = if grown { send_buffer - send_buffer / 4 } else { send_buffer / 2 };
        let bytes_max = send_buffer.saturating_sub(len).min(low);
        let messages_max = config.send_messages_max / 2;
        let before = self.blocked.unwrap_or(Blocked { bytes_max, messages_max });
        self.blocked = Some(Blocked {
            bytes_max: bytes_max.min(before.bytes_max),
            messages_max: messages_max.min(before.messages_max),
        });
    }

    /// Allows waiting senders to retry at once, because the congestion window is much larger than when a message was
    /// refused.
    pub(super) fn ask_again(&mut self) {
        if let Some(blocked) = &mut self.blocked {
            *blocked = Blocked { bytes_max: u32::MAX, messages_max: u32::MAX };
        }
    }

    /// Returns true once when there is room again after a refusal.
    pub(super) fn take_writable(&mut self) -> bool {
        let Some(Blocked { bytes_max, messages_max }) = self.blocked else { return false };
        let room = self.buffered_bytes <= bytes_max as usize && self.scheduler.len() <= messages_max as usize;
        if room {
            self.blocked = None;
        }
        room
    }

    /// Returns the length in bytes of the next message.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.scheduler.next().map(|message| message.len())
    }

    /// Returns the next messages in order: not all that wait, but at least one if any does.
    #[inline]
    pub(super) fn front(&mut self) -> &mut [Message] {
        self.scheduler.front()
    }

    /// Takes the first `count` messages of [`front`](Self::front) to send them.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> impl ExactSizeIterator<Item = Message> + '_ {
        self.scheduler.take(count)
    }

    /// Takes the next message to send it.
    pub(super) fn pop(&mut self) -> Option<Message> {
        self.scheduler.pop()
    }

    /// Records that `len` bytes got a TSN.
    pub(super) fn on_sent(&mut self, len: usize) {
        self.pending_bytes = self.pending_bytes.saturating_sub(len);
    }

    /// Records that `len` bytes were cumulatively acknowledged.
    pub(super) fn on_delivered(&mut self, len: usize) {
        self.buffered_bytes = self.buffered_bytes.saturating_sub(len);
    }

    /// Removes messages that can never be sent.
    pub(super) fn extract(&mut self, wanted: impl FnMut(&Message) -> bool) -> Vec<Message> {
        let taken = self.scheduler.extract(wanted);
        let bytes: usize = taken.iter().map(|message| message.len()).sum();
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
        self.buffered_bytes = self.buffered_bytes.saturating_sub(bytes);
        taken
    }

    pub(super) fn into_messages(self) -> impl Iterator<Item = Message> {
        self.scheduler.into_messages()
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(super) fn pending_messages(&self) -> usize {
        self.scheduler.len()
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.scheduler.heap_bytes()
    }
}
