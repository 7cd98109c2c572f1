//! The directory that an operator configures: aliases of domains and users, and routes to trunks.

use core::time::Duration;
use std::collections::HashMap;

use crate::codec::{Host, SipUri, Uri};

use super::offer::Offer;

/// The target of an alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alias {
    /// A user of ours: a canonical address of record.
    User(Vec<u8>),
    /// A SIP URI at another host.
    Uri(Vec<u8>),
}

/// A hop of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Its SIP URI. Names are resolved (RFC 3263).
    pub uri: String,
    /// The priority: lower values are tried first, hops of equal priority in rotation.
    pub priority: u16,
}

/// A route for requests to some numbers or to a domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// The prefix of the user.
    pub prefix: Option<String>,
    /// The domain of the request; `None` for our domains.
    pub domain: Option<String>,
    /// Its hops, by priority.
    pub hops: Vec<Hop>,
    /// Whether the hops lead to the registrar of the domain, at which phones register through this server
    /// (RFC 5626 section 5).
    pub registrar: bool,
    /// The overload control that its hops are offered; `None` for that of the directory.
    pub offer: Option<Offer>,
}

/// Aliases and routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Domains that are aliases of others.
    pub domains: HashMap<String, String>,
    /// Addresses that are aliases of others.
    pub users: HashMap<Vec<u8>, Vec<Alias>>,
    /// Routes of requests that are not for our users.
    pub routes: Vec<Route>,
    /// Time to wait for a response of a hop before the next one is tried.
    pub failover: Duration,
    /// The overload control that neighbours are offered.
    pub offer: Offer,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            domains: HashMap::new(),
            users: HashMap::new(),
            routes: Vec::new(),
            failover: Duration::from_secs(4),
            offer: Offer::default(),
        }
    }
}

impl Directory {
    /// The domain of which one of ours is an alias, or the domain itself.
    pub(super) fn domain_of<'a>(&'a self, host: &Host<'a>) -> Host<'a> {
        match host {
            _ if self.domains.is_empty() => *host,
            host => {
                let name = host.to_string().trim_matches(['[', ']']).to_ascii_lowercase();
                let other = self.domains.get(&name);
                other.map_or(*host, |other| Host::parse(other.as_bytes()).unwrap_or(*host))
            }
        }
    }

    /// Whether a URI leads to a registrar at which phones register through this server, or to its domain.
    pub(super) fn is_registrar(&self, uri: &SipUri<'_>) -> bool {
        let leads =
            |text: &str| matches!(Uri::parse(text.as_bytes()), Ok(Uri::Sip(hop)) if is_host(uri, &hop.host));
        self.routes.iter().filter(|route| route.registrar).any(|route| {
            let domain = route.domain.as_deref().unwrap_or_default();
            is_host(uri, &Host::Name(domain.as_bytes())) || route.hops.iter().any(|hop| leads(&hop.uri))
        })
    }

    /// The route for a user, at a domain that isn't ours if there is one: the one with the longest prefix.
    #[must_use]
    pub fn route(&self, user: &[u8], domain: Option<&str>) -> Option<&Route> {
        let fits = |route: &&Route| {
            let prefix = route.prefix.as_deref().unwrap_or_default();
            route.domain.as_deref() == domain && user.starts_with(prefix.as_bytes())
        };
        let fitting = self.routes.iter().filter(fits);
        fitting.max_by_key(|route| route.prefix.as_deref().map_or(0, str::len))
    }
}

/// Whether a URI leads to this host, without a `maddr` that names another.
fn is_host(uri: &SipUri<'_>, host: &Host<'_>) -> bool {
    uri.maddr().is_none() && uri.host == *host
}
