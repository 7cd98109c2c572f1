//! Addresses that an association gains and loses (RFC 5061), as the packets on the wire show it: where packets may come
//! from, and where they may go to.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
use strandline_wire::cause::code;
use strandline_wire::chunk::{Asconf, AsconfAck, Chunk, kind};
use strandline_wire::parameter::Parameters;
use strandline_wire::parameter::asconf::AsconfParameter;
use strandline_wire::{AsconfNumber, Packet};

use crate::network::Carried;
use crate::violation::{Violation, demand};

#[cfg(test)]
mod tests;

/// Number of requests of the peer that are remembered until they are answered.
const REMEMBERED_MAX: usize = 64;

/// A local address that is no source of usual packets (section 5.3 rules F1 and F4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Withheld {
    /// The peer was requested to add it: only ASCONF chunks come from it.
    Added,
    /// The peer was requested to delete it.
    Leaving,
    /// The peer has deleted it, or refused to add it.
    Gone,
}

/// A request of the peer.
#[derive(Debug, Clone, Copy)]
enum Request {
    Add(IpAddr),
    Delete(IpAddr),
}

/// The addresses of one association.
#[derive(Debug, Default)]
pub(super) struct Moves {
    own: BTreeMap<IpAddr, Withheld>,
    /// Number of our latest ASCONF.
    latest: Option<AsconfNumber>,
    /// The peer's ASCONF chunks that arrived and are not answered.
    requested: BTreeMap<u32, Vec<(u32, Request)>>,
    /// Number of the peer's ASCONF that was answered last.
    answered: Option<AsconfNumber>,
    /// Addresses that the peer has deleted.
    deleted: BTreeSet<IpAddr>,
    /// The only addresses of the peer, once it has deleted all others without their names.
    only: Option<BTreeSet<IpAddr>>,
}

impl Moves {
    /// Learns the outcome of a request of this side.
    pub(super) fn on_outcome(&mut self, request: AddressRequest, outcome: AddressOutcome) {
        let performed = outcome == AddressOutcome::Performed;
        match request {
            AddressRequest::Add(address) if performed => self.own.remove(&address),
            AddressRequest::Add(address) => self.own.insert(address, Withheld::Gone),
            AddressRequest::Delete(address) if performed => self.own.insert(address, Withheld::Gone),
            AddressRequest::Delete(address) => self.own.remove(&address),
            AddressRequest::SetPrimary(_) => None,
        };
    }

    /// True if a request is open that may leave no source for any other packet.
    pub(super) fn may_be_sourceless(&self) -> bool {
        self.own.values().any(|withheld| *withheld == Withheld::Leaving)
    }

    /// Reads the ASCONF chunks of a packet that is authentic and about to arrive.
    pub(super) fn on_arrival(&mut self, packet: &Packet<'_>) {
        for chunk in packet.chunks().flatten() {
            let Ok(Chunk::Asconf(asconf)) = chunk.parse() else { continue };
            let old = self.answered.is_some_and(|answered| !answered.is_before(asconf.number));
            if !old && self.requested.len() < REMEMBERED_MAX {
                self.requested.entry(asconf.number.0).or_insert_with(|| requests(asconf.parameters));
            }
        }
    }

    /// Checks a packet that departs, and learns from its ASCONF and ASCONF-ACK chunks.
    pub(super) fn on_departure(&mut self, packet: &Packet<'_>, datagram: &Carried) -> Result<(), Violation> {
        let (from, to) = (datagram.source, datagram.destination);
        let kinds: Vec<u8> = packet.chunks().flatten().map(|chunk| chunk.kind).collect();
        for chunk in packet.chunks().flatten() {
            match chunk.parse() {
                Ok(Chunk::Asconf(asconf)) => self.on_asconf(&asconf),
                Ok(Chunk::AsconfAck(ack)) => self.on_asconf_ack(&ack, to),
                _ => {}
            }
        }
        let source = self.own.get(&from.ip()).copied();
        let only = |allowed: &[u8]| kinds.iter().all(|kind| allowed.contains(kind));
        // Answers to an INIT, to an old cookie and to a SHUTDOWN ACK out of the blue are none of the association's.
        let is_foreign = only(&[kind::INIT_ACK])
            || only(&[kind::ERROR])
            || reports_stale_cookie(packet)
            || completes_out_of_the_blue(packet);
        let may_leave = match source {
            None => true,
            _ if is_foreign => true,
            Some(Withheld::Added) => only(&[kind::AUTH, kind::ASCONF, kind::ABORT]),
            // The peer takes answers only from addresses that it knows, and may replace its own at the same time.
            Some(Withheld::Leaving) => only(&[kind::AUTH, kind::ASCONF_ACK, kind::ABORT]),
            Some(Withheld::Gone) => only(&[kind::ABORT]),
        };
        demand(may_leave, || format!("chunks {kinds:?} from {from}, which is {source:?}: {self:?}"))?;
        let gone = self.deleted.contains(&to.ip())
            || self.only.as_ref().is_some_and(|only| !only.contains(&to.ip()));
        // A peer that has restarted has any of its addresses.
        let answers = [kind::AUTH, kind::ASCONF_ACK, kind::ABORT, kind::INIT_ACK];
        demand(!gone || self.is_being_added(to.ip()) || only(&answers) || is_foreign, || {
            format!("chunks {kinds:?} to {to}, which the peer has deleted: {self:?}")
        })
    }

