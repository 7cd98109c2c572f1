//! The ways that an operator has written down: aliases, trunks that stand in for one another, and redirection.

use std::io::Write as _;

use crate::auth::subscriber;
use crate::codec::{HeaderName, Reply, SipUri, StatusCode, Uri, unescape};
use crate::location::write_aor;
use crate::transaction::Time;

use super::Service;
use super::context::{HOP_Q, INSTANCE_Q, Target};
use super::directory::{Alias, Route};
use super::incoming::Incoming;
use super::lookups::Purpose;
use super::proofs::Scale;
use super::reply::answer_flow;
use super::route::Way;

/// A status and a phrase of our own.
type Verdict = (StatusCode, Option<&'static str>);

const DENIED: Verdict = (StatusCode::FORBIDDEN, Some("Relaying Denied"));
const NOT_FOUND: Verdict = (StatusCode::NOT_FOUND, None);
const UNAVAILABLE: Verdict = (StatusCode::TEMPORARILY_UNAVAILABLE, None);

impl Service {
    /// Writes the address of record of a URI of ours, in the domain that its own stands for.
    pub(super) fn name(&mut self, uri: &SipUri<'_>) {
        self.aor.clear();
        write_aor(uri, &mut self.aor);
        let domains = &self.settings.directory.domains;
        if domains.is_empty() {
            return;
        }
        let at = self.aor.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
        let domain = self.aor.get(at..).and_then(|domain| core::str::from_utf8(domain).ok());
        if let Some(other) = domain.and_then(|domain| domains.get(domain)) {
            self.aor.truncate(at);
            self.aor.extend_from_slice(other.as_bytes());
        }
    }

    /// Where a request for one of our domains goes: to the user's phones, those of whom the user stands for, or a trunk. Nowhere yet
    /// if there are no targets then: it waits until somebody has looked for the user.
    pub(super) fn find(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        uri: &SipUri<'_>,
        targets: &mut Vec<Target>,
    ) -> Result<(), Verdict> {
        self.name(uri);
        if let Some(aliases) = self.settings.directory.users.get(&self.aor).cloned() {
            for alias in &aliases {
                match alias {
                    Alias::User(aor) => {
                        self.aor.clone_from(aor);
                        // If one isn't there, others may be.
                        let _ = self.look_up(now, uri, targets);
                    }
                    Alias::Uri(text) => {
                        let uri = Some(text.as_slice().into());
                        targets.extend(self.place_of(text).map(|place| Target::new(uri, place, 1000)));
                    }
                }
            }
            // Several users' phones ring together.
            for target in targets.iter_mut().filter(|target| target.q >= INSTANCE_Q) {
                target.q = 1000;
            }
            targets.sort_by_key(|target| core::cmp::Reverse(target.q));
            return if targets.is_empty() { Err(UNAVAILABLE) } else { Ok(()) };
        }
        let found = self.look_up(now, uri, targets);
        let user = uri.user.unwrap_or(&[]);
        match found {
            Err((StatusCode::NOT_FOUND, _)) => match self.to_trunk(incoming, user, None, targets) {
                Some(found) => found,
                None => self.absent(now, incoming, uri),
            },
            found => found,
        }
    }

    /// What is said of a user who isn't registered: 404 only if it is known that there is none (RFC 3261 sections 16.5, 21.4.5 and
    /// 21.4.18), or where nobody is known at all. Ok if the request waits until somebody has looked.
    fn absent(&mut self, now: Time, incoming: &Incoming<'_>, uri: &SipUri<'_>) -> Result<(), Verdict> {
        let unix_secs = self.unix_secs(now);
        // One who is registered, and can't be reached so: for `sips` by TLS only (RFC 5630 section 4.2).
        if self.locations.bindings(&self.aor).iter().any(|binding| !binding.has_expired(unix_secs)) {
            return Err(UNAVAILABLE);
        }
        let (Some(authenticator), Some(user)) = (&mut self.authenticator, uri.user) else {
            return Err(NOT_FOUND);
        };
        let user: Vec<u8> = unescape(user).collect();
        let host = self.settings.directory.domain_of(&uri.host);
        match authenticator.knows(now, &user, &host) {
            Some(true) => Err(UNAVAILABLE),
            Some(false) => Err(NOT_FOUND),
            // Whoever likes can't keep the database busy, and what is kept of it: for them nobody looks.
            None => {
                let is_known = incoming.proved || self.may_relay(&incoming.flow);
                let who = subscriber(&user, &host);
                if is_known && self.wait_for(incoming, who, Purpose::Callee) {
                    Ok(())
                } else {
                    Err(UNAVAILABLE)
                }
            }
        }
    }

    /// Where a request goes that isn't for one of our domains, if an operator has said so.
    pub(super) fn to_domain(
        &self,
        incoming: &Incoming<'_>,
        way: &Way<'_>,
        targets: &mut Vec<Target>,
    ) -> Option<Result<(), Verdict>> {
        if self.settings.directory.routes.is_empty() || !way.is_without_routes() {
            return None;
        }
        match &way.uri {
            Uri::Sip(uri) => {
                let domain = uri.host.to_string().to_ascii_lowercase();
                self.to_trunk(incoming, uri.user.unwrap_or(&[]), Some(&domain), targets)
            }
            Uri::Tel(uri) => {
                let number: Vec<u8> = uri.digits().collect();
                self.to_trunk(incoming, &number, None, targets)
            }
            Uri::Other(_) => None,
        }
    }

    fn to_trunk(
        &self,
        incoming: &Incoming<'_>,
        user: &[u8],
        domain: Option<&str>,
        targets: &mut Vec<Target>,
    ) -> Option<Result<(), Verdict>> {
        let route = self.settings.directory.route(user, domain)?;
        // A trunk costs money: it is for those who may call other hosts. A registrar asks by itself who comes.
        if !route.registrar && !incoming.proved && !self.may_relay(&incoming.flow) {
            return Some(Err(DENIED));
        }
        self.hops(route, user, self.call_seed(incoming) as usize, targets);
        let none = (StatusCode::BAD_GATEWAY, Some("Unresolvable Destination"));
        Some(if targets.is_empty() { Err(none) } else { Ok(()) })
    }

    /// The hops in their order, those of one priority from another one on each time.
    fn hops(&self, route: &Route, user: &[u8], turn: usize, targets: &mut Vec<Target>) {
        for group in route.hops.chunk_by(|one, other| one.priority == other.priority) {
            let (first, last) = group.split_at(turn % group.len().max(1));
            for hop in last.iter().chain(first) {
                let Ok(Uri::Sip(uri)) = Uri::parse(hop.uri.as_bytes()) else { continue };
                let Some(place) = self.place(&uri) else { continue };
                let named = route.domain.is_none().then(|| {
                    let mut text = b"sip:".to_vec();
                    text.extend_from_slice(user);
                    // Writing to a buffer that grows does not fail.
                    let _ = write!(text, "@{}", uri.host);
                    if let Some(port) = uri.port {
                        let _ = write!(text, ":{port}");
                    }
                    text.into_boxed_slice()
                });
                let q = u16::MAX.saturating_sub(targets.len() as u16).max(HOP_Q);
                targets.push(Target::new(named, place, q));
            }
        }
    }

    /// 302 with where the user is, in place of going there (RFC 3261 section 8.3).
    pub(super) fn redirect(&mut self, incoming: &Incoming<'_>, targets: &[Target]) {
        let Incoming { message, essentials, flow, .. } = incoming;
        let (to, tag) = (answer_flow(*flow, Some(&essentials.via)), self.tag(message, flow));
        let code = StatusCode::MOVED_TEMPORARILY;
        let reply = Reply { to_tag: Some(&tag), source: Some(flow.peer), ..Reply::new(code) };
        let own = message.request_line().map_or(&b""[..], |line| line.uri);
        // Of a phone with several flows each one.
        let all = targets.iter().flat_map(|target| core::iter::once(target).chain(&target.others));
        let mut scale = Scale::new(!self.is_proven(flow), &mut self.transactions, flow);
        let written = self.out.write(to, None, |out| {
            let start = out.len();
            let mut writer = reply.write(message, out);
            for (number, target) in all.enumerate() {
                let uri = target.uri.as_deref().unwrap_or(own);
                let q = if target.q > 1000 { 1000u16.saturating_sub(100 * number as u16) } else { target.q };
                let q = format!(">;q={}.{:03}", q / 1000, q % 1000);
                writer.header(HeaderName::Contact, &[&b"<"[..], uri, q.as_bytes()].concat());
            }
            writer.finish(b"")?;
            scale.weigh(out.len() - start)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "a redirection can't be written");
        }
    }

    /// Hops that have said nothing for too long: the next ones are tried.
    pub(super) fn give_up_hops(&mut self, now: Time) {
        while let Some((_, client, user)) = self.hops.front().copied().filter(|(until, ..)| *until <= now) {
            self.hops.pop_front();
            let context = self.contexts.get(user as u32);
            let leg = context.and_then(|context| context.legs.get((user >> 32) as usize));
            let silent = leg.is_some_and(|leg| leg.client() == Some(client) && !leg.done && !leg.heard);
            let has_more = leg.is_some_and(super::context::Leg::has_more)
                || context.is_some_and(|context| !context.heard && !context.later.is_empty());
            if silent && has_more {
                self.leave_hop(now, user);
            }
        }
    }
}
