//! Our requests (RFC 5061 sections 5.1 and 5.3).

use core::net::{IpAddr, Ipv4Addr};
use std::collections::VecDeque;
use std::sync::Arc;

use strandline_wire::cause::{Cause, Causes, RawCause, code};
use strandline_wire::chunk::{Asconf, AsconfAck, kind};
use strandline_wire::parameter::Parameters;
use strandline_wire::parameter::asconf::AsconfParameter;
use strandline_wire::{TlvWriter, write_checksum};

use super::super::Association;
use super::super::addresses::nearest;
use super::super::asconf_state::{Outstanding, is_to_be_deleted, is_withheld, state_mut, state_of};
use super::super::build::finish_control;
use super::super::context::{EndpointContext, Route, is_unicast};
use super::super::error_counts::UNANSWERED;
use super::super::features::Extensions;
use super::super::offer::encode_cause;
use super::{may_change, on_local_changed, reserve, state_or_new};
use crate::config::PATHS_MAX;
use crate::dynamic_addresses::{AddressOutcome, AddressRequest};
use crate::error::AddressError;
use crate::event::{CloseReason, Event};
use crate::number::AsconfNumber;
use crate::packet_sizes::CONTROL_PACKET_LEN_MAX;
use crate::path_index::PathIndex;
use crate::time::Time;
use crate::zone::{self, is_same};

/// Length in bytes of the longest parameters of an ASCONF of ours.
const PARAMETERS_LEN_MAX: usize = 8 * 28;

/// Notes the address at which a packet arrived, as the source of packets on its path, if it is not known: the system
/// might choose an address that is being added or deleted.
#[cold]
pub(crate) fn note_local(association: &mut Association, path: PathIndex, local: IpAddr) {
    if association.paths.get(path).local.is_none() && !is_withheld(association, local) {
        association.paths.get_mut(path).local = Some(zone::bare(local));
    }
}

/// Returns the local addresses of the association as far as they are known.
fn known_local(association: &Association, cx: &EndpointContext) -> Vec<IpAddr> {
    let listed = cx.local_addresses(association.paths.local());
    if !listed.is_empty() {
        return listed.to_vec();
    }
    let mut local = Vec::new();
    for address in association.paths.iter().filter_map(|(_, path)| path.local) {
        if !local.contains(&address) {
            local.push(address);
        }
    }
    local
}

/// Returns the known local addresses that the peer is not asked to delete; none if it can't be asked for anything.
pub(crate) fn lasting(association: &Association, cx: &EndpointContext) -> Vec<IpAddr> {
    let can_ask = association.state.heartbeats() && association.features.has(Extensions::DYNAMIC_ADDRESSES);
    let known = if can_ask { known_local(association, cx) } else { Vec::new() };
    known.into_iter().filter(|own| !is_to_be_deleted(association, *own)).collect()
}

/// Asks the peer for changes, in this order.
pub(crate) fn request(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    requests: &[AddressRequest],
) -> Result<(), AddressError> {
    if !association.state.heartbeats() {
        return Err(AddressError::NotEstablished);
    }
    if !association.features.has(Extensions::DYNAMIC_ADDRESSES) {
        return Err(AddressError::NotSupported);
    }
    let before = known_local(association, cx);
    let after = check(association, &before, requests)?;
    let changes = requests.iter().any(|request| {
        !matches!(request, AddressRequest::SetPrimary(_)) && !request.address().is_unspecified()
    });
    for request in requests {
        if let AddressRequest::Add(address) = request {
            cx.host_addresses.insert(*address);
        }
    }
    state_or_new(association).queue.extend(requests);
    if changes {
        association.paths.set_local(after);
        on_local_changed(association);
    }
    send_next(association, cx, now);
    Ok(())
}

