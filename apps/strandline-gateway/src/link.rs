//! A far gateway and the associations with it: set up, kept, and set up again after a failure.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use strandline::encryption::Encryption;
use strandline::{Association, ConnectError, Ended, Peer, Stack, StackError, Stream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::client_shares::ClientShares;
use crate::clock::{now, unix_time};
use crate::config::{self, Keep};
use crate::contexts::{Coming, Context, Contexts, InUse};
use crate::far::accept_streams;
use crate::far_peer::{FarPeer, Services};
use crate::flow_limit::FlowLimit;
use crate::flows::Flows;
use crate::gateway::{AssociationGuard, Gateway, Stage};
use crate::link_users::LinkUsers;
use crate::local_addresses;
use crate::mapping::{Health, State};
use crate::pace::{Ending, Pace};
use crate::peer_identity::PeerIdentity;
use crate::peer_requests::{request_listener, request_reports};
use crate::protocol::{Destination, Host, Reason};
use crate::reverse_states::{ReverseState, ReverseStates};
use crate::stacks::{StackFactory, check_extensions, dynamic_streams};

/// Maximum time to set up an association.
const SET_UP: Duration = Duration::from_secs(5);
/// Maximum number of associations with old processes of the peer: it may have three.
const LEAVING_MAX: usize = 4;
/// Time between two attempts while connections wait.
const WANTED_EVERY: Duration = Duration::from_millis(500);
/// Interval of the checks for connections of a peer that was removed.
const OVER_EVERY: Duration = Duration::from_millis(250);
/// Interval of the checks of a further context, and time without streams after which it ends.
const CONTEXT_EVERY: Duration = Duration::from_secs(1);
const CONTEXT_IDLE: Duration = Duration::from_secs(60);

/// A far gateway.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: config::Peer,
    pub(crate) name: Arc<str>,
    /// Listeners that the peer is asked to open.
    reverses: Vec<config::Reverse>,
    reverse_states: Arc<ReverseStates>,
    /// The stack of the association, and what opens one for the next process of a peer that restarts.
    stack: Mutex<Stack>,
    reopen: StackFactory,
    encryption: Mutex<Option<Encryption>>,
    /// Set when a reload has removed the peer: no new connections, and the association ends with the last one.
    retired: watch::Sender<bool>,
    /// The association while there is one.
    up: watch::Sender<Option<Arc<Context>>>,
    /// The association while it is being set up. Streams can be opened once the peer has answered.
    coming: watch::Sender<Option<Arc<Context>>>,
    /// Further associations with the peer.
    contexts: Contexts,
    attempt: Mutex<Attempt>,
    /// Notified when a connection needs the association, and when one waits for it.
    wanted: Notify,
    awaited: Notify,
    pub(crate) users: Arc<LinkUsers>,
    /// Room for associations with processes of the peer that have handed over.
    leaving: Arc<Semaphore>,
    /// UDP flows of clients here.
    pub(crate) flows: Arc<Flows>,
    tokens: AtomicU32,
    /// Attempts to set up an association that have failed: each takes other addresses of the peer's names.
    failures: AtomicU32,
    /// Connections of clients here.
    pub(crate) clients: Arc<ClientShares>,
    /// Their UDP flows.
    pub(crate) flow_limit: Arc<FlowLimit>,
}

/// The state of set-up while there is no association.
#[derive(Debug, Clone, Copy)]
enum Attempt {
    /// None was made, or the association was idle.
    None,
    /// The first one is under way, since this time.
    First(Instant),
    /// The latest one failed, or the association was lost.
    Failed,
}

impl Link {
    pub(crate) fn new(
        peer: config::Peer,
        reverses: Vec<config::Reverse>,
        stack: Stack,
        (reopen, encryption): (StackFactory, Option<Encryption>),
    ) -> Self {
        let name = peer.name.as_str().into();
        Self {
            peer,
            name,
            reverses,
            reverse_states: Arc::default(),
            stack: Mutex::new(stack),
            reopen,
            encryption: Mutex::new(encryption),
            retired: watch::Sender::new(false),
            up: watch::Sender::new(None),
            coming: watch::Sender::new(None),
            contexts: Contexts::default(),
            attempt: Mutex::new(Attempt::None),
            wanted: Notify::new(),
            awaited: Notify::new(),
            users: Arc::default(),
            leaving: Arc::new(Semaphore::new(LEAVING_MAX)),
            flows: Arc::default(),
            tokens: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            clients: Arc::default(),
            flow_limit: Arc::default(),
        }
    }

