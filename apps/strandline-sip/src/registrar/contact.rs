//! The contacts of a REGISTER request.

use core::net::IpAddr;
use std::borrow::Cow;

use crate::bindings::{Binding, FlowUse, Locations, bindings_of, is_same_instance, write_aor};
use crate::codec::{Address, HeaderName, Host, Message, Params, Q_MAX, Route, SipUri, Uri, Values, unfold};

use super::settings::RegistrarSettings;
use super::{
    BAD_CONTACT, LACKS_OUTBOUND, NOT_ALONE, NOT_SIP, Refusal, Request, TOO_LONG, TOO_MANY, supports,
};

/// A contact to bind, as views of the message where possible.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    contact: &'a [u8],
    uri: Option<SipUri<'a>>,
    params: Cow<'a, [u8]>,
    instance: Cow<'a, [u8]>,
    reg_id: u32,
    q: u16,
    /// The granted time in seconds; 0 removes the binding.
    pub(super) expires: u32,
    flow_use: FlowUse,
}

/// All contacts of a request. Most requests have one, which is stored inline.
#[derive(Debug, Default)]
pub(super) struct WantedAll<'a> {
    first: Option<Wanted<'a>>,
    more: Vec<Wanted<'a>>,
}

impl<'a> WantedAll<'a> {
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Wanted<'a>> {
        self.first.iter().chain(&self.more)
    }

    /// Reads all contacts. `expires` applies to those without a value of their own.
    pub(super) fn read(
        &mut self,
        values: Values<'a, Address<'a>>,
        expires: u32,
        request: &Request<'a>,
        settings: &RegistrarSettings,
    ) -> Result<(), Refusal> {
        let has_path = request.message.has(HeaderName::Path);
        if has_path && !supports(&request.message, b"path") {
            return Err(Refusal::Unsupported("path"));
        }
        let direct = is_direct(request);
        // The part that is stored with each contact.
        let path = request.message.lines(HeaderName::Path).map(|line| line.value().len()).sum::<usize>();
        let others = path + request.essentials.call_id.len();
        let folded = request.message.lines(HeaderName::Contact).any(|line| line.is_folded());
        for value in values {
            let address = value.map_err(|_| BAD_CONTACT)?;
            if self.len() >= settings.contacts_max {
                return Err(TOO_MANY);
            }
            let kept = address.uri_bytes().len() + address.params.as_bytes().len() + others;
            if kept > settings.contact_bytes_max {
                return Err(TOO_LONG);
            }
            let wanted = one(&address, expires, (direct, folded), request, settings)?;
            match &self.first {
                None => self.first = Some(wanted),
                Some(_) => self.more.push(wanted),
            }
        }
        // RFC 5626 section 6.
        let bound = || self.iter().filter(|wanted| wanted.expires > 0);
        let is_flow = |wanted: &Wanted<'_>| wanted.reg_id > 0;
        if !self.more.is_empty() && bound().count() > 1 && bound().any(is_flow) {
            return Err(NOT_ALONE);
        }
        Ok(())
    }
}

/// Returns true if there is only one Via, so that no proxy is between the phone and this server.
fn is_from_phone(request: &Request<'_>) -> bool {
    let Request { message, essentials, .. } = request;
    message.has_only(&essentials.via) || message.vias().take(2).count() == 1
}

/// The relevant parameters that a contact has, found in one pass. Looking up each one would parse all
/// parameters each time.
#[derive(Debug, Default)]
struct Has {
    q: bool,
    reg_id: bool,
    instance: bool,
    /// Parameters that a phone may not set.
    others: bool,
}

impl Has {
    fn of(params: &Params<'_>) -> Self {
        let mut has = Self::default();
        if params.as_bytes().is_empty() {
            return has;
        }
        for (name, _) in params.iter() {
            match name.len() {
                1 => has.q |= name.eq_ignore_ascii_case(b"q"),
                6 => has.reg_id |= name.eq_ignore_ascii_case(b"reg-id"),
                13 => has.instance |= name.eq_ignore_ascii_case(b"+sip.instance"),
                _ => has.others |= is_not_own(name),
            }
        }
        has
    }
}

