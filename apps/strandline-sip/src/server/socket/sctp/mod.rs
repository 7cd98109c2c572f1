//! SCTP (RFC 4168), in UDP and on IP. Each SIP message is one SCTP message. There is one socket for all
//! associations, or one for each.

mod many;
mod one;
mod strangers;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use strandline::SendInfo;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::transaction::{ClientId, Flow};

pub(in crate::server) use many::{Many, Met};
pub(in crate::server) use one::{One, Opened};

/// Maximum number of bytes that may wait for room in one association. If the peer reads too slowly, further
/// messages are dropped.
const WAITING_MAX: usize = 1 << 20;

/// A message to a peer with which no association could be set up.
#[derive(Debug, Clone)]
pub(in crate::server) struct Unsent {
    /// The transaction of a request.
    pub(in crate::server) client: Option<ClientId>,
    pub(in crate::server) flow: Flow,
    /// The message, if it belongs to no client transaction.
    pub(in crate::server) message: Bytes,
}

impl Unsent {
    fn new(flow: Flow, client: Option<ClientId>, data: &Bytes) -> Self {
        let message = if client.is_some() { Bytes::new() } else { data.clone() };
        Self { client, flow, message }
    }
}

/// Yields the messages that could not be sent.
pub(in crate::server) type Failed = UnboundedReceiver<Unsent>;

/// Reports failed messages. Nothing receives them any more when the server ends.
fn report(failed: &UnboundedSender<Unsent>, unsent: Vec<Unsent>) {
    unsent.into_iter().for_each(|one| drop(failed.send(one)));
}

/// The sockets, in one of the styles of RFC 6458.
pub(in crate::server) enum Sctp {
    /// One-to-many.
    Many(Rc<Many>),
    /// One-to-one.
    One(Rc<One>),
}

/// The sockets over each carrier: in UDP, on IP, or both. Associations set up by this server use the first.
#[derive(Default)]
pub(in crate::server) struct Carriers(Vec<Sctp>);

impl Carriers {
    /// Adds a carrier.
    pub(in crate::server) fn push(&mut self, sctp: Sctp) {
        self.0.push(sctp);
    }

    /// The number of associations.
    pub(in crate::server) fn len(&self) -> usize {
        self.0.iter().map(Sctp::len).sum()
    }

    /// The flows of all associations.
    pub(in crate::server) fn flows(&self) -> Vec<Flow> {
        let of_one = |sctp: &Sctp| match sctp {
            Sctp::Many(many) => many.flows(),
            Sctp::One(one) => one.flows(),
        };
        self.0.iter().flat_map(of_one).collect()
    }

    /// Closes an association. Returns false if it no longer exists.
    pub(in crate::server) fn close(&self, flow: &Flow) -> bool {
        self.0.iter().any(|sctp| sctp.close(flow))
    }

    /// Sends a message. Returns false if the association no longer exists.
    pub(in crate::server) fn send(&self, flow: Flow, client: Option<ClientId>, bytes: &[u8]) -> bool {
        match self.0.as_slice() {
            [only] => only.send(flow, client, bytes),
            all if flow.connection == 0 => all.first().is_some_and(|first| first.send(flow, client, bytes)),
            all => {
                let found = all.iter().find(|sctp| sctp.has(flow.connection));
                found.is_some_and(|sctp| sctp.send(flow, client, bytes))
            }
        }
    }
}

impl Sctp {
    /// Returns true if this is one of its associations.
    fn has(&self, connection: u64) -> bool {
        match self {
            Self::Many(many) => many.has(connection),
            Self::One(one) => one.has(connection),
        }
    }

    /// The number of associations.
    pub(in crate::server) fn len(&self) -> usize {
        match self {
            Self::Many(many) => many.len(),
            Self::One(one) => one.len(),
        }
    }

    /// Closes an association. Returns false if it no longer exists.
    pub(in crate::server) fn close(&self, flow: &Flow) -> bool {
        match self {
            Self::Many(many) => many.close(flow),
            Self::One(one) => one.close(flow),
        }
    }

    /// Sends a message. Returns false if the association no longer exists. A message to a peer without an
    /// association sets one up; if that fails, the message is reported through [`Failed`].
    pub(in crate::server) fn send(&self, flow: Flow, client: Option<ClientId>, bytes: &[u8]) -> bool {
        let data = Bytes::copy_from_slice(bytes);
        match self {
            Self::Many(many) => many.send(flow, client, data),
            Self::One(one) => one.send(flow, client, data),
        }
    }
}

/// The abort reason when an administrator removes the binding.
const TAKEN_AWAY: &str = "the registration was taken away";

/// The abort reason for a new association without room or access.
pub(in crate::server) const REFUSED: &str = "too many associations, or none from there";

/// Sends unordered, so that no message waits for another one that was lost (RFC 4168 section 5.1).
fn unordered() -> SendInfo {
    SendInfo::default().unordered()
}

/// The number of bytes that wait for room, for each connection.
#[derive(Debug, Default)]
struct Waiting(RefCell<HashMap<u64, usize>>);

impl Waiting {
    /// Adds waiting bytes. Returns false if there would be too many.
    fn add(&self, connection: u64, len: usize) -> bool {
        let mut all = self.0.borrow_mut();
        let waiting = all.entry(connection).or_default();
        let fits = *waiting + len <= WAITING_MAX;
        *waiting += if fits { len } else { 0 };
        fits
    }

    /// Removes bytes that no longer wait.
    fn remove(&self, connection: u64, len: usize) {
        let mut all = self.0.borrow_mut();
        if let Some(waiting) = all.get_mut(&connection) {
            *waiting = waiting.saturating_sub(len);
            if *waiting == 0 {
                all.remove(&connection);
            }
        }
    }
}

#[cfg(test)]
mod tests;