    /// Returns the stack of its association.
    pub(crate) fn stack(&self) -> Stack {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces key and trust, also of its association. Returns true if they have changed.
    ///
    /// # Errors
    /// If nothing is encrypted.
    pub(crate) fn replace_encryption(&self, new: &Encryption) -> Result<bool, StackError> {
        let mut encryption = self.encryption.lock().unwrap_or_else(PoisonError::into_inner);
        if encryption.as_ref().is_some_and(|old| old.is_like(new)) {
            return Ok(false);
        }
        self.stack().replace_encryption(new)?;
        *encryption = Some(new.clone());
        Ok(true)
    }

    /// Ends the association once its last connection has ended.
    pub(crate) fn retire(&self) {
        self.retired.send_replace(true);
    }

    /// Waits until the link is retired, and no connection is left or comes any more.
    async fn is_over(&self, gateway: &Gateway) {
        // The sender lives as long as this value.
        let _ = self.retired.subscribe().wait_for(|retired| *retired).await;
        while self.users.has_any() || gateway.registry.has_connections_of(&self.name) {
            tokio::time::sleep(OVER_EVERY).await;
        }
    }

    /// Returns how long the association lasts. An association that no rule needs is set up on demand.
    fn keeps(&self) -> Keep {
        if self.peer.is_needed { self.peer.keep } else { Keep::OnDemand }
    }

    /// Returns the listeners that the peer is asked for, and what has become of each.
    pub(crate) fn reverses(&self) -> impl Iterator<Item = (&config::Reverse, ReverseState)> {
        let states = &self.reverse_states;
        self.reverses.iter().zip(0..).map(|(reverse, token)| (reverse, states.of(token)))
    }

    /// Returns whether there is an association.
    pub(crate) fn is_up(&self) -> bool {
        self.up.borrow().is_some()
    }

    /// Returns the token of a new UDP flow. Tokens of the listening side have the highest bit set.
    pub(crate) fn next_token(&self) -> u32 {
        self.tokens.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1)
    }

    fn attempt(&self) -> MutexGuard<'_, Attempt> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the association, for a new connection.
    pub(crate) fn state(&self) -> State {
        if let Some(health) = self.health() {
            return State::Up(health);
        }
        match *self.attempt() {
            Attempt::None => State::Beginning(Duration::ZERO),
            Attempt::First(since) => State::Beginning(now().saturating_duration_since(since)),
            Attempt::Failed => State::Gone,
        }
    }

    /// Returns the state of the context that another stream would use; `None` if there is no association.
    fn health(&self) -> Option<Health> {
        let first = self.up.borrow().clone()?;
        self.contexts.health(first, self.peer.contexts_max)
    }

    /// Requests that an on-demand association is set up; no connection waits for it.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Opens a stream on the context with the largest window for it, and waits for an association if there is none.
    ///
    /// # Errors
    /// If there is none after [`wait`](config::Peer::wait).
    pub(crate) async fn open(&self) -> Result<(Association, Stream, InUse), Reason> {
        self.open_on(true).await
    }

    /// As [`open`](Self::open), on the first context: the one whose datagrams are received.
    pub(crate) async fn open_first(&self) -> Result<(Association, Stream, InUse), Reason> {
        self.open_on(false).await
    }

    async fn open_on(&self, any: bool) -> Result<(Association, Stream, InUse), Reason> {
        let (mut up, mut coming) = (self.up.subscribe(), self.coming.subscribe());
        let deadline = now() + self.peer.wait;
        loop {
            let first = up.borrow_and_update().clone();
            let begun = coming.borrow_and_update().clone();
            let tried = match (first, begun) {
                (Some(first), _) => {
                    let best = if any { self.contexts.best(Arc::clone(&first)) } else { Arc::clone(&first) };
                    // One may just have ended.
                    vec![best, first]
                }
                // The first message travels with the COOKIE ECHO.
                (None, begun) => Vec::from_iter(begun),
            };
            for context in tried {
                if let Ok(Some(opened)) = timeout_at(deadline, context.open()).await {
                    return Ok(opened);
                }
            }
            self.wanted.notify_one();
            self.awaited.notify_one();
            let changed = async {
                tokio::select! {
                    changed = up.changed() => changed,
                    changed = coming.changed() => changed,
                }
            };
            match timeout_at(deadline, changed).await {
                Ok(Ok(())) => {}
                _ => return Err(Reason::NoAssociation),
            }
        }
    }

