//! The targets that an operator has configured: aliases, and trunks whose hops are tried in turn.

use std::io::Write as _;

use crate::codec::{SipUri, StatusCode, Uri};

use super::context::{HOP_Q, INSTANCE_Q, Target};
use super::directory::{Alias, Route};
use super::incoming::{Incoming, Rejection};
use super::route::RouteInfo;
use super::router::Router;
use super::settings::Mode;

const DENIED: Rejection = (StatusCode::FORBIDDEN, Some("Relaying Denied"));
const UNAVAILABLE: Rejection = (StatusCode::TEMPORARILY_UNAVAILABLE, None);

/// The result of determining a user's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Targets.
    Targets,
    /// No targets: the user has no bindings, and no trunk matches.
    Unregistered,
}

impl Router<'_> {
    /// Finds the targets of a request for one of our domains: the user's phones, those of other users that
    /// the user is an alias of, or a trunk.
    pub(super) fn find(
        &self,
        incoming: &Incoming<'_>,
        uri: &SipUri<'_>,
        aor: &mut Vec<u8>,
        targets: &mut Vec<Target>,
    ) -> Result<Found, Rejection> {
        self.setup.write_aor(uri, aor);
        if let Some(aliases) = self.setup.settings.directory.users.get(aor) {
            for alias in aliases {
                match alias {
                    // Other aliases may be reachable.
                    Alias::User(user) => drop(self.registered_targets(user, uri, targets)),
                    Alias::Uri(text) => {
                        let uri = Some(text.as_slice().into());
                        targets.extend(
                            self.setup.destination_of(text).map(|place| Target::new(uri, place, 1000)),
                        );
                    }
                }
            }
            // The phones of several users ring in parallel.
            for target in targets.iter_mut().filter(|target| target.q >= INSTANCE_Q) {
                target.q = 1000;
            }
            targets.sort_by_key(|target| core::cmp::Reverse(target.q));
            return if targets.is_empty() { Err(UNAVAILABLE) } else { Ok(Found::Targets) };
        }
        let user = uri.user.unwrap_or(&[]);
        match self.registered_targets(aor, uri, targets) {
            Err((StatusCode::NOT_FOUND, _)) => match self.trunk_targets(incoming, user, None, targets) {
                Some(found) => found.map(|()| Found::Targets),
                // The user is registered but can't be reached as requested: `sips` requires TLS (RFC 5630
                // section 4.2).
                None if self.has_registered(aor) => Err(UNAVAILABLE),
                None => Ok(Found::Unregistered),
            },
            found => found.map(|()| Found::Targets),
        }
    }

    fn has_registered(&self, aor: &[u8]) -> bool {
        let unix_secs = self.unix_secs();
        self.locations.bindings(aor).iter().any(|binding| !binding.has_expired(unix_secs))
    }

    /// Finds the targets of a request for another domain, if an operator has configured a route there.
    pub(super) fn other_domain_targets(
        &self,
        incoming: &Incoming<'_>,
        route: &RouteInfo<'_>,
        targets: &mut Vec<Target>,
    ) -> Option<Result<(), Rejection>> {
        if self.setup.settings.directory.routes.is_empty() || !route.is_without_routes() {
            return None;
        }
        match &route.uri {
            Uri::Sip(uri) => {
                let domain = uri.host.to_string().to_ascii_lowercase();
                self.trunk_targets(incoming, uri.user.unwrap_or(&[]), Some(&domain), targets)
            }
            Uri::Tel(uri) => {
                let number: Vec<u8> = uri.digits().collect();
                self.trunk_targets(incoming, &number, None, targets)
            }
            Uri::Other(_) => None,
        }
    }

    fn trunk_targets(
        &self,
        incoming: &Incoming<'_>,
        user: &[u8],
        domain: Option<&str>,
        targets: &mut Vec<Target>,
    ) -> Option<Result<(), Rejection>> {
        let route = self.setup.settings.directory.route(user, domain)?;
        // A trunk costs money, so only senders that may call other hosts may use it. A registrar
        // authenticates by itself.
        if !route.registrar && !incoming.proved && !self.may_relay(&incoming.flow) {
            return Some(Err(DENIED));
        }
        self.hops(route, user, self.setup.hashes.call_seed(incoming) as usize, targets);
        let none = (StatusCode::BAD_GATEWAY, Some("Unresolvable Destination"));
        Some(if targets.is_empty() { Err(none) } else { Ok(()) })
    }

    /// Appends the hops of a route in their order; those of one priority rotate with `turn`.
    fn hops(&self, route: &Route, user: &[u8], turn: usize, targets: &mut Vec<Target>) {
        for group in route.hops.chunk_by(|one, other| one.priority == other.priority) {
            let (first, last) = group.split_at(turn % group.len().max(1));
            for hop in last.iter().chain(first) {
                let Ok(Uri::Sip(uri)) = Uri::parse(hop.uri.as_bytes()) else { continue };
                let Some(place) = self.setup.destination(&uri) else { continue };
                let domain = route.domain.as_deref();
                let named = match self.setup.settings.mode {
                    Mode::Redirect => Some(redirected(user, domain, &uri)),
                    _ => domain.is_none().then(|| at_hop(user, &uri).into_boxed_slice()),
                };
                let q = u16::MAX.saturating_sub(targets.len() as u16).max(HOP_Q);
                targets.push(Target::new(named, place, q));
            }
        }
    }
}

/// The URI of a user at a hop.
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

/// The URI of a user at a hop for the Contact of a redirection. A user of another domain keeps that domain
/// (RFC 3261 section 19.1.1).
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
