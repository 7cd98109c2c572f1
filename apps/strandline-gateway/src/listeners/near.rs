//! From an accepted connection to a stream, or to a direct TCP connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use strandline::{Association, RecvStream, SendStream, Stream};
use strandline_ops::{TcpFigures, tcp_figures};
use tokio::io::{AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::counted::Counted;
use crate::client_shares::ClientPermit;
use crate::clock::now;
use crate::config::{self, Fallback};
use crate::contexts::InUse;
use crate::dial;
use crate::direct::{DirectNetworks, Moved};
use crate::fair_sharing::ClientShare;
use crate::first_message::reply;
use crate::gateway::{Gateway, Stage};
use crate::link::Link;
use crate::link_users::User;
use crate::local_addresses::is_own;
use crate::mapping::{Decision, Direct, Inputs, Map, Route, State, decide};
use crate::peer_identity::PeerIdentity;
use crate::protocol::{Destination, Host, Opening, Reason, Reply};
use crate::registry::{CloseReason, Coming, ConnectionGuard, ConnectionInfo};
use crate::relay::{self, Preamble, arrived, prepare};
use crate::rules::{Rules, is_special};

/// Head start of the first set-up of an association before a direct connection is tried too (RFC 8305 section
/// 8: Connection Attempt Delay).
const RACE: Duration = Duration::from_millis(250);
/// Maximum time for a direct connection that is preferred to an existing association.
const DIRECT_PATIENCE: Duration = Duration::from_secs(1);

/// What an accepted connection needs.
pub(super) struct Near {
    pub(super) gateway: Arc<Gateway>,
    pub(super) link: Arc<Link>,
    pub(super) client: SocketAddr,
    /// While the client has not said where it wants to go, neither this process nor the association ends.
    _coming: (Coming, User),
    share: Arc<ClientPermit>,
}

/// The route to the destination, before the reply.
pub(super) enum Started {
    /// A stream, on which the opening was sent.
    Stream(RecvStream, SendStream, ClientShare, InUse),
    /// A direct connection.
    Direct(TcpStream),
}

/// The winner of a race between association and direct connection.
enum RaceWinner {
    Association((Association, Stream, InUse)),
    Tcp(TcpStream),
}

/// The route to the destination, with its answer.
pub(super) struct Answered {
    started: Started,
    /// The address of the far end's socket.
    pub(super) at: Option<SocketAddr>,
    before: Preamble,
}

impl Near {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        link: Arc<Link>,
        client: SocketAddr,
        share: ClientPermit,
    ) -> Self {
        let coming = (gateway.registry.coming(), link.users.user());
        Self { gateway, link, client, _coming: coming, share: Arc::new(share) }
    }

    /// Counts the connection for its link and its client.
    pub(super) fn user(&self) -> (User, Arc<ClientPermit>) {
        (self.link.users.user(), Arc::clone(&self.share))
    }

    /// Adds the connection to the registry.
    pub(super) fn track(&self, listener: &'static str, destination: &Destination) -> ConnectionGuard {
        self.begin(listener, destination.to_string())
    }

    /// Adds a connection to the registry whose client has sent no request that can be served, or that has no
    /// destination for another reason, and removes it.
    pub(super) fn note_malformed(&self, listener: &'static str) {
        self.begin(listener, String::new()).set_end(CloseReason::Malformed);
    }

    fn begin(&self, listener: &'static str, destination: String) -> ConnectionGuard {
        self.gateway.registry.begin(ConnectionInfo {
            listener,
            peer: Arc::clone(&self.link.name),
            client: Some(self.client),
            destination,
            is_near: true,
        })
    }

    /// Carries a connection to whose client the gateway sends nothing and from which it reads no request.
    pub(super) async fn pass(self, listener: &'static str, tcp: TcpStream, to: Destination) {
        let mut tracked = self.track(listener, &to);
        // From here on a failure is a reset.
        if prepare(&tcp, &self.gateway.settings().limits).is_err() {
            return tracked.set_end(CloseReason::ResetHere);
        }
        let user = self.user();
        match self.start(&to, Some(&tcp), Bytes::new(), &tracked).await {
            Ok(started) => self.carry(tcp, Answered::not_yet(started), tracked, user).await,
            Err(end) => tracked.set_end(end),
        }
    }

    /// As [`find`](Self::find), and counts what was decided.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(super) async fn start(
        &self,
        to: &Destination,
        tcp: Option<&TcpStream>,
        first: Bytes,
        tracked: &ConnectionGuard,
    ) -> Result<Started, CloseReason> {
        let found = self.find(to, tcp, first, tracked).await;
        tracked.count_decision();
        found
    }

    /// Begins a connection to a destination. `first` is what the client has sent so far; if it is empty, the
    /// data that `tcp` has received is sent with the opening.
    ///
    /// # Errors
    /// If there is no association, or it is lost at once, or a direct connection failed.
    async fn find(
        &self,
        to: &Destination,
        tcp: Option<&TcpStream>,
        first: Bytes,
        tracked: &ConnectionGuard,
    ) -> Result<Started, CloseReason> {
        let association = self.link.state();
        let (question, listed) = self.question(to, tracked.entry.listener(), association);
        let decision = decide(&question);
        tracked.set_decision(decision);
        if decision.grow {
            self.link.grow(&self.gateway);
        }
        match decision.route {
            Route::Stream => self.send_opening(self.open().await?, to, tcp, first, tracked).await,
            Route::Direct if matches!(association, State::Up(_)) && question.map == Map::Auto => {
                match self.connect(to, listed, DIRECT_PATIENCE).await {
                    // Bytes given to the direct connection are not sent on a stream too.
                    Ok(tcp) => begin_direct(tcp, first, tracked).await,
                    Err(_) => {
                        tracked.set_decision(Decision {
                            route: Route::Stream,
                            reason: "direct_failed",
                            grow: false,
                        });
                        self.send_opening(self.open().await?, to, tcp, first, tracked).await
                    }
                }
            }
            Route::Direct => {
                if question.map != Map::Never {
                    // Set the association up for later connections.
                    self.link.want();
                }
                let connected = self.connect(to, listed, self.connect_timeout()).await;
                let tcp = connected.map_err(CloseReason::Failed)?;
                begin_direct(tcp, first, tracked).await
            }
            Route::Race => {
                let waited = if let State::Beginning(waited) = association { waited } else { RACE };
                let won = self.race(to, listed, RACE.saturating_sub(waited)).await;
                match won.map_err(CloseReason::Failed)? {
                    RaceWinner::Association(opened) => {
                        tracked.set_decision(Decision { route: Route::Stream, ..decision });
                        self.send_opening(opened, to, tcp, first, tracked).await
                    }
                    RaceWinner::Tcp(direct) => {
                        tracked.set_decision(Decision { route: Route::Direct, ..decision });
                        begin_direct(direct, first, tracked).await
                    }
                }
            }
        }
    }

    /// Returns what is to be decided for a connection, and whether a rule lists its destination.
    fn question(&self, to: &Destination, listener: &str, association: State) -> (Inputs, bool) {
        let settings = self.gateway.settings();
        let peer = &self.link.peer;
        let ruled = config::ruled(&settings.map, peer, listener, to);
        let listed = ruled.lists_destination;
        let has_fallback = peer.fallback == Fallback::Tcp;
        let may_be_direct = has_fallback || ruled.map != Map::Always;
        let is_special = |ip| is_special(ip) || (may_be_direct && is_own(SocketAddr::new(ip, to.port)));
        let is_special = !listed && matches!(to.host, Host::Ip(ip) if is_special(ip));
        let (is_direct, direct) = match to.host {
            Host::Ip(ip) => (!is_special, self.gateway.direct.look(ip, now())),
            // The far side may know another host by this name.
            Host::Name(_) => (listed, Direct::default()),
        };
        (Inputs { map: ruled.map, has_fallback, is_direct, is_special, association, direct }, listed)
    }

    async fn open(&self) -> Result<(Association, Stream, InUse), CloseReason> {
        self.link.open().await.map_err(CloseReason::Failed)
    }

    fn connect_timeout(&self) -> Duration {
        self.gateway.settings().limits.connect_timeout
    }

    async fn send_opening(
        &self,
        (_, stream, used): (Association, Stream, InUse),
        to: &Destination,
        tcp: Option<&TcpStream>,
        first: Bytes,
        tracked: &ConnectionGuard,
    ) -> Result<Started, CloseReason> {
        tracked.entry.set_stream(stream.id().0);
        let (recv, mut send) = stream.into_split();
        let first = if first.is_empty() { tcp.map(arrived).unwrap_or_default() } else { first };
        let opening = Opening::Connect { to: to.clone(), source: Some(self.client) };
        let beginning = config::beginning(&self.gateway.settings().priority, to);
        let mut share = used.sharing().add(self.client.ip(), send.id(), beginning);
        let sent = share.send(&mut send, opening.encode(&first).into()).await;
        sent.map_err(|error| CloseReason::of_send(&error))?;
        tracked.entry.add_sent(first.len());
        Ok(Started::Stream(recv, send, share, used))
    }

    /// Waits for the association, and from `delay` on for a direct connection, too: whichever is there first.
    /// Nothing of the application has been sent then (as RFC 8305 section 5).
    async fn race(&self, to: &Destination, listed: bool, delay: Duration) -> Result<RaceWinner, Reason> {
        let opening = self.link.open();
        let connecting = async {
            tokio::time::sleep(delay).await;
            self.connect(to, listed, self.connect_timeout()).await
        };
        tokio::pin!(opening, connecting);
        tokio::select! {
            biased;
            opened = &mut opening => match opened {
                Ok(opened) => Ok(RaceWinner::Association(opened)),
                Err(_) => connecting.await.map(RaceWinner::Tcp),
            },
            connected = &mut connecting => match connected {
                Ok(tcp) => Ok(RaceWinner::Tcp(tcp)),
                Err(_) => opening.await.map(RaceWinner::Association),
            },
        }
    }

    /// Connects directly, and records its round-trip time or failure. An address of this host or its links is
    /// left alone, also if a name stands for it, unless a rule lists the destination.
    async fn connect(&self, to: &Destination, listed: bool, limit: Duration) -> Result<TcpStream, Reason> {
        let known = &self.gateway.direct;
        let settings = self.gateway.settings();
        let mark = settings.own_mark();
        let rules = (!listed).then(Rules::elsewhere);
        let client = PeerIdentity { address: self.client.ip(), key: None };
        let lookups = self.gateway.limits.lookups(client, now());
        let connected = dial::connect(to, rules.as_ref(), limit, mark, &lookups).await.and_then(|tcp| {
            prepare(&tcp, &settings.limits).map_err(|error| (Reason::of(&error), error.to_string()))?;
            Ok(tcp)
        });
        match connected {
            Ok(tcp) => {
                if let (Ok(address), Some(rtt)) = (tcp.peer_addr(), figures(&tcp).rtt) {
                    known.on_connected(address.ip(), rtt, now());
                }
                Ok(tcp)
            }
            Err((reason, text)) => {
                tracing::debug!(destination = %to, %reason, %text, "no direct connection");
                // A refusal shows that the network is reachable.
                let tells = !matches!(reason, Reason::Refused | Reason::NotAllowed);
                if let (Host::Ip(ip), true) = (&to.host, tells) {
                    known.on_failed(*ip, now());
                }
                Err(reason)
            }
        }
    }

    /// Moves the data of a connection: in a task of its own for a stream, and until its end for a direct
    /// connection. `held` is dropped when the connection ends.
    pub(super) async fn carry<H: Send + 'static>(
        &self,
        tcp: TcpStream,
        answered: Answered,
        mut tracked: ConnectionGuard,
        held: H,
    ) {
        match answered.started {
            Started::Stream(recv, send, share, used) => {
                let unread = self.gateway.unread();
                relay::start(tcp, (recv, send, share), answered.before, unread, tracked, (held, used));
            }
            Started::Direct(direct) => {
                tracked.entry.set_connected();
                let end = tokio::select! {
                    end = relay_directly(tcp, direct, &tracked, &self.gateway.direct) => end,
                    () = self.gateway.reached(Stage::Cut) => CloseReason::Cut,
                };
                tracked.set_end(end);
                drop(held);
            }
        }
    }
}

