//! What goes while the peer's window is shut and when it opens (decisions 81 and 99).

use super::{Outbound, loss_detection};
use crate::config::PATHS_MAX;
use crate::time::Time;

impl Outbound {
    /// The latest SACK opened a window that was shut and acknowledged nothing: the path on which the lowest chunks are to ask whether they
    /// arrived ([`ask_opened`](Self::ask_opened)). T3-rtx may have backed off far, and nothing else would ask before.
    #[must_use]
    pub(crate) fn take_window_opened(&mut self, now: Time) -> Option<u8> {
        let opened = core::mem::take(&mut self.window_opened);
        self.sent().filter(|_| opened).and_then(|sent| loss_detection::path_to_ask(&sent.outstanding, now))
    }

    /// As many of the lowest chunks of the path as fit a packet go again. Returns the bytes that left the path's flight.
    pub(crate) fn ask_opened(&mut self, path: u8) -> u32 {
        let Some(busy) = &mut self.busy else { return 0 };
        let in_flight = busy.sent.outstanding.in_flight_bytes();
        let bytes =
            loss_detection::on_window_probe(&mut busy.sent.outstanding, path % PATHS_MAX as u8).unwrap_or(0);
        self.window.give_back(in_flight.saturating_sub(busy.sent.outstanding.in_flight_bytes()));
        bytes
    }

    /// The peer answered that its window has no room for the lowest chunk outstanding.
    #[must_use]
    pub(crate) const fn window_is_shut(&self) -> bool {
        self.window.is_shut()
    }

    /// T3-rtx of the path expired and the peer goes on to say that its window is closed (section 6.1 rule A): as many of the lowest
    /// chunks as fit a packet ask for it. Where losses are found by miss indications all go again. Returns the bytes that left the
    /// path's flight.
    pub(crate) fn on_window_probe_timeout(&mut self, path: u8) -> u32 {
        let Some(busy) = &mut self.busy else { return 0 };
        let in_flight = busy.sent.outstanding.in_flight_bytes();
        let Some(bytes) = loss_detection::on_window_probe(&mut busy.sent.outstanding, path % PATHS_MAX as u8)
        else {
            return self.send_again(path);
        };
        self.window.give_back(in_flight.saturating_sub(busy.sent.outstanding.in_flight_bytes()));
        self.window.on_timeout();
        bytes
    }
}