fn one<'a>(
    address: &Address<'a>,
    default: u32,
    (direct, folded): (bool, bool),
    request: &Request<'_>,
    settings: &RegistrarSettings,
) -> Result<Wanted<'a>, Refusal> {
    let uri = address.uri().map_err(|_| BAD_CONTACT)?;
    let contact = address.uri_bytes();
    let asked = address.expires().ok().flatten().unwrap_or(default);
    if asked > 0 && asked < settings.expires_min_secs {
        return Err(Refusal::TooBrief(settings.expires_min_secs));
    }
    let has = Has::of(&address.params);
    let reg_id = if has.reg_id { address.reg_id().map_err(|_| BAD_CONTACT)?.unwrap_or(0) } else { 0 };
    let instance = if has.instance { address.instance().unwrap_or(&[]) } else { &[] };
    let has_flows = direct || reg_id == 0 || instance.is_empty() || is_outbound(&request.message);
    if !has_flows && supports(&request.message, b"outbound") {
        return Err(LACKS_OUTBOUND);
    }
    let reg_id = if has_flows { reg_id } else { 0 };
    let uri = match uri {
        Uri::Sip(uri) => Some(uri),
        _ => None,
    };
    if !instance.is_empty() && asked > 0 && uri.is_none() {
        return Err(NOT_SIP);
    }
    let flow_use = match &uri {
        Some(_) if direct && request.flow.protocol.is_websocket() => FlowUse::Only,
        Some(uri) if direct && settings.outbound => flow_use(uri, reg_id, instance, request),
        _ => FlowUse::None,
    };
    // Few contacts are folded, and searching each text for line ends would cost more than this flag.
    let in_line = |text: &'a [u8]| if folded { unfold(text) } else { text.into() };
    Ok(Wanted {
        contact,
        uri,
        params: if has.others { own_params(address).into() } else { in_line(address.params.as_bytes()) },
        reg_id: if instance.is_empty() { 0 } else { reg_id },
        instance: in_line(instance),
        q: if has.q { address.q().ok().flatten().unwrap_or(Q_MAX) } else { Q_MAX },
        expires: asked.min(settings.expires_max_secs),
        flow_use,
    })
}

/// Returns true if the phone sent the request directly to this server.
pub(super) fn is_direct(request: &Request<'_>) -> bool {
    !request.message.has(HeaderName::Path) && is_from_phone(request)
}

/// Returns true if a proxy on the way maintains flows (RFC 5626 section 6). That section requires `ob` in the
/// first Path URI, and means that of the phone's first hop. Proxies prepend their URIs (RFC 3327 section
/// 5.2), so it is the last one, unless an earlier proxy adds none. Only a proxy that maintains flows writes
/// `ob`, so it counts in any of them.
fn is_outbound(message: &Message<'_>) -> bool {
    let keeps = |route: Route<'_>| route.sip_uri().is_ok_and(|uri| uri.is_outbound());
    message.values(HeaderName::Path).flatten().any(keeps)
}

