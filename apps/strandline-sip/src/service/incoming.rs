//! What the steps of handling a request hand on.

use crate::codec::{Essentials, Message};
use crate::transaction::{Arriving, Flow};

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
    /// Its credentials were taken, so it is answered within a transaction only: a retransmission would be challenged otherwise.
    pub(super) arriving: Option<Arriving>,
}

impl<'a> Incoming<'a> {
    /// A request of which nothing is known yet.
    pub(super) const fn new(message: Message<'a>, essentials: &'a Essentials<'a>, flow: Flow) -> Self {
        Self { message, essentials, flow, proved: false, weighed: false, arriving: None }
    }
}
