//! Proofs that a sender over UDP receives what is sent to its address. Until then the bytes of responses are
//! limited by those of its requests (as RFC 9000 section 8 limits amplification).
//!
//! A callee proves nothing for a caller: it may collude with a caller that spoofs its source address, and
//! knows all of the request and of its own responses. So neither a callee's tag nor the token of a dialog is
//! a proof.

use core::net::IpAddr;

use crate::codec::{Essentials, Message, Method, SipUri, WriteError};
use crate::transaction::{Balance, Flow, ServerId, Time, Transactions};

use super::incoming::Incoming;
use super::setup::Setup;

/// The number of bytes that a response may be larger than its request: a tag, and the source of the request.
const MARGIN: usize = 64;
/// Maximum number of Routes of a request, and of Record-Routes of a response, that are read.
pub(super) const ROUTES_MAX: usize = 16;
/// The parameter of our Record-Route in responses to an unvalidated address.
const PARAM: &[u8; 5] = b"proof";

/// The parameter with its value.
pub(super) type ProofParam = [u8; 23];

/// Limits responses to unvalidated addresses, and no others.
pub(super) struct AmplificationLimit<'a> {
    /// `None` without a limit.
    balance: Option<&'a mut Balance>,
    now: Time,
    address: IpAddr,
}

impl<'a> AmplificationLimit<'a> {
    pub(super) fn new(now: Time, unvalidated: bool, transactions: &'a mut Transactions, flow: &Flow) -> Self {
        let balance = unvalidated.then_some(transactions.balance_mut());
        Self { balance, now, address: flow.peer.ip() }
    }

    /// Returns an error if a response of so many bytes would send its address too much more than came from
    /// there.
    pub(super) fn take(&mut self, answer: usize) -> Result<(), WriteError> {
        let Self { balance, now, address } = self;
        let allowed = balance.as_mut().is_none_or(|balance| balance.allows(*now, *address, answer, false));
        if allowed { Ok(()) } else { Err(WriteError::Target) }
    }
}

/// Whether responses to a flow reach the sender of the request: over a connection; where the sender has
/// recently proved that it receives messages at its address; or if all senders are trusted.
pub(super) fn is_proven(now: Time, setup: &Setup, transactions: &Transactions, flow: &Flow) -> bool {
    flow.protocol.is_reliable()
        || transactions.balance().is_proven(now, flow.peer.ip())
        || setup.settings.relay.allows(&flow.peer)
        || setup.is_from_node(flow)
}

/// Counts a request for what may be sent to its source. Returns true if its address is unvalidated.
pub(super) fn credit(
    now: Time,
    setup: &Setup,
    transactions: &mut Transactions,
    flow: &Flow,
    request: &Message<'_>,
) -> bool {
    if is_proven(now, setup, transactions, flow) {
        return false;
    }
    // An ACK gets no response.
    let is_ack = request.request_line().is_none_or(|line| line.method == Method::Ack);
    let margin = if is_ack { 0 } else { MARGIN };
    transactions.balance_mut().came(now, flow.peer.ip(), request.as_bytes().len() + margin);
    true
}

/// The ACK of an error response within a transaction. If its tag is one of ours, only the receiver of the
/// response can know it.
pub(super) fn on_acknowledged(
    now: Time,
    setup: &Setup,
    transactions: &mut Transactions,
    incoming: &Incoming<'_>,
    server: ServerId,
) {
    let Incoming { message, essentials, flow, unvalidated, .. } = incoming;
    let is_from_there =
        || transactions.server_flow(server).is_some_and(|(to, _)| to.peer.ip() == flow.peer.ip());
    if !unvalidated || !is_from_there() {
        return;
    }
    let tag = essentials.to.tag.unwrap_or(&[]);
    if tag == setup.hashes.tag_of(server) || tag == setup.hashes.tag(message, flow) {
        transactions.balance_mut().prove(now, flow.peer.ip());
    }
}

impl Setup {
    /// The parameter of our Record-Route in a response to an address that has proved nothing: its requests
    /// within the dialog have it in a Route, which only the receiver of the response can know (RFC 3261
    /// section 16.7 lets a proxy rewrite its Record-Route).
    pub(super) fn proof_param(&self, now: Time, address: IpAddr) -> ProofParam {
        let proof = self.tokens.proof(address, self.unix_secs(now));
        let mut param = [0; 23];
        let text = b";".iter().chain(PARAM).chain(b"=").chain(&proof);
        param.iter_mut().zip(text).for_each(|(place, byte)| *place = *byte);
        param
    }

    /// The URI of our Record-Route in a response.
    pub(super) fn own_record_route<'a>(&self, answer: &Message<'a>) -> Option<&'a [u8]> {
        let mut routes = answer.record_routes().take(ROUTES_MAX).flatten();
        let is_own = |uri: &SipUri<'_>| {
            self.is_ours(uri) && uri.user.is_some_and(|user| self.tokens.read(user).is_some())
        };
        routes.find(|route| route.sip_uri().is_ok_and(|uri| is_own(&uri))).map(|route| route.uri_bytes())
    }

    /// Whether a request within a dialog has such a parameter: its sender receives what is sent to its
    /// address.
    pub(super) fn has_proof(
        &self,
        now: Time,
        address: IpAddr,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
    ) -> bool {
        if essentials.to.tag.is_none() {
            return false;
        }
        let secs = self.unix_secs(now);
        message.routes().take(ROUTES_MAX).flatten().any(|route| {
            let params = route.sip_uri().map(|uri| uri.params).unwrap_or_default();
            params.value(PARAM).is_some_and(|proof| self.tokens.is_proof(proof, address, secs))
        })
    }
}
