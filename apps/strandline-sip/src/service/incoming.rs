//! A request on its way through the steps that handle it.

use crate::codec::{Essentials, Message, StatusCode};
use crate::transaction::{Arriving, Flow};

/// The status that a request is refused with, and a reason phrase if it isn't the usual one.
pub(super) type Verdict = (StatusCode, Option<&'static str>);

/// A request that has been parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming<'a> {
    pub(super) message: Message<'a>,
    pub(super) essentials: &'a Essentials<'a>,
    pub(super) flow: Flow,
    /// Its sender has authenticated.
    pub(super) proved: bool,
    /// Its source address may be spoofed: responses are limited by what came from there.
    pub(super) unvalidated: bool,
    /// Set once its credentials were taken: it is answered within a transaction only, as a retransmission would be challenged otherwise.
    pub(super) arriving: Option<Arriving>,
}

impl<'a> Incoming<'a> {
    /// A request of whose sender nothing is known yet.
    pub(super) const fn new(message: Message<'a>, essentials: &'a Essentials<'a>, flow: Flow) -> Self {
        Self { message, essentials, flow, proved: false, unvalidated: false, arriving: None }
    }
}
