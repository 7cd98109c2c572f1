//! Messages that were not sent yet, and the accounts of the send buffer.
//!
//! A byte counts against the send buffer from `push` until it is cumulatively acknowledged: a receiver may revoke a
//! gap acknowledgement (RFC 9260 section 6.2.1 D iii), so the bytes must be kept until then.

use crate::config::{AssociationConfig, StreamScheduler};
use crate::error::SendError;
use crate::number::StreamId;

use super::held::Held;
use super::parked::Parked;
use super::scheduler::{AnyScheduler, Fragment, Keep, Scheduler};
use super::settings::Settings;
use super::stream_tracking::StreamTracking;
use crate::outbound::messages::{Message, MessageKey, Messages};

/// Fraction of a send buffer that has grown with the congestion window which must be free before the application is
/// notified.
const GROWN_FREE_DIVISOR: u32 = 4;

/// Fraction of the send buffer that a stream with nothing queued may use beyond it.
const RESERVE_DIVISOR: u32 = 4;

/// When to notify the application that it may send again.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    /// Maximum number of buffered bytes.
    bytes_max: u32,
    /// Maximum number of queued messages.
    messages_max: u32,
}

/// Messages of which not everything has been sent.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    scheduler: AnyScheduler,
    /// What the application has set of the order.
    pub(crate) settings: Settings,
    /// The message that must be sent to its end before another one: the fragments in DATA chunks have consecutive TSNs
    /// (RFC 9260 section 6.9).
    under_way: Option<MessageKey>,
    /// Fragments of several messages may alternate, so that no message is ever `under_way`.
    interleaves: bool,
    /// Messages of which nothing was sent, including those that are held back.
    waiting: usize,
    /// Payload bytes without a TSN, including those of messages that are partly sent.
    pending_bytes: usize,
    /// Payload bytes from `push` to the cumulative acknowledgement.
    buffered_bytes: usize,
    blocked: Option<Blocked>,
    /// Size of the send buffer in bytes.
    limit: u32,
    /// The size is configured, and not auto-tuned.
    pub(crate) is_fixed: bool,
    /// Messages that wait for a reset of their streams, and the counts of dynamic streams; allocated while there are any.
    pub(crate) tracking: Option<Box<StreamTracking>>,
    /// Messages of streams that wait for credit; allocated while there are any.
    parked: Option<Box<Parked>>,
    /// Streams that were parked, and of which a message was refused that may have room now.
    pub(crate) writable: Vec<StreamId>,
}

/// Returns the stream of a message that must be sent to its end before another one.
pub(crate) fn stream_under_way(queue: &Queue, messages: &Messages) -> Option<StreamId> {
    messages.get(queue.under_way?).map(|message| message.info.stream)
}

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
    queue.pending_bytes = queue.pending_bytes.saturating_sub(bytes);
    queue.buffered_bytes = queue.buffered_bytes.saturating_sub(bytes);
}

