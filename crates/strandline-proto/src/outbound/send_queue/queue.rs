//! The queue of messages that were not sent yet: [`push`](Queue::push) adds one, [`next`](Queue::next)
//! returns what must be sent, and [`on_sent`](Queue::on_sent) records that it got a TSN. `room` decides
//! whether a message fits the send buffer.
//!
//! | an unsent message is | because | in |
//! |---|---|---|
//! | queued | it may be sent | the scheduler |
//! | under way | its first fragments were sent in DATA chunks | the scheduler, and `under_way` |
//! | held | its stream is being reset (RFC 6525) | `tracking.held` |
//! | parked | its stream has no credit | `parked` |

mod parking;
mod room;

pub(crate) use self::parking::{on_granted, park, unpark};

use crate::config::StreamScheduler;
use crate::number::StreamId;

use self::parking::retain_parked;
use self::room::Blocked;
use super::held::Held;
use super::parked::Parked;
use super::scheduler::{AnyScheduler, Fragment, Scheduler};
use super::settings::Settings;
use super::stream_tracking::StreamTracking;
use crate::outbound::messages::{Message, MessageKey, Messages};

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
    /// Number of messages of which nothing was sent, held and parked ones included.
    waiting: usize,
    /// Payload bytes without a TSN, of messages in the scheduler, partly sent ones included. Held and parked messages
    /// don't count.
    pending_bytes: usize,
    /// Payload bytes from `push` to the cumulative acknowledgement, without the unsent bytes of parked messages.
    buffered_bytes: usize,
    blocked: Option<Blocked>,
    /// Size of the send buffer in bytes.
    limit: u32,
    /// The size is configured, and not auto-tuned.
    pub(crate) is_fixed: bool,
    /// Messages that wait for a reset of their streams, and the counts of dynamic streams; allocated while
    /// there are any.
    pub(crate) tracking: Option<Box<StreamTracking>>,
    /// Messages of streams that wait for credit; allocated while there are any.
    parked: Option<Box<Parked>>,
    /// Streams that were parked, and of which a message was refused that may have room now.
    pub(crate) writable: Vec<StreamId>,
}

impl Queue {
    /// `configured` is the scheduler if the application has set none.
    pub(crate) fn new(settings: Settings, configured: StreamScheduler, limit: u32) -> Self {
        let scheduler = AnyScheduler::new(settings.scheduler().unwrap_or(configured));
        let tracking = settings.dynamic_from().map(StreamTracking::counting);
        Self { scheduler, settings, limit, tracking, ..Self::default() }
    }

    /// Adds a message for which there is room. Returns its key.
    #[inline(always)]
    pub(crate) fn push(&mut self, messages: &mut Messages, message: Message) -> MessageKey {
        self.buffered_bytes += message.len();
        self.waiting += 1;
        let (stream, len) = (message.info.stream, message.len());
        let key = messages.insert(message);
        if self.tracking.is_some() && self.watch(messages, stream, (key, len)) {
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
    fn watch(&mut self, messages: &mut Messages, stream: StreamId, (key, len): (MessageKey, usize)) -> bool {
        let Some(tracking) = &mut self.tracking else { return false };
        if let Some(unsent) = &mut tracking.unsent {
            unsent.on_pushed(stream, len);
        }
        let Some(held) = tracking.held.as_mut().filter(|held| held.concerns(stream)) else { return false };
        held.push(messages, key);
        true
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

    /// Records that `len` bytes of `fragment` get a TSN: the first ones of their message if it `begins`, the
    /// last ones if it `ends`.
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
        if ends && self.tracking.is_some() {
            let len = messages.get(fragment.message).map_or(0, Message::len);
            self.on_gone(fragment.stream, len);
        }
    }

    /// Records that all `len` bytes of the message that [`next_whole`](Self::next_whole) returned get a TSN.
    #[inline]
    pub(crate) fn on_whole_sent(&mut self, messages: &mut Messages, stream: StreamId, len: usize) {
        self.pending_bytes = self.pending_bytes.saturating_sub(len);
        self.waiting -= 1;
        self.scheduler.on_whole_sent(messages, &self.settings, len);
        if self.tracking.is_some() {
            self.on_gone(stream, len);
        }
    }

    /// Records that a message of a stream was sent to its end.
    #[cold]
    #[inline(never)]
    fn on_gone(&mut self, stream: StreamId, len: usize) {
        if self.tracking.as_mut().is_some_and(|tracking| tracking.on_gone(stream, len)) {
            self.writable.push(stream);
        }
    }

    /// Records that `len` bytes were cumulatively acknowledged.
    pub(crate) fn on_delivered(&mut self, len: usize) {
        self.buffered_bytes = self.buffered_bytes.saturating_sub(len);
    }

    /// Returns true if a message must be sent to its end before another one.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
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

    /// Removes what was not sent of messages that are abandoned; the others keep their order. Returns its bytes.
    pub(crate) fn remove(&mut self, messages: &mut Messages, is_due: impl Fn(MessageKey) -> bool) -> usize {
        self.under_way.take_if(|key| is_due(*key));
        let mut bytes = 0;
        self.scheduler.retain(messages, &mut |key, message| {
            if !is_due(key) {
                return true;
            }
            bytes += message.rest().len;
            self.waiting -= usize::from(!message.is_begun());
            if let Some(tracking) = &mut self.tracking
                && tracking.on_gone(message.info.stream, message.len())
            {
                self.writable.push(message.info.stream);
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
                    let stream = message.info.stream;
                    unsent.on_gone(stream, message.len());
                    self.writable.extend(unsent.take_refused(stream).then_some(stream));
                }
            } else {
                held.push(messages, key);
            }
        }
        bytes
    }

    /// Removes messages of which nothing was sent and that can never be sent; the others keep their order.
    pub(crate) fn extract(
        &mut self,
        messages: &mut Messages,
        wanted: impl Fn(&Message) -> bool,
    ) -> Vec<MessageKey> {
        let mut taken = Vec::new();
        let (tracking, writable) = (&mut self.tracking, &mut self.writable);
        self.scheduler.retain(messages, &mut |key, message| {
            if message.is_begun() || !wanted(message) {
                return true;
            }
            if let Some(tracking) = tracking
                && tracking.on_gone(message.info.stream, message.len())
            {
                writable.push(message.info.stream);
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
                    // Its stream waits for credit: what was refused is reported with that.
                    tracking.on_gone(message.info.stream, message.len());
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

    /// Sets whether a scheduler may choose another message before one is sent to its end. None may be partly sent.
    pub(crate) fn set_interleaves(&mut self, interleaves: bool) {
        self.interleaves = interleaves;
        self.scheduler.set_by_fragment(interleaves);
    }

    /// Returns the messages that are not sent to their ends, in the order in which they would have been. It
    /// may contain the message that is under way twice.
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

    pub(crate) fn heap_bytes(&self) -> usize {
        let parked = self.parked.as_ref().map_or(0, |parked| parked.heap_bytes());
        let tracking = self.tracking.as_ref().map_or(0, |tracking| tracking.heap_bytes());
        self.scheduler.heap_bytes() + self.settings.heap_bytes() + parked + tracking
    }
}

/// Returns the stream of a message that must be sent to its end before another one.
pub(crate) fn stream_under_way(queue: &Queue, messages: &Messages) -> Option<StreamId> {
    messages.get(queue.under_way?).map(|message| message.info.stream)
}

/// Returns the number of messages of which nothing was sent, without those of streams that wait for credit.
fn unparked(queue: &Queue) -> usize {
    queue.waiting - queue.parked.as_ref().map_or(0, |parked| parked.waiting)
}
