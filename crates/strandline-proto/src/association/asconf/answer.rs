//! Requests of the peer (RFC 5061 sections 5.2 to 5.4).

use core::net::{IpAddr, SocketAddr};

use strandline_wire::TlvWriter;
use strandline_wire::UnrecognisedAction;
use strandline_wire::cause::Cause;
use strandline_wire::chunk::{Asconf, AsconfAck};
use strandline_wire::parameter::asconf::AsconfParameter;
use strandline_wire::parameter::{Parameters, RawParameter, kind};

use super::super::Association;
use super::super::addresses::{add_path_at, nearest, remove_path_of_peer};
use super::super::asconf_state::{is_leaving, is_withheld, state_mut, state_of};
use super::super::build::finish_control;
use super::super::context::{EndpointContext, Route, acceptable, is_unicast};
use super::super::offer::{append_tlv, encode_cause};
use super::{make_primary, reserve, state_or_new, update_hold};
use crate::error::PathError;
use crate::packet_sizes::CONTROL_PACKET_LEN_MAX;
use crate::path::PathState;
use crate::path_index::PathIndex;
use crate::time::Time;
use crate::zone;

/// Maximum number of parameters of an ASCONF that are processed: the others are refused.
const REQUESTS_MAX: usize = 32;

/// Maximum length in bytes of the responses to an ASCONF: they share a packet with an AUTH chunk.
const RESPONSES_LEN_MAX: usize = 1024;

/// Maximum length in bytes of a parameter that a cause quotes.
const QUOTED_LEN_MAX: usize = 128;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    LastAddress,
    Resources,
    SourceAddress,
    NotAllowed,
    /// The address to be made primary is none of the peer's.
    UnknownAddress,
}

impl Refusal {
    /// Returns the cause, which quotes the parameter.
    fn cause(self, quoted: &[u8]) -> Cause<'_> {
        let parameters = Parameters::new(quoted);
        match self {
            Self::LastAddress => Cause::DeleteLastAddress(parameters),
            Self::Resources => Cause::ResourceShortage(parameters),
            Self::SourceAddress => Cause::DeleteSourceAddress(parameters),
            Self::NotAllowed => Cause::NoAuthorization(parameters),
            Self::UnknownAddress => Cause::UnresolvableAddress(quoted),
        }
    }
}

/// Processes an ASCONF (section 5.2 rules E1 to E5). `before` is the number of ASCONF chunks before it in the packet.
pub(super) fn on_asconf(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    asconf: &Asconf<'_>,
    source: SocketAddr,
    before: u8,
) {
    let dynamic = state_or_new(association);
    if asconf.number.is_before(dynamic.expected) {
        // Rule E2.
        return dynamic.owe(asconf.number);
    }
    if asconf.number != dynamic.expected {
        // Rule E5: stale, or from an attacker.
        cx.stats.asconfs_dropped += 1;
        return;
    }
    if !is_well_formed(asconf.parameters) {
        return association.abort_for_violation(cx, now, "ASCONF with a wrong length of a parameter");
    }
    if before == 0 {
        dynamic.forget_answers();
    }
    let responses = perform(association, cx, now, asconf.parameters, source);
    if !association.state.heartbeats() {
        trust_source(association, cx, source.ip());
    }
    update_hold(association);
    association.verify_if_lost(cx, now);
    let dynamic = state_or_new(association);
    dynamic.keep_answer(asconf.number, responses);
    dynamic.expected = asconf.number.next();
    dynamic.owe(asconf.number);
}

/// Takes the source of a request for confirmed in SHUTDOWN-SENT, where no HEARTBEAT is sent any more (RFC 9260 section
/// 8.3), nor data.
fn trust_source(association: &mut Association, cx: &mut EndpointContext, source: IpAddr) {
    let Some(index) = association.paths.by_address(source) else { return };
    if let Some(change) = association.paths.get_mut(index).confirm() {
        association.on_path_change(cx, index, change);
    }
}

/// False if the length of a parameter is wrong, or one does not hold exactly one address.
fn is_well_formed(parameters: Parameters<'_>) -> bool {
    parameters.iter().all(|raw| raw.is_ok_and(|raw| raw.parse_asconf().is_none_or(|parsed| parsed.is_ok())))
}