    /// True if the peer asks to add the address, and the answer has not departed.
    fn is_being_added(&self, address: IpAddr) -> bool {
        let mut requested = self.requested.values().flatten();
        requested
            .any(|(_, requested)| matches!(requested, Request::Add(a) if *a == address || a.is_unspecified()))
    }

    fn on_asconf(&mut self, asconf: &Asconf<'_>) {
        if self.latest.is_some_and(|latest| !latest.is_before(asconf.number)) {
            return;
        }
        self.latest = Some(asconf.number);
        for (_, request) in requests(asconf.parameters) {
            match request {
                Request::Add(address) => self.own.insert(address, Withheld::Added),
                Request::Delete(address) => self.own.insert(address, Withheld::Leaving),
            };
        }
    }

    /// The requests that this side grants hold from the moment that it says so.
    fn on_asconf_ack(&mut self, ack: &AsconfAck<'_>, to: SocketAddr) {
        let Some(requested) = self.requested.remove(&ack.number.0) else { return };
        self.answered = Some(ack.number);
        self.requested.retain(|number, _| ack.number.is_before(AsconfNumber(*number)));
        let granted: BTreeSet<u32> = ack.responses.iter().flatten().filter_map(|raw| success(&raw)).collect();
        for (_, request) in requested.into_iter().filter(|(id, _)| granted.contains(id)) {
            match request {
                Request::Add(address) => {
                    let address = if address.is_unspecified() { to.ip() } else { address };
                    self.deleted.remove(&address);
                    self.only.as_mut().map(|only| only.insert(address));
                }
                Request::Delete(address) if address.is_unspecified() => self.only = Some([to.ip()].into()),
                Request::Delete(address) => {
                    self.deleted.insert(address);
                }
            }
        }
    }
}

/// True if a packet reports a stale cookie (RFC 9260 section 5.2.6), authenticated or not. It goes to the source of the
/// cookie, with the key of associations to come.
pub(super) fn reports_stale_cookie(packet: &Packet<'_>) -> bool {
    packet.chunks().flatten().all(|chunk| match chunk.parse() {
        Ok(Chunk::Error(error)) => {
            error.causes.iter().flatten().all(|cause| cause.code == code::STALE_COOKIE)
        }
        _ => chunk.kind == kind::AUTH,
    })
}

/// True if a packet answers a SHUTDOWN ACK that belongs to no association (RFC 9260 section 8.4 rule 5). It goes to the
/// address that this came from, with the tag that it had. An association never sets the T bit (section 9.2).
fn completes_out_of_the_blue(packet: &Packet<'_>) -> bool {
    packet
        .chunks()
        .flatten()
        .all(|chunk| matches!(chunk.parse(), Ok(Chunk::ShutdownComplete(complete)) if complete.tag_reflected))
}

fn success(raw: &strandline_wire::parameter::RawParameter<'_>) -> Option<u32> {
    match raw.parse_asconf()? {
        Ok(AsconfParameter::Success { id }) => Some(id),
        _ => None,
    }
}

fn requests(parameters: Parameters<'_>) -> Vec<(u32, Request)> {
    let parsed = || parameters.iter().flatten().filter_map(|raw| raw.parse_asconf()?.ok());
    let id_of = |parameter| match parameter {
        AsconfParameter::AddIp { id, .. }
        | AsconfParameter::DeleteIp { id, .. }
        | AsconfParameter::SetPrimary { id, .. } => Some(id),
        _ => None,
    };
    // Of requests with one ID only an attacker could say which of them was granted.
    let is_alone = |id| parsed().filter_map(id_of).filter(|other| *other == id).count() == 1;
    let requested = parsed().filter_map(|parameter| match parameter {
        AsconfParameter::AddIp { id, address } => Some((id, Request::Add(address))),
        AsconfParameter::DeleteIp { id, address } if is_alone(id) => Some((id, Request::Delete(address))),
        _ => None,
    });
    requested.collect()
}
