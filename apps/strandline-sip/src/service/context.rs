//! The response context of a forwarded request: its branches, and the best response so far (RFC 3261 section
//! 16.7).

use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;

use crate::codec::{Edits, HeaderName, Index, Limits, Message, StatusCode};
use crate::resolution::Question;
use crate::transaction::{Account, Charge, ClientId, Flow, Held, OF_RESPONSE, Protocol, ServerId, pare};

/// Targets with at least this `q` are hops of a trunk: they are tried one at a time, the next one only if a
/// hop can't be reached.
pub(crate) const HOP_Q: u16 = 60_000;

/// Targets with at least this `q` are bindings of one phone: they are tried one at a time, the next one only
/// if the phone isn't reached (RFC 5626 section 7).
pub(crate) const INSTANCE_Q: u16 = 50_000;

/// The destination of a target: a flow, or a name to be resolved (RFC 3263).
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// A flow.
    Flow(Flow),
    /// The servers of a name.
    Name(Arc<Question>),
}

impl Destination {
    /// Whether the transport to it is encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        match self {
            Self::Flow(flow) => flow.protocol.is_secure(),
            Self::Name(question) => question.is_secure(),
        }
    }

    /// Whether it is reached by TLS over TCP.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Flow(flow) => flow.protocol == Protocol::Tls,
            Self::Name(question) => question.is_secure(),
        }
    }
}

/// An alternative path to a phone: a flow with Routes.
#[derive(Debug, Clone)]
pub(crate) struct Detour {
    pub(crate) flow: Flow,
    /// Routes to be pushed; empty if there are none.
    pub(crate) path: Box<[u8]>,
}

impl Detour {
    /// A detour over a flow, without Routes.
    pub(crate) fn over(flow: Flow) -> Self {
        Self { flow, path: Box::default() }
    }
}

/// A target of a request.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The request URI; `None` to keep that of the request.
    pub(crate) uri: Option<Box<[u8]>>,
    /// The destination.
    pub(crate) place: Destination,
    /// Routes to be pushed, separated by commas.
    pub(crate) path: Box<[u8]>,
    /// The priority: targets with a higher `q` are tried first.
    pub(crate) q: u16,
    /// Whether the target is reached through another node.
    pub(crate) over_node: bool,
    /// Whether the target is a proxy, not a phone: it may send overload feedback (RFC 7339).
    pub(crate) neighbour: bool,
    /// The address where the phone listens, in case its connection has ended; or its flow, in case the host
    /// of its contact is unknown.
    pub(crate) fallback: Option<Detour>,
    /// Whether a URI names the destination: a peer that listens for UDP there may listen for TCP too.
    pub(crate) by_uri: bool,
    /// Of the servers of its name, only those with this address are used.
    pub(crate) only: Option<IpAddr>,
    /// Other flows to the same phone, for when this one fails (RFC 5626 section 7).
    pub(crate) others: Vec<Target>,
}

/// Whether a request may use a flow. `only` limits it to one address.
pub(crate) fn is_allowed(flow: &Flow, only: Option<IpAddr>) -> bool {
    only.is_none_or(|only| flow.peer.ip().to_canonical() == only)
}

impl Target {
    /// A target that is a proxy, without a Path.
    pub(crate) fn new(uri: Option<Box<[u8]>>, place: Destination, q: u16) -> Self {
        Self {
            uri,
            place,
            path: Box::default(),
            q,
            over_node: false,
            neighbour: true,
            fallback: None,
            by_uri: true,
            only: None,
            others: Vec::new(),
        }
    }
}

/// Identifies a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BranchId {
    /// The slot of its context.
    pub(super) slot: u32,
    /// Its number in the context.
    pub(super) number: usize,
}

impl BranchId {
    /// The branch that a client transaction belongs to, from the number that names it there.
    pub(super) const fn of(user: u64) -> Self {
        Self { slot: user as u32, number: (user >> 32) as usize }
    }

    /// The number that names the branch in its client transaction.
    pub(super) const fn user(self) -> u64 {
        self.slot as u64 | (self.number as u64) << 32
    }
}

/// A branch: the request sent to one target.
#[derive(Debug)]
pub(crate) struct Branch {
    /// Its last transaction and that transaction's flow; `None` until its servers are resolved.
    pub(crate) sent: Option<(ClientId, Flow)>,
    /// Whether a final response has arrived, or none will.
    pub(crate) done: bool,
    /// Whether it got a response.
    pub(crate) responded: bool,
    /// Whether it got a provisional response other than 100.
    pub(crate) rang: bool,
    /// Whether its hop did not respond in time and another was tried. It may still respond.
    pub(crate) superseded: bool,
    /// Whether it was sent to another node.
    pub(crate) over_node: bool,
    /// Whether it was sent to a proxy.
    pub(crate) neighbour: bool,
    /// The other servers of its target, if that is a name.
    pub(crate) named: Option<Box<Named>>,
    /// The address where the phone listens, in case its connection ends before any response; or the address
    /// for a datagram, in case nothing listens for TCP there.
    pub(crate) fallback: Option<Box<Fallback>>,
    /// Other flows to the same phone.
    pub(crate) others: Option<Box<Others>>,
}

