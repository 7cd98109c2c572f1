//! What makes messages of what arrives on a connection.

use std::rc::Rc;
use std::time::Duration;

use crate::server::hub::Hub;

/// The connection is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End;

pub(super) trait Taker {
    /// A message has begun and isn't whole yet.
    fn is_waiting(&self) -> bool;

    /// Takes what came before the connection stood.
    fn begin(&mut self, _hub: &Rc<Hub>) -> Result<(), End> {
        Ok(())
    }

    /// Takes what was read; an error if the connection is to be ended.
    fn take(&mut self, hub: &Rc<Hub>, read: &[u8]) -> Result<(), End>;

    /// How long nothing may come until [`on_idle`](Self::on_idle) is asked; for ever if it is `None`.
    fn idle_max(&self) -> Option<Duration> {
        None
    }

    /// Nothing has come. False if the connection is to be ended.
    fn on_idle(&mut self, _hub: &Rc<Hub>) -> bool {
        true
    }

    /// The connection has ended.
    fn end(self, hub: &Rc<Hub>);
}
