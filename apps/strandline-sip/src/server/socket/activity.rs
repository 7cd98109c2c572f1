//! The activity of a connection.

use std::cell::Cell;
use std::time::Duration;

/// Records the activity of a connection. Times are in seconds since the start of the server.
#[derive(Debug, Default)]
pub(in crate::server) struct Activity {
    /// Number of complete messages received, modulo 2^32.
    messages: Cell<u32>,
    /// True once a message was received.
    spoke: Cell<bool>,
    /// True if anything was received since the last check.
    received: Cell<bool>,
    /// The time of the last check that found input.
    received_secs: Cell<u32>,
    /// True if the peer has accepted output since the last check.
    wrote: Cell<bool>,
    /// The time of the first check that found output stuck; 0 if it is not.
    stuck_secs: Cell<u32>,
}

impl Activity {
    /// Records a complete message.
    pub(in crate::server) fn on_message(&self) {
        self.messages.set(self.messages.get().wrapping_add(1));
        self.spoke.set(true);
        self.received.set(true);
    }

    /// Records input that is a sign of life.
    pub(in crate::server) fn on_sign(&self) {
        self.received.set(true);
    }

    /// Records that the peer has accepted output.
    pub(super) fn on_written(&self) {
        self.wrote.set(true);
    }

    /// How long the peer has accepted no output, in seconds. `waits`: whether output is waiting.
    pub(super) fn stuck(&self, now_secs: u32, waits: bool) -> u32 {
        if self.wrote.replace(false) || !waits {
            self.stuck_secs.set(0);
            return 0;
        }
        if self.stuck_secs.get() == 0 {
            self.stuck_secs.set(now_secs);
        }
        now_secs.saturating_sub(self.stuck_secs.get())
    }

    /// Returns true if no message was received so far.
    pub(super) fn is_mute(&self) -> bool {
        !self.spoke.get()
    }

    /// When the last message or sign of life was received, as far as the checks can tell; never too early.
    pub(super) fn last_heard(&self, now_secs: u32) -> u32 {
        if self.received.get() { now_secs } else { self.received_secs.get() }
    }

    /// The time since which nothing was received, as far as the checks can tell; never too early.
    pub(super) fn silent_since(&self, now_secs: u32) -> u32 {
        if self.received.replace(false) || self.received_secs.get() == 0 {
            self.received_secs.set(now_secs);
        }
        self.received_secs.get()
    }
}

/// Measures how long a message has been incomplete. A message must be completed in time.
#[derive(Debug, Default)]
pub(in crate::server) struct Begun {
    /// Since when a message has been incomplete.
    since: Option<Duration>,
    /// The number of complete messages at that time.
    messages: u32,
}

impl Begun {
    /// Returns since when the last message has been incomplete, or `None` if there is none.
    pub(in crate::server) fn look(
        &mut self,
        now: Duration,
        life: &Activity,
        waiting: bool,
    ) -> Option<Duration> {
        // If further messages were completed meanwhile, it is a new one.
        if !waiting || self.messages != life.messages.get() {
            self.since = None;
        }
        if waiting {
            self.messages = life.messages.get();
            self.since.get_or_insert(now);
        }
        self.since
    }

    /// Since when the message was incomplete at the last check.
    pub(in crate::server) fn since(&self) -> Option<Duration> {
        self.since
    }
}

#[cfg(test)]
mod tests;
