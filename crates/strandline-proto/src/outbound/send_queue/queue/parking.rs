//! Streams without credit: their messages are taken out of the scheduler until the peer grants enough
//! (docs/stream-credit.md section 4.2).

use super::Queue;
use crate::config::AssociationConfig;
use crate::number::StreamId;
use crate::outbound::messages::{Message, MessageKey, Messages};
use crate::outbound::send_queue::parked::Parked;
use crate::outbound::send_queue::scheduler::{Keep, Scheduler};

/// Takes the messages of a stream out of the scheduler until it has credit. Their unsent bytes don't count against the
/// send buffer in the meantime. The next one waits for credit of `wanted` bytes.
#[cold]
pub(crate) fn park(queue: &mut Queue, messages: &mut Messages, stream: StreamId, wanted: usize) {
    let parked = queue.parked.get_or_insert_default();
    parked.on_granted();
    let before = parked.bytes;
    for key in queue.scheduler.take_stream(messages, stream) {
        parked.push(messages, stream, key);
    }
    parked.set_wanted(stream, wanted);
    let bytes = parked.bytes - before;
    // A sender that waits learns that it waits for credit now.
    report_refused(queue, stream);
    queue.pending_bytes = queue.pending_bytes.saturating_sub(bytes);
    queue.buffered_bytes = queue.buffered_bytes.saturating_sub(bytes);
}

/// Records that the peer granted a stream credit: `room` bytes. Schedules its messages if that is as much as
/// the next one waits for. To take them out again would cost a look at all messages. Returns true if it was
/// scheduled, or a message that was refused may have room.
pub(crate) fn on_granted(queue: &mut Queue, messages: &mut Messages, stream: StreamId, room: usize) -> bool {
    let reports = report_refused(queue, stream);
    let Some(parked) = &mut queue.parked else { return reports };
    let opens = parked.wanted(stream).is_some_and(|wanted| room >= wanted);
    if opens {
        unpark(queue, messages, stream);
    } else {
        parked.on_granted();
    }
    opens || reports
}

/// Lets the sender of a stream try again, if a message was refused because of the stream's unsent ones.
/// Returns whether one was.
fn report_refused(queue: &mut Queue, stream: StreamId) -> bool {
    let unsent = queue.tracking.as_mut().and_then(|tracking| tracking.unsent.as_mut());
    let was_refused = unsent.is_some_and(|unsent| unsent.take_refused(stream));
    queue.writable.extend(was_refused.then_some(stream));
    was_refused
}

/// Schedules the messages of a stream that has credit.
pub(crate) fn unpark(queue: &mut Queue, messages: &mut Messages, stream: StreamId) {
    let Some(parked) = &mut queue.parked else { return };
    let before = parked.bytes;
    let keys = parked.take(messages, stream, |stream| queue.writable.push(stream));
    parked.on_granted();
    let bytes = before - parked.bytes;
    queue.pending_bytes += bytes;
    queue.buffered_bytes += bytes;
    for key in keys {
        queue.scheduler.push(messages, &queue.settings, stream, key);
    }
    queue.parked.take_if(|parked| parked.is_empty());
}

impl Queue {
    /// Adds a message behind those of its stream if that waits for credit.
    #[cold]
    #[inline(never)]
    pub(super) fn park_behind(&mut self, messages: &mut Messages, stream: StreamId, key: MessageKey) -> bool {
        let Some(parked) = self.parked.as_mut().filter(|parked| parked.contains(stream)) else {
            return false;
        };
        let len = messages.get(key).map_or(0, Message::len);
        self.buffered_bytes = self.buffered_bytes.saturating_sub(len);
        parked.push(messages, stream, key);
        true
    }

    /// Returns whether a message of a stream that waits for credit has room; `None` if it doesn't wait.
    pub(crate) fn has_parked_room(
        &mut self,
        stream: StreamId,
        len: usize,
        config: &AssociationConfig,
    ) -> Option<bool> {
        let messages_max = config.send_messages_max as usize;
        self.parked.as_mut()?.has_room(stream, len, self.limit as usize, messages_max)
    }

    /// Removes parked messages that are abandoned. Returns the bytes of them that were not sent, which count
    /// against the send buffer again until the message is gone.
    #[cold]
    pub(super) fn remove_parked(
        &mut self,
        messages: &mut Messages,
        is_due: impl Fn(MessageKey) -> bool,
    ) -> usize {
        let Self { parked, writable, waiting, tracking, .. } = self;
        let mut bytes = 0;
        let keep = &mut |key, message: &Message| {
            let keeps = !is_due(key);
            if !keeps {
                bytes += message.rest().len;
                *waiting -= usize::from(!message.is_begun());
                if let Some(tracking) = tracking {
                    tracking.on_gone(message.info.stream, message.len());
                }
            }
            keeps
        };
        retain_parked(parked, writable, messages, keep);
        self.buffered_bytes += bytes;
        bytes
    }

    /// Returns what waits for credit.
    pub(crate) fn parked(&self) -> Option<&Parked> {
        self.parked.as_deref()
    }

    /// Returns what waits for credit.
    pub(crate) fn parked_mut(&mut self) -> Option<&mut Parked> {
        self.parked.as_deref_mut()
    }

    /// Records an acknowledgement, which the peer sends in answer to a STREAM BLOCKED.
    #[inline]
    pub(crate) fn on_answer(&mut self) {
        if let Some(parked) = &mut self.parked {
            parked.on_answer();
        }
    }
}

/// Removes messages of streams that wait for credit.
pub(super) fn retain_parked(
    parked: &mut Option<Box<Parked>>,
    writable: &mut Vec<StreamId>,
    messages: &mut Messages,
    keep: &mut Keep<'_>,
) {
    if let Some(held) = parked {
        held.retain(messages, keep, |stream| writable.push(stream));
        parked.take_if(|parked| parked.is_empty());
    }
}