/// Checks requests against the local addresses, and returns these with the ones that are added.
fn check(
    association: &Association,
    before: &[IpAddr],
    requests: &[AddressRequest],
) -> Result<Vec<IpAddr>, AddressError> {
    let dynamic = state_of(association);
    let refused = dynamic.map(|dynamic| dynamic.refused).unwrap_or_default();
    if dynamic.is_some_and(|dynamic| !dynamic.takes(requests.len()))
        || requests.len() > crate::dynamic_addresses::REQUESTS_MAX
    {
        return Err(AddressError::TooMany);
    }
    let mut all = before.to_vec();
    let leaving = |address: &IpAddr| is_to_be_deleted(association, *address);
    let mut left: Vec<IpAddr> = before.iter().copied().filter(|address| !leaving(address)).collect();
    for request in requests {
        let address = request.address();
        let unknown = match request {
            AddressRequest::SetPrimary(_) => refused.primary,
            AddressRequest::Add(_) | AddressRequest::Delete(_) => refused.changes,
        };
        if refused.chunk || unknown {
            return Err(AddressError::NotSupported);
        }
        if address.is_unspecified() {
            continue;
        }
        if !is_unicast(address) {
            return Err(AddressError::NotUnicast { address });
        }
        if before.is_empty() {
            return Err(AddressError::LocalUnknown);
        }
        let has = |list: &[IpAddr]| list.iter().any(|own| is_same(*own, address));
        match request {
            AddressRequest::Add(_) if has(&all) => return Err(AddressError::AlreadyLocal { address }),
            AddressRequest::Add(_) if all.len() >= PATHS_MAX => return Err(AddressError::TooMany),
            AddressRequest::Add(_) => {
                all.push(address);
                left.push(address);
            }
            _ if !has(&left) => return Err(AddressError::NotLocal { address }),
            // Section 5.3 rule F5.
            AddressRequest::Delete(_) if left.len() == 1 => {
                return Err(AddressError::LastAddress { address });
            }
            AddressRequest::Delete(_) => left.retain(|own| !is_same(*own, address)),
            AddressRequest::SetPrimary(_) => {}
        }
    }
    Ok(all)
}

/// Returns the number of waiting requests that can be sent next, before the first one that would delete the
/// last address: an address that was to be added before was refused (section 5.3 rule F5).
fn count_sendable(queue: &VecDeque<AddressRequest>, local: &[IpAddr]) -> usize {
    let is_queued = |own: &&IpAddr| {
        queue.iter().any(|request| matches!(request, AddressRequest::Add(a) if is_same(*a, **own)))
    };
    let mut left: Vec<IpAddr> = local.iter().filter(|own| !is_queued(own)).copied().collect();
    let sendable = queue.iter().take_while(|request| match request {
        AddressRequest::Add(address) => {
            left.push(*address);
            true
        }
        AddressRequest::Delete(address) if !address.is_unspecified() => {
            left.retain(|own| !is_same(*own, *address));
            !left.is_empty()
        }
        AddressRequest::Delete(_) | AddressRequest::SetPrimary(_) => true,
    });
    sendable.count()
}

/// Refuses waiting requests that would delete the last address. Returns the number of those that can be sent.
fn refuse_last(association: &mut Association, cx: &mut EndpointContext) -> usize {
    loop {
        let local = known_local(association, cx);
        let Some(dynamic) = state_mut(association) else { return 0 };
        let sendable = count_sendable(&dynamic.queue, &local);
        if sendable > 0 {
            return sendable;
        }
        let Some(request) = dynamic.queue.pop_front() else { return 0 };
        conclude(association, cx, request, AddressOutcome::Refused { code: code::DELETE_LAST_ADDRESS });
    }
}

/// Sends the next ASCONF, if there are requests and none is outstanding (section 5.1 rule A3).
fn send_next(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    if !may_change(association) || state_of(association).is_none_or(|dynamic| dynamic.sent.is_some()) {
        return;
    }
    let sendable = refuse_last(association, cx);
    if sendable == 0 {
        return;
    }
    let local = known_local(association, cx);
    let path = association.paths.data_path().unwrap_or(association.paths.primary());
    let Some(dynamic) = state_of(association) else { return };
    // Section 5.3.2: an address that the peer knows. One that is being deleted is one.
    let is_new = |address: &IpAddr| {
        dynamic.requests().any(|request| matches!(request, AddressRequest::Add(a) if is_same(a, *address)))
    };
    let source = association.paths.get(path).local.filter(|local| !is_new(local));
    let address = source.or_else(|| local.iter().copied().find(|address| !is_new(address)));
    let address = address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), zone::bare);
    let Some(dynamic) = state_mut(association) else { return };
    let number = dynamic.next;
    dynamic.next = number.next();
    let requests = dynamic.take_requests(sendable);
    dynamic.sent = Some(Outstanding { number, address, requests, path, attempts: 0 });
    on_local_changed(association);
    transmit(association, cx, now);
}

