//! Requests: checked (RFC 3261 section 16.3), and then done here or sent on.

use core::hash::Hasher;

use crate::auth::Asking;
use crate::codec::{HeaderName, Host, Message, Method, StatusCode, Uri, Via};
use crate::transaction::{Arriving, Flow, Protocol, Received, ServerId, Time, ViaBranch};

use super::checks::Proof;
use super::context::{Place, Target, is_allowed};
use super::incoming::Incoming;
use super::route::Way;
use super::servers::{Waiter, Ways};
use super::{Mode, Service};

/// Extensions that are known here.
const SUPPORTED: [&str; 3] = ["path", "outbound", "gruu"];
const SUPPORTED_LINE: &str = "path, outbound, gruu";
/// Bytes of names of extensions, about, that are told to be unknown: beyond that nobody means what he asks for.
const UNSUPPORTED_MAX: usize = 256;

/// The credentials are another user's.
pub(super) const NOT_YOURS: Verdict = (StatusCode::FORBIDDEN, Some("Not Your Address"));
/// The credentials are for another request URI (RFC 7616 section 3.4.6).
pub(super) const OTHER_RESOURCE: Verdict =
    (StatusCode::BAD_REQUEST, Some("Digest URI Is Not The Request URI"));
/// Who has sent too many wrong passwords.
pub(super) const GUESSES: Verdict = (StatusCode::FORBIDDEN, Some("Too Many Wrong Passwords"));

