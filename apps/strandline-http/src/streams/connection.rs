//! The state of one connection on a stream.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

use super::budget::Counted;

/// Bytes counted for each queued message besides its payload.
const MESSAGE_OVERHEAD: usize = 64;

/// What arrives in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Incoming {
    /// The peer may send more.
    Open,
    /// The peer has sent everything.
    Ended,
    /// The peer has given the connection up.
    Reset,
}

/// What this side sends in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// More may be written.
    Open,
    /// Everything was written, and END is to be sent.
    Ending,
    /// The connection was given up, and RESET is to be sent.
    Resetting,
    /// END or RESET was sent.
    Sent,
}

/// One connection on a stream. It ends once both sides have sent END or RESET; its handle may outlive that.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: u16,
    pub(super) number: u32,
    /// Whether an [`HttpStream`](super::HttpStream) exists that reads and writes it.
    pub(super) has_handle: bool,
    /// Whether the stream is still this connection's.
    pub(super) is_current: bool,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Whether the peer reads nothing more.
    pub(super) is_stopped: bool,
    /// Whether this side has given the connection up, because nobody read what it holds.
    pub(super) is_given_up: bool,
    /// Messages, and when they arrived.
    queue: VecDeque<(Bytes, Duration)>,
    /// Bytes that were taken out of the queue.
    consumed: u64,
    /// Bytes that the peer may send beyond those that were read.
    window: u64,
    /// Bytes that the peer may send, counted from the beginning.
    granted: u64,
    /// Whether a CREDIT waits to be sent. Only one does: it has the latest limit.
    is_credit_queued: bool,
    pub(super) sent: u64,
    /// Bytes that may be sent, counted from the beginning; `None` while the peer states no limit.
    pub(super) limit: Option<u64>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// Server: lets the connection count.
    _counted: Option<Counted>,
}

/// How windows grow and shrink.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    /// The window of a connection that begins.
    pub(super) start: u64,
    /// The largest window.
    pub(super) max: u64,
    /// What all windows together may reach by growing.
    pub(super) growth_max: u64,
    /// Where windows of all connections together begin to shrink.
    pub(super) shrink_from: u64,
}

impl Windows {
    /// Returns the next window of a connection whose reader has read half of the present one, while the peer
    /// may send so many bytes on all connections together.
    fn next(&self, window: u64, ahead: u64) -> u64 {
        let grown = window.saturating_mul(4).min(self.max);
        if ahead.saturating_add(grown - window) <= self.growth_max {
            grown
        } else if ahead > self.shrink_from {
            (window / 2).max(self.start)
        } else {
            window
        }
    }
}

impl Connection {
    pub(super) fn new(
        stream: u16,
        number: u32,
        window: u64,
        limit: Option<u64>,
        counted: Option<Counted>,
    ) -> Self {
        Self {
            stream,
            number,
            has_handle: true,
            is_current: true,
            incoming: Incoming::Open,
            outgoing: Outgoing::Open,
            is_stopped: false,
            is_given_up: false,
            queue: VecDeque::new(),
            consumed: 0,
            window,
            granted: window,
            is_credit_queued: false,
            sent: 0,
            limit,
            reader: None,
            writer: None,
            _counted: counted,
        }
    }

    /// Queues a message for the reader. Returns the bytes that it counts.
    pub(super) fn push(&mut self, data: Bytes, now: Duration) -> usize {
        let held = data.len() + MESSAGE_OVERHEAD;
        self.queue.push_back((data, now));
        held
    }

    /// Takes up to `most` bytes out of the queue. Returns them, and the bytes that they counted.
    pub(super) fn pop(&mut self, most: usize) -> Option<(Bytes, usize)> {
        let (front, _) = self.queue.front_mut()?;
        let (data, overhead) = if front.len() > most {
            (front.split_to(most), 0)
        } else {
            (self.queue.pop_front()?.0, MESSAGE_OVERHEAD)
        };
        self.consumed += data.len() as u64;
        Some((data.clone(), data.len() + overhead))
    }

    /// Empties the queue. Returns the bytes that were counted.
    pub(super) fn discard(&mut self) -> usize {
        self.queue.drain(..).map(|(data, _)| data.len() + MESSAGE_OVERHEAD).sum()
    }

    /// Returns since when the oldest message waits to be read.
    pub(super) fn waiting_since(&self) -> Option<Duration> {
        self.queue.front().map(|(_, arrived)| *arrived)
    }

    /// Returns how many bytes the peer may send beyond those that were read.
    pub(super) fn ahead(&self) -> u64 {
        if self.is_current { self.granted.saturating_sub(self.consumed) } else { 0 }
    }

    /// Returns whether to queue a CREDIT, because half of the window has been read since the last one. `ahead` is what
    /// the peer may send on all connections.
    pub(super) fn needs_credit(&mut self, windows: &Windows, ahead: u64) -> bool {
        let read = (self.consumed + self.window).saturating_sub(self.granted);
        if self.incoming != Incoming::Open || read < self.window / 2 {
            return false;
        }
        self.window = windows.next(self.window, ahead);
        self.granted = self.granted.max(self.consumed + self.window);
        !std::mem::replace(&mut self.is_credit_queued, true)
    }

    /// Returns the limit for a CREDIT that is about to be sent.
    pub(super) fn take_credit(&mut self) -> u64 {
        self.is_credit_queued = false;
        self.granted
    }

    /// Returns the limit that the peer was granted.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns whether nothing has been sent or received.
    pub(super) fn is_unused(&self) -> bool {
        self.sent == 0 && self.consumed == 0 && self.queue.is_empty() && self.incoming == Incoming::Open
    }

    /// Returns whether both sides have sent END or RESET.
    pub(super) fn is_over(&self) -> bool {
        self.incoming != Incoming::Open && self.outgoing == Outgoing::Sent
    }
}
