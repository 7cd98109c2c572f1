//! Selects the next fragment (RFC 8260 section 3).
//!
//! [`Queue`](super::queue::Queue) asks the [`Scheduler`] of the association. With DATA chunks it sends a
//! message that is begun to its end first, whatever the scheduler would choose, because their fragments have
//! consecutive TSNs (RFC 9260 section 6.9). A scheduler therefore chooses among messages, and among fragments
//! only if they may be interleaved.
//!
//! To add a scheduler, follow CONTRIBUTING.md, "Add a stream scheduler". The messages stay in the slab: a
//! scheduler has [`List`](crate::outbound::messages::List)s of them, one for each stream or one for all.
//! [`ring`] and [`ranked`] are two ways to keep those of the streams that have messages queued.

mod fair;
mod fcfs;
mod priority;
mod ranked;
mod ring;
mod round_robin;
mod round_robin_packet;

#[cfg(test)]
mod tests;

use fair::Fair;
use fcfs::Fcfs;
use priority::Priority;
use round_robin::RoundRobin;
use round_robin_packet::RoundRobinPerPacket;

use super::settings::Settings;
use crate::config::StreamScheduler;
use crate::number::StreamId;
use crate::outbound::messages::{Message, MessageKey, Messages};

/// Returns true for the messages that remain queued.
pub(crate) type Keep<'a> = dyn FnMut(MessageKey, &Message) -> bool + 'a;

/// The choice of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) stream: StreamId,
    pub(crate) message: MessageKey,
    /// Maximum number of bytes of the message that may be sent before the scheduler is asked again. `usize::MAX` stands
    /// for all that are left. Fewer are sent if the packet has no room for more.
    pub(crate) bytes_max: usize,
}

impl Fragment {
    /// Returns a fragment with all that is left of the message.
    #[inline]
    pub(crate) fn of(messages: &Messages, key: MessageKey) -> Option<Self> {
        let stream = messages.get(key)?.info.stream;
        Some(Self { stream, message: key, bytes_max: usize::MAX })
    }
}

/// The order in which the messages of an association are sent. Messages of one stream keep their order, so
/// that one which is partly sent is the first of its stream.
pub(crate) trait Scheduler {
    /// Adds a message as the last one of its stream. It is in no list.
    fn push(&mut self, messages: &mut Messages, settings: &Settings, stream: StreamId, message: MessageKey);

    /// Returns what must be sent next, or `None` if nothing is queued or may be in this packet. `push` does
    /// not change a choice while a packet is filled, unless the new message comes first.
    fn next(&self, messages: &Messages) -> Option<Fragment>;

    /// Records that `len` bytes of the fragment were sent. It is the choice of `next`, or a further fragment
    /// of a message that must be sent to its end. `ends`: nothing of the message is left, so it must be
    /// removed from its list.
    fn on_sent(
        &mut self,
        messages: &mut Messages,
        settings: &Settings,
        fragment: &Fragment,
        len: usize,
        ends: bool,
    );

    /// Sets whether a choice holds for a fragment instead of a message. It is called before anything was sent.
    fn set_by_fragment(&mut self, _by_fragment: bool) {}

    /// Records that the priority or weight of a stream has changed.
    fn on_value(&mut self, _stream: StreamId, _value: u16) {}

    /// Records that a packet begins, unless a message must be sent to its end in it.
    fn begin_packet(&mut self) {}

    /// Removes the next message without sending it.
    fn pop(&mut self, messages: &mut Messages, settings: &Settings) -> Option<MessageKey> {
        let next = self.next(messages)?;
        self.on_sent(messages, settings, &next, 0, true);
        Some(next.message)
    }

    /// Removes messages without sending them. The others keep their order.
    fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>);

    /// Removes all messages of a stream, without sending them. They are returned in their order. It is called for each
    /// stream that has too little credit.
    fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey>;

    /// Returns true if a message of this stream may exceed the send buffer, because streams take turns and it has
    /// nothing queued.
    fn has_reserve(&self, stream: StreamId) -> bool;

    /// Returns the heap bytes, without messages.
    fn heap_bytes(&self) -> usize;
}

/// The scheduler of an association. An enum is cheaper than a call through a vtable for each message. All but the first
/// are boxed, because they are larger and less common.
#[derive(Debug)]
pub(crate) enum AnyScheduler {
    Fcfs(Fcfs),
    RoundRobin(Box<RoundRobin>),
    RoundRobinPerPacket(Box<RoundRobinPerPacket>),
    Priority(Box<Priority>),
    Fair(Box<Fair>),
}

impl Default for AnyScheduler {
    fn default() -> Self {
        Self::Fcfs(Fcfs::default())
    }
}

impl AnyScheduler {
    pub(crate) fn new(wanted: StreamScheduler) -> Self {
        match wanted {
            StreamScheduler::FirstComeFirstServed => Self::Fcfs(Fcfs::default()),
            StreamScheduler::RoundRobin => Self::RoundRobin(Box::default()),
            StreamScheduler::RoundRobinPerPacket => Self::RoundRobinPerPacket(Box::default()),
            StreamScheduler::Priority => Self::Priority(Box::default()),
            StreamScheduler::FairCapacity => Self::Fair(Box::default()),
            StreamScheduler::WeightedFairQueueing => Self::Fair(Box::new(Fair::weighted())),
        }
    }

