//! The interface between connections and the framing of their messages.

use std::rc::Rc;
use std::time::Duration;

use crate::server::hub::Hub;

/// The connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End;

pub(super) trait Framer {
    /// Returns true if a message is incomplete.
    fn is_waiting(&self) -> bool;

    /// Handles bytes that arrived before the connection was established.
    fn begin(&mut self, _hub: &Rc<Hub>) -> Result<(), End> {
        Ok(())
    }

    /// Takes bytes that were read. Returns an error if the connection must be closed.
    fn take(&mut self, hub: &Rc<Hub>, read: &[u8]) -> Result<(), End>;

    /// How long the connection may be silent before [`on_idle`](Self::on_idle) is called; `None` for no
    /// limit.
    fn idle_max(&self) -> Option<Duration> {
        None
    }

    /// Called when the connection was silent for too long. Returns false if it must be closed.
    fn on_idle(&mut self, _hub: &Rc<Hub>) -> bool {
        true
    }

    /// Called when the connection has ended.
    fn end(self, hub: &Rc<Hub>);
}