/// Performs requests in order, and returns the responses (rules V1 to V3).
fn perform(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    parameters: Parameters<'_>,
    source: SocketAddr,
) -> Vec<u8> {
    let mut responses = Vec::new();
    // Rule F11: after a refused Add or Delete all further ones are refused.
    let mut failing = None;
    for (count, raw) in parameters.iter().flatten().enumerate() {
        let result = match raw.parse_asconf() {
            _ if count >= REQUESTS_MAX => Err(Refusal::Resources),
            Some(Ok(AsconfParameter::AddIp { address, .. })) => match failing {
                Some(refusal) => Err(refusal),
                None => add(association, cx, now, address, source),
            },
            Some(Ok(AsconfParameter::DeleteIp { address, .. })) => match failing {
                Some(refusal) => Err(refusal),
                None => delete(association, cx, now, address, source.ip()),
            },
            Some(Ok(AsconfParameter::SetPrimary { address, .. })) => {
                let result = set_primary(association, cx, address, source.ip());
                respond(&mut responses, &raw, result.err());
                continue;
            }
            // Responses that appear where they are not allowed (section 4.2).
            Some(_) => continue,
            // Parameters of INIT and INIT ACK are ignored in other chunks (sections 4.2.6 and 4.2.7).
            None if matches!(raw.kind, kind::ADAPTATION_LAYER | kind::SUPPORTED_EXTENSIONS) => continue,
            None => match raw.unrecognised_action() {
                UnrecognisedAction::Stop => break,
                UnrecognisedAction::Skip => continue,
                UnrecognisedAction::StopAndReport => {
                    report_unknown(&mut responses, &raw);
                    break;
                }
                UnrecognisedAction::SkipAndReport => {
                    report_unknown(&mut responses, &raw);
                    continue;
                }
            },
        };
        if let Err(refusal) = result {
            failing.get_or_insert(refusal);
        }
        respond(&mut responses, &raw, result.err());
    }
    responses
}

/// Returns the correlation ID of a parameter, known or not; 0 if it has none.
fn id_of(raw: &RawParameter<'_>) -> u32 {
    raw.value.first_chunk::<4>().map_or(0, |id| u32::from_be_bytes(*id))
}

/// Adds the response to a request. A success is reported, too: otherwise a success after a refusal would
/// count as refused (section 5.1 rule A7).
fn respond(responses: &mut Vec<u8>, raw: &RawParameter<'_>, refusal: Option<Refusal>) {
    let id = id_of(raw);
    match refusal {
        None => append(responses, &AsconfParameter::Success { id }),
        Some(refusal) => {
            let quoted = match refusal {
                // The address parameter alone.
                Refusal::UnknownAddress => raw.value.get(4..).unwrap_or_default(),
                _ => raw.as_bytes(),
            };
            refuse(responses, id, &refusal.cause(quoted), &refusal.cause(&[]));
        }
    }
}

fn report_unknown(responses: &mut Vec<u8>, raw: &RawParameter<'_>) {
    let quoted = Some(raw.as_bytes()).filter(|bytes| bytes.len() <= QUOTED_LEN_MAX).unwrap_or_default();
    let cause = |bytes| Cause::UnrecognisedParameters(Parameters::new(bytes));
    refuse(responses, id_of(raw), &cause(quoted), &cause(&[]));
}

/// Adds an Error Cause Indication, with the bare cause if there is no room for the whole one.
fn refuse(responses: &mut Vec<u8>, id: u32, whole: &Cause<'_>, bare: &Cause<'_>) {
    let before = responses.len();
    for cause in [whole, bare] {
        let bytes = encode_cause(cause);
        append(responses, &AsconfParameter::Error { id, causes: &bytes });
        if responses.len() > before {
            return;
        }
    }
}

fn append(responses: &mut Vec<u8>, response: &AsconfParameter<'_>) {
    let mut buffer = [0; QUOTED_LEN_MAX + 32];
    let mut writer = TlvWriter::new(&mut buffer);
    let _ = writer.push(response);
    append_tlv(responses, writer.finish(), RESPONSES_LEN_MAX);
}

/// Adds an address of the peer (section 4.2.1, rules F9 and F14). It is confirmed before anything but
/// HEARTBEATs and the ASCONF-ACK is sent to it.
fn add(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    address: IpAddr,
    source: SocketAddr,
) -> Result<(), Refusal> {
    let address = if address.is_unspecified() { source.ip() } else { address };
    let address = zone::named_by(address, source.ip()).ok_or(Refusal::NotAllowed)?;
    if association.paths.by_address(address).is_some() {
        return Ok(());
    }
    let several = cx.local_addresses(association.paths.local()).len() > 1;
    let allowed = is_unicast(address)
        && acceptable(address, source.ip())
        && (several || address.is_ipv4() == source.is_ipv4())
        && cx.host_addresses.may_be_the_peers(address, source.ip())
        // An address of another association with the same ports: the two could not be told apart.
        && !cx.taken.contains(&address);
    if !allowed {
        return Err(Refusal::NotAllowed);
    }
    if !cx.has_event_room() {
        return Err(Refusal::Resources);
    }
    let remote = SocketAddr::new(address, source.port());
    match add_path_at(association, cx, now, remote) {
        Ok(()) => Ok(()),
        Err(PathError::NotUnicast { .. }) => Err(Refusal::NotAllowed),
        Err(_) => Err(Refusal::Resources),
    }
}

