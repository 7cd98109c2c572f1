//! Who gets what is sent to an address over UDP: what is weighed until something has come from there that only they can know.
//!
//! Callees are not believed in this: one may be in league with somebody who calls it as if from another's address, and knows all that
//! stands in the request that it got and in its own answers. So neither a callee's tag nor the token of a dialog proves anything.

use core::net::IpAddr;

use crate::codec::{Essentials, Message, Method, StatusCode, WriteError};
use crate::transaction::{Balance, Flow, ServerId, Time, Transactions};

use super::Service;
use super::incoming::Incoming;

/// What an answer may be larger by than its request: a tag, and where the request came from.
const MARGIN: usize = 64;
/// Routes of a request that are looked at, and Record-Routes of an answer.
pub(super) const ROUTES_MAX: usize = 16;
/// The parameter of our Record-Route in answers to who has proved nothing yet.
const PARAM: &[u8; 5] = b"proof";

/// It and its value.
pub(super) type ProofParam = [u8; 23];

/// Weighs an answer to an address that has proved nothing; lets all others go.
pub(super) struct Scale<'a>(Option<&'a mut Balance>, IpAddr);

impl<'a> Scale<'a> {
    pub(super) fn new(weighed: bool, transactions: &'a mut Transactions, flow: &Flow) -> Self {
        Self(weighed.then_some(transactions.balance_mut()), flow.peer.ip())
    }

    /// An error if an answer of so many bytes would give its address more than came from it, by more than may be.
    pub(super) fn weigh(&mut self, answer: usize) -> Result<(), WriteError> {
        let allowed = self.0.as_mut().is_none_or(|balance| balance.allows(self.1, answer, false));
        if allowed { Ok(()) } else { Err(WriteError::Target) }
    }
}

impl Service {
    /// Answers to this flow reach who has asked: they go over a connection, or something came from there of late that only who gets
    /// them can know, or it comes from where others are believed.
    pub(super) fn is_proven(&self, flow: &Flow) -> bool {
        flow.protocol.is_reliable()
            || self.transactions.balance().is_proven(flow.peer.ip())
            || self.settings.relay.allows(&flow.peer)
            || self.is_from_node(flow)
    }

    /// A request came: it counts for what may go there. Returns whether answers are weighed.
    pub(super) fn credit(&mut self, flow: &Flow, request: &Message<'_>) -> bool {
        if self.is_proven(flow) {
            return false;
        }
        // Nobody answers an ACK.
        let is_ack = request.request_line().is_none_or(|line| line.method == Method::Ack);
        let margin = if is_ack { 0 } else { MARGIN };
        self.transactions.balance_mut().came(flow.peer.ip(), request.as_bytes().len() + margin);
        true
    }

    /// What our Record-Route in an answer says besides, if whoever gets it is still to prove that: its requests within the dialog have
    /// it in a Route, and nobody else sees it (RFC 3261 section 16.7 lets a proxy write its Record-Route anew).
    pub(super) fn proof_param(&self, now: Time, server: ServerId, code: StatusCode) -> Option<ProofParam> {
        if !code.is_provisional() && !code.is_success() {
            return None;
        }
        let address = self.transactions.is_weighed(server)?;
        let proof = self.tokens.proof(address, self.unix_secs(now));
        let mut param = [0; 23];
        let text = b";".iter().chain(PARAM).chain(b"=").chain(&proof);
        param.iter_mut().zip(text).for_each(|(place, byte)| *place = *byte);
        Some(param)
    }

    /// The URI of our Record-Route in an answer.
    pub(super) fn own_record_route<'a>(&self, answer: &Message<'a>) -> Option<&'a [u8]> {
        let mut routes = answer.record_routes().take(ROUTES_MAX).flatten();
        let is_own = |uri: &crate::codec::SipUri<'_>| {
            self.is_ours(uri) && uri.user.is_some_and(|user| self.tokens.read(user).is_some())
        };
        routes.find(|route| route.sip_uri().is_ok_and(|uri| is_own(&uri))).map(|route| route.uri_bytes())
    }

    /// Does a request within a dialog show such a parameter? Then its sender gets what goes to its address.
    pub(super) fn takes_proof(
        &mut self,
        now: Time,
        flow: &Flow,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
    ) -> bool {
        if essentials.to.tag.is_none() {
            return false;
        }
        let (address, secs) = (flow.peer.ip(), self.unix_secs(now));
        let shows = message.routes().take(ROUTES_MAX).flatten().any(|route| {
            let params = route.sip_uri().map(|uri| uri.params).unwrap_or_default();
            params.value(PARAM).is_some_and(|proof| self.tokens.is_proof(proof, address, secs))
        });
        if shows {
            self.transactions.balance_mut().prove(address);
        }
        shows
    }

    /// The ACK of what was refused within a transaction. If the tag is one of ours, only who got it can know it.
    pub(super) fn on_acknowledged(&mut self, incoming: &Incoming<'_>, server: ServerId) {
        let Incoming { message, essentials, flow, weighed, .. } = incoming;
        let is_from_there =
            || self.transactions.server_flow(server).is_some_and(|(to, _)| to.peer.ip() == flow.peer.ip());
        if !weighed || !is_from_there() {
            return;
        }
        let tag = essentials.to.tag.unwrap_or(&[]);
        if tag == self.tag_of(server) || tag == self.tag(message, flow) {
            self.transactions.balance_mut().prove(flow.peer.ip());
        }
    }
}
