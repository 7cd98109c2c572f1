//! A request while it is being handled.

use crate::codec::{Essentials, Message, StatusCode};
use crate::transaction::{Arriving, Flow};

/// The status with which a request is refused, and a reason phrase if it isn't the usual one.
pub(super) type Rejection = (StatusCode, Option<&'static str>);

/// A parsed request, and what is established about its sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming<'a> {
    pub(super) message: Message<'a>,
    pub(super) essentials: &'a Essentials<'a>,
    pub(super) flow: Flow,
    /// Whether its sender has authenticated.
    pub(super) proved: bool,
    /// Whether its source address may be spoofed: responses are then limited by the bytes received from it.
    pub(super) unvalidated: bool,
    /// Set once its credentials were accepted: it is answered only within a transaction, because a
    /// retransmission would otherwise be challenged.
    pub(super) arriving: Option<Arriving>,
}

impl<'a> Incoming<'a> {
    /// A request whose sender is not authenticated yet.
    pub(super) const fn new(message: Message<'a>, essentials: &'a Essentials<'a>, flow: Flow) -> Self {
        Self { message, essentials, flow, proved: false, unvalidated: false, arriving: None }
    }
}
