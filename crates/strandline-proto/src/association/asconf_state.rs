//! The state of dynamic address reconfiguration (RFC 5061), and what it means for local addresses. `asconf` has the
//! procedures.

use core::net::IpAddr;
use std::collections::VecDeque;

use super::Association;
use crate::dynamic_addresses::{AddressRequest, REQUESTS_MAX};
use crate::number::{AsconfNumber, Tsn};
use crate::path_index::PathIndex;
use crate::time::Time;
use crate::zone::is_same;

/// Maximum number of requests in an ASCONF chunk of ours. With these it fits the minimum MTU of IPv4 (section
/// 5.1.1 rule C5).
const REQUESTS_PER_CHUNK: usize = 8;

/// Number of the peer's latest ASCONF chunks whose answers are kept. A packet has at most as many.
pub(in crate::association) const ANSWERS_MAX: usize = 4;

/// The state of dynamic address reconfiguration. Allocated at first use.
#[derive(Debug)]
pub(in crate::association) struct DynamicAddresses {
    /// Number of our next ASCONF.
    pub(in crate::association) next: AsconfNumber,
    /// Number of the peer's next ASCONF.
    pub(in crate::association) expected: AsconfNumber,
    /// Correlation ID of our next request.
    correlation: u32,
    /// Requests that are not sent yet.
    pub(in crate::association) queue: VecDeque<AddressRequest>,
    pub(in crate::association) sent: Option<Outstanding>,
    /// Responses to the peer's latest ASCONF chunks.
    answers: VecDeque<(AsconfNumber, Vec<u8>)>,
    /// Numbers of the ASCONF chunks of the packet being processed that are answered at its end.
    pub(in crate::association) owed: Vec<AsconfNumber>,
    /// What the peer did not understand: it is not asked for it again (section 5.3 rules F3a and F3b).
    pub(in crate::association) refused: NotUnderstood,
    /// The address that the peer wants to be the primary one, once it is confirmed.
    pub(in crate::association) wanted_primary: Option<IpAddr>,
    /// T-4 RTO timer; `Time::MAX` if it is stopped.
    pub(in crate::association) deadline: Time,
}

/// Kinds of requests that the peer did not understand.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::association) struct NotUnderstood {
    /// ASCONF chunks.
    pub(in crate::association) chunk: bool,
    /// Add IP Address or Delete IP Address.
    pub(in crate::association) changes: bool,
    /// Set Primary IP Address.
    pub(in crate::association) primary: bool,
}

/// An ASCONF chunk that was sent and is not acknowledged.
#[derive(Debug)]
pub(in crate::association) struct Outstanding {
    pub(in crate::association) number: AsconfNumber,
    /// The Address Parameter.
    pub(in crate::association) address: IpAddr,
    /// The requests with their correlation IDs.
    pub(in crate::association) requests: Vec<(u32, AddressRequest)>,
    /// The path that it was sent on last.
    pub(in crate::association) path: PathIndex,
    /// Number of retransmissions.
    pub(in crate::association) attempts: u16,
}

impl DynamicAddresses {
    /// Creates the state of an association whose sides had these initial TSNs: chunks are numbered from there (section
    /// 5.1 rule A2).
    pub(in crate::association) fn new(own: Tsn, peers: Tsn) -> Self {
        Self {
            next: AsconfNumber(own.0),
            expected: AsconfNumber(peers.0),
            correlation: 0,
            queue: VecDeque::new(),
            sent: None,
            answers: VecDeque::new(),
            owed: Vec::new(),
            refused: NotUnderstood::default(),
            wanted_primary: None,
            deadline: Time::MAX,
        }
    }

    /// Returns our requests in their order: those that were sent, and those that wait.
    pub(in crate::association) fn requests(&self) -> impl Iterator<Item = AddressRequest> {
        let sent = self.sent.iter().flat_map(|sent| sent.requests.iter().map(|(_, request)| *request));
        sent.chain(self.queue.iter().copied())
    }

    /// True if so many more requests may wait.
    pub(in crate::association) fn takes(&self, more: usize) -> bool {
        self.requests().count().saturating_add(more) <= REQUESTS_MAX
    }