/// Sends the outstanding ASCONF, and starts the T-4 RTO timer (section 5.1 rules A4, B4 and B5).
fn transmit(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let Some(dynamic) = state_of(association) else { return };
    let Some(sent) = &dynamic.sent else { return };
    let path = association.paths.get(sent.path);
    let sources = sources(association, sent);
    let index = usize::from(sent.attempts).checked_rem(sources.len());
    let source = match index.and_then(|index| sources.get(index)) {
        Some(source) => Some(*source),
        None => path.local,
    };
    let route = Route { destination: path.remote, source };
    let rto = path.rto.rto().min(association.config.rto_max);
    let mut buffer = [0; PARAMETERS_LEN_MAX];
    let mut writer = TlvWriter::new(&mut buffer);
    for (id, request) in &sent.requests {
        let _ = writer.push(&parameter_of(*id, *request));
    }
    let asconf =
        Asconf { number: sent.number, address: sent.address, parameters: Parameters::new(writer.finish()) };
    let reserve = reserve(association);
    cx.control.push(route, CONTROL_PACKET_LEN_MAX, |buffer| write(association, buffer, reserve, &asconf));
    association.stats.packets_sent += 1;
    let Some(dynamic) = state_mut(association) else { return };
    dynamic.deadline = now + rto;
}

/// Writes the packet. It always has a checksum, also if the peer accepts zero (RFC 9653 section 5.2 rule 3).
#[cold]
fn write(association: &Association, buffer: &mut [u8], reserve: usize, asconf: &Asconf<'_>) -> usize {
    let len = finish_control(association, buffer, reserve, |packet| packet.push(asconf));
    if len > 0
        && let Some(packet) = buffer.get_mut(..len)
    {
        write_checksum(packet);
    }
    len
}

fn parameter_of(id: u32, request: AddressRequest) -> AsconfParameter<'static> {
    match request {
        AddressRequest::Add(address) => AsconfParameter::AddIp { id, address: zone::bare(address) },
        AddressRequest::Delete(address) => AsconfParameter::DeleteIp { id, address: zone::bare(address) },
        AddressRequest::SetPrimary(address) => {
            AsconfParameter::SetPrimary { id, address: zone::bare(address) }
        }
    }
}

/// Returns the local addresses that an ASCONF may come from, the best one first: those of the association,
/// then those that it adds, which may be the only ones that still work (section 5.3 rules F1 and F6).
fn sources(association: &Association, sent: &Outstanding) -> Vec<IpAddr> {
    let path = association.paths.get(sent.path);
    let destination = path.remote.ip();
    let fits = |address: &IpAddr| nearest(&[*address], destination).is_some();
    let usable = association.paths.local().iter().copied().filter(|own| !is_withheld(association, *own));
    let mut usable: Vec<IpAddr> = usable.filter(fits).map(zone::bare).collect();
    usable.sort_by_key(|own| path.local != Some(*own));
    let deletes = |address: IpAddr| {
        sent.requests
            .iter()
            .any(|(_, request)| matches!(request, AddressRequest::Delete(a) if is_same(*a, address)))
    };
    let added = sent.requests.iter().filter_map(|(_, request)| match request {
        AddressRequest::Add(address) if !address.is_unspecified() && !deletes(*address) => Some(*address),
        _ => None,
    });
    usable.into_iter().chain(added.filter(fits).map(zone::bare)).collect()
}

/// True if an ASCONF with this number is outstanding.
pub(super) fn is_awaited(association: &Association, number: AsconfNumber) -> bool {
    let sent = state_of(association).and_then(|dynamic| dynamic.sent.as_ref());
    sent.is_some_and(|sent| sent.number == number)
}

/// Processes an ASCONF-ACK.
pub(super) fn on_ack(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    ack: &AsconfAck<'_>,
) {
    let dynamic = state_or_new(association);
    // Section 5.3 rule F0, section 4.3.4.
    if ack.number.is_at_or_after(dynamic.next) {
        let causes = encode_cause(&Cause::IllegalAsconfAck);
        association.send_abort(cx, &causes);
        return association.end(cx, now, CloseReason::ProtocolViolation("illegal ASCONF-ACK"));
    }
    if ack.responses.iter().any(|raw| raw.is_err()) {
        return association.abort_for_violation(cx, now, "ASCONF-ACK with a wrong length of a response");
    }
    let Some(sent) = dynamic.sent.take_if(|sent| sent.number == ack.number) else { return };
    dynamic.deadline = Time::MAX;
    // Section 5.1 rule A5.
    association.errors.total = 0;
    if association.paths.contains(sent.path) {
        if let Some(change) = association.paths.get_mut(sent.path).on_answer() {
            association.on_path_change(cx, sent.path, change);
        }
        association.probe_unconfirmed(cx, now, sent.path);
    }
    let mut failed = None;
    for (id, request) in sent.requests {
        let outcome = match response(ack.responses, id) {
            Some(Response::Success) => AddressOutcome::Performed,
            Some(Response::Error(code)) => AddressOutcome::Refused { code },
            // Rules A7 and A8.
            None => failed.map_or(AddressOutcome::Performed, |code| AddressOutcome::Refused { code }),
        };
        if let AddressOutcome::Refused { code } = outcome {
            failed.get_or_insert(code);
        }
        conclude(association, cx, request, outcome);
    }
    on_local_changed(association);
    send_next(association, cx, now);
}