/// Records that the peer granted a stream credit: `room` bytes. Schedules its messages if that is as much as the next one
/// waits for. To take them out again would cost a look at all messages. Returns true if it was scheduled.
pub(crate) fn on_granted(queue: &mut Queue, messages: &mut Messages, stream: StreamId, room: usize) -> bool {
    let Some(parked) = &mut queue.parked else { return false };
    let opens = parked.wanted(stream).is_some_and(|wanted| room >= wanted);
    if opens {
        unpark(queue, messages, stream);
    } else {
        parked.on_granted();
    }
    opens
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

/// True if a message of `len` bytes has to wait while `buffered` bytes are in the send buffer. A long one need not fit an
/// auto-tuned buffer: it is accepted once half of that is free, as otherwise the path would run dry before it.
fn exceeds(queue: &Queue, buffered: usize, len: usize) -> bool {
    let limit = queue.limit as usize;
    let low = if queue.is_fixed { 0 } else { limit / 2 };
    buffered > low && buffered + len > limit
}

impl Queue {
    /// `configured` is the scheduler if the application has set none.
    pub(crate) fn new(settings: Settings, configured: StreamScheduler, limit: u32) -> Self {
        let scheduler = AnyScheduler::new(settings.scheduler().unwrap_or(configured));
        let tracking = settings.dynamic_from().map(StreamTracking::counting);
        Self { scheduler, settings, limit, tracking, ..Self::default() }
    }

    pub(crate) const fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Checks whether there is room for a message of `len` bytes; if not, the application will be notified when there
    /// is. `limit` returns the current send buffer and is called only if the buffer was full by its previous size.
    #[inline]
    pub(crate) fn check_room(
        &mut self,
        stream: StreamId,
        len: usize,
        config: &AssociationConfig,
        limit: impl FnOnce() -> u32,
    ) -> Result<(), SendError> {
        let crowded = self.waiting >= config.send_messages_max as usize;
        if crowded || self.buffered_bytes + len > self.limit as usize || self.parked.is_some() {
            return self.check_full(stream, len, config, limit);
        }
        Ok(())
    }

    /// Checks a buffer that seems to be full, or whose streams wait for credit.
    #[cold]
    fn check_full(
        &mut self,
        stream: StreamId,
        len: usize,
        config: &AssociationConfig,
        limit: impl FnOnce() -> u32,
    ) -> Result<(), SendError> {
        match self.has_parked_room(stream, len, config) {
            Some(true) => Ok(()),
            Some(false) => Err(SendError::StreamBlocked { stream: stream.0 }),
            None => self.check_buffer(stream, len, config, limit),
        }
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

    fn is_over(&self, len: usize) -> bool {
        exceeds(self, self.buffered_bytes, len)
    }

    /// True if a message of `len` bytes has room once `bytes` bytes and `count` unsent messages have left. The queue holds
    /// at most `messages_max`.
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

    /// Adds a message for which there is room. Returns its key.
    #[inline(always)]
    pub(crate) fn push(&mut self, messages: &mut Messages, message: Message) -> MessageKey {
        self.buffered_bytes += message.len();
        self.waiting += 1;
        let (stream, len) = (message.info.stream, message.len());
        let key = messages.insert(message);
        if self.tracking.is_some() && self.watch(messages, stream, key) {
            return key;
        }
        if self.parked.is_some() && self.park_behind(messages, stream, key) {
            return key;
        }
        self.pending_bytes += len;
        self.scheduler.push(messages, &self.settings, stream, key);
        key
    }

    /// Counts a message of a dynamic stream. Returns true if it is held back because its stream is being reset.
    #[cold]
    #[inline(never)]
    fn watch(&mut self, messages: &mut Messages, stream: StreamId, key: MessageKey) -> bool {
        let Some(tracking) = &mut self.tracking else { return false };
        if let Some(unsent) = &mut tracking.unsent {
            unsent.on_pushed(stream);
        }
        let Some(held) = tracking.held.as_mut().filter(|held| held.concerns(stream)) else { return false };
        held.push(messages, key);
        true
    }

    /// Removes what was not sent of messages that are given up; the others keep their order. Returns its bytes.
    pub(crate) fn remove(&mut self, messages: &mut Messages, is_due: impl Fn(MessageKey) -> bool) -> usize {
        self.under_way.take_if(|key| is_due(*key));
        let mut bytes = 0;
        self.scheduler.retain(messages, &mut |key, message| {
            if !is_due(key) {
                return true;
            }
            bytes += message.rest().len;
            self.waiting -= usize::from(!message.is_begun());
            if let Some(tracking) = &mut self.tracking {
                tracking.on_gone(message.info.stream);
            }
            false
        });
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
        if self.parked.is_some() {
            bytes += self.remove_parked(messages, &is_due);
        }
        let Some(StreamTracking { held: Some(held), unsent }) = self.tracking.as_deref_mut() else {
            return bytes;
        };
        let held_back: Vec<_> = core::iter::from_fn(|| held.pop(messages)).collect();
        for key in held_back {
            if is_due(key) {
                bytes += messages.get(key).map_or(0, Message::len);
                self.waiting -= 1;
                if let (Some(unsent), Some(message)) = (unsent.as_mut(), messages.get(key)) {
                    unsent.on_gone(message.info.stream);
                }
            } else {
                held.push(messages, key);
            }
        }
        bytes
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

    /// Allows waiting senders to retry at once, because the congestion window is much larger than when a message was
    /// refused.
    pub(crate) fn ask_again(&mut self) {
        if let Some(blocked) = &mut self.blocked {
            *blocked = Blocked { bytes_max: u32::MAX, messages_max: u32::MAX };
        }
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

    /// Returns what must be sent next.
    #[inline]
    pub(crate) fn next(&self, messages: &Messages) -> Option<Fragment> {
        match self.under_way {
            Some(key) => Fragment::of(messages, key),
            None => self.scheduler.next(messages),
        }
    }

    /// Returns what must be sent next, if that is a message of which nothing was sent and which may go as a whole.
    #[inline]
    pub(crate) fn next_whole<'a>(&self, messages: &'a mut Messages) -> Option<(MessageKey, &'a mut Message)> {
        let key = self.scheduler.next_whole(messages)?;
        let message = messages.get_mut(key)?;
        (!message.is_begun()).then_some((key, message))
    }

    /// Returns true if a message must be sent to its end before another one.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Records that `len` bytes of `fragment` get a TSN: the first ones of their message if it `begins`, the last ones if it
    /// `ends`.
    #[inline]
    pub(crate) fn on_sent(
        &mut self,
        messages: &mut Messages,
        fragment: &Fragment,
        len: usize,
        (begins, ends): (bool, bool),
    ) {
        self.pending_bytes = self.pending_bytes.saturating_sub(len);
        self.waiting -= usize::from(begins);
        self.under_way = (!ends && !self.interleaves).then_some(fragment.message);
        self.scheduler.on_sent(messages, &self.settings, fragment, len, ends);
        if ends && let Some(tracking) = &mut self.tracking {
            tracking.on_gone(fragment.stream);
        }
    }

    /// Records that all `len` bytes of the message that [`next_whole`](Self::next_whole) returned get a TSN.
    #[inline]
    pub(crate) fn on_whole_sent(&mut self, messages: &mut Messages, stream: StreamId, len: usize) {
        self.pending_bytes = self.pending_bytes.saturating_sub(len);
        self.waiting -= 1;
        self.scheduler.on_whole_sent(messages, &self.settings, len);
        if let Some(tracking) = &mut self.tracking {
            tracking.on_gone(stream);
        }
    }

    /// Lets messages that were held back be sent.
    pub(crate) fn release_held(&mut self, messages: &mut Messages) {
        let Some(mut held) = self.tracking.as_mut().and_then(|tracking| tracking.held.take()) else { return };
        self.tracking.take_if(|tracking| tracking.unsent.is_none());
        while let Some(key) = held.pop(messages) {
            let Some(message) = messages.get(key) else { continue };
            let (stream, len) = (message.info.stream, message.len());
            if self.parked.is_some() && self.park_behind(messages, stream, key) {
                continue;
            }
            self.pending_bytes += len;
            self.scheduler.push(messages, &self.settings, stream, key);
        }
    }

    /// Records that `len` bytes were cumulatively acknowledged.
    pub(crate) fn on_delivered(&mut self, len: usize) {
        self.buffered_bytes = self.buffered_bytes.saturating_sub(len);
    }

    /// Removes messages of which nothing was sent and that can never be sent; the others keep their order.
    pub(crate) fn extract(
        &mut self,
        messages: &mut Messages,
        wanted: impl Fn(&Message) -> bool,
    ) -> Vec<MessageKey> {
        let mut taken = Vec::new();
        let tracking = &mut self.tracking;
        self.scheduler.retain(messages, &mut |key, message| {
            if message.is_begun() || !wanted(message) {
                return true;
            }
            if let Some(tracking) = tracking {
                tracking.on_gone(message.info.stream);
            }
            self.pending_bytes = self.pending_bytes.saturating_sub(message.len());
            self.buffered_bytes = self.buffered_bytes.saturating_sub(message.len());
            self.waiting -= 1;
            taken.push(key);
            false
        });
        let waiting = &mut self.waiting;
        let keep = &mut |key, message: &Message| {
            let keeps = message.is_begun() || !wanted(message);
            if !keeps {
                *waiting -= 1;
                if let Some(tracking) = tracking {
                    tracking.on_gone(message.info.stream);
                }
                taken.push(key);
            }
            keeps
        };
        retain_parked(&mut self.parked, &mut self.writable, messages, keep);
        taken
    }

    /// Moves all messages to another scheduler.
    pub(crate) fn set_scheduler(&mut self, messages: &mut Messages, wanted: StreamScheduler) {
        if self.scheduler.kind() == wanted {
            return;
        }
        let mut scheduler = AnyScheduler::new(wanted);
        scheduler.set_by_fragment(self.interleaves);
        let mut before = core::mem::replace(&mut self.scheduler, scheduler);
        let pop = || before.pop(messages, &self.settings);
        let mut keys: Vec<_> = core::iter::from_fn(pop).collect();
        // What is partly sent comes first: without streams' own lists, too, a stream keeps its order.
        keys.sort_by_key(|key| !messages.get(*key).is_some_and(Message::is_begun));
        for key in keys {
            let stream = messages.get(key).map(|message| message.info.stream).unwrap_or_default();
            self.scheduler.push(messages, &self.settings, stream, key);
        }
    }

    /// Records that the priority or weight of a stream has changed.
    pub(crate) fn on_value(&mut self, stream: StreamId, value: u16) {
        self.scheduler.on_value(stream, value);
    }

    /// Begins a packet. `has_data`: there are retransmissions in it. Returns true if it may carry new data.
    #[inline]
    pub(crate) fn begin_packet(&mut self, has_data: bool) -> bool {
        if !self.scheduler.fills_packets_by_stream() {
            return true;
        }
        if self.under_way.is_none() {
            self.scheduler.begin_packet();
        }
        !has_data
    }

    /// Sets whether a scheduler may choose another message before one is sent to its end. None may be partly sent.
    pub(crate) fn set_interleaves(&mut self, interleaves: bool) {
        self.interleaves = interleaves;
        self.scheduler.set_by_fragment(interleaves);
    }

    /// Returns the messages that are not sent to their ends, in the order in which they would have been. It may contain the
    /// message that is under way twice.
    pub(crate) fn into_keys(mut self, messages: &mut Messages) -> Vec<MessageKey> {
        let waiting = core::iter::from_fn(|| self.scheduler.pop(messages, &self.settings));
        let mut keys: Vec<_> = self.under_way.into_iter().chain(waiting).collect();
        if let Some(StreamTracking { held: Some(held), .. }) = self.tracking.as_deref_mut() {
            keys.extend(core::iter::from_fn(|| held.pop(messages)));
        }
        if let Some(mut parked) = self.parked.take() {
            let streams: Vec<_> = parked.streams().collect();
            streams.into_iter().for_each(|stream| keys.extend(parked.take(messages, stream, |_| {})));
        }
        keys
    }

    /// Returns the messages that wait for a reset of their streams, while one is under way.
    pub(crate) fn held(&self) -> Option<&Held> {
        self.tracking.as_ref()?.held.as_ref()
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(crate) fn pending_messages(&self) -> usize {
        self.waiting
    }

    /// Returns the number of messages of which nothing was sent and that may be.
    pub(crate) fn ready_messages(&self) -> usize {
        unparked(self).saturating_sub(self.held().map_or(0, |held| held.count))
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let parked = self.parked.as_ref().map_or(0, |parked| parked.heap_bytes());
        let tracking = self.tracking.as_ref().map_or(0, |tracking| tracking.heap_bytes());
        self.scheduler.heap_bytes() + self.settings.heap_bytes() + parked + tracking
    }
}

/// Streams that wait for credit.
impl Queue {
    /// Adds a message behind those of its stream if that waits for credit.
    #[cold]
    #[inline(never)]
    fn park_behind(&mut self, messages: &mut Messages, stream: StreamId, key: MessageKey) -> bool {
        let Some(parked) = self.parked.as_mut().filter(|parked| parked.contains(stream)) else {
            return false;
        };
        let len = messages.get(key).map_or(0, Message::len);
        self.buffered_bytes = self.buffered_bytes.saturating_sub(len);
        parked.push(messages, stream, key);
        true
    }

    /// Removes parked messages that are given up. Returns the bytes of them that were not sent, which count against the
    /// send buffer again until the message is gone.
    #[cold]
    fn remove_parked(&mut self, messages: &mut Messages, is_due: impl Fn(MessageKey) -> bool) -> usize {
        let Self { parked, writable, waiting, tracking, .. } = self;
        let mut bytes = 0;
        let keep = &mut |key, message: &Message| {
            let keeps = !is_due(key);
            if !keeps {
                bytes += message.rest().len;
                *waiting -= usize::from(!message.is_begun());
                if let Some(tracking) = tracking {
                    tracking.on_gone(message.info.stream);
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

    /// Records an acknowledgement, which the peer sends in answer to a question for credit.
    #[inline]
    pub(crate) fn on_answer(&mut self) {
        if let Some(parked) = &mut self.parked {
            parked.on_answer();
        }
    }

    /// Returns what waits for credit.
    pub(crate) fn parked_mut(&mut self) -> Option<&mut Parked> {
        self.parked.as_deref_mut()
    }
}

/// Removes messages of streams that wait for credit.
fn retain_parked(
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

/// Returns the number of messages of which nothing was sent, without those of streams that wait for credit.
fn unparked(queue: &Queue) -> usize {
    queue.waiting - queue.parked.as_ref().map_or(0, |parked| parked.waiting)
}
