//! What happened to dynamic streams behind messages that the engine still holds.

use std::collections::VecDeque;

use strandline_proto::number::{Ssn, StreamId};

use crate::error::RecvError;

/// Limit of bytes of what is noted. A peer that reuses a number only once both directions are closed, as it
/// must, stays far below: at most two uses of a number are noted, with their ends and the wishes that they
/// stop.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Where streams end among the messages that the engine holds. The SSN is that of the message after the last
/// one; `None` if the end is none that the peer has chosen for this stream.
pub(super) type Ends = Vec<(StreamId, Option<Ssn>)>;

/// What happened at a position among the messages.
#[derive(Debug)]
pub(super) enum Mark {
    Ends(Ends),
    /// The peer asks to stop sending on these streams.
    Stops(Vec<StreamId>),
    /// All streams are lost because numbers begin anew, and their readers are told this.
    Loss(RecvError),
}

impl Mark {
    fn bytes(&self) -> usize {
        size_of::<(u64, Self)>()
            + match self {
                Self::Ends(ends) => size_of_val(&**ends),
                Self::Stops(streams) => size_of_val(&**streams),
                Self::Loss(_) => 0,
            }
    }
}

/// Marks in the order of their positions, which are numbers of messages taken from the engine.
#[derive(Debug, Default)]
pub(super) struct Marks {
    list: VecDeque<(u64, Mark)>,
    bytes: usize,
    /// Number of losses among them.
    losses: usize,
    /// The engine was asked to deny resets.
    denies: bool,
}

impl Marks {
    /// Adds a mark. It is joined with one of its kind at the same position.
    pub(super) fn push(&mut self, at: u64, mark: Mark) {
        match (self.list.back_mut().filter(|(last, _)| *last == at), &mark) {
            (Some((_, Mark::Ends(last))), Mark::Ends(ends)) => {
                last.extend(ends);
                self.bytes += size_of_val(&**ends);
            }
            (Some((_, Mark::Stops(last))), Mark::Stops(streams)) => {
                last.extend(streams);
                self.bytes += size_of_val(&**streams);
            }
            (Some((_, Mark::Loss(_))), Mark::Loss(_)) => {}
            _ => {
                self.losses += usize::from(matches!(mark, Mark::Loss(_)));
                self.bytes += mark.bytes();
                self.list.push_back((at, mark));
            }
        }
    }

    /// Takes the first mark if its position is reached.
    pub(super) fn take_due(&mut self, taken: u64) -> Option<Mark> {
        if self.list.front()?.0 > taken {
            return None;
        }
        let (_, mark) = self.list.pop_front()?;
        self.losses -= usize::from(matches!(mark, Mark::Loss(_)));
        self.bytes -= mark.bytes();
        if self.list.is_empty() {
            self.list = VecDeque::new();
        }
        Some(mark)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether streams are lost at a position that is not reached.
    pub(super) fn has_loss(&self) -> bool {
        self.losses > 0
    }

    /// Returns whether the peer's resets must be denied from now on, or no longer, if that has changed.
    pub(super) fn take_denial(&mut self) -> Option<bool> {
        let denies = if self.denies { self.bytes > BYTES_MAX / 2 } else { self.bytes > BYTES_MAX };
        (std::mem::replace(&mut self.denies, denies) != denies).then_some(denies)
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes
    }
}
