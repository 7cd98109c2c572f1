//! Which origin servers speak SCTP.
//!
//! The first request to an origin begins to set up an association beside TCP. Requests take SCTP once it is
//! established, and TCP until then and if it fails. What an origin announces by Alt-Svc takes the place of the
//! first guess: the URL's port as the SCTP port.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use strandline::Stack;
use tokio::sync::watch;
use tokio::time::Instant;

use super::dial::{self, ProxyClient, Timeouts, Way};
use crate::client::Connector;
use crate::front::alt_svc::Announced;
use crate::streams::HttpAssociation;

/// Origins that are remembered. The one that was used least recently is forgotten first.
const ORIGINS_MAX: usize = 1024;
/// Time for which something holds that no origin has announced.
const LIFETIME: Duration = Duration::from_secs(86_400);
/// Time after which SCTP is tried again where it failed.
const RETRY: Duration = Duration::from_secs(300);
/// Time after which an association that isn't used is closed.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// Time between two searches for such associations.
const SWEEP: Duration = Duration::from_secs(60);

/// A host in lower case and a TCP port.
pub(super) type Key = (String, u16);

/// What is known of an origin's SCTP.
#[derive(Debug, Clone)]
enum State {
    Trying,
    Established(HttpAssociation),
    Failed,
}

/// An attempt to speak SCTP with an origin.
struct Link {
    client: ProxyClient,
    state: watch::Receiver<State>,
    begun: Instant,
}

struct Origin {
    port: u16,
    udp_port: u16,
    /// Whether the origin has taken back what it had announced, and announced nothing since.
    is_cleared: bool,
    until: Instant,
    used: Instant,
    link: Option<Link>,
}

/// What is known of all origins.
pub(super) struct Origins {
    /// What the connectors of all origins begin as.
    connector: Connector,
    udp_port: u16,
    timeouts: Timeouts,
    known: Mutex<HashMap<Key, Origin>>,
}

/// A client for an origin on SCTP, and its SCTP port.
pub(super) type OverSctp = (ProxyClient, u16);

impl Origins {
    /// Remembers nothing yet. `udp_port` is that of origins that don't announce one.
    pub(super) fn new(stack: Stack, udp_port: u16, timeouts: Timeouts) -> Arc<Self> {
        let connector = timeouts.sctp(stack, udp_port);
        let origins = Arc::new(Self { connector, udp_port, timeouts, known: Mutex::default() });
        tokio::spawn(sweep(Arc::downgrade(&origins)));
        origins
    }

    /// Returns the stack of the associations.
    pub(super) fn stack(&self) -> Stack {
        self.connector.stack().clone()
    }

    /// Returns the way over SCTP if that is established. Otherwise begins to set it up, unless it failed lately.
    pub(super) fn established(&self, key: &Key) -> Option<OverSctp> {
        let now = now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = match known.get_mut(key) {
            Some(origin) if origin.until > now => origin,
            _ => {
                make_room(&mut known);
                known.insert(key.clone(), self.begin(key, (key.1, self.udp_port), LIFETIME));
                return None;
            }
        };
        origin.used = now;
        let is_over = origin.link.as_ref().is_none_or(|link| link.is_over(now));
        if is_over {
            origin.link = Some(self.link(&key.0, origin.port, origin.udp_port));
            return None;
        }
        origin.link.as_ref()?.established().map(|client| (client, origin.port))
    }

    /// Returns the way over SCTP if that is established or is being set up, for requests that have no other way.
    pub(super) fn begun(&self, key: &Key) -> Option<OverSctp> {
        let established = self.established(key);
        established.or_else(|| {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let origin = known.get(key)?;
            let link = origin.link.as_ref().filter(|link| matches!(&*link.state.borrow(), State::Trying))?;
            Some((link.client.clone(), origin.port))
        })
    }

