//! Fair sharing of an association's send buffer among clients.
//!
//! While the buffer is full, messages wait in one queue for room. Each client has at most three messages in
//! that queue: a short one, one of the beginning of a connection, and one other. Clients therefore get equal
//! shares, however many connections they have. Inside the buffer, beginnings overtake other data by the
//! weight of their streams, and datagrams overtake beginnings.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use strandline::{Association, SendError, SendStream, StreamId};
use strandline_ops::Network;

/// Weights of datagrams, and of the beginnings of connections. Other streams have weight 1.
const DATAGRAMS: u16 = u16::MAX;
const BEGINNING: u16 = 1000;

/// Maximum length of a short message in bytes: at most one packet, such as a keystroke, a query or an answer.
/// While the buffer is full, connections with more to send have longer messages.
const SHORT_MAX: usize = 1200;

/// The clients of an association.
#[derive(Debug)]
pub(crate) struct FairSharing {
    association: Association,
    clients: Mutex<HashMap<Network, Known>>,
}

/// A client, and the number of its streams.
#[derive(Debug, Default)]
struct Known {
    turns: Arc<Turns>,
    streams: usize,
}

/// A lock for each of a client's three places in the queue.
#[derive(Debug, Default)]
struct Turns {
    short: tokio::sync::Mutex<()>,
    beginnings: tokio::sync::Mutex<()>,
    rest: tokio::sync::Mutex<()>,
}

/// A stream of a client until this value is dropped.
#[derive(Debug)]
pub(crate) struct ClientShare {
    sharing: Arc<FairSharing>,
    client: Network,
    turns: Arc<Turns>,
    stream: StreamId,
    /// Number of bytes of the beginning that are not sent yet.
    left: u64,
}

impl FairSharing {
    pub(crate) fn new(association: Association) -> Arc<Self> {
        // An association that has ended sends nothing.
        let _ = association.control().set_stream_value(StreamId(0), DATAGRAMS);
        Arc::new(Self { association, clients: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Network, Known>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream of a client, whose first bytes are its beginning.
    pub(crate) fn add(self: &Arc<Self>, client: IpAddr, stream: StreamId, beginning: u64) -> ClientShare {
        let client = Network::of(client);
        let turns = {
            let mut clients = self.lock();
            let known = clients.entry(client).or_default();
            known.streams += 1;
            Arc::clone(&known.turns)
        };
        let share = ClientShare { sharing: Arc::clone(self), client, turns, stream, left: beginning };
        if share.left > 0 {
            share.set_weight(BEGINNING);
        }
        share
    }
}

impl ClientShare {
    /// Sends a message. Waits for the client's turn, and while the send buffer is full. A message for which
    /// the stream's reader has no room waits without a turn: it holds up no other.
    ///
    /// # Errors
    /// As those of [`SendStream::send`].
    pub(crate) async fn send(&mut self, send: &mut SendStream, data: Bytes) -> Result<(), SendError> {
        let len = data.len();
        let turn = match self.left {
            _ if len <= SHORT_MAX => &self.turns.short,
            0 => &self.turns.rest,
            _ => &self.turns.beginnings,
        };
        let mut turn = Some(turn.lock().await);
        let mut sending = pin!(send.send(data));
        let (association, stream) = (&self.sharing.association, self.stream);
        poll_fn(|cx| {
            let sent = sending.as_mut().poll(cx);
            if sent.is_pending() && turn.is_some() && association.waits_for_reader(stream) {
                turn = None;
            }
            sent
        })
        .await?;
        drop(turn);
        self.count(len);
        Ok(())
    }

    /// Counts bytes that were sent.
    fn count(&mut self, len: usize) {
        if self.left > 0 {
            self.left = self.left.saturating_sub(len as u64);
            if self.left == 0 {
                self.set_weight(0);
            }
        }
    }

    fn set_weight(&self, weight: u16) {
        // An association that has ended sends nothing.
        let _ = self.sharing.association.control().set_stream_value(self.stream, weight);
    }
}

impl Drop for ClientShare {
    fn drop(&mut self) {
        let mut clients = self.sharing.lock();
        if let Some(known) = clients.get_mut(&self.client) {
            known.streams = known.streams.saturating_sub(1);
            if known.streams == 0 {
                clients.remove(&self.client);
            }
        }
    }
}
