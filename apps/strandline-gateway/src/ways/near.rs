//! From an accepted connection to a stream, or straight to the destination.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use strandline::{RecvStream, SendStream};
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use crate::config::Fallback;
use crate::gateway::{Gateway, Stage};
use crate::link::Link;
use crate::onward;
use crate::protocol::{Destination, Opening, Reason, Reply};
use crate::registry::{About, End, Tracked};
use crate::relay::{self, Before, arrived, prepare, reply};

/// What an accepted connection needs.
pub(super) struct Near {
    pub(super) gateway: Arc<Gateway>,
    pub(super) link: Arc<Link>,
    pub(super) client: SocketAddr,
}

/// The way to the destination, before its answer.
pub(super) enum Started {
    /// A stream, on which the opening was sent.
    Stream(RecvStream, SendStream),
    /// A direct connection.
    Direct(TcpStream),
}

/// The way to the destination, with its answer.
pub(super) struct Answered {
    started: Started,
    /// The address of the far end's socket.
    pub(super) at: Option<SocketAddr>,
    before: Before,
}

impl Near {
    /// Adds the connection to the registry.
    pub(super) fn track(&self, way: &'static str, destination: &Destination) -> Tracked {
        self.gateway.registry.begin(About {
            way,
            peer: Arc::clone(&self.link.name),
            client: Some(self.client),
            destination: destination.to_string(),
            is_near: true,
        })
    }

    /// Passes a connection whose client needs no answer, and says nothing before.
    pub(super) async fn pass(self, way: &'static str, tcp: TcpStream, to: Destination) {
        let mut tracked = self.track(way, &to);
        // From here on a failure is a reset.
        if prepare(&tcp).is_err() {
            return tracked.set_end(End::ResetHere);
        }
        let user = self.link.user();
        match self.start(&to, Some(&tcp), Bytes::new(), &tracked).await {
            Ok(started) => self.carry(tcp, Answered::not_yet(started), tracked, user).await,
            Err(reason) => tracked.set_end(End::Failed(reason)),
        }
    }

    /// Begins a connection to a destination. `first` is what the client has sent so far; if that is nothing, what has arrived
    /// at `tcp` goes with it.
    ///
    /// # Errors
    /// If there is no association, or a direct connection failed.
    pub(super) async fn start(
        &self,
        to: &Destination,
        tcp: Option<&TcpStream>,
        first: Bytes,
        tracked: &Tracked,
    ) -> Result<Started, Reason> {
        if self.link.peer.fallback == Fallback::Tcp && !self.link.is_up() {
            return self.go_direct(to, first, tracked).await;
        }
        let (_, stream) = self.link.open().await?;
        tracked.entry.set_stream(stream.id().0);
        let (recv, mut send) = stream.into_split();
        let first = if first.is_empty() { tcp.map(arrived).unwrap_or_default() } else { first };
        let opening = Opening::Connect { to: to.clone(), source: Some(self.client) };
        let sent = send.send(opening.encode(&first).into()).await;
        sent.map_err(|_| Reason::NoAssociation)?;
        tracked.entry.add_sent(first.len());
        Ok(Started::Stream(recv, send))
    }

    async fn go_direct(&self, to: &Destination, first: Bytes, tracked: &Tracked) -> Result<Started, Reason> {
        tracked.entry.set_direct();
        let settings = self.gateway.settings();
        let (limit, mark) = (settings.limits.connect_timeout, settings.own_mark());
        let mut tcp = onward::connect(to, None, limit, mark).await.map_err(|(reason, text)| {
            tracing::debug!(destination = %to, %reason, %text, "no direct connection");
            reason
        })?;
        let prepared = prepare(&tcp);
        prepared.map_err(|_| Reason::Other)?;
        if !first.is_empty() {
            tcp.write_all(&first).await.map_err(|error| Reason::of(&error))?;
            tracked.entry.add_sent(first.len());
        }
        Ok(Started::Direct(tcp))
    }

    /// Moves the data of a connection. Returns while it does, if there is a stream, and otherwise at its end. `held` is dropped
    /// at its end.
    pub(super) async fn carry<H: Send + 'static>(
        &self,
        tcp: TcpStream,
        answered: Answered,
        mut tracked: Tracked,
        held: H,
    ) {
        match answered.started {
            Started::Stream(recv, send) => relay::start(tcp, (recv, send), answered.before, tracked, held),
            Started::Direct(direct) => {
                tracked.entry.set_connected();
                let end = tokio::select! {
                    end = relay_directly(tcp, direct, &tracked) => end,
                    () = self.gateway.reached(Stage::Cut) => End::ResetThere,
                };
                tracked.set_end(end);
                drop(held);
            }
        }
    }
}

impl Answered {
    /// The answer is not waited for: it comes before the data.
    pub(super) fn not_yet(started: Started) -> Self {
        Self { started, at: None, before: Before::Reply }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// If the far side has no connection.
    pub(super) async fn answer(self) -> Result<Self, End> {
        match self.started {
            Started::Stream(mut recv, send) => {
                let (done, rest) = reply(&mut recv).await?;
                let at = match done {
                    Reply::Done { at } => at,
                    Reply::Failed { .. } => None,
                };
                Ok(Self { started: Started::Stream(recv, send), at, before: Before::Data(rest) })
            }
            Started::Direct(tcp) => {
                let at = onward::local(&tcp);
                Ok(Self { started: Started::Direct(tcp), at, before: Before::Data(Bytes::new()) })
            }
        }
    }
}

/// Moves data between two TCP connections that are [prepared](prepare).
async fn relay_directly(mut here: TcpStream, mut there: TcpStream, tracked: &Tracked) -> End {
    match copy_bidirectional(&mut here, &mut there).await {
        Ok((sent, received)) => {
            tracked.entry.add_sent(usize::try_from(sent).unwrap_or(usize::MAX));
            tracked.entry.add_received(usize::try_from(received).unwrap_or(usize::MAX));
            for tcp in [&here, &there] {
                let _ = socket2::SockRef::from(tcp).set_linger(None);
            }
            End::Complete
        }
        Err(_) => End::ResetHere,
    }
}
