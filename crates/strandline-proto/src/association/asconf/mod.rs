//! Dynamic address reconfiguration (RFC 5061): either side adds addresses of its own, deletes some, and says which one
//! the other side should send to. All of it is authenticated (RFC 4895).
//!
//! | file | concern |
//! |---|---|
//! | [`request`] | our requests: begun by the application, sent one ASCONF at a time, answered |
//! | [`answer`] | the peer's requests |
//!
//! A local address that is being added is accepted as a destination, and no packet but an ASCONF comes from
//! it. One that is being deleted is still accepted, and no packet comes from it any more. If that leaves no
//! source address, or no confirmed address of the peer is left, everything but ASCONF, ASCONF-ACK and
//! HEARTBEAT waits ([`update_hold`]).

mod answer;
mod request;

use core::net::{IpAddr, SocketAddr};

use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::{Packet, RawChunk};

pub(super) use self::request::{end, on_timer, on_unknown_chunk};
pub(crate) use self::request::{lasting, note_local, request};
use super::addresses::{nearest, reset_sources};
use super::asconf_state::{ANSWERS_MAX, DynamicAddresses, is_withheld, state_mut};
use super::context::EndpointContext;
use super::{Association, State, auth};
use crate::event::PathChange;
use crate::path::PathState;
use crate::path_index::PathIndex;
use crate::time::Time;

/// Maximum number of ASCONF chunks processed per packet.
pub(super) const ASCONFS_MAX: u8 = ANSWERS_MAX as u8;

/// Returns the state, which is created at first use.
fn state_or_new(association: &mut Association) -> &mut DynamicAddresses {
    let (own, peers) = (association.initial_tsn, association.peer_initial_tsn);
    let extras = association.extras.get_or_insert_default();
    extras.dynamic.get_or_insert_with(|| Box::new(DynamicAddresses::new(own, peers)))
}

/// True in the states in which both chunks may be sent (section 5.1.1 rule C4).
fn may_change(association: &Association) -> bool {
    matches!(
        association.state,
        State::Established | State::ShutdownPending | State::ShutdownReceived | State::ShutdownSent { .. }
    )
}

/// Processes an ASCONF or ASCONF-ACK chunk that is authenticated. `source` is where it comes from, `from` its
/// path if it is one of the peer's addresses. `before` is the number of ASCONF chunks before it in the
/// packet. Returns false if the rest of the packet is discarded.
pub(super) fn on_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    raw: &RawChunk<'_>,
    source: SocketAddr,
    before: u8,
) -> bool {
    let known = association.paths.by_address(source.ip()).is_some();
    if association.state.in_setup() {
        return true;
    }
    match raw.parse() {
        Ok(Chunk::Asconf(_)) if !may_change(association) => {}
        Ok(Chunk::Asconf(asconf)) => {
            // Section 5.2 rule D2.
            if !known && !names(association, asconf.address) {
                return false;
            }
            answer::on_asconf(association, cx, now, &asconf, source, before);
        }
        // If both sides replace their only addresses at once, each answers from one that the other has deleted.
        Ok(Chunk::AsconfAck(ack)) if known || request::is_awaited(association, ack.number) => {
            request::on_ack(association, cx, now, &ack);
        }
        // "The host name address ... MUST be ignored" (section 4.1.1).
        Err(_) if raw.kind == kind::ASCONF && has_host_name(raw) => {}
        Ok(_) => {}
        Err(_) => {
            association.abort_for_violation(cx, now, "ASCONF or ASCONF-ACK with a wrong length or address")
        }
    }
    !association.state.is_closed()
}

/// True if the Address Parameter of an ASCONF is a Host Name Address.
fn has_host_name(raw: &RawChunk<'_>) -> bool {
    let kind = raw.value.get(4..).and_then(|rest| rest.first_chunk::<2>());
    kind.is_some_and(|kind| u16::from_be_bytes(*kind) == strandline_wire::parameter::kind::HOST_NAME)
}

