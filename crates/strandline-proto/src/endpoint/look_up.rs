//! Look-up of associations by an address of the peer and the ports. Several associations may have one
//! address: a peer may list any (decision 159).

use core::cell::Cell;
use core::net::IpAddr;

use strandline_wire::number::VerificationTag;

use super::demux::{self, PeerKey, path_of};
use super::{Endpoint, key_of};
use crate::association::Association;
use crate::association::cookie::Cookie;
use crate::association::features::Extensions;
use crate::event::{AssociationId, Datagram};
use crate::path::{Path, PathState};
use crate::zone;

/// Returns the association with a peer's address and the ports: if there are several, one with which the address is
/// confirmed.
pub(super) fn find_by_peer(endpoint: &Endpoint, key: &PeerKey) -> Option<u32> {
    find_by_path(endpoint, key, |_, _| true)
}

/// Returns the association as [`find_by_peer`], without addresses that an association has given up: they are not its
/// peer's, and may be those of another one.
pub(super) fn find_held(endpoint: &Endpoint, key: &PeerKey) -> Option<u32> {
    find_by_path(endpoint, key, |association, path| !path.is_given_up(&association.config))
}

/// Returns the association that a set-up at the local address `destination` belongs to: by the source of its INIT,
/// which is in `key`, or by another address that the INIT lists (section 5.1.2 D). Of these only a confirmed one
/// does: one that a peer merely lists may be another host's (section 5.4), or one of many private networks, and would
/// keep that host's INITs out (RFC 5062 section 2).
pub(super) fn find_existing(
    endpoint: &Endpoint,
    key: &PeerKey,
    named: &[IpAddr],
    destination: Option<IpAddr>,
) -> Option<u32> {
    find_set_up(endpoint, key, named, destination, None)
}

/// Returns the association as [`find_existing`], or if it has the peer's `tag`: whatever became of the addresses then.
fn find_set_up(
    endpoint: &Endpoint,
    key: &PeerKey,
    named: &[IpAddr],
    destination: Option<IpAddr>,
    tag: Option<VerificationTag>,
) -> Option<u32> {
    let held = |association: &Association, path: &Path| {
        tag == Some(association.peer_tag)
            || !path.is_given_up(&association.config) && takes_set_up(endpoint, association, destination)
    };
    let confirmed = |association: &Association, path: &Path| {
        tag == Some(association.peer_tag)
            || path.state != PathState::Unconfirmed && takes_set_up(endpoint, association, destination)
    };
    find_by_path(endpoint, key, held).or_else(|| {
        let mut keys = named.iter().map(|address| PeerKey { address: *address, ..*key });
        keys.find_map(|key| find_by_path(endpoint, &key, confirmed))
    })
}

/// Returns the association that a cookie belongs to, by its tag or its addresses. What counts is the local address that
/// its INIT came to, whatever the one that the COOKIE ECHO comes to. If the association has that one no more, or has
/// given up the peer's, the peer's tag identifies it.
pub(super) fn find_for_cookie(endpoint: &Endpoint, cookie: &Cookie) -> Option<u32> {
    let (peer_port, local_port) = (cookie.peer_port, cookie.local_port);
    // Tags in cookies are not recorded, so another association may have got the same tag since.
    let is_its = |slot: &u32| {
        endpoint.table.at(*slot).is_some_and(|association| {
            let named = |ip: &IpAddr| association.paths.by_address(*ip).is_some();
            association.local_port == local_port
                && association.peer_port == peer_port
                && (association.peer_tag == cookie.peer_tag
                    || named(&cookie.source.ip())
                    || cookie.addresses.iter().any(named))
        })
    };
    let by_tag = endpoint.demux.by_tag(cookie.local_tag).filter(is_its);
    let key = PeerKey { address: cookie.source.ip(), peer_port, local_port };
    let to = cookie.destination.map(|to| zone::arrived_at(to, key.address));
    by_tag.or_else(|| find_set_up(endpoint, &key, &cookie.addresses, to, Some(cookie.peer_tag)))
}

/// Returns the local address that a datagram came to.
pub(super) fn arrived_at(datagram: &Datagram<'_>) -> Option<IpAddr> {
    datagram.destination.map(|to| zone::arrived_at(to, datagram.source.ip()))
}

/// True if a set-up at the local address is one of the association's peer: the association has the address, or has
/// deleted it (RFC 5061), as far as that is known: the port's listener has it, and others that the association has too.
/// A peer that has lost its state doesn't know of the deletion.
fn takes_set_up(endpoint: &Endpoint, association: &Association, destination: Option<IpAddr>) -> bool {
    let listens = |address| endpoint.ports.listens_at(association.local_port, address);
    let may_have_deleted = || {
        let flags = association.flags();
        // One that the application has bound to addresses may never have had this one.
        !flags.bound
            && !association.state.in_setup()
            && association.features.has(Extensions::DYNAMIC_ADDRESSES)
    };
    let shares_others = || association.paths.local().iter().any(|own| listens(Some(*own)));
    association.paths.is_at(destination) || may_have_deleted() && listens(destination) && shares_others()
}

/// Returns the association that an address identifies which an INIT lists besides its source, as
/// [`zone::key`](crate::zone::key) returns it. Other than with [`Endpoint::find`], the peer must have confirmed it.
#[must_use]
pub fn find_named(
    endpoint: &Endpoint,
    local_port: u16,
    address: IpAddr,
    peer_port: u16,
) -> Option<AssociationId> {
    let confirmed = |_: &Association, path: &Path| path.state != PathState::Unconfirmed;
    let slot = find_by_path(endpoint, &PeerKey { address, peer_port, local_port }, confirmed)?;
    endpoint.table.at(slot).map(|association| association.id)
}

/// Returns the association with the address and ports whose path is admitted; first one whose path is confirmed.
fn find_by_path(
    endpoint: &Endpoint,
    key: &PeerKey,
    admits: impl Fn(&Association, &Path) -> bool,
) -> Option<u32> {
    let unconfirmed = Cell::new(None);
    let matches = |entry: u32| {
        let found = endpoint.table.at(demux::slot_of(entry)).zip(path_of(entry));
        let Some((association, index)) = found else { return false };
        if key_of(association, index).is_none_or(|found| found != *key) {
            return false;
        }
        let path = association.paths.get(index);
        let is_confirmed = path.state != PathState::Unconfirmed;
        if !is_confirmed && admits(association, path) {
            unconfirmed.set(Some(entry));
        }
        is_confirmed && admits(association, path)
    };
    endpoint.demux.by_peer(key, matches).or_else(|| unconfirmed.get()).map(demux::slot_of)
}
