//! Look-up of associations by an address of the peer and the ports. Several associations may have one
//! address: a peer may list any (decision 159).

use core::cell::Cell;
use core::net::IpAddr;

use super::demux::{self, PeerKey, path_of};
use super::{Endpoint, key_of};
use crate::association::Association;
use crate::event::AssociationId;
use crate::path::{Path, PathState};

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

/// Returns the association that one of the addresses in an INIT identifies, besides its source. Only a
/// confirmed address does: one that a peer merely lists may be another host's (section 5.4), or one of many
/// private networks, and would keep that host's INITs out (RFC 5062 section 2).
pub(super) fn find_by_named(endpoint: &Endpoint, key: &PeerKey, named: &[IpAddr]) -> Option<u32> {
    let confirmed = |_: &Association, path: &Path| path.state != PathState::Unconfirmed;
    let mut keys = named.iter().map(|address| PeerKey { address: *address, ..*key });
    keys.find_map(|key| find_by_path(endpoint, &key, confirmed))
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
    let slot = find_by_named(endpoint, &PeerKey { address, peer_port, local_port }, &[address])?;
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
