//! What is known of how a connection is used.

use std::cell::Cell;
use std::time::Duration;

/// How a connection is used. Times are seconds since the server was started.
#[derive(Debug, Default)]
pub(in crate::server) struct Life {
    /// Whole messages that came, modulo 2^32.
    messages: Cell<u32>,
    /// One came.
    spoke: Cell<bool>,
    /// Anything came since it was looked at last.
    heard: Cell<bool>,
    /// When it was found that something had come.
    heard_secs: Cell<u32>,
    /// Something was taken of what is to be written since it was looked at last.
    wrote: Cell<bool>,
    /// When it was found that nothing was; 0 if something is.
    stuck_secs: Cell<u32>,
}

impl Life {
    /// A whole message came.
    pub(in crate::server) fn on_message(&self) {
        self.messages.set(self.messages.get().wrapping_add(1));
        self.spoke.set(true);
        self.heard.set(true);
    }

    /// A sign of life came.
    pub(in crate::server) fn on_sign(&self) {
        self.heard.set(true);
    }

    /// The peer has taken something.
    pub(super) fn on_written(&self) {
        self.wrote.set(true);
    }

    /// For how long nothing was taken of what `waits` to be written, seconds.
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

    /// No message has come so far.
    pub(super) fn is_mute(&self) -> bool {
        !self.spoke.get()
    }

    /// Since when nothing has come, as far as these looks can tell: no earlier than that.
    pub(super) fn silent_since(&self, now_secs: u32) -> u32 {
        if self.heard.replace(false) || self.heard_secs.get() == 0 {
            self.heard_secs.set(now_secs);
        }
        self.heard_secs.get()
    }
}

/// How long a message has been coming: who begins one must end it.
#[derive(Debug, Default)]
pub(in crate::server) struct Begun {
    /// There is one that isn't whole since then.
    since: Option<Duration>,
    /// So many messages were whole at that time.
    messages: u32,
}

impl Begun {
    /// Tells since when the message at the end of what came is under way; `None` if there is none.
    pub(in crate::server) fn look(&mut self, now: Duration, life: &Life, waiting: bool) -> Option<Duration> {
        // If others became whole meanwhile, it is another one.
        if !waiting || self.messages != life.messages.get() {
            self.since = None;
        }
        if waiting {
            self.messages = life.messages.get();
            self.since.get_or_insert(now);
        }
        self.since
    }

    /// Since when it was under way at the last look.
    pub(in crate::server) fn since(&self) -> Option<Duration> {
        self.since
    }
}

#[cfg(test)]
mod tests;