    /// Sets the association up and keeps it until the gateway ends. Then it lets it go: its stack waits for that.
    pub(crate) async fn run(self: Arc<Self>, gateway: Arc<Gateway>) {
        let keeping = async {
            let mut pace = Pace::default();
            let mut has_reported = false;
            loop {
                if self.keeps() == Keep::OnDemand {
                    self.wanted.notified().await;
                }
                let begun = now();
                self.begin_attempt(begun);
                let result = self.set_up(true).await;
                *self.attempt() = if result.is_ok() { Attempt::None } else { Attempt::Failed };
                if result.is_err() {
                    self.coming.send_replace(None);
                }
                if result.as_ref().is_err_and(|error| error.is::<ConnectError>()) {
                    // The previous association was with a process that has handed over and refuses new
                    // streams; no successor was reached.
                    self.up.send_replace(None);
                }
                match result {
                    Ok(context) => {
                        has_reported = false;
                        let since = now();
                        let ending = self.keep(&gateway, context).await;
                        if pace.goes_on(ending, now().saturating_duration_since(since)) {
                            continue;
                        }
                    }
                    Err(error) if has_reported => {
                        tracing::debug!(peer = %self.name, error = format!("{error:#}"), "no association");
                    }
                    Err(error) => {
                        has_reported = true;
                        tracing::warn!(peer = %self.name, error = format!("{error:#}"), "no association");
                    }
                }
                self.pause(begun, &mut pace).await;
            }
        };
        tokio::select! {
            () = keeping => {}
            () = gateway.reached(Stage::Cut) => {}
            () = self.is_over(&gateway) => {
                if let Some(context) = self.up.send_replace(None) {
                    tracing::info!(peer = %self.name, "association of a removed peer shut down");
                    context.association.shutdown().await;
                }
            }
        }
        self.coming.send_replace(None);
        self.up.send_replace(None);
    }

    fn begin_attempt(&self, begun: Instant) {
        let mut attempt = self.attempt();
        if matches!(*attempt, Attempt::None) {
            *attempt = Attempt::First(begun);
        }
    }

    /// Waits until the next attempt is due.
    async fn pause(&self, begun: Instant, pace: &mut Pace) {
        let due = now() + pace.pause(unix_time().subsec_nanos());
        tokio::select! {
            () = sleep_until(due) => {}
            () = self.awaited.notified() => sleep_until((begun + WANTED_EVERY).min(due)).await,
        }
    }

