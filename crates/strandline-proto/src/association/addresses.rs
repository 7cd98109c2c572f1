//! Changes of an association's addresses, the peer's and its own, while it is established. [`asconf`](super::asconf)
//! makes them for the peer's requests, and announces ours.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::abandon::update_t3_rtx;
use super::asconf_state::{is_withheld, move_path};
use super::context::{EndpointContext, is_unicast};
use super::features::Extensions;
use super::{Association, sack_size};
use crate::config::PATHS_MAX;
use crate::error::PathError;
use crate::event::PathChange;
use crate::outbound::partial::forward_again;
use crate::path::Path;
use crate::path_index::PathIndex;
use crate::time::Time;
use crate::zone::{self, is_same};

/// Adds an address of the peer. Data is sent to it once it has answered a HEARTBEAT (RFC 9260 section 5.4).
/// Does nothing if the peer has the address.
pub(crate) fn add_path(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    address: IpAddr,
) -> Result<(), PathError> {
    if !association.state.heartbeats() {
        return Err(PathError::NotEstablished);
    }
    if !is_unicast(address) {
        return Err(PathError::NotUnicast { address });
    }
    if association.paths.by_address(address).is_some() {
        return Ok(());
    }
    let port = association.paths.get(association.paths.primary()).remote.port();
    add_path_at(association, cx, now, SocketAddr::new(address, port))
}

/// Adds an address of the peer, which is unicast and not one of its, with its encapsulation port. HEARTBEATs confirm it
/// unless the shutdown has begun.
pub(super) fn add_path_at(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    remote: SocketAddr,
) -> Result<(), PathError> {
    let config = Arc::clone(&association.config);
    let mut path = Path::new(remote, None, &config, cx.link_to(remote.ip()), now);
    if association.state.heartbeats() {
        path.start_heartbeats(now, cx.rng_word(), &config);
    }
    let index = association.paths.add(path).ok_or(PathError::TooMany)?;
    association.flags.added.insert(index);
    choose_sources(association);
    association.on_path_change(cx, index, PathChange::Added);
    Ok(())
}

/// Removes an address of the peer. What was in flight there is retransmitted on another path, and if it was the primary
/// path, the best other one becomes primary.
pub(crate) fn remove_path(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    index: PathIndex,
) -> Result<(), PathError> {
    if association.state.in_setup() || association.state.is_closed() {
        return Err(PathError::NotEstablished);
    }
    if !association.paths.confirmed_other_than(index) {
        return Err(PathError::LastAddress);
    }
    detach_path(association, cx, now, (index, None));
    Ok(())
}

/// Removes an address that the peer has deleted. If no other one is confirmed, `heir` becomes the primary
/// path, and data waits until it is confirmed.
pub(super) fn remove_path_of_peer(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    index: PathIndex,
    heir: PathIndex,
) {
    detach_path(association, cx, now, (index, Some(heir)));
}

fn detach_path(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    (index, heir): (PathIndex, Option<PathIndex>),
) {
    let was_primary = association.paths.primary() == index;
    association.on_path_change(cx, index, PathChange::Removed);
    if !association.paths.remove(index, heir) {
        return;
    }
    association.flags.added.remove(index);
    let other = association.paths.data_path().unwrap_or(association.paths.primary());
    let round_trip = association.paths.get(other).rto.srtt();
    association.outbound.move_path(index, other, round_trip);
    association.flags.burst_open = true;
    sack_size::forget(association, |proof| proof.path() == index);
    if let Some(ecn) = &mut association.ecn {
        ecn.forget(index);
    }
    if association.sack_path == index {
        association.sack_path = other;
    }
    if was_primary {
        association.on_path_change(cx, association.paths.primary(), PathChange::Primary);
    }
    move_path(association, index, other);
    // Nothing else would repeat a FORWARD TSN that went there.
    forward_again(&mut association.outbound);
    update_t3_rtx(association, now);
    association.move_control(cx, now, index, other);
    association.assert_flights();
}

/// Sets the association's own local addresses, which INIT and INIT ACK list from now on and which packets must be sent
/// to; with none it has those of its endpoint. Paths whose source address is no longer one of them get another one.
pub(crate) fn set_local(association: &mut Association, addresses: &[IpAddr]) -> Result<(), PathError> {
    let mut local: Vec<IpAddr> = Vec::new();
    for &address in addresses {
        if !is_unicast(address) {
            return Err(PathError::NotUnicast { address });
        }
        if !local.contains(&address) {
            local.push(address);
        }
    }
    if local.len() > PATHS_MAX {
        return Err(PathError::TooMany);
    }
    association.paths.set_local(local);
    reset_sources(association);
    Ok(())
}

/// Lets an association that has the local addresses of its endpoint keep `listed`, which these were until now: the peer
/// knows them. It matters only for changes by ASCONF. An address at which packets arrive is one of them, too.
pub(crate) fn keep_local(association: &mut Association, listed: &[IpAddr]) {
    let may_change = association.state.in_setup() || association.features.has(Extensions::DYNAMIC_ADDRESSES);
    if listed.is_empty() || !may_change || !association.paths.local().is_empty() {
        return;
    }
    let mut local = listed.to_vec();
    for (_, path) in association.paths.iter() {
        let known = |address| local.iter().any(|own| is_same(*own, address));
        if let Some(address) = path.local.filter(|address| !known(*address))
            && local.len() < PATHS_MAX
        {
            local.push(address);
        }
    }
    association.paths.set_local(local);
}

/// Gives another source address to paths whose own is no longer one of the association's, or is being added or deleted.
pub(super) fn reset_sources(association: &mut Association) {
    for index in association.paths.indices() {
        let source = association.paths.get(index).local;
        let withheld = source.is_some_and(|source| is_withheld(association, source));
        if withheld || !association.paths.is_at(source) {
            association.paths.get_mut(index).local = None;
        }
    }
    choose_sources(association);
}

/// Gives each path without a source address one of the association's own local addresses, the one that has most leading
/// bits in common with the destination. The system might choose another one.
pub(crate) fn choose_sources(association: &mut Association) {
    if association.paths.local().is_empty() {
        return;
    }
    let usable = association.paths.local().iter().copied();
    let usable: Vec<IpAddr> = usable.filter(|own| !is_withheld(association, *own)).collect();
    for index in association.paths.indices() {
        let path = association.paths.get(index);
        let source = path.local.or_else(|| nearest(&usable, path.remote.ip()));
        association.paths.get_mut(index).local = source;
    }
}

/// Returns the address that is nearest to another one of the same family.
pub(super) fn nearest(addresses: &[IpAddr], to: IpAddr) -> Option<IpAddr> {
    let common = |address: &IpAddr| match (zone::bare(*address).to_canonical(), zone::bare(to).to_canonical())
    {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
    };
    let near = addresses.iter().rev().filter_map(|address| Some((common(address)?, *address)));
    near.max_by_key(|(bits, _)| *bits).map(|(_, address)| zone::bare(address))
}
