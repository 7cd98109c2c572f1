//! Selects the next fragment (RFC 8260 section 3).
//!
//! [`Queue`](super::queue::Queue) asks the [`Scheduler`] of the association. With DATA chunks it sends a message that is
//! begun to its end first, whatever the scheduler would choose, because their fragments have consecutive TSNs (RFC 9260
//! section 6.9). A scheduler therefore chooses among messages, and among fragments only if they may be interleaved.
//!
//! To add a scheduler, implement [`Scheduler`] in a file beside [`fcfs`] and add a variant to [`AnyScheduler`] and to
//! `each!`. The messages stay in the slab: a scheduler has [`List`](super::messages::List)s of them, one for each stream
//! or one for all.

mod fcfs;
mod round_robin;

use fcfs::Fcfs;
use round_robin::RoundRobin;

use super::messages::{MessageKey, Messages};
use crate::config::StreamScheduler;
use crate::number::StreamId;

/// The choice of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) stream: StreamId,
    pub(super) message: MessageKey,
    /// Maximum number of bytes of the message that may be sent before the scheduler is asked again. `usize::MAX` stands
    /// for all that are left. Fewer are sent if the packet has no room for more.
    pub(super) bytes_max: usize,
}

impl Fragment {
    /// Returns a fragment with all that is left of the message.
    #[inline]
    pub(super) fn of(messages: &Messages, key: MessageKey) -> Option<Self> {
        let stream = messages.get(key)?.info.stream;
        Some(Self { stream, message: key, bytes_max: usize::MAX })
    }
}

/// The order in which the messages of an association are sent.
pub(super) trait Scheduler {
    /// Adds a message as the last one of its stream. It is in no list.
    fn push(&mut self, messages: &mut Messages, stream: StreamId, message: MessageKey);

    /// Returns what must be sent next, or `None` if nothing is queued. Only `push` and `on_sent` change the choice.
    fn next(&self, messages: &Messages) -> Option<Fragment>;

    /// Records that `len` bytes of the fragment were sent. It is the choice of `next`, or a further fragment of a message
    /// that must be sent to its end. `ends`: nothing of the message is left, so it must be removed from its list.
    fn on_sent(&mut self, messages: &mut Messages, fragment: &Fragment, len: usize, ends: bool);

    /// Removes the next message without sending it.
    fn pop(&mut self, messages: &mut Messages) -> Option<MessageKey> {
        let next = self.next(messages)?;
        self.on_sent(messages, &next, 0, true);
        Some(next.message)
    }

    /// Returns the heap bytes, without messages.
    fn heap_bytes(&self) -> usize;
}

/// The scheduler of an association. An enum is cheaper than a call through a vtable for each message.
#[derive(Debug)]
pub(super) enum AnyScheduler {
    /// First come, first served.
    Fcfs(Fcfs),
    /// One message of each stream in turn. Boxed, because it is larger and less common.
    RoundRobin(Box<RoundRobin>),
}

impl Default for AnyScheduler {
    fn default() -> Self {
        Self::Fcfs(Fcfs::default())
    }
}

impl AnyScheduler {
    pub(super) fn new(wanted: StreamScheduler) -> Self {
        match wanted {
            StreamScheduler::FirstComeFirstServed => Self::Fcfs(Fcfs::default()),
            StreamScheduler::RoundRobin => Self::RoundRobin(Box::default()),
        }
    }

    pub(super) const fn kind(&self) -> StreamScheduler {
        match self {
            Self::Fcfs(_) => StreamScheduler::FirstComeFirstServed,
            Self::RoundRobin(_) => StreamScheduler::RoundRobin,
        }
    }

    /// Returns true if a message of this stream may exceed the send buffer, because streams take turns and it has
    /// nothing queued.
    pub(super) fn has_reserve(&self, stream: StreamId) -> bool {
        match self {
            Self::Fcfs(_) => false,
            Self::RoundRobin(scheduler) => scheduler.is_idle(stream),
        }
    }
}

/// Evaluates an expression for the scheduler of the variant.
macro_rules! each {
    ($any:expr, $scheduler:ident => $call:expr) => {
        match $any {
            AnyScheduler::Fcfs($scheduler) => $call,
            AnyScheduler::RoundRobin($scheduler) => $call,
        }
    };
}

impl Scheduler for AnyScheduler {
    #[inline]
    fn push(&mut self, messages: &mut Messages, stream: StreamId, message: MessageKey) {
        each!(self, scheduler => scheduler.push(messages, stream, message));
    }

    #[inline]
    fn next(&self, messages: &Messages) -> Option<Fragment> {
        each!(self, scheduler => scheduler.next(messages))
    }

    #[inline]
    fn on_sent(&mut self, messages: &mut Messages, fragment: &Fragment, len: usize, ends: bool) {
        each!(self, scheduler => scheduler.on_sent(messages, fragment, len, ends));
    }

    fn heap_bytes(&self) -> usize {
        each!(self, scheduler => scheduler.heap_bytes())
    }
}