    /// Sets an association up. Connections may use the `first` one before it is established.
    async fn set_up(&self, is_first: bool) -> Result<Arc<Context>> {
        let result = self.try_set_up(is_first).await;
        if result.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    async fn try_set_up(&self, is_first: bool) -> Result<Arc<Context>> {
        let turn = self.failures.load(Ordering::Relaxed) as usize;
        let mut addresses = Vec::new();
        for address in &self.peer.addresses {
            let found = timeout(SET_UP, tokio::net::lookup_host(address.to_string())).await;
            match found.context("resolving its name took too long").and_then(|found| Ok(found?)) {
                // One address of a name: the others are not sure to be of the same host. The next attempt
                // takes the next one.
                Ok(found) => {
                    let found: Vec<_> = found.collect();
                    addresses.extend(found.get(turn % found.len().max(1)));
                }
                Err(error) => tracing::debug!(peer = %self.name, %address, %error, "resolving failed"),
            }
        }
        let from = local_addresses::bind_for(&addresses);
        let mut addresses = addresses.into_iter();
        let first = addresses.next().context("its addresses can't be resolved")?;
        let peer = addresses.fold(Peer::encapsulated(first, self.peer.sctp_port), |peer, address| {
            peer.address_encapsulated(strandline::Address::of(address), address.port())
        });
        // The name for the look-up of known hosts and certificates.
        let name = |address: &Destination| match &address.host {
            Host::Name(name) => Some(name.to_string()),
            Host::Ip(_) => None,
        };
        let peer = match self.peer.addresses.iter().find_map(name) {
            Some(name) => peer.named(name),
            None => peer,
        };
        let stack = self.stack();
        let association = Association::start(&stack, peer, from, None)?;
        association.set_dynamic_streams(dynamic_streams())?;
        let context = Context::new(association.clone());
        if is_first {
            self.coming.send_replace(Some(Arc::clone(&context)));
        }
        match timeout(SET_UP, association.established()).await {
            Ok(established) => established?,
            Err(_) => {
                association.abort("no answer in time");
                return Err(anyhow!("{first} does not answer"));
            }
        };
        let status = association.status().context("it ended at once")?;
        if let Err(lack) = check_extensions(&status) {
            association.abort("a gateway needs more extensions");
            return Err(anyhow!(lack));
        }
        tracing::info!(peer = %self.name, address = %first, "association established");
        Ok(context)
    }

    /// Uses an association until it ends, or the peer hands over to another process.
    async fn keep(self: &Arc<Self>, gateway: &Arc<Gateway>, context: Arc<Context>) -> Ending {
        let association = context.association.clone();
        let listed = gateway.add(&association);
        let address = association.paths().first().map(|path| path.address.ip());
        let who = PeerIdentity {
            address: address.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into()),
            key: association.peer_identity().map(|identity| identity.fingerprint),
        };
        let peer = Arc::new(FarPeer {
            gateway: Arc::clone(gateway),
            name: Arc::clone(&self.name),
            who,
            reverses: self.reverses.clone(),
            flows: Arc::clone(&self.flows),
            sharing: Arc::clone(&context.sharing),
            moved: Notify::new(),
            services: Services::new(&gateway.settings().limits),
        });
        let left = watch::Sender::new(false);
        for (token, reverse) in self.reverses.iter().enumerate() {
            let retired = [self.retired.subscribe(), left.subscribe()];
            let requesting = request_listener(
                association.clone(),
                reverse.clone(),
                self.reverse_states.begin(token as u32),
                Arc::clone(&self.name),
                retired,
            );
            tokio::spawn(requesting);
        }
        let reports = tokio::spawn(request_reports(Arc::clone(&context))).abort_handle();
        self.up.send_replace(Some(Arc::clone(&context)));
        self.coming.send_replace(None);
        let (mut next, mut ending) = (Attempt::Failed, Ending::Lost);
        let ended = tokio::select! {
            ended = association.closed() => ended,
            () = self.flows.receive(&association) => association.closed().await,
            _ = accept_streams(&association, &peer) => association.closed().await,
            () = self.idle() => {
                (next, ending) = (Attempt::None, Ending::Idle);
                *self.attempt() = next;
                self.up.send_replace(None);
                association.shutdown().await
            }
            leaving = self.moved(&peer) => {
                // Stop the tasks that would keep the association in use.
                left.send_replace(true);
                reports.abort();
                self.contexts.forget();
                self.follow();
                let left = Arc::clone(self).leave(context, peer, listed);
                tokio::spawn(async move {
                    left.await;
                    drop(leaving);
                });
                return Ending::Moved;
            }
        };
        drop(listed);
        // Set before `up`, which wakes waiting connections.
        *self.attempt() = next;
        self.up.send_replace(None);
        match ended {
            Ended::ShutDown => tracing::info!(peer = %self.name, "association shut down"),
            other => {
                tracing::warn!(peer = %self.name, reason = %other, "association lost: its connections are reset")
            }
        }
        ending
    }

    /// Waits until the peer has handed over to another process, and one more association with an old process
    /// is allowed.
    async fn moved(&self, peer: &FarPeer) -> Option<OwnedSemaphorePermit> {
        peer.moved.notified().await;
        if *self.retired.borrow() {
            // Nothing new comes that would need another one: this one ends with its last connection.
            return std::future::pending().await;
        }
        if self.leaving.available_permits() == 0 {
            tracing::warn!(peer = %self.name, "the peer hands over again: too many associations with its old processes are in use");
        }
        Arc::clone(&self.leaving).acquire_owned().await.ok()
    }

