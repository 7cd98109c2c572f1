//! Restarts of the peer, and resets of streams, among the messages of an association that the engine still holds.

use std::collections::VecDeque;

use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::Streams;

/// Limit of numbers of streams that are listed for an association's restarts that readers have not reached.
/// Beyond it, a reset counts as one of all streams.
pub(super) const LISTED_MAX: usize = 1 << 16;

/// What begins anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Anew {
    /// All streams, because the peer restarted.
    Peer,
    /// These streams, because they were reset (RFC 6525).
    Streams(Streams),
    /// Nothing: the peer gave up the message of which a part was handed over (RFC 3758).
    Nothing,
}

impl Anew {
    /// Joins with what begins anew at the same position.
    fn join(&mut self, other: Self) {
        *self = match (&*self, other) {
            (Self::Nothing, other) => other,
            (known, Self::Nothing) => known.clone(),
            (Self::Streams(Streams::Listed(streams)), Self::Streams(Streams::Listed(more))) => {
                Self::Streams(streams.iter().copied().chain(more).collect())
            }
            (Self::Streams(_), Self::Streams(_)) => Self::Streams(Streams::All),
            _ => Self::Peer,
        };
    }

    /// Returns the number of streams that are listed.
    pub(super) fn listed(&self) -> usize {
        match self {
            Self::Streams(Streams::Listed(streams)) => streams.len(),
            _ => 0,
        }
    }

    /// Lists no streams: all begin anew if any does.
    pub(super) fn widen(&mut self) {
        if let Self::Streams(streams) = self {
            *streams = Streams::All;
        }
    }

    /// Returns whether the stream begins anew.
    pub(crate) fn concerns(&self, stream: StreamId) -> bool {
        match self {
            Self::Peer => true,
            Self::Streams(streams) => streams.contains(stream),
            Self::Nothing => false,
        }
    }
}

/// A restart of the peer or a reset of streams, at its position among the received messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restart {
    /// The stream of a message that was handed over in part and of which the rest is lost.
    pub(crate) cut: Option<StreamId>,
    /// What begins anew.
    pub(crate) anew: Anew,
}

impl Restart {
    /// Returns a restart of the peer.
    pub(crate) fn of_peer(cut: Option<StreamId>) -> Self {
        Self { cut, anew: Anew::Peer }
    }

    /// Joins with one at the same position.
    pub(crate) fn join(&mut self, other: Self) {
        self.cut = self.cut.or(other.cut);
        self.anew.join(other.anew);
    }
}

/// Restarts that readers have not reached yet. Two restarts without a message between them count as one, so
/// there are at most as many as unread messages, and one more. At most [`LISTED_MAX`] streams are listed.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// Each restart with the number of unread messages between it and the one before.
    marks: VecDeque<(usize, Restart)>,
    /// Unread messages before the last restart.
    total: usize,
    /// Number of streams that the restarts list.
    listed: usize,
}

impl Restarts {
    /// Adds a restart after which the engine still holds `unread` messages from before it.
    pub(crate) fn push(&mut self, unread: usize, mut restart: Restart) {
        let between = unread.saturating_sub(self.total);
        if self.listed + restart.anew.listed() > LISTED_MAX {
            restart.anew.widen();
        }
        match self.marks.back_mut() {
            Some((_, last)) if between == 0 => {
                self.listed -= last.anew.listed();
                last.join(restart);
                self.listed += last.anew.listed();
            }
            _ => {
                self.listed += restart.anew.listed();
                self.marks.push_back((between, restart));
                self.total += between;
            }
        }
    }

    /// Returns the bytes of records.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>()
            + self.marks.capacity() * size_of::<(usize, Restart)>()
            + self.listed * size_of::<StreamId>()
    }

    /// Returns the number of unread messages before the next restart.
    pub(crate) fn ahead(&self) -> usize {
        self.marks.front().map_or(usize::MAX, |(ahead, _)| *ahead)
    }

    /// Counts messages that were taken from the engine, at most [`ahead`](Self::ahead).
    pub(crate) fn advance(&mut self, count: usize) {
        if let Some((ahead, _)) = self.marks.front_mut() {
            *ahead = ahead.saturating_sub(count);
            self.total = self.total.saturating_sub(count);
        }
    }

    /// Removes the next restart if all messages before it were taken.
    pub(crate) fn take_due(&mut self) -> Option<Restart> {
        if self.ahead() > 0 {
            return None;
        }
        let (_, restart) = self.marks.pop_front()?;
        self.listed -= restart.anew.listed();
        Some(restart)
    }

    /// Returns whether all messages before the next restart were taken, and it cut off a message.
    pub(crate) fn cut_is_due(&self) -> bool {
        self.marks.front().is_some_and(|(ahead, restart)| *ahead == 0 && restart.cut.is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }
}

#[cfg(test)]
mod tests;