/// A response to one request.
enum Response {
    Success,
    /// With this cause code.
    Error(u16),
}

/// Returns the response with a correlation ID. What does not belong into an ASCONF-ACK is ignored (section 4.2).
fn response(responses: Parameters<'_>, wanted: u32) -> Option<Response> {
    responses.iter().flatten().find_map(|raw| match raw.parse_asconf()? {
        Ok(AsconfParameter::Success { id }) if id == wanted => Some(Response::Success),
        Ok(AsconfParameter::Error { id, causes }) if id == wanted => {
            Some(Response::Error(first_code(causes)))
        }
        _ => None,
    })
}

/// Returns the code of the first cause; 0 if there is none.
fn first_code(causes: &[u8]) -> u16 {
    Causes::new(causes).iter().flatten().next().map_or(0, |raw| raw.code)
}

/// Applies the answer to one of our requests.
fn conclude(
    association: &mut Association,
    cx: &mut EndpointContext,
    request: AddressRequest,
    outcome: AddressOutcome,
) {
    let is_done = outcome == AddressOutcome::Performed;
    let removed = match request {
        // Rules F10 and F13.
        AddressRequest::Add(address) if !is_done => Some(address),
        AddressRequest::Delete(address) if is_done => Some(address),
        _ => None,
    };
    if let Some(address) = removed.filter(|address| !address.is_unspecified()) {
        let mut local = association.paths.local().to_vec();
        local.retain(|own| !is_same(*own, address));
        if !local.is_empty() {
            association.paths.set_local(local);
        }
    }
    let mut outcome = outcome;
    if let AddressOutcome::Refused { code: code::UNRECOGNISED_PARAMETERS } = outcome {
        // Rules F3a and F3b.
        outcome = AddressOutcome::NotSupported;
        if let Some(dynamic) = state_mut(association) {
            match request {
                AddressRequest::SetPrimary(_) => dynamic.refused.primary = true,
                AddressRequest::Add(_) | AddressRequest::Delete(_) => dynamic.refused.changes = true,
            }
        }
    }
    cx.event(association.id, Event::AddressRequest { request, outcome });
}

/// Ends all requests because the association ends or restarts. Local addresses stay: an INIT ACK may have listed them.
#[cold]
pub(in super::super) fn end(association: &mut Association, cx: &mut EndpointContext) {
    let Some(extras) = &mut association.extras else { return };
    let Some(dynamic) = extras.dynamic.take() else { return };
    for request in dynamic.requests() {
        cx.event(association.id, Event::AddressRequest { request, outcome: AddressOutcome::Failed });
    }
}

/// Handles an expiry of the T-4 RTO timer (section 5.1 rules B1 to B5).
#[cold]
pub(in super::super) fn on_timer(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let may_change = may_change(association);
    let Some(dynamic) = state_mut(association) else { return };
    dynamic.deadline = Time::MAX;
    let Some(sent) = &mut dynamic.sent else { return };
    if !may_change {
        return;
    }
    sent.attempts = sent.attempts.saturating_add(1);
    let (attempts, index) = (sent.attempts, sent.path);
    association.errors.total = association.errors.total.saturating_add(1);
    if association.errors.total.max(attempts) > association.config.association_retrans_max {
        return association.give_up(cx, now, UNANSWERED);
    }
    let config = Arc::clone(&association.config);
    let path = association.paths.get_mut(index);
    path.rto.back_off(&config);
    let change = path.on_error(&config);
    association.on_path_error(cx, index, change);
    let other = association.paths.alternate(index).unwrap_or(index);
    if let Some(sent) = state_mut(association).and_then(|dynamic| dynamic.sent.as_mut()) {
        sent.path = other;
    }
    transmit(association, cx, now);
}

/// Handles an error cause of the peer. If it is about an ASCONF, which the peer does not know, no more are
/// sent (section 5.1 rule A9).
#[cold]
pub(in super::super) fn on_unknown_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    cause: &RawCause<'_>,
) {
    if cause.code != code::UNRECOGNISED_CHUNK || cause.value.first() != Some(&kind::ASCONF) {
        return;
    }
    let Some(dynamic) = state_mut(association) else { return };
    if dynamic.sent.is_none() {
        return;
    }
    dynamic.refused.chunk = true;
    dynamic.deadline = Time::MAX;
    let requests: Vec<AddressRequest> = dynamic.requests().collect();
    (dynamic.sent, _) = (None, dynamic.queue.clear());
    for request in requests {
        conclude(association, cx, request, AddressOutcome::NotSupported);
    }
    on_local_changed(association);
}
