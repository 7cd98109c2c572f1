//! An application's requests to add, delete and prefer addresses of its host (RFC 5061), and what it checks of the
//! answers.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::VecDeque;

use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
use strandline_proto::endpoint::Endpoint;
use strandline_proto::error::AddressError;
use strandline_proto::event::{AssociationId, Event};
use strandline_proto::time::Time;

use crate::random::Random;
use crate::violation::{Violation, demand, violation};

/// How often an application changes addresses, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelocationPlan {
    /// Seed of its choices.
    pub(crate) seed: u64,
    /// Maximum time between two requests.
    pub(crate) pause_max: Duration,
    /// Addresses of the host, all of one family. Those of another family stay.
    pub(crate) pool: Vec<IpAddr>,
}

/// The state of one application.
#[derive(Debug)]
pub(crate) struct Relocating {
    random: Random,
    plan: RelocationPlan,
    next: Time,
    /// True once the caller knows when it wants to act next.
    announced: bool,
    /// Requests whose outcome is not known, in their order.
    open: VecDeque<AddressRequest>,
}

impl Relocating {
    pub(crate) fn new(now: Time, plan: RelocationPlan) -> Self {
        let mut random = Random::new(plan.seed);
        let next = now + random.duration(Duration::ZERO, plan.pause_max);
        Self { random, plan, next, announced: false, open: VecDeque::new() }
    }

    /// Asks for something if the time has come. Returns once when it wants to act again.
    pub(crate) fn act(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
    ) -> Result<Option<Time>, Violation> {
        if now < self.next {
            return Ok((!core::mem::replace(&mut self.announced, true)).then_some(self.next));
        }
        self.announced = true;
        self.next = now + self.random.duration(Duration::from_millis(1), self.plan.pause_max);
        let local = endpoint.addresses(id).local().unwrap_or_default().to_vec();
        let requests = self.draw(&local);
        if requests.is_empty() {
            return Ok(Some(self.next));
        }
        match endpoint.addresses(id).request(now, &requests) {
            Ok(()) => self.open.extend(requests),
            Err(AddressError::AlreadyLocal { address }) => {
                demand(local.is_empty() || self.stays_or_leaves(&local, &requests, address), || {
                    format!("{id:?}: {address} is said to be one of {local:?}")
                })?;
            }
            Err(
                AddressError::NotEstablished
                | AddressError::NotSupported
                | AddressError::NotLocal { .. }
                | AddressError::LastAddress { .. }
                | AddressError::LocalUnknown
                | AddressError::TooMany
                | AddressError::UnknownAssociation(_),
            ) => {}
            Err(error) => return violation(format!("{id:?}: addresses: {error}")),
        }
        Ok(Some(self.next))
    }

    /// True if the address is a local one or one that the same call adds.
    fn stays_or_leaves(&self, local: &[IpAddr], requests: &[AddressRequest], address: IpAddr) -> bool {
        local.contains(&address) || requests.contains(&AddressRequest::Add(address))
    }

    /// Draws requests of one call.
    fn draw(&mut self, local: &[IpAddr]) -> Vec<AddressRequest> {
        use AddressRequest::{Add, Delete, SetPrimary};
        let any = self.random.pick(&self.plan.pool);
        let mine: Vec<IpAddr> = local.iter().copied().filter(|own| self.plan.pool.contains(own)).collect();
        let own = if mine.is_empty() { any } else { self.random.pick(&mine) };
        let source = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        match self.random.below(10) {
            0..3 => vec![Add(any)],
            3 | 4 if self.keeps_one(&mine, local) => vec![Delete(own)],
            3..6 => vec![SetPrimary(own)],
            6 | 7 => vec![Add(any), Delete(own)],
            8 => vec![Add(any), SetPrimary(any), Delete(own)],
            // As behind a NAT: the peer learns the address from the packet. Further addresses would be forgotten.
            _ if local.len() <= 1 && self.open.is_empty() => {
                vec![Add(source), Delete(source), SetPrimary(source)]
            }
            _ => {
                mine.iter().map(|own| Delete(*own)).take(usize::from(mine.len() == local.len()) * 8).collect()
            }
        }
    }

    /// True unless the deletion of one address leaves only addresses of another family, by which the peer may not be
    /// reached. The deletion of the last address is tried.
    fn keeps_one(&self, mine: &[IpAddr], local: &[IpAddr]) -> bool {
        let leaving = self.open.iter().filter(|request| matches!(request, AddressRequest::Delete(_))).count();
        mine.len() == local.len() || mine.len() > leaving + 1
    }

    /// Checks the outcome of a request: each has one, in the order of the requests.
    pub(crate) fn on_outcome(
        &mut self,
        endpoint: &mut Endpoint,
        id: AssociationId,
        request: AddressRequest,
        outcome: AddressOutcome,
    ) -> Result<(), Violation> {
        let asked = self.open.pop_front();
        demand(asked == Some(request), || {
            format!("{id:?}: {request:?}: {outcome:?}, but asked for {asked:?}")
        })?;
        let gone = match (request, outcome) {
            (_, AddressOutcome::Failed) => None,
            (AddressRequest::Delete(address), AddressOutcome::Performed) => Some(address),
            (AddressRequest::Add(address), outcome) if outcome != AddressOutcome::Performed => Some(address),
            _ => None,
        };
        let local = endpoint.addresses(id).local().unwrap_or_default().to_vec();
        let again = |address| self.open.contains(&AddressRequest::Add(address));
        demand(
            gone.is_none_or(|address| !local.contains(&address) || local.len() == 1 || again(address)),
            || format!("{id:?}: {request:?}: {outcome:?}, but it is one of {local:?}"),
        )
    }

    /// Checks that no request is left without an outcome when the association ends.
    pub(crate) fn on_closed(&self, id: AssociationId) -> Result<(), Violation> {
        demand(self.open.is_empty(), || format!("{id:?} has ended without the outcome of {:?}", self.open))
    }
}

/// The event of an outcome.
pub(crate) fn outcome_of(event: &Event) -> Option<(AddressRequest, AddressOutcome)> {
    match event {
        Event::AddressRequest { request, outcome } => Some((*request, *outcome)),
        _ => None,
    }
}