    /// Takes the requests of the next ASCONF out of the queue, at most `sendable`, with correlation IDs.
    pub(in crate::association) fn take_requests(&mut self, sendable: usize) -> Vec<(u32, AddressRequest)> {
        let count = self.queue.len().min(REQUESTS_PER_CHUNK).min(sendable);
        let mut requests = Vec::with_capacity(count);
        for request in self.queue.drain(..count) {
            requests.push((self.correlation, request));
            self.correlation = self.correlation.wrapping_add(1);
        }
        requests
    }

    /// Returns the responses to an ASCONF of the peer, if they are still known.
    pub(in crate::association) fn answer(&self, number: AsconfNumber) -> Option<&[u8]> {
        let known = self.answers.iter().find(|(known, _)| *known == number);
        known.map(|(_, responses)| &responses[..])
    }

    /// Keeps the responses to an ASCONF of the peer, in case that it comes again.
    pub(in crate::association) fn keep_answer(&mut self, number: AsconfNumber, responses: Vec<u8>) {
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back((number, responses));
    }

    /// Forgets the responses to earlier ASCONF chunks: the peer has seen them (section 5.2 rule E1).
    pub(in crate::association) fn forget_answers(&mut self) {
        self.answers.clear();
    }

    /// Records that an answer is owed at the end of the packet.
    pub(in crate::association) fn owe(&mut self, number: AsconfNumber) {
        if self.owed.len() < ANSWERS_MAX && !self.owed.contains(&number) {
            self.owed.push(number);
        }
    }

    /// Returns the heap bytes, itself included.
    pub(in crate::association) fn heap_bytes(&self) -> usize {
        let queue = self.queue.capacity() * size_of::<AddressRequest>();
        let sent = self.sent.as_ref().map_or(0, |sent| sent.requests.capacity());
        let answers: usize = self.answers.iter().map(|(_, responses)| responses.capacity()).sum();
        let owed = self.owed.capacity() * size_of::<AsconfNumber>();
        let kept = self.answers.capacity() * size_of::<(AsconfNumber, Vec<u8>)>();
        size_of::<Self>() + queue + sent * size_of::<(u32, AddressRequest)>() + answers + kept + owed
    }
}

/// Returns the state, if there is one.
pub(in crate::association) fn state_of(association: &Association) -> Option<&DynamicAddresses> {
    association.extras.as_deref()?.dynamic.as_deref()
}

/// Returns the state, if there is one.
pub(in crate::association) fn state_mut(association: &mut Association) -> Option<&mut DynamicAddresses> {
    association.extras.as_deref_mut()?.dynamic.as_deref_mut()
}

/// True if the local address is being deleted: the peer was asked for it.
pub(crate) fn is_leaving(association: &Association, local: IpAddr) -> bool {
    state_of(association).is_some_and(|dynamic| {
        let sent = dynamic.sent.iter().flat_map(|sent| &sent.requests);
        sent.map(|(_, request)| request)
            .any(|request| matches!(request, AddressRequest::Delete(a) if is_same(*a, local)))
    })
}

/// True if the peer is asked to delete the local address, or is about to be.
pub(in crate::association) fn is_to_be_deleted(association: &Association, local: IpAddr) -> bool {
    state_of(association).is_some_and(|dynamic| {
        dynamic.requests().any(|request| matches!(request, AddressRequest::Delete(a) if is_same(a, local)))
    })
}

/// True if no packet but an ASCONF may come from the local address: it is being added or deleted (section 5.3
/// rules F1 and F4).
pub(in crate::association) fn is_withheld(association: &Association, local: IpAddr) -> bool {
    let added = state_of(association).is_some_and(|dynamic| {
        dynamic.requests().any(|request| matches!(request, AddressRequest::Add(a) if is_same(a, local)))
    });
    added || is_leaving(association, local)
}

/// Moves the outstanding ASCONF off a path that is removed.
pub(in crate::association) fn move_path(association: &mut Association, from: PathIndex, to: PathIndex) {
    if let Some(sent) = state_mut(association).and_then(|dynamic| dynamic.sent.as_mut())
        && sent.path == from
    {
        sent.path = to;
    }
}