/// Data for a copy of the request over the fallback of its target.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(crate) flow: Flow,
    pub(crate) host: u32,
    pub(crate) uri: Option<Box<[u8]>>,
    pub(crate) path: Box<[u8]>,
    pub(crate) breadth: u32,
    pub(crate) neighbour: bool,
    /// Nothing listens for TCP at the address, which is remembered.
    pub(crate) deprioritizes: bool,
}

/// Data for copies of the request over other flows to the same phone.
#[derive(Debug)]
pub(crate) struct Others {
    pub(crate) left: Vec<Target>,
    pub(crate) breadth: u32,
}

/// Data for a copy of the request to another server of its target.
#[derive(Debug)]
pub(crate) struct Named {
    /// Servers not tried yet.
    pub(crate) left: VecDeque<Flow>,
    /// The hash of the name.
    pub(crate) host: u32,
    /// Only servers with this address are used.
    pub(crate) only: Option<IpAddr>,
    pub(crate) uri: Option<Box<[u8]>>,
    pub(crate) path: Box<[u8]>,
    pub(crate) breadth: u32,
}

impl Branch {
    /// Its last transaction.
    pub(crate) fn client(&self) -> Option<ClientId> {
        self.sent.map(|(client, _)| client)
    }

    /// Whether the branch waits for a first response over a connection.
    pub(crate) fn waits_over(&self, connection: u64) -> bool {
        !self.responded && !self.done && self.sent.is_some_and(|(_, flow)| flow.connection == connection)
    }

    /// Whether there is another server to go to.
    pub(crate) fn has_more(&self) -> bool {
        self.named.as_ref().is_some_and(|named| !named.left.is_empty())
    }
}

/// A request that may have to be sent again.
#[derive(Debug)]
pub(crate) struct StoredRequest {
    /// The message. It is charged together with the targets that it may be sent to.
    pub(crate) bytes: Held,
    pub(crate) flow: Flow,
    /// Whether its sender has authenticated.
    pub(crate) proved: bool,
    /// The hash of the host that requests of the callee go to within the dialog; 0 for none.
    pub(crate) caller_host: u32,
}

/// The best response so far.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) code: StatusCode,
    /// The message to forward; empty for a response that this server makes.
    pub(crate) response: Vec<u8>,
    pub(crate) charge: Option<Charge>,
}

/// The response context of a request that is forwarded.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) server: ServerId,
    pub(crate) invite: bool,
    /// Whether a final response was sent.
    pub(crate) answered: bool,
    /// Whether all branches are to be cancelled.
    pub(crate) stopped: bool,
    pub(crate) branches: Vec<Branch>,
    /// The number of client transactions that have not ended.
    pub(crate) live: u16,
    pub(crate) best: Option<Best>,
    /// Header lines with challenges of other branches than the best one's.
    pub(crate) challenges: Vec<u8>,
    pub(crate) challenges_charge: Option<Charge>,
    /// Targets to be tried after these.
    pub(crate) later: Vec<Target>,
    pub(crate) request: Option<Arc<StoredRequest>>,
    /// Whether its targets are hops of a trunk.
    pub(crate) hops: bool,
    /// Whether its targets are bindings of one phone.
    pub(crate) instance: bool,
    /// Whether its targets are contacts of one of our users.
    pub(crate) callee: bool,
    /// Whether the last branch got a response.
    pub(crate) responded: bool,
    /// Whether the last branch got a provisional response other than 100.
    pub(crate) rang: bool,
    /// The flow of a REGISTER that goes to another registrar.
    pub(crate) registers: Option<Flow>,
    /// Whether its Via has `oc`: the client asks for overload feedback (RFC 7339).
    pub(crate) oc: bool,
}

impl Context {
    pub(crate) fn new(server: ServerId, invite: bool) -> Self {
        Self {
            server,
            invite,
            answered: false,
            stopped: false,
            branches: Vec::new(),
            live: 0,
            best: None,
            challenges: Vec::new(),
            challenges_charge: None,
            later: Vec::new(),
            request: None,
            hops: false,
            instance: false,
            callee: false,
            responded: false,
            rang: false,
            registers: None,
            oc: false,
        }
    }

    /// Whether no branch can still get a final response.
    pub(crate) fn is_done(&self) -> bool {
        self.branches.iter().all(|branch| branch.done)
    }