    fn state(&self, key: &Key) -> Option<watch::Receiver<State>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Some(known.get(key)?.link.as_ref()?.state.clone())
    }

    /// Waits until SCTP is established. If it fails, this never returns.
    pub(super) async fn until_established(&self, key: &Key) {
        if let Some(mut state) = self.state(key) {
            let is_established = |state: &State| matches!(state, State::Established(on) if on.is_usable());
            if state.wait_for(is_established).await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Waits until SCTP is established or has failed, for the case that TCP is refused or silent.
    pub(super) async fn wait(&self, key: &Key, limit: Duration) -> Option<OverSctp> {
        let mut state = self.state(key)?;
        let decided = state.wait_for(|state| !matches!(state, State::Trying));
        let is_established = matches!(
            tokio::time::timeout(limit, decided).await.map(|state| state.map(|state| state.clone())),
            Ok(Ok(State::Established(_)))
        );
        if is_established { self.established(key) } else { None }
    }

    /// Takes note of what an origin announces.
    pub(super) fn learn(&self, key: &Key, announced: Announced) {
        let now = now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(origin) = known.get_mut(key) else { return };
        match announced {
            Announced::Sctp { port, udp_port, lifetime } if !lifetime.is_zero() => {
                let udp_port = udp_port.unwrap_or(self.udp_port);
                let is_new = (origin.port, origin.udp_port) != (port, udp_port) || origin.is_cleared;
                // An overflow isn't possible: lifetimes are at most thirty days.
                origin.until = now.checked_add(lifetime).unwrap_or(now);
                if is_new {
                    (origin.port, origin.udp_port, origin.is_cleared) = (port, udp_port, false);
                    origin.link = Some(self.link(&key.0, port, udp_port));
                }
            }
            _ => {
                origin.fail(now);
                // A later attempt is the first guess again.
                (origin.port, origin.udp_port, origin.is_cleared) = (key.1, self.udp_port, true);
            }
        }
    }

    /// Notes that SCTP failed in a request.
    pub(super) fn fail(&self, key: &Key) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(origin) = known.get_mut(key) {
            origin.fail(now());
        }
    }

    fn begin(&self, key: &Key, (port, udp_port): (u16, u16), lifetime: Duration) -> Origin {
        let now = now();
        let until = now.checked_add(lifetime).unwrap_or(now);
        Origin {
            port,
            udp_port,
            is_cleared: false,
            until,
            used: now,
            link: Some(self.link(&key.0, port, udp_port)),
        }
    }

    /// Begins to set up an association.
    fn link(&self, host: &str, port: u16, udp_port: u16) -> Link {
        // All of them share a budget.
        let connector = self.connector.clone().unshared().encapsulation_port(udp_port);
        let client = dial::client(Way::Sctp(connector.clone()), self.timeouts);
        let (sender, state) = watch::channel(State::Trying);
        let host = host.to_owned();
        tokio::spawn(async move {
            let trying = async {
                let association = connector.association(&host, port).await.ok()?;
                association.established().await.is_ok().then_some(association)
            };
            let found = tokio::select! {
                found = trying => found,
                // Nobody is interested any more.
                () = sender.closed() => return,
            };
            sender.send_replace(found.map_or(State::Failed, State::Established));
        });
        Link { client, state, begun: now() }
    }

    fn sweep(&self) {
        let now = now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, origin| origin.until > now);
        for origin in known.values_mut().filter(|origin| now.duration_since(origin.used) > IDLE_MAX) {
            origin.link = None;
        }
    }
}

impl Origin {
    /// Lets requests take TCP for a while. Those in progress are answered.
    fn fail(&mut self, now: Instant) {
        if let Some(link) = &mut self.link {
            link.state = watch::channel(State::Failed).1;
            link.begun = now;
        }
    }
}

impl Link {
    /// Returns whether to try anew.
    fn is_over(&self, now: Instant) -> bool {
        match &*self.state.borrow() {
            State::Trying => false,
            State::Established(association) => !association.is_usable(),
            State::Failed => now.duration_since(self.begun) > RETRY,
        }
    }

    fn established(&self) -> Option<ProxyClient> {
        matches!(&*self.state.borrow(), State::Established(_)).then(|| self.client.clone())
    }
}

/// Forgets the origin that was used least recently, if there are too many.
fn make_room(known: &mut HashMap<Key, Origin>) {
    if known.len() < ORIGINS_MAX {
        return;
    }
    let oldest = known.iter().min_by_key(|(_, origin)| origin.used).map(|(key, _)| key.clone());
    if let Some(key) = oldest {
        known.remove(&key);
    }
}

/// Closes associations that aren't used.
async fn sweep(origins: Weak<Origins>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(origins) = origins.upgrade() else { return };
        origins.sweep();
    }
}

#[allow(clippy::disallowed_methods, reason = "lifetimes of what was learned from the network")]
fn now() -> Instant {
    Instant::now()
}