/// True if the address is one of the peer's, or none, so that the verification tag alone names the association (section
/// 4.1.1).
fn names(association: &Association, address: IpAddr) -> bool {
    let is_its =
        || association.paths.by_address(address).or_else(|| association.paths.in_any_zone(address)).is_some();
    address.is_unspecified() || is_its()
}

/// True if a packet from an address that is not one of the peer's may be for the association all the same: it
/// begins with AUTH and ASCONF chunks, and the first of these names the association (section 5.2 rules D2 and
/// D2-ext), or it answers the outstanding request.
pub(crate) fn may_come_from_anywhere(association: &Association, packet: &Packet<'_>) -> bool {
    if association.state.in_setup() || !may_change(association) {
        return false;
    }
    let is_either = |raw: &RawChunk<'_>| matches!(raw.kind, kind::ASCONF | kind::ASCONF_ACK);
    let chunks = packet.chunks().map_while(Result::ok).filter(is_either);
    chunks.take(usize::from(ASCONFS_MAX)).any(|raw| match raw.parse() {
        Ok(Chunk::Asconf(asconf)) => names(association, asconf.address),
        Ok(Chunk::AsconfAck(ack)) => request::is_awaited(association, ack.number),
        _ => false,
    })
}

/// Sends the answers that are owed, in one packet to where the requests came from (section 5.2 rules E6 and E7).
#[cold]
pub(super) fn flush(association: &mut Association, cx: &mut EndpointContext, source: SocketAddr) {
    answer::flush(association, cx, source);
}

/// Updates whether packets wait because no local address may be their source, or because no address of the peer is
/// confirmed. Called after every change of either.
pub(super) fn update_hold(association: &mut Association) {
    let sourceless = association.paths.iter().any(|(_, path)| has_no_source(association, path.remote.ip()));
    let unconfirmed = association.paths.iter().all(|(_, path)| path.state == PathState::Unconfirmed);
    let held = association.flags.held;
    association.flags.sourceless = sourceless;
    association.flags.held = sourceless || unconfirmed;
    association.flags.burst_open |= held && !association.flags.held;
}

/// True if all local addresses of the family of a peer's address are being added or deleted.
fn has_no_source(association: &Association, to: IpAddr) -> bool {
    let mut own = association.paths.local().iter().filter(|own| nearest(&[**own], to).is_some()).peekable();
    own.peek().is_some() && own.all(|own| is_withheld(association, *own))
}

/// Takes over a change of the local addresses or of what may be a source.
fn on_local_changed(association: &mut Association) {
    reset_sources(association);
    update_hold(association);
}

/// Continues after an address of the peer was confirmed.
#[cold]
pub(super) fn on_confirmed(association: &mut Association, cx: &mut EndpointContext, index: PathIndex) {
    update_hold(association);
    let address = association.paths.get(index).remote.ip();
    let Some(dynamic) = state_mut(association) else { return };
    if dynamic.wanted_primary.take_if(|wanted| *wanted == address).is_some() {
        make_primary(association, cx, index);
    }
}

/// Makes a path the primary one because the peer asked for it.
fn make_primary(association: &mut Association, cx: &mut EndpointContext, index: PathIndex) {
    if association.paths.primary() != index && association.paths.set_primary(index) {
        association.on_path_change(cx, index, PathChange::Primary);
    }
}

/// Follows the peer's wish for a primary address in its INIT or INIT ACK (section 5.4), now or once the
/// address is confirmed.
pub(super) fn prefer(association: &mut Association, primary: Option<IpAddr>) {
    let Some(index) = primary.and_then(|address| association.paths.by_address(address)) else { return };
    let path = association.paths.get(index);
    let (confirmed, address) = (path.state != PathState::Unconfirmed, path.remote.ip());
    if confirmed {
        association.paths.set_primary(index);
    } else {
        state_or_new(association).wanted_primary = Some(address);
    }
}

/// Returns the number of bytes that a packet of these chunks leaves for authentication.
fn reserve(association: &Association) -> usize {
    auth::reserve_for(association, &[kind::ASCONF, kind::ASCONF_ACK])
}
