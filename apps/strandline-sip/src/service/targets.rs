//! The targets of a request for one of our users (RFC 3261 section 16.5, RFC 5626 section 7, RFC 5627 section
//! 6.1).

use crate::bindings::{Binding, FlowUse, bindings_of, instance_of, is_later, is_same_instance};
use crate::codec::{SipUri, StatusCode, Uri, unescape};
use crate::transaction::{Flow, Protocol};

use super::context::{Destination, Detour, HOP_Q, INSTANCE_Q, Target};
use super::incoming::{Incoming, Rejection};
use super::nodes::{self, Over};
use super::route::RouteInfo;
use super::router::Router;

const NO_GRUU: Rejection = (StatusCode::NOT_FOUND, Some("No Such GRUU"));

/// How to reach a binding.
enum Reached {
    At(Target),
    /// Unreachable: the flow that it depends on is gone.
    Dead,
    /// Not to be used for this request.
    Not,
}

impl Router<'_> {
    /// Appends the contacts of a user in the location service, by descending `q`. `uri` is the request URI.
    pub(super) fn registered_targets(
        &self,
        aor: &[u8],
        uri: &SipUri<'_>,
        targets: &mut Vec<Target>,
    ) -> Result<(), Rejection> {
        let unix_secs = self.unix_secs();
        let bindings = self.locations.bindings(aor);
        let mut dead = false;
        let mut found: Vec<(usize, Target)> = Vec::with_capacity(bindings.len());
        for (place, binding) in bindings.iter().enumerate() {
            if binding.has_expired(unix_secs) {
                continue;
            }
            match self.reached(binding, uri) {
                Reached::At(target) => found.push((place, target)),
                Reached::Dead => dead = true,
                Reached::Not => {}
            }
        }
        if found.len() > 1 {
            one_of_each_instance(bindings, &mut found);
        }
        targets.extend(found.into_iter().map(|(_, target)| target));
        targets.sort_by_key(|target| core::cmp::Reverse(target.q));
        match targets.is_empty() {
            false => Ok(()),
            true if dead => Err((StatusCode::TEMPORARILY_UNAVAILABLE, None)),
            true => Err((StatusCode::NOT_FOUND, None)),
        }
    }

    fn reached(&self, binding: &Binding, uri: &SipUri<'_>) -> Reached {
        let of_worker = self.setup.is_of_worker(binding);
        match if of_worker { None } else { nodes::over(self.setup.nodes.as_ref(), binding) } {
            Some(Over::Node(target)) if !uri.secure || target.place.is_tls() => return Reached::At(target),
            Some(Over::Node(_)) => return Reached::Not,
            Some(Over::Gone) => return Reached::Dead,
            Some(Over::Contact) | None => {}
        }
        let is_here = self.setup.is_here(binding);
        let is_open = is_here && !binding.has_ended && self.is_open(binding.flow.connection);
        let over_flow = match binding.flow_use {
            FlowUse::None | FlowUse::Last => None,
            FlowUse::Only if !is_here => None,
            FlowUse::First => Some(binding.flow).filter(|_| is_open),
            FlowUse::Only if binding.flow.protocol == Protocol::Udp || is_open => Some(binding.flow),
            FlowUse::Only => return Reached::Dead,
        };
        let own = || match Uri::parse(&binding.contact) {
            Ok(Uri::Sip(uri)) => self.setup.destination(&uri),
            _ => None,
        };
        let next = || match crate::codec::Element::parse(first_of(&binding.path)) {
            Ok(crate::codec::Route { address, .. }) => {
                address.sip_uri().ok().and_then(|uri| self.setup.destination(&uri))
            }
            Err(_) => None,
        };
        let fallback = match (binding.flow_use, over_flow.is_some() && binding.path.is_empty()) {
            (FlowUse::First, true) if of_worker => own().and_then(|place| match place {
                // The connection of another worker may have ended.
                Destination::Flow(flow) => Some(Detour::over(flow)),
                Destination::Name(_) => None,
            }),
            (FlowUse::First, true) => {
                own().and_then(|place| listens_elsewhere(&place, binding)).map(Detour::over)
            }
            (FlowUse::Last, _) => self.last_way(binding),
            _ => None,
        };
        // If the other worker finds it gone, the flow has failed.
        let over_node = over_flow.is_some_and(|flow| fallback.is_none() && self.setup.is_at_worker(&flow));
        let over_flow = over_flow.map(Destination::Flow);
        let by_uri = over_flow.is_none() || !binding.path.is_empty();
        let is_sips = || matches!(Uri::parse(&binding.contact), Ok(Uri::Sip(uri)) if uri.secure);
        let may = |flow: &Flow| flow.protocol.is_secure() || !(uri.secure || is_sips());
        let fallback = fallback.filter(|detour| may(&detour.flow));
        let place = if binding.path.is_empty() { over_flow.or_else(own) } else { next() };
        let (place, path) = match (place, &fallback) {
            // Names aren't resolved.
            (None, Some(detour)) => (Some(Destination::Flow(detour.flow)), detour.path.clone()),
            (place, _) => (place, binding.path.clone()),
        };
        let Some(place) = place.filter(|place| !uri.secure || place.is_secure()) else {
            return Reached::Not;
        };
        let uri = Some(Box::from(&*binding.contact));
        let neighbour = !path.is_empty();
        let target = Target::new(uri, place, binding.q);
        Reached::At(Target { path, neighbour, fallback, by_uri, over_node, ..target })
    }

    /// The flow of a phone whose contact's host may be unresolvable, or the detour through its node.
    fn last_way(&self, binding: &Binding) -> Option<Detour> {
        match &binding.origin {
            _ if !binding.path.is_empty() => None,
            Some(origin) if !self.setup.is_here(binding) => self.through_node(origin.node, &origin.token),
            _ => Some(Detour::over(binding.flow)),
        }
    }

    /// The detour through another node over the flow that it calls by this name, if the node runs.
    pub(super) fn through_node(&self, node: u16, token: &[u8]) -> Option<Detour> {
        self.setup.nodes.as_ref().and_then(|nodes| nodes.through(node, token))
    }

    /// Replaces `aor` by the address of record of a GRUU, and returns its instance. A public GRUU is valid as
    /// long as its user exists, which isn't checked here.
    fn open_gruu(&self, uri: &SipUri<'_>, aor: &mut Vec<u8>) -> Result<Box<[u8]>, Rejection> {
        self.setup.write_aor(uri, aor);
        if let Some(Some(value)) = uri.gruu() {
            return Ok(unescape(value).collect());
        }
        let domain_of =
            |aor: &[u8]| aor.iter().rposition(|byte| *byte == b'@').map(|at| aor.split_at(at).1.to_vec());
        let domain = domain_of(aor);
        let gruu = uri.user.and_then(|user| self.setup.gruus.read(user)).ok_or(NO_GRUU)?;
        let (owner, bindings) = self.locations.with_gruu(gruu).ok_or(NO_GRUU)?;
        let instance = instance_of(bindings, gruu, self.unix_secs()).ok_or(NO_GRUU)?;
        if domain_of(owner) != domain {
            return Err(NO_GRUU);
        }
        aor.clear();
        aor.extend_from_slice(owner);
        Ok(instance.into())
    }

    /// Appends the bindings of a GRUU's instance, to be tried one after the other, the most recently
    /// refreshed first.
    pub(super) fn gruu_targets(
        &self,
        incoming: &Incoming<'_>,
        uri: &SipUri<'_>,
        route: &RouteInfo<'_>,
        aor: &mut Vec<u8>,
        targets: &mut Vec<Target>,
    ) -> Result<(), Rejection> {
        let instance = self.open_gruu(uri, aor)?;
        let bindings = bindings_of(self.locations.bindings(aor), &instance, self.unix_secs());
        if bindings.is_empty() {
            return Err((StatusCode::TEMPORARILY_UNAVAILABLE, None));
        }
        // Only some senders may use a Route that isn't ours, unless the registration leads there as well.
        let direct = route.next.map(|_| self.direct_target(incoming, route));
        let routed = route.next.and_then(|next| self.setup.destination(&next.sip_uri().ok()?));
        let (mut dead, mut denied) = (false, None);
        for binding in bindings {
            let target = match (&direct, self.reached(binding, uri)) {
                (Some(Ok(next)), _) => Some(next.clone()),
                (Some(Err(_)), Reached::At(own)) if is_same_place(&own.place, routed.as_ref()) => {
                    routed.clone().map(|place| Target::new(None, place, 0))
                }
                (Some(Err(verdict)), _) => {
                    denied = Some(*verdict);
                    None
                }
                (None, Reached::At(target)) => {
                    targets.push(target);
                    continue;
                }
                (None, Reached::Dead) => {
                    dead = true;
                    None
                }
                (None, Reached::Not) => None,
            };
            // The Route leads to the phone already; the Path would repeat it (section 6.1).
            let uri = Some(Box::from(&*binding.contact));
            targets.extend(target.map(|target| Target { uri, ..target }));
        }
        in_sequence(targets);
        match targets.is_empty() {
            false => Ok(()),
            true if denied.is_some() => Err(denied.unwrap_or(NO_GRUU)),
            true if dead => Err((StatusCode::TEMPORARILY_UNAVAILABLE, None)),
            true => Err((StatusCode::TEMPORARILY_UNAVAILABLE, None)),
        }
    }

    /// The first binding of a GRUU's instance, as a target.
    pub(super) fn gruu_target(
        &self,
        incoming: &Incoming<'_>,
        uri: &SipUri<'_>,
        route: &RouteInfo<'_>,
        aor: &mut Vec<u8>,
    ) -> Result<Target, Rejection> {
        let mut targets = Vec::new();
        self.gruu_targets(incoming, uri, route, aor, &mut targets)?;
        targets.into_iter().next().ok_or(NO_GRUU)
    }

    /// Refuses a request that begins a dialog if its Contact is the GRUU of another of our users (section
    /// 6.2).
    pub(super) fn check_contact(&self, incoming: &Incoming<'_>, aor: &mut Vec<u8>) -> Result<(), Rejection> {
        if !incoming.proved || incoming.essentials.to.tag.is_some() || !self.setup.settings.gives_gruus() {
            return Ok(());
        }
        let has_gruu = |text: &[u8]| text.windows(3).any(|three| three.eq_ignore_ascii_case(b";gr"));
        if !incoming.message.lines(crate::codec::HeaderName::Contact).any(|line| has_gruu(line.value())) {
            return Ok(());
        }
        let Ok(crate::codec::Contacts::Some(mut contacts)) = incoming.message.contacts() else {
            return Ok(());
        };
        let Some(Ok(contact)) = contacts.next() else { return Ok(()) };
        let (Ok(contact), Ok(from)) = (contact.sip_uri(), incoming.essentials.from.sip_uri()) else {
            return Ok(());
        };
        if contact.gruu().is_none() || !self.setup.settings.is_domain(&contact.host, contact.port) {
            return Ok(());
        }
        // An invalid GRUU harms only the caller.
        let mut owner = Vec::new();
        if self.open_gruu(&contact, &mut owner).is_err() {
            return Ok(());
        }
        self.setup.write_aor(&from, aor);
        if owner == *aor { Ok(()) } else { Err((StatusCode::FORBIDDEN, Some("Not Your GRUU"))) }
    }
}