/// A status and a phrase of our own.
type Verdict = (StatusCode, Option<&'static str>);

impl Service {
    /// `weighed` if it may come from somebody else than who is at its address.
    pub(super) fn on_request(&mut self, now: Time, flow: Flow, message: &Message<'_>, weighed: bool) {
        self.counters.requests += 1;
        let essentials = match message.essentials() {
            Ok(essentials) => essentials,
            Err(error) => {
                self.counters.malformed += 1;
                return self.answer(message, flow, error.status(), Some(error.kind.text()), None);
            }
        };
        if essentials.via.oc {
            self.feedback.asked(now, flow.peer.ip(), &essentials.via);
        }
        // RFC 5923 section 9: over anything but TLS, and without a certificate, `alias` means nothing.
        if flow.protocol == Protocol::Tls && essentials.via.alias && self.proved.contains(&flow.connection) {
            self.aliased.push((flow.connection, essentials.via.port.unwrap_or(Protocol::Tls.default_port())));
        }
        let weighed = weighed && !self.takes_proof(now, &flow, message, &essentials);
        let incoming = Incoming { weighed, ..Incoming::new(*message, &essentials, flow) };
        if self.settings.mode == Mode::FrontEnd {
            return self.answer(message, flow, StatusCode::OK, None, None);
        }
        if let Some(result) = self.register_here(now, &incoming) {
            if let Err((code, reason)) = result {
                self.answer(message, flow, code, reason, None);
            }
            return;
        }
        match self.transactions.receive_request(now, message, &essentials, &mut self.out) {
            Received::Absorbed => {}
            Received::Acknowledged(id) => self.on_acknowledged(&incoming, id),
            Received::Cancel(invite) => self.on_cancel(now, &incoming, invite),
            Received::Ack => self.on_ack(now, &incoming),
            Received::New(arriving) => {
                if let Err((code, reason)) = self.on_new(now, &incoming, arriving) {
                    self.answer(message, flow, code, reason, None);
                }
            }
        }
        self.on_events(now);
    }

    /// CANCEL is answered at once, and goes on from here as our own (section 16.10).
    fn on_cancel(&mut self, now: Time, incoming: &Incoming<'_>, invite: Option<ServerId>) {
        let known = invite.and_then(|id| Some((id, self.transactions.server_flow(id)?.1)));
        let Some((id, user)) = known else {
            if self.asks_siblings(incoming) {
                return;
            }
            return self.answer(
                &incoming.message,
                incoming.flow,
                StatusCode::NO_SUCH_TRANSACTION,
                None,
                None,
            );
        };
        self.answer(&incoming.message, incoming.flow, StatusCode::OK, None, None);
        // The transaction may outlive its context, whose slot is another's then.
        if self.contexts.get(user as u32).is_some_and(|context| context.server == id) {
            self.stop(now, user as u32);
        }
    }

    /// ACK of a 2xx: it goes where the dialog goes, without a transaction. That of what was refused without one ends here (section
    /// 8.2.7).
    fn on_ack(&mut self, now: Time, incoming: &Incoming<'_>) {
        let tag = self.tag(&incoming.message, &incoming.flow);
        let is_of_ours = incoming.essentials.to.tag == Some(&tag[..]);
        if is_of_ours && incoming.weighed {
            self.transactions.balance_mut().prove(incoming.flow.peer.ip());
        }
        if is_of_ours || matches!(self.settings.mode, Mode::Redirect) {
            return;
        }
        let Ok(way) = self.way(&incoming.message, incoming.essentials) else { return };
        if incoming.essentials.max_forwards == Some(0) || self.loop_mark(incoming).is_err() {
            return;
        }
        let ours =
            self.is_for_us(&way) || way.uri.sip().is_some_and(|uri| self.is_ours(uri) && way.token.is_none());
        let target = match self.gruu_of(&way) {
            Some(uri) => self.find_gruu(now, incoming, &uri, &way),
            None if ours => return,
            None => self.direct_target(incoming, &way),
        };
        let Ok(Target { place, uri, path, only, .. }) = target else { return };
        let flow = match place {
            Place::Flow(flow) => Some(flow),
            Place::Name(question) => {
                let flow = incoming.flow;
                let (holder, kept) = self.room_to_wait(incoming.message.as_bytes());
                let waiter = || Waiter::Message { flow, bytes: holder.hold(kept) };
                match self.ways(now, &question, self.call_seed(incoming), waiter) {
                    Ways::Known(ways) => ways.into_iter().find(|way| is_allowed(way, only)),
                    Ways::Waits | Ways::None(_) => None,
                }
            }
        };
        if let Some(flow) = flow {
            self.forward_stateless(incoming, &way, flow, (uri.as_deref(), &path));
        }
    }

    fn on_new(&mut self, now: Time, incoming: &Incoming<'_>, arriving: Arriving) -> Result<(), Verdict> {
        let Incoming { message, essentials, flow, .. } = incoming;
        let mut way =
            self.way(message, essentials).map_err(|error| (error.status(), Some(error.kind.text())))?;
        way.asked = way.asked.filter(|_| self.is_from_node(flow));
        let gruu = self.gruu_of(&way);
        let here = gruu.is_some() || self.is_for_us(&way);
        if self.draining && way.token.is_none() {
            self.refuse_for_now(*flow, message);
            return Ok(());
        }
        if let (true, Uri::Sip(uri)) = (here, &way.uri)
            && uri.user.is_none()
            && essentials.cseq.method == Method::Options
        {
            if !self.lacks(now, incoming, HeaderName::Require)? {
                let supported = Some((HeaderName::Supported, SUPPORTED_LINE.as_bytes()));
                self.answer(message, *flow, StatusCode::OK, None, supported);
            }
            return Ok(());
        }
        // It is kept when it is begun, with what 100 is made of; a copy of it is kept in a moment, if there is room.
        let within = essentials.to.tag.is_some() && way.token.is_some();
        if self.settings.mode == Mode::Proxy && !self.has_room(message.as_bytes().len(), 2, within) {
            self.counters.crowded += 1;
            self.refuse_for_now(*flow, message);
            return Ok(());
        }
        let proved = match way.asked {
            // The other node has asked who it is.
            Some(_) => Some(Incoming { proved: true, ..*incoming }),
            None => self.proved(now, incoming, &way, arriving)?,
        };
        let Some(incoming) = proved else { return Ok(()) };
        if let Err((code, reason)) = self.on_checked(now, &incoming, &way, arriving) {
            self.answer_last(now, &incoming, code, reason, None);
        }
        Ok(())
    }

    /// A new request whose sender has proved who they are, where that is asked.
    fn on_checked(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        way: &Way<'_>,
        arriving: Arriving,
    ) -> Result<(), Verdict> {
        let gruu = self.gruu_of(way);
        let here = gruu.is_some() || self.is_for_us(way);
        if incoming.essentials.max_forwards == Some(0) {
            return Err((StatusCode::TOO_MANY_HOPS, None));
        }
        if self.lacks(now, incoming, HeaderName::ProxyRequire)? || self.lacks_path(now, incoming) {
            return Ok(());
        }
        let mark = self.loop_mark(incoming)?;
        self.check_contact(now, incoming)?;
        let mut targets = core::mem::take(&mut self.targets);
        let redirects = matches!(self.settings.mode, Mode::Redirect);
        let found = match &way.uri {
            Uri::Sip(uri) if gruu.is_some() => self.find_instance(now, incoming, uri, way, &mut targets),
            Uri::Sip(uri) if here => self.find(now, incoming, uri, &mut targets),
            _ => match self.to_domain(incoming, way, &mut targets) {
                Some(found) => found,
                // Nobody is sent to where they were going anyway.
                None if redirects => Err((StatusCode::NOT_FOUND, Some("Not Our Domain"))),
                None => self.direct_target(incoming, way).map(|target| targets.push(target)),
            },
        };
        let result = match redirects {
            // It waits until somebody has looked for its user.
            _ if found.is_ok() && targets.is_empty() => Ok(()),
            true => found.and_then(|()| self.redirect(now, incoming, arriving, &targets)),
            false => found.and_then(|()| self.begin(now, incoming, way, arriving, mark, &mut targets)),
        };
        targets.clear();
        self.targets = targets;
        result
    }

    /// One of our users has to prove who they are. `None` if they were asked to. Not within a dialog that began here, to which its
    /// token leads; a To tag alone can be made up, and dialogs that began elsewhere lead nowhere without a proof.
    fn proved<'a>(
        &mut self,
        now: Time,
        incoming: &Incoming<'a>,
        way: &Way<'_>,
        arriving: Arriving,
    ) -> Result<Option<Incoming<'a>>, Verdict> {
        let essentials = &incoming.essentials;
        // Who sends to a phone that is registered elsewhere has been asked there.
        let within = (essentials.to.tag.is_some() && way.token.is_some()) || way.phone.is_some();
        let ours = match essentials.from.sip_uri() {
            Ok(uri) if !within && self.settings.is_domain(&uri.host, uri.port) => uri,
            _ => return Ok(Some(*incoming)),
        };
        let key = self.answered_key(incoming, Asking::Proxy);
        let known = Incoming { arriving: Some(arriving), ..*incoming };
        match self.prove(now, incoming, &ours, Asking::Proxy, key) {
            Proof::NotNeeded => Ok(Some(*incoming)),
            Proof::Given => Ok(Some(Incoming { proved: true, ..known })),
            Proof::Asked | Proof::Waits => Ok(None),
            Proof::TooMany => Err((StatusCode::SERVICE_UNAVAILABLE, None)),
            Proof::OfAnother => {
                let (code, reason) = NOT_YOURS;
                self.answer_last(now, &known, code, reason, None);
                Ok(None)
            }
            Proof::Guesses => Err(GUESSES),
            Proof::OtherResource => Err(OTHER_RESOURCE),
        }
    }

    /// What the request is routed by, as a mark; and an error if one that is marked so was sent from here before: it has
    /// come back unchanged (RFC 5393 section 4.2).
    fn loop_mark(&self, incoming: &Incoming<'_>) -> Result<u64, Verdict> {
        let mark = self.mark(incoming);
        let is_ours = |via: &Via<'_>| {
            self.settings.is_here(&via.host, via.port.unwrap_or(5060))
                && via.branch_id().and_then(ViaBranch::read).is_some_and(|branch| branch.mark == mark)
        };
        let top = &incoming.essentials.via;
        if incoming.message.has_only(top) {
            return if is_ours(top) { Err((StatusCode::LOOP_DETECTED, None)) } else { Ok(mark) };
        }
        for via in incoming.message.vias() {
            let Ok(via) = via else { return Err((StatusCode::BAD_REQUEST, Some("Malformed Via"))) };
            if is_ours(&via) {
                return Err((StatusCode::LOOP_DETECTED, None));
            }
        }
        Ok(mark)
    }

    pub(super) fn mark(&self, incoming: &Incoming<'_>) -> u64 {
        let Incoming { message, essentials, .. } = incoming;
        let mut hasher = self.hasher;
        let mut part = |part: &[u8]| {
            hasher.write_u32(part.len() as u32);
            hasher.write(part);
        };
        part(message.request_line().map_or(&[], |line| line.uri));
        part(essentials.from.tag.unwrap_or(&[]));
        part(essentials.to.tag.unwrap_or(&[]));
        part(essentials.call_id);
        for name in [HeaderName::Route, HeaderName::ProxyRequire, HeaderName::ProxyAuthorization] {
            if message.has(name) {
                message.lines(name).for_each(|line| part(line.value()));
            }
        }
        hasher.write_u32(essentials.cseq.number);
        hasher.finish()
    }

    /// Is this a request for one of our users or for their phone, as who has it from the caller has to answer for?
    pub(super) fn is_for_callee(&self, way: &Way<'_>) -> bool {
        way.asked.is_none() && way.phone.is_none() && (self.gruu_of(way).is_some() || self.is_for_us(way))
    }

    /// A request for one of our users, or for the domain itself; and not by `maddr` for somewhere else (section 16.5).
    pub(super) fn is_for_us(&self, way: &Way<'_>) -> bool {
        match &way.uri {
            Uri::Sip(uri) if way.is_without_routes() => {
                let port = uri.port_or_default();
                let is_here = |maddr| Host::parse(maddr).is_ok_and(|host| self.settings.is_here(&host, port));
                self.settings.is_domain(&uri.host, uri.port)
                    && (uri.params.is_empty() || uri.maddr().is_none_or(is_here))
            }
            _ => false,
        }
    }

    /// A request requires of us, in this header, what isn't known here, and has been refused for that: all of it is told (section
    /// 8.2.2.3), as far as anybody needs to know.
    pub(super) fn lacks(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        name: HeaderName,
    ) -> Result<bool, Verdict> {
        let message = &incoming.message;
        if !message.has(name) {
            return Ok(false);
        }
        let malformed = match name {
            HeaderName::ProxyRequire => "Malformed Proxy-Require",
            _ => "Malformed Require",
        };
        let mut missing: Vec<u8> = Vec::new();
        for option in message.unsupported_of(name, &SUPPORTED) {
            let option = option.map_err(|_| (StatusCode::BAD_REQUEST, Some(malformed)))?;
            if !missing.is_empty() {
                missing.extend_from_slice(b", ");
            }
            missing.extend_from_slice(option.0);
            if missing.len() > UNSUPPORTED_MAX {
                break;
            }
        }
        if missing.is_empty() {
            return Ok(false);
        }
        let extra = Some((HeaderName::Unsupported, &missing[..]));
        self.answer_last(now, incoming, StatusCode::BAD_EXTENSION, None, extra);
        Ok(true)
    }
}