/// The use of the flow. A phone that asked for it, or that isn't at the address in its contact, is reached
/// only over its flow.
fn flow_use(uri: &SipUri<'_>, reg_id: u32, instance: &[u8], request: &Request<'_>) -> FlowUse {
    // Most contacts have no parameter that could be `ob`, which this check finds without parsing.
    let params = uri.params.as_bytes();
    let may_ask = params.windows(2).any(|two| matches!(two, [b';', b'o' | b'O' | b'%']));
    let asked = (may_ask && uri.is_outbound()) || (reg_id > 0 && !instance.is_empty());
    let source = request.flow.peer.ip().to_canonical();
    let is_reliable = request.flow.protocol.is_reliable();
    let elsewhere = match uri.host.ip() {
        Some(ip) => ip.to_canonical() != source || (!is_reliable && has_other_port(uri, request)),
        None => is_nowhere(&uri.host, source),
    } || uri.port == Some(0);
    // A link-local address is on the link over which the request came. A URI can't name that link (RFC 3986
    // has no zones).
    let link_local =
        uri.host.ip().is_some_and(|ip| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    if asked || elsewhere || link_local {
        FlowUse::Only
    } else if is_reliable {
        FlowUse::First
    } else if uri.host.ip().is_none() {
        FlowUse::Last
    } else {
        FlowUse::None
    }
}

/// Returns true if a NAT has assigned another port here than the one in the contact, which is then usable
/// only by the phone's STUN server (a symmetric NAT). There is no NAT if the Via names the exact source. The
/// contact also stands if the phone states that it receives responses at the port of its contact, and doesn't
/// ask for them at its source port (RFC 3581).
fn has_other_port(uri: &SipUri<'_>, request: &Request<'_>) -> bool {
    let (source, via) = (request.flow.peer, &request.essentials.via);
    let is_udp = uri.transport().is_none_or(|name| name.eq_ignore_ascii_case(b"udp"));
    let port = uri.port_or_default();
    if !is_udp || port == source.port() {
        return false;
    }
    let is_at_source = via.host.ip().is_some_and(|ip| ip.to_canonical() == source.ip().to_canonical());
    let via_port = via.port.unwrap_or(request.flow.protocol.default_port());
    let listens_there = via.rport.is_none() && via_port == port;
    !(is_at_source && (via_port == source.port() || listens_there))
}

/// Returns true for a name that is reserved as invalid, and for one of the loopback interface if the phone is on
/// another host (RFC 6761).
fn is_nowhere(host: &Host<'_>, source: IpAddr) -> bool {
    host.is_in_top_level("invalid") || (host.is_in_top_level("localhost") && !source.is_loopback())
}

/// Returns true for parameters that a phone may not set: `expires`, and GRUUs (RFC 5627 section 5.1).
fn is_not_own(name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 3] = [b"expires", b"pub-gruu", b"temp-gruu"];
    OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// The parameters that a phone may set.
fn own_params(address: &Address<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(address.params.as_bytes().len());
    for (name, value) in address.params.iter().filter(|(name, _)| !is_not_own(name)) {
        out.push(b';');
        out.extend_from_slice(name);
        match value {
            None => {}
            Some(crate::codec::ParamValue::Token(token)) => {
                out.push(b'=');
                out.extend_from_slice(token);
            }
            Some(crate::codec::ParamValue::Quoted(text)) => {
                out.extend_from_slice(b"=\"");
                out.extend_from_slice(&unfold(text));
                out.push(b'"');
            }
        }
    }
    out
}

impl Wanted<'_> {
    /// Returns true if `binding` is the one for this contact.
    pub(super) fn is_for(&self, binding: &Binding) -> bool {
        binding.is_for(&self.instance, self.reg_id, self.contact)
    }

    /// Returns true if this is another contact of the same instance, which has no flows of its own (RFC
    /// 5626).
    pub(super) fn is_of_instance(&self, binding: &Binding) -> bool {
        !self.instance.is_empty()
            && self.reg_id == 0
            && binding.reg_id == 0
            && is_same_instance(&self.instance, &binding.instance)
    }

    /// Returns true if an instance's contact leads back to the same user. A request would then loop (RFC 5627
    /// section 5.1).
    pub(super) fn leads_back(&self, request: &Request<'_>, aor: &[u8], locations: &Locations) -> bool {
        if self.instance.is_empty() || self.expires == 0 {
            return false;
        }
        let Some(uri) = &self.uri else { return false };
        let mut room = Vec::with_capacity(128);
        write_aor(uri, &mut room);
        let end = room.len();
        write_aor(request.to, &mut room);
        let (named, to) = room.split_at_checked(end).unwrap_or_default();
        let temporary = || {
            let gruu = request.gruus?.read(uri.user?)?;
            locations.with_gruu(gruu).map(|(user, _)| user == aor)
        };
        named == aor || named == to || (uri.gruu() == Some(None) && temporary() == Some(true))
    }

    /// The number for new temporary GRUUs of the instance. If the Call-ID differs from that of the last
    /// refresh, earlier numbers become invalid.
    fn gruu(&self, bindings: &mut [Binding], request: &Request<'_>) -> u64 {
        let Some(gruus) = request.gruus.filter(|_| !self.instance.is_empty()) else { return 0 };
        let of_instance = bindings_of(bindings, &self.instance, request.unix_secs);
        let is_meant = |binding: &&&Binding| self.reg_id == 0 || binding.reg_id == self.reg_id;
        let ends = of_instance
            .iter()
            .find(is_meant)
            .is_some_and(|last| *last.call_id != *request.essentials.call_id);
        let known = of_instance.iter().map(|binding| binding.gruu).find(|gruu| *gruu != 0);
        match known {
            Some(_) if ends => {
                let gruu = gruus.number(true);
                for binding in bindings.iter_mut().filter(|binding| binding.origin.is_none()) {
                    if is_same_instance(&binding.instance, &self.instance) {
                        binding.gruu = gruu;
                    }
                }
                gruu
            }
            Some(gruu) => gruu,
            None if request.gruus().is_some() => gruus.number(false),
            None => 0,
        }
    }

    /// Moves the binding of an instance to the end, which is the place of the most recent one.
    fn move_to_end(&self, bindings: &mut [Binding], at: usize) -> usize {
        let last = bindings.len().saturating_sub(1);
        match bindings.get_mut(at..) {
            Some(after) if !self.instance.is_empty() && at < last => {
                after.rotate_left(1);
                last
            }
            _ => at,
        }
    }

    /// Creates, refreshes or removes the binding.
    pub(super) fn apply(&self, bindings: &mut Vec<Binding>, request: &Request<'_>) {
        let found = bindings.iter().position(|binding| self.is_for(binding));
        if self.expires == 0 {
            if let Some(at) = found {
                bindings.remove(at);
            }
            return;
        }
        let expires_at = request.unix_secs + u64::from(self.expires);
        let essentials = request.essentials;
        let path = path(&request.message);
        let gruu = self.gruu(bindings, request);
        let found = found.map(|at| self.move_to_end(bindings, at));
        if let Some(binding) = found.and_then(|at| bindings.get_mut(at)) {
            replace_if_changed(&mut binding.contact, self.contact);
            replace_if_changed(&mut binding.params, &self.params);
            replace_if_changed(&mut binding.instance, &self.instance);
            replace_if_changed(&mut binding.call_id, essentials.call_id);
            replace_if_changed(&mut binding.path, &path);
            binding.cseq = essentials.cseq.number;
            binding.expires_at = expires_at;
            (binding.q, binding.flow, binding.flow_use) = (self.q, request.flow, self.flow_use);
            binding.gruu = gruu;
            // The binding now belongs to this node, whichever node created it.
            (binding.stamp, binding.origin, binding.has_ended) = (0, None, false);
            return;
        }
        bindings.push(Binding {
            contact: self.contact.into(),
            params: (*self.params).into(),
            call_id: essentials.call_id.into(),
            cseq: essentials.cseq.number,
            expires_at,
            q: self.q,
            reg_id: self.reg_id,
            instance: (*self.instance).into(),
            path: path.into(),
            flow: request.flow,
            flow_use: self.flow_use,
            gruu,
            stamp: 0,
            origin: None,
            has_ended: false,
        });
    }
}

/// Replaces a text only if it differs. Most refreshes change nothing.
fn replace_if_changed<T>(place: &mut T, text: &[u8])
where
    T: core::ops::Deref<Target = [u8]> + for<'a> From<&'a [u8]>,
{
    if **place != *text {
        *place = text.into();
    }
}

/// The values of Path in one line, unfolded and without empty parameters at their ends.
fn path(message: &Message<'_>) -> Vec<u8> {
    let mut path = Vec::new();
    let mut add = |value: &[u8]| {
        if !path.is_empty() {
            path.push(b',');
        }
        path.extend_from_slice(&unfold(value));
    };
    let routes: Result<Vec<Route<'_>>, _> = message.values(HeaderName::Path).collect();
    match routes {
        Ok(routes) if message.lines(HeaderName::Path).any(|line| may_end_empty(line.value())) => {
            routes.iter().for_each(|route| add(route.text()));
        }
        _ => message.lines(HeaderName::Path).for_each(|line| add(line.value())),
    }
    path
}

/// Whether a value may end with a `;` without a parameter; a quoted string may look like one.
fn may_end_empty(line: &[u8]) -> bool {
    line.split(|byte| *byte == b',').any(|value| value.trim_ascii_end().ends_with(b";"))
}
