//! Changes of an association's addresses, the peer's and its own, while it is established. The chunks of RFC 5061 that
//! announce such changes are not implemented: whoever makes them has to see to it that both sides agree.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::Association;
use super::context::{Shared, is_unicast};
use crate::config::PATHS_MAX;
use crate::error::PathError;
use crate::event::PathChange;
use crate::path::Path;
use crate::path_index::PathIndex;
use crate::time::Time;
use crate::zone;

/// Adds an address of the peer. Data is sent to it once it has answered a HEARTBEAT (RFC 9260 section 5.4). Does nothing
/// if the peer has the address.
pub(crate) fn add_path(
    association: &mut Association,
    cx: &mut Shared,
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
    let config = Arc::clone(&association.config);
    let port = association.paths.get(association.paths.primary()).remote.port();
    let remote = SocketAddr::new(address, port);
    let mut path = Path::new(remote, None, &config, cx.link_to(address), now);
    path.start_heartbeats(now, cx.rng_word(), &config);
    association.paths.add(path).map(|_| ()).ok_or(PathError::TooMany)
}

/// Removes an address of the peer. What was in flight there is retransmitted on another path, and if it was the primary
/// path, the best other one becomes primary.
pub(crate) fn remove_path(
    association: &mut Association,
    cx: &mut Shared,
    now: Time,
    index: PathIndex,
) -> Result<(), PathError> {
    if association.state.in_setup() || association.state.is_closed() {
        return Err(PathError::NotEstablished);
    }
    let was_primary = association.paths.primary() == index;
    if !association.paths.confirmed_other_than(index) {
        return Err(PathError::LastAddress);
    }
    association.on_path_change(cx, index, PathChange::Removed);
    let _ = association.paths.remove(index);
    let other = association.paths.data_path().unwrap_or(association.paths.primary());
    association.outbound.move_path(index, other);
    association.flags.burst_open = true;
    association.proof.take_if(|proof| proof.path() == index);
    if let Some(ecn) = &mut association.ecn {
        ecn.forget(index);
    }
    if association.sack_path == index {
        association.sack_path = other;
    }
    if was_primary {
        association.on_path_change(cx, association.paths.primary(), PathChange::Primary);
    }
    association.move_control(cx, now, index, other);
    association.assert_flights();
    Ok(())
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
    for index in association.paths.indices() {
        let source = association.paths.get(index).local;
        if !association.paths.is_at(source) {
            association.paths.get_mut(index).local = None;
        }
    }
    choose_sources(association);
    Ok(())
}

/// Gives each path without a source address one of the association's own local addresses, the one that has most leading
/// bits in common with the destination. The system might choose another one.
pub(crate) fn choose_sources(association: &mut Association) {
    if association.paths.local().is_empty() {
        return;
    }
    for index in association.paths.indices() {
        let path = association.paths.get(index);
        let source = path.local.or_else(|| nearest(association.paths.local(), path.remote.ip()));
        association.paths.get_mut(index).local = source;
    }
}

/// Returns the address that is nearest to another one of the same family.
fn nearest(addresses: &[IpAddr], to: IpAddr) -> Option<IpAddr> {
    let common = |address: &IpAddr| match (zone::bare(*address).to_canonical(), zone::bare(to).to_canonical())
    {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
    };
    let near = addresses.iter().rev().filter_map(|address| Some((common(address)?, *address)));
    near.max_by_key(|(bits, _)| *bits).map(|(_, address)| zone::bare(address))
}