/// Whether both lead to the same host.
fn is_same_place(one: &Destination, other: Option<&Destination>) -> bool {
    match (one, other) {
        (Destination::Flow(one), Some(Destination::Flow(other))) => {
            one.peer.ip().to_canonical() == other.peer.ip().to_canonical()
        }
        (Destination::Name(one), Some(Destination::Name(other))) => one.name == other.name,
        _ => false,
    }
}

/// The flow that a contact names, unless that is the other end of its connection.
fn listens_elsewhere(place: &Destination, binding: &Binding) -> Option<Flow> {
    match place {
        Destination::Flow(flow) if flow.peer != binding.flow.peer => Some(*flow),
        Destination::Flow(_) | Destination::Name(_) => None,
    }
}

/// Orders targets to be tried one after the other, the next one only if the previous one isn't reached.
fn in_sequence(targets: &mut [Target]) {
    for (number, target) in targets.iter_mut().enumerate() {
        target.q = (HOP_Q - 1).saturating_sub(number as u16).max(INSTANCE_Q);
    }
}

/// Keeps one target for each phone: the binding that was refreshed last. The phone's other bindings are tried
/// when that one fails (RFC 5626 section 7), also while other phones ring. All share the place of that
/// binding in the order of `q`.
fn one_of_each_instance(bindings: &[Binding], found: &mut Vec<(usize, Target)>) {
    let instance = |place: usize| bindings.get(place).map_or(&[][..], |binding| &binding.instance);
    let is_same = |one: usize, other: usize| {
        !instance(one).is_empty() && is_same_instance(instance(one), instance(other))
    };
    let mut phones: Vec<Vec<(usize, Target)>> = Vec::with_capacity(found.len());
    for one in found.drain(..) {
        let known =
            phones.iter_mut().find(|phone| phone.first().is_some_and(|(first, _)| is_same(*first, one.0)));
        match known {
            Some(phone) => phone.push(one),
            None => phones.push(vec![one]),
        }
    }
    let later_first =
        |(one, _): &(usize, Target), (other, _): &(usize, Target)| match is_later(bindings, *one, *other) {
            true => core::cmp::Ordering::Less,
            false => core::cmp::Ordering::Greater,
        };
    found.extend(phones.into_iter().filter_map(|mut phone| {
        if phone.len() > 1 {
            phone.sort_by(later_first);
        }
        let mut flows = phone.into_iter();
        let (place, mut first) = flows.next()?;
        first.others = flows.map(|(_, target)| target).collect();
        Some((place, first))
    }));
}

/// The first value of a list of routes: commas within brackets and quotes don't end it.
pub(super) fn first_of(path: &[u8]) -> &[u8] {
    let (mut quoted, mut inside) = (false, false);
    let end = path.iter().position(|byte| {
        match byte {
            b'"' => quoted = !quoted,
            b'<' if !quoted => inside = true,
            b'>' if !quoted => inside = false,
            _ => {}
        }
        *byte == b',' && !quoted && !inside
    });
    path.get(..end.unwrap_or(path.len())).unwrap_or(path)
}