    pub(crate) const fn kind(&self) -> StreamScheduler {
        match self {
            Self::Fcfs(_) => StreamScheduler::FirstComeFirstServed,
            Self::RoundRobin(_) => StreamScheduler::RoundRobin,
            Self::RoundRobinPerPacket(_) => StreamScheduler::RoundRobinPerPacket,
            Self::Priority(_) => StreamScheduler::Priority,
            Self::Fair(fair) if fair.is_weighted() => StreamScheduler::WeightedFairQueueing,
            Self::Fair(_) => StreamScheduler::FairCapacity,
        }
    }

    /// Returns the message that must be sent next, if it may go as a whole.
    #[inline]
    pub(crate) fn next_whole(&self, messages: &Messages) -> Option<MessageKey> {
        match self {
            Self::Fcfs(fcfs) => fcfs.first(),
            other => other.next_whole_other(messages),
        }
    }

    #[inline(never)]
    fn next_whole_other(&self, messages: &Messages) -> Option<MessageKey> {
        let fragment = self.next_other(messages)?;
        let len = messages.get(fragment.message)?.len();
        (fragment.bytes_max >= len).then_some(fragment.message)
    }

    /// Records that the message that [`next_whole`](Self::next_whole) returned was sent. It has `len` bytes.
    #[inline]
    pub(crate) fn on_whole_sent(&mut self, messages: &mut Messages, settings: &Settings, len: usize) {
        match self {
            Self::Fcfs(fcfs) => fcfs.remove_first(messages),
            other => other.on_whole_sent_other(messages, settings, len),
        }
    }

    #[inline(never)]
    fn on_whole_sent_other(&mut self, messages: &mut Messages, settings: &Settings, len: usize) {
        if let Some(fragment) = self.next_other(messages) {
            self.on_sent_other(messages, settings, &fragment, len, true);
        }
    }

    /// Returns true if all chunks of a packet must be of one stream.
    #[inline]
    pub(crate) const fn fills_packets_by_stream(&self) -> bool {
        match self {
            Self::RoundRobinPerPacket(_) => true,
            Self::Fcfs(_) | Self::RoundRobin(_) | Self::Priority(_) | Self::Fair(_) => false,
        }
    }
}

/// Evaluates an expression for the scheduler of the variant.
macro_rules! each {
    ($any:expr, $scheduler:ident => $call:expr) => {
        match $any {
            AnyScheduler::Fcfs($scheduler) => $call,
            AnyScheduler::RoundRobin($scheduler) => $call,
            AnyScheduler::RoundRobinPerPacket($scheduler) => $call,
            AnyScheduler::Priority($scheduler) => $call,
            AnyScheduler::Fair($scheduler) => $call,
        }
    };
}

/// The calls for each message, for all but FCFS: not inlined, so that the common scheduler's code stays small.
impl AnyScheduler {
    #[inline(never)]
    fn push_other(
        &mut self,
        messages: &mut Messages,
        settings: &Settings,
        stream: StreamId,
        message: MessageKey,
    ) {
        each!(self, scheduler => scheduler.push(messages, settings, stream, message));
    }

    #[inline(never)]
    fn next_other(&self, messages: &Messages) -> Option<Fragment> {
        each!(self, scheduler => scheduler.next(messages))
    }

    #[inline(never)]
    fn on_sent_other(
        &mut self,
        messages: &mut Messages,
        settings: &Settings,
        fragment: &Fragment,
        len: usize,
        ends: bool,
    ) {
        each!(self, scheduler => scheduler.on_sent(messages, settings, fragment, len, ends));
    }
}

impl Scheduler for AnyScheduler {
    #[inline]
    fn push(&mut self, messages: &mut Messages, settings: &Settings, stream: StreamId, message: MessageKey) {
        match self {
            Self::Fcfs(fcfs) => fcfs.push(messages, settings, stream, message),
            other => other.push_other(messages, settings, stream, message),
        }
    }

    #[inline]
    fn next(&self, messages: &Messages) -> Option<Fragment> {
        match self {
            Self::Fcfs(fcfs) => fcfs.next(messages),
            other => other.next_other(messages),
        }
    }

    #[inline]
    fn on_sent(
        &mut self,
        messages: &mut Messages,
        settings: &Settings,
        fragment: &Fragment,
        len: usize,
        ends: bool,
    ) {
        match self {
            Self::Fcfs(fcfs) => fcfs.on_sent(messages, settings, fragment, len, ends),
            other => other.on_sent_other(messages, settings, fragment, len, ends),
        }
    }

    fn set_by_fragment(&mut self, by_fragment: bool) {
        each!(self, scheduler => scheduler.set_by_fragment(by_fragment));
    }

    fn on_value(&mut self, stream: StreamId, value: u16) {
        each!(self, scheduler => scheduler.on_value(stream, value));
    }

    fn begin_packet(&mut self) {
        each!(self, scheduler => scheduler.begin_packet());
    }

    fn pop(&mut self, messages: &mut Messages, settings: &Settings) -> Option<MessageKey> {
        each!(self, scheduler => scheduler.pop(messages, settings))
    }

    fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>) {
        each!(self, scheduler => scheduler.retain(messages, keep));
    }

    fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        each!(self, scheduler => scheduler.take_stream(messages, stream))
    }

    fn has_reserve(&self, stream: StreamId) -> bool {
        each!(self, scheduler => scheduler.has_reserve(stream))
    }

    fn heap_bytes(&self) -> usize {
        each!(self, scheduler => scheduler.heap_bytes())
    }
}