    /// Whether the next targets are not to be tried, as the last one was reached and has refused.
    pub(crate) fn is_refused(&self) -> bool {
        // A phone that has rung for too long was reached.
        let silent = |best: &Best| best.response.is_empty() && !self.rang;
        let unavailable = |best: &Best| silent(best) || best.code == StatusCode::SERVICE_UNAVAILABLE;
        let not_reached = |best: &Best| {
            let lost = [StatusCode::REQUEST_TIMEOUT, StatusCode::FLOW_FAILED];
            silent(best) || (!best.response.is_empty() && lost.contains(&best.code))
        };
        self.best
            .as_ref()
            .is_some_and(|best| (self.hops && !unavailable(best)) || (self.instance && !not_reached(best)))
    }

    /// Marks a branch as done. Returns false if it was done already.
    pub(crate) fn finish_branch(&mut self, number: usize) -> bool {
        match self.branches.get_mut(number) {
            Some(branch) => !core::mem::replace(&mut branch.done, true),
            None => false,
        }
    }

    /// Whether the request has to stay stored: it may have to be sent elsewhere, or a response be made from
    /// it.
    pub(crate) fn needs_request(&self) -> bool {
        let may_go_elsewhere = |branch: &Branch| !branch.done && (!branch.rang || branch.has_more());
        !self.answered
            && (!self.invite || !self.later.is_empty() || self.branches.iter().any(may_go_elsewhere))
    }

    /// Stores a response for the choice of the best, edited, and the challenges of all (section 16.7, step 7).
    pub(crate) fn collect<'a>(
        &mut self,
        code: StatusCode,
        message: &Message<'a>,
        account: &Account,
        limits: Limits,
        edit: impl FnOnce(&mut Edits<'a>),
    ) {
        let mut popped = BytesMut::new();
        let mut edits = Edits::new(*message);
        edits.pop_via();
        edit(&mut edits);
        if edits.write(&mut popped).is_err() {
            return;
        }
        if !account.has_room(popped.len()) {
            // Without room for the response, only its essential headers are stored, or nothing: the status
            // counts.
            let mut index = Index::with_limits(limits);
            let pared = Message::parse(&popped, &mut index).map(|whole| {
                let mut out = BytesMut::new();
                pare(&whole, &OF_RESPONSE, &mut out);
                out
            });
            popped = pared.ok().filter(|pared| account.has_room(pared.len())).unwrap_or_default();
        }
        let challenges =
            |code| matches!(code, StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED);
        // The best response contains its own challenges, and another response with challenges doesn't replace
        // it.
        let is_challenged = self.best.as_ref().is_some_and(|best| challenges(best.code));
        if challenges(code) && is_challenged {
            for name in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
                for line in
                    message.lines(name).map(|line| line.line()).filter(|line| account.has_room(line.len()))
                {
                    self.challenges_charge.get_or_insert_with(|| account.holder().charge(0)).add(line.len());
                    self.challenges.extend_from_slice(line);
                }
            }
        }
        if self.offer(code, &popped)
            && let Some(best) = &mut self.best
        {
            best.charge = Some(account.holder().charge(best.response.capacity()));
        }
    }

    /// Stores a response if it is better than the best so far. Returns whether it is.
    pub(crate) fn offer(&mut self, code: StatusCode, response: &[u8]) -> bool {
        let rank_of = |code, response: &[u8]| match code {
            // A phone that was not reached counts less than the response of another.
            StatusCode::TEMPORARILY_UNAVAILABLE if response.is_empty() => 4700,
            code => rank(code),
        };
        let better = self
            .best
            .as_ref()
            .is_none_or(|best| rank_of(code, response) < rank_of(best.code, &best.response));
        if better {
            let mut room = self.best.take().map(|best| best.response).unwrap_or_default();
            room.clear();
            room.extend_from_slice(response);
            self.best = Some(Best { code, response: room, charge: None });
        }
        better
    }
}

impl Target {
    /// Memory used besides its own size, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let others: usize = self.others.iter().map(|other| size_of::<Self>() + other.bytes()).sum();
        let detour = self.fallback.as_ref().map_or(0, |detour| detour.path.len());
        self.uri.as_ref().map_or(0, |uri| uri.len()) + self.path.len() + detour + others
    }
}

/// The rank of a response, lower is better: 6xx, then the lowest class; within a class those that affect
/// resubmission (section 16.7, step 6).
fn rank(code: StatusCode) -> u16 {
    match (code.class(), code.code()) {
        (6, _) => 0,
        (4, 401 | 407 | 415 | 420 | 484) => 4000,
        (4, 408) => 4900,
        (4, 430) => 4800,
        (4, _) => 4100,
        (5, 503) => 5900,
        (class, _) => class * 1000,
    }
}
