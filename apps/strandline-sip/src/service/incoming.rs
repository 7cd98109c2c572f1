//! What the steps of handling a request hand on.

use crate::codec::{Essentials, Message};
use crate::transaction::Flow;

/// A request that has been looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming<'a> {
    pub(super) message: Message<'a>,
    pub(super) essentials: &'a Essentials<'a>,
    pub(super) flow: Flow,
    /// Who sent it has proved who they are.
    pub(super) proved: bool,
    /// It may come from somebody else than who is at its address: answers are weighed.
    pub(super) weighed: bool,
}