/// Deletes an address of the peer (section 4.2.2, rules F7, F8, F12 and F13). One that it does not have is as good as
/// deleted.
fn delete(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    address: IpAddr,
    source: IpAddr,
) -> Result<(), Refusal> {
    let from = association.paths.by_address(source);
    if address.is_unspecified() {
        let from = from.ok_or(Refusal::LastAddress)?;
        for index in association.paths.indices().filter(|index| *index != from) {
            remove(association, cx, now, index, from)?;
        }
        return Ok(());
    }
    let named = zone::named_by(address, source);
    let Some(index) = named.and_then(|address| association.paths.by_address(address)) else { return Ok(()) };
    match from {
        _ if association.paths.len() == 1 => Err(Refusal::LastAddress),
        Some(from) if from == index => Err(Refusal::SourceAddress),
        from => {
            let other = || association.paths.indices().find(|other| *other != index);
            let heir = from.or_else(other).ok_or(Refusal::LastAddress)?;
            remove(association, cx, now, index, heir)
        }
    }
}

fn remove(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    index: PathIndex,
    heir: PathIndex,
) -> Result<(), Refusal> {
    if !cx.has_event_room() {
        return Err(Refusal::Resources);
    }
    let address = association.paths.get(index).remote.ip();
    remove_path_of_peer(association, cx, now, index, heir);
    if let Some(dynamic) = state_mut(association) {
        dynamic.wanted_primary.take_if(|wanted| *wanted == address);
    }
    Ok(())
}

/// Makes an address of the peer the primary one (section 5.4), now or once it is confirmed.
fn set_primary(
    association: &mut Association,
    cx: &mut EndpointContext,
    address: IpAddr,
    source: IpAddr,
) -> Result<(), Refusal> {
    let address = if address.is_unspecified() { Some(source) } else { zone::named_by(address, source) };
    let found = address.and_then(|address| association.paths.by_address(address));
    let index = found.ok_or(Refusal::UnknownAddress)?;
    if !cx.has_event_room() {
        return Err(Refusal::Resources);
    }
    let path = association.paths.get(index);
    let (confirmed, address) = (path.state != PathState::Unconfirmed, path.remote.ip());
    state_or_new(association).wanted_primary = (!confirmed).then_some(address);
    if confirmed {
        make_primary(association, cx, index);
    }
    Ok(())
}

/// Returns the source of an answer to an address. If every local address is being added or deleted, it is one
/// that is being deleted: the peer knows that, and takes an answer only from an address that it knows. Both
/// sides may replace their only addresses at once.
fn answer_source(association: &Association, to: IpAddr) -> Option<IpAddr> {
    let known = association.paths.by_address(to).and_then(|index| association.paths.get(index).local);
    let among = |wanted: &dyn Fn(IpAddr) -> bool| {
        let local: Vec<IpAddr> =
            association.paths.local().iter().copied().filter(|own| wanted(*own)).collect();
        nearest(&local, to)
    };
    known
        .or_else(|| among(&|own| !is_withheld(association, own)))
        .or_else(|| among(&|own| is_leaving(association, own)))
}

/// Sends the answers that are owed to where the requests came from, as many as one packet holds (rules E6 and E7).
pub(super) fn flush(association: &mut Association, cx: &mut EndpointContext, source: SocketAddr) {
    let Some(dynamic) = state_mut(association) else { return };
    if dynamic.owed.is_empty() {
        return;
    }
    let owed = core::mem::take(&mut dynamic.owed);
    let route = Route { destination: source, source: answer_source(association, source.ip()) };
    let reserve = reserve(association);
    cx.control.push(route, CONTROL_PACKET_LEN_MAX, |buffer| {
        finish_control(association, buffer, reserve, |packet| {
            let Some(dynamic) = state_of(association) else { return false };
            for number in &owed {
                let Some(responses) = dynamic.answer(*number) else { continue };
                let ack = AsconfAck { number: *number, responses: Parameters::new(responses) };
                if !packet.push(&ack) {
                    break;
                }
            }
            !packet.is_empty()
        })
    });
}