impl Answered {
    /// Does not wait for the reply: [`relay`] reads it before the data.
    pub(super) fn not_yet(started: Started) -> Self {
        Self { started, at: None, before: Preamble::Reply }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// If the far side has no connection.
    pub(super) async fn answer(self) -> Result<Self, CloseReason> {
        match self.started {
            Started::Stream(mut recv, send, share, used) => {
                let (done, rest) = reply(&mut recv).await?;
                let at = match done {
                    Reply::Done { at } => at,
                    Reply::Failed { .. } => None,
                };
                Ok(Self {
                    started: Started::Stream(recv, send, share, used),
                    at,
                    before: Preamble::Data(rest),
                })
            }
            Started::Direct(tcp) => {
                let at = dial::local(&tcp);
                Ok(Self { started: Started::Direct(tcp), at, before: Preamble::Data(Bytes::new()) })
            }
        }
    }
}

/// Sends what the client has sent so far over a direct connection.
async fn begin_direct(
    mut tcp: TcpStream,
    first: Bytes,
    tracked: &ConnectionGuard,
) -> Result<Started, CloseReason> {
    if !first.is_empty() {
        send_first(&mut tcp, &first).await?;
        tracked.entry.add_sent(first.len());
    }
    Ok(Started::Direct(tcp))
}

/// Sends the first bytes to a server. It may have reset the connection by now, or have vanished.
async fn send_first(server: &mut (impl AsyncWrite + Unpin), first: &[u8]) -> Result<(), CloseReason> {
    server.write_all(first).await.map_err(|error| CloseReason::of_server(&error))
}

fn figures(tcp: &TcpStream) -> TcpFigures {
    tcp_figures(tcp).unwrap_or_default()
}

/// Moves data between two TCP connections that are [prepared](prepare), and notes what that tells of the network.
async fn relay_directly(
    here: TcpStream,
    there: TcpStream,
    tracked: &ConnectionGuard,
    known: &DirectNetworks,
) -> CloseReason {
    let begun = now();
    let mut here = Counted::new(here, |len| tracked.entry.add_received(len));
    let mut there = Counted::new(there, |len| tracked.entry.add_sent(len));
    let copied = copy_bidirectional(&mut here, &mut there).await;
    let (failed_here, here, there) = (here.failed, here.tcp, there.tcp);
    if let Ok(address) = there.peer_addr() {
        let found = figures(&there);
        let sent = Moved { bytes: found.bytes_acked, per_sec: found.delivery_rate as f64 };
        let seconds = now().saturating_duration_since(begun).as_secs_f64().max(1e-3);
        let received = Moved { bytes: found.bytes_received, per_sec: found.bytes_received as f64 / seconds };
        known.on_moved(address.ip(), found.rtt, [sent, received], now());
    }
    match copied {
        Ok(_) => {
            for tcp in [&here, &there] {
                let _ = socket2::SockRef::from(tcp).set_linger(None);
            }
            CloseReason::Complete
        }
        Err(error) if failed_here => CloseReason::of_socket(&error),
        Err(error) => CloseReason::of_server(&error),
    }
}

#[cfg(test)]
mod tests;