    /// Prepares for an association with the peer's next process. New connections use the old one until then.
    fn follow(&self) {
        tracing::info!(peer = %self.name, "the peer restarts: its next process gets an association of its own");
        let encryption = self.encryption.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match self.reopen.open(encryption.as_ref()) {
            Ok(stack) => *self.stack.lock().unwrap_or_else(PoisonError::into_inner) = stack,
            Err(error) => tracing::error!(peer = %self.name, %error, "opening a socket failed"),
        }
        if self.keeps() == Keep::OnDemand {
            // The next connection sets it up.
            self.up.send_replace(None);
        }
    }

    /// Serves an association with a process of the peer that has handed over, until its last connection ends.
    async fn leave(self: Arc<Self>, context: Arc<Context>, peer: Arc<FarPeer>, listed: AssociationGuard) {
        let association = &context.association;
        let is_up = || self.up.borrow().as_ref().is_some_and(|up| Arc::ptr_eq(up, &context));
        let is_used = || is_up() || !context.is_unused() || association.control().dynamic_streams() > 0;
        let unused = async {
            // A task that took this context before it was replaced has counted itself by the second check.
            let mut unused = 0;
            while unused < 2 {
                tokio::time::sleep(OVER_EVERY).await;
                unused = if is_used() { 0 } else { unused + 1 };
            }
        };
        let ended = tokio::select! {
            ended = association.closed() => ended,
            () = self.flows.receive(association) => association.closed().await,
            _ = accept_streams(association, &peer) => association.closed().await,
            () = unused => association.shutdown().await,
        };
        tracing::info!(peer = %self.name, %ended, "association with the peer's old process ended");
        if is_up() {
            self.up.send_replace(None);
        }
        drop(listed);
    }

    /// Sets up a further association with the peer, if there may be one.
    pub(crate) fn grow(self: &Arc<Self>, gateway: &Arc<Gateway>) {
        if let Some(coming) = self.contexts.begin(self.peer.contexts_max, now()) {
            let (link, gateway) = (Arc::clone(self), Arc::clone(gateway));
            tokio::spawn(link.keep_further(gateway, coming));
        }
    }

    /// Sets up a further association, and keeps it as long as streams use it.
    async fn keep_further(self: Arc<Self>, gateway: Arc<Gateway>, coming: Coming) {
        let context = match self.set_up(false).await {
            Ok(context) => context,
            Err(error) => {
                self.contexts.fail(coming, now());
                return tracing::debug!(peer = %self.name, error = format!("{error:#}"), "no further association");
            }
        };
        let association = context.association.clone();
        let listed = gateway.add(&association);
        if !self.contexts.finish(coming, Arc::clone(&context)) {
            association.shutdown().await;
            return;
        }
        tokio::spawn(request_reports(Arc::clone(&context)));
        let begun = now();
        let unused = async {
            let mut since = begun;
            loop {
                tokio::time::sleep(CONTEXT_EVERY).await;
                if !context.is_unused() {
                    since = now();
                }
                let is_over = !self.is_up() || context.is_left() || *self.retired.borrow();
                if context.is_unused() && (is_over || now().saturating_duration_since(since) >= CONTEXT_IDLE)
                {
                    return;
                }
            }
        };
        tokio::select! {
            _ = association.closed() => {
                self.contexts.remove(&context);
                let now = now();
                self.contexts.end(now.saturating_duration_since(begun), now);
            }
            () = unused => {
                self.contexts.remove(&context);
                association.shutdown().await;
            }
        }
        tracing::info!(peer = %self.name, "further association ended");
        drop(listed);
    }

    /// Waits until no connection has used the link for its time, if it is to end then.
    async fn idle(&self) {
        if self.keeps() == Keep::Warm {
            return std::future::pending().await;
        }
        loop {
            if self.users.has_connections() {
                self.users.unused().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(self.peer.idle_timeout) => {
                    if !self.users.has_connections() {
                        return;
                    }
                }
                () = self.wanted.notified() => {}
            }
        }
    }
}
