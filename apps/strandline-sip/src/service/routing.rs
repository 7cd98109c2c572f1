//! The ways that an operator has written down: aliases, trunks that stand in for one another, and redirection.

use std::io::Write as _;

use crate::auth::subscriber;
use crate::bindings::write_aor;
use crate::codec::{HeaderName, Method, Reply, SipUri, StatusCode, Uri, unescape};
use crate::transaction::{Arriving, Time};

use super::context::{HOP_Q, INSTANCE_Q, Target};
use super::directory::{Alias, Route};
use super::incoming::Incoming;
use super::route::Way;
use super::subscriber_queries::Purpose;
use super::{Mode, Service, Settings};

/// A status and a phrase of our own.
type Verdict = (StatusCode, Option<&'static str>);

const DENIED: Verdict = (StatusCode::FORBIDDEN, Some("Relaying Denied"));
const NOT_FOUND: Verdict = (StatusCode::NOT_FOUND, None);
const UNAVAILABLE: Verdict = (StatusCode::TEMPORARILY_UNAVAILABLE, None);

impl Service {
    /// Writes the address of record of a URI of ours, in the domain that its own stands for.
    pub(super) fn name(&mut self, uri: &SipUri<'_>) {
        name_of(&self.settings, uri, &mut self.aor);
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
                if is_known && self.wait_for(now, incoming, who, Purpose::Callee) {
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
                let domain = route.domain.as_deref();
                let named = match self.settings.mode {
                    Mode::Redirect => Some(redirected(user, domain, &uri)),
                    _ => domain.is_none().then(|| at_hop(user, &uri).into_boxed_slice()),
                };
                let q = u16::MAX.saturating_sub(targets.len() as u16).max(HOP_Q);
                targets.push(Target::new(named, place, q));
            }
        }
    }

    /// 302 with where the user is, in place of going there (RFC 3261 section 8.3). It is repeated until its ACK, as all refusals of
    /// transactions are.
    pub(super) fn redirect(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        arriving: Arriving,
        targets: &[Target],
    ) -> Result<(), Verdict> {
        let Incoming { message, essentials, flow, .. } = incoming;
        let own = message.request_line().map_or(&b""[..], |line| line.uri);
        let is_own = |uri: &[u8]| match (Uri::parse(uri), Uri::parse(own)) {
            (Ok(Uri::Sip(one)), Ok(Uri::Sip(other))) => one.matches(&other),
            _ => uri == own,
        };
        // Of a phone with several flows each one. Nobody is sent to where they were going.
        let all = targets.iter().flat_map(|target| core::iter::once(target).chain(&target.others));
        let all = all.filter_map(|target| Some((target.uri.as_deref()?, target.q)));
        let all: Vec<(&[u8], u16)> = all.filter(|(uri, _)| !is_own(uri)).collect();
        if all.is_empty() {
            return Err(NOT_FOUND);
        }
        let full = (StatusCode::SERVICE_UNAVAILABLE, None);
        let begun = Incoming { arriving: Some(arriving), ..*incoming };
        let server = self.begin_answer(&begun).ok_or(full)?;
        let tag = self.tag(message, flow);
        let code = StatusCode::MOVED_TEMPORARILY;
        let reply = Reply { to_tag: Some(&tag), source: Some(flow.peer), ..Reply::new(code) };
        let written = self.transactions.respond(now, server, code, &mut self.out, |out| {
            let mut writer = reply.write(message, out);
            for (number, (uri, q)) in all.iter().enumerate() {
                let q = if *q > 1000 { 1000u16.saturating_sub(100 * number as u16) } else { *q };
                let q = format!(">;q={}.{:03}", q / 1000, q % 1000);
                writer.header(HeaderName::Contact, &[&b"<"[..], uri, q.as_bytes()].concat());
            }
            writer.finish(b"")
        });
        if let Err(error) = written {
            tracing::debug!(%error, "a redirection can't be written");
            self.transactions.forget_server(server);
        } else if essentials.cseq.method == Method::Invite {
            self.told_end = Some(now);
        }
        Ok(())
    }

    /// Hops that have said nothing for too long: the next ones are tried.
    pub(super) fn give_up_hops(&mut self, now: Time) {
        while let Some((_, client, user)) = self.hops.front().copied().filter(|(until, ..)| *until <= now) {
            self.hops.pop_front();
            let context = self.contexts.get(user as u32);
            let branch = context.and_then(|context| context.branches.get((user >> 32) as usize));
            let silent =
                branch.is_some_and(|branch| branch.client() == Some(client) && !branch.done && !branch.heard);
            let has_more = branch.is_some_and(super::context::Branch::has_more)
                || context.is_some_and(|context| !context.heard && !context.later.is_empty());
            if silent && has_more {
                self.leave_hop(now, user);
            }
        }
    }
}

/// Writes the address of record of a URI of ours in place of what is there, in the domain that its own stands for.
pub(super) fn name_of(settings: &Settings, uri: &SipUri<'_>, aor: &mut Vec<u8>) {
    aor.clear();
    write_aor(uri, aor);
    let domains = &settings.directory.domains;
    if domains.is_empty() {
        return;
    }
    let at = aor.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
    let domain = aor.get(at..).and_then(|domain| core::str::from_utf8(domain).ok());
    if let Some(other) = domain.and_then(|domain| domains.get(domain)) {
        aor.truncate(at);
        aor.extend_from_slice(other.as_bytes());
    }
}

/// A user at a hop.
fn at_hop(user: &[u8], hop: &SipUri<'_>) -> Vec<u8> {
    let mut text = b"sip:".to_vec();
    text.extend_from_slice(user);
    // Writing to a buffer that grows does not fail.
    let _ = write!(text, "@{}", hop.host);
    if let Some(port) = hop.port {
        let _ = write!(text, ":{port}");
    }
    text
}

/// The redirection's URI for a caller, who knows nothing else of the hop. A user of another domain stays that (RFC 3261 section 19.1.1).
fn redirected(user: &[u8], domain: Option<&str>, hop: &SipUri<'_>) -> Box<[u8]> {
    let mut text = match domain {
        None => at_hop(user, hop),
        Some(domain) => {
            let mut text = b"sip:".to_vec();
            if !user.is_empty() {
                text.extend_from_slice(user);
                text.push(b'@');
            }
            text.extend_from_slice(domain.as_bytes());
            if let Some(port) = hop.port {
                let _ = write!(text, ":{port}");
            }
            let _ = write!(text, ";maddr={}", hop.host);
            text
        }
    };
    if let Some(transport) = hop.transport() {
        text.extend_from_slice(b";transport=");
        text.extend_from_slice(transport);
    }
    text.into_boxed_slice()
}
