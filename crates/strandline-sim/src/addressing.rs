//! An application's changes of its addresses (RFC 5061), and what it checks of the answers.

use core::net::IpAddr;
use core::time::Duration;

use strandline_proto::dynamic_addresses::AddressRequest;
use strandline_proto::endpoint::Endpoint;
use strandline_proto::error::AddressError;
use strandline_proto::event::AssociationId;
use strandline_proto::time::Time;

use crate::random::Random;
use crate::violation::{Violation, demand, violation};

/// How often an application changes its addresses, and which its host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressPlan {
    /// Seed of its choices.
    pub(crate) seed: u64,
    /// Maximum time between two requests.
    pub(crate) pause_max: Duration,
    /// The host's addresses.
    pub(crate) own: Vec<IpAddr>,
}

/// The state of one application.
#[derive(Debug)]
pub(crate) struct Addressing {
    random: Random,
    plan: AddressPlan,
    next: Time,
    /// True if it is to be woken then.
    wakes: bool,
    /// Number of requests that are not answered.
    asked: u32,
}

impl Addressing {
    pub(crate) fn new(now: Time, plan: AddressPlan) -> Self {
        let mut random = Random::new(plan.seed);
        let next = now + random.duration(Duration::ZERO, plan.pause_max);
        Self { random, plan, next, wakes: false, asked: 0 }
    }

    /// Asks for changes if the time has come. Returns when it wants to be woken, if that is not known.
    pub(crate) fn act(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
    ) -> Result<Option<Time>, Violation> {
        if now < self.next {
            return Ok((!core::mem::replace(&mut self.wakes, true)).then_some(self.next));
        }
        self.wakes = true;
        self.next = now + self.random.duration(Duration::from_millis(1), self.plan.pause_max);
        let requests = self.requests();
        match endpoint.addresses(id).request(now, &requests) {
            Ok(()) => self.asked += requests.len() as u32,
            Err(
                AddressError::AlreadyLocal { .. }
                | AddressError::NotLocal { .. }
                | AddressError::LastAddress { .. }
                | AddressError::LocalUnknown
                | AddressError::TooMany
                | AddressError::NotSupported
                | AddressError::NotEstablished
                | AddressError::UnknownAssociation(_),
            ) => {}
            Err(error) => return violation(format!("{id:?}: addresses: {error}")),
        }
        Ok(Some(self.next))
    }

    /// Learns the outcome of a request.
    pub(crate) fn on_outcome(&mut self) -> Result<(), Violation> {
        demand(self.asked > 0, || "an outcome of a request that was not made".to_owned())?;
        self.asked -= 1;
        Ok(())
    }

    /// Checks that every request had an outcome, at the end of the association.
    pub(crate) fn end(&self) -> Result<(), Violation> {
        demand(self.asked == 0, || format!("{} requests without an outcome", self.asked))
    }

    fn requests(&mut self) -> Vec<AddressRequest> {
        let [one, other] = [0; 2].map(|_| self.random.pick(&self.plan.own));
        match self.random.below(6) {
            0 | 1 => vec![AddressRequest::Add(one)],
            2 => vec![AddressRequest::Delete(one)],
            3 => vec![AddressRequest::SetPrimary(one)],
            4 => vec![AddressRequest::Add(one), AddressRequest::Delete(other)],
            _ => {
                let primary = AddressRequest::SetPrimary(one);
                vec![AddressRequest::Add(one), AddressRequest::Delete(other), primary]
            }
        }
    }
}
