//! What becomes of the listeners that a peer is asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::Reason;

/// The state of a listener that a peer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReverseState {
    /// There is no association, or no answer yet.
    Waiting,
    /// The peer listens.
    Listening,
    /// The peer's socket accepts nothing, because something else has shut it down. The peer tries to listen again.
    Failed,
    /// The peer does not listen. It is asked again.
    Refused(Reason),
}

impl ReverseState {
    /// Returns the word for the status, and the reason.
    pub(crate) const fn name(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Waiting => ("waiting", None),
            Self::Listening => ("listening", None),
            Self::Failed => ("failed", None),
            Self::Refused(reason) => ("refused", Some(reason.name())),
        }
    }
}

/// The states of a peer's listeners, by token.
#[derive(Debug, Default)]
pub(crate) struct ReverseStates(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    next: u64,
    /// With the number of the newest request, which alone counts.
    all: HashMap<u32, (u64, ReverseState)>,
}

impl ReverseStates {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the listener with a token.
    pub(crate) fn of(&self, token: u32) -> ReverseState {
        self.lock().all.get(&token).map_or(ReverseState::Waiting, |(_, state)| *state)
    }

    /// Begins another request, on an association of its own: those of before count no longer.
    pub(crate) fn begin(self: &Arc<Self>, token: u32) -> ReverseRequest {
        let mut requests = self.lock();
        let number = requests.next;
        requests.next += 1;
        requests.all.insert(token, (number, ReverseState::Waiting));
        ReverseRequest { states: Arc::clone(self), token, number }
    }
}

/// A request for a listener. Once it is dropped, the peer listens no longer.
#[derive(Debug)]
pub(crate) struct ReverseRequest {
    states: Arc<ReverseStates>,
    token: u32,
    number: u64,
}

impl ReverseRequest {
    /// Returns the token by which the peer names the listener.
    pub(crate) const fn token(&self) -> u32 {
        self.token
    }

    /// Notes what has become of it.
    pub(crate) fn set(&self, state: ReverseState) {
        let mut requests = self.states.lock();
        let known = requests.all.get_mut(&self.token).filter(|(number, _)| *number == self.number);
        if let Some((_, known)) = known {
            *known = state;
        }
    }
}

impl Drop for ReverseRequest {
    fn drop(&mut self) {
        self.set(ReverseState::Waiting);
    }
}

#[cfg(test)]
mod tests;
