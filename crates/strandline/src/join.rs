//! Joins the parts of large messages into whole messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::BytesMut;
use strandline_proto::event::Message;
use strandline_proto::number::StreamId;
use thiserror::Error;

use crate::id::AssociationId;

/// Why a message can't be joined. The error is reported once for each message; later parts of that message are
/// dropped, and other messages are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The message is longer than the limit.
    #[error(
        "a message on stream {stream} is longer than {limit} bytes, the limit of the joiner: raise the limit or read parts"
    )]
    TooLong {
        /// The message's stream.
        stream: u16,
        /// The limit, bytes.
        limit: usize,
    },
    /// The message is not longer than the limit, but the association's incomplete messages together would be.
    #[error(
        "a message on stream {stream} and the other incomplete ones together are longer than {limit} bytes, the limit \
         of the joiner: raise the limit or read parts"
    )]
    Full {
        /// The message's stream.
        stream: u16,
        /// The limit, bytes.
        limit: usize,
    },
    /// The first parts of the message were received elsewhere, or before a [`Joiner::clear`].
    #[error("a message on stream {stream} lacks its beginning: give the joiner all parts")]
    NoBeginning {
        /// The message's stream.
        stream: u16,
    },
}

/// State of an incomplete message.
#[derive(Debug)]
enum Held {
    Parts {
        first: Message,
        data: BytesMut,
    },
    /// The message can't be joined: its parts are dropped up to its end.
    Dropped,
}

/// Joins the parts of messages of one association into whole messages.
///
/// Messages larger than the receive buffer arrive in parts (see [`Message::ends`]). Parts of different streams,
/// and of ordered and unordered messages of one stream, may be interleaved. A message that arrives whole is
/// passed on without a copy.
///
/// All incomplete messages of an association together hold no more bytes than the joiner's limit. No message is longer,
/// and one that arrives whole needs no room beside them.
///
/// ```
/// use strandline::{Association, Joiner, Listener, SendInfo, Stack};
/// # use strandline::memory::Network;
/// # use strandline::AssociationConfig;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let config = AssociationConfig {
/// #     receive_buffer: Some(64 << 10), partial_delivery_point: 16 << 10, ..AssociationConfig::default()
/// # };
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
/// # let listener = Listener::bind(&there, 7)?;
/// # let client = Association::connect(&here, strandline::Peer::new([10, 0, 0, 2], 7)).await?;
/// # let server = listener.accept().await?;
/// client.send(&[7; 200_000], SendInfo::default()).await?;
///
/// let mut joiner = Joiner::new(1 << 20);
/// let whole = loop {
///     let part = server.recv().await?.ok_or("the peer shut down")?;
///     if let Some(whole) = joiner.push(part)? {
///         break whole;
///     }
/// };
/// assert_eq!(whole.data.len(), 200_000);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Joiner {
    limit: usize,
    bytes: usize,
    held: HashMap<(StreamId, bool), Held>,
}

impl Joiner {
    /// Creates a joiner whose incomplete messages together hold up to `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { limit: bytes_max, bytes: 0, held: HashMap::new() }
    }

    /// Adds the next part that the association delivered. Returns the whole message with its last part.
    ///
    /// # Errors
    /// If the message is longer than the limit, if it would be with the other incomplete ones, or if it lacks its
    /// beginning. The message is dropped.
    pub fn push(&mut self, part: Message) -> Result<Option<Message>, JoinError> {
        let key = (part.stream, part.unordered);
        if part.begins {
            // The association restarted: the rest of the older message will never arrive.
            self.forget(key);
        }
        let Message { begins, ends, .. } = part;
        let (stream, limit, len) = (part.stream.0, self.limit, part.data.len());
        if len > limit - self.held_of(key) {
            return self.drop_message(key, ends, JoinError::TooLong { stream, limit });
        }
        if begins && ends {
            return Ok(Some(part));
        }
        if len > limit - self.bytes {
            return self.drop_message(key, ends, JoinError::Full { stream, limit });
        }
        match self.held.entry(key) {
            Entry::Vacant(vacant) if begins => {
                self.bytes += len;
                let data = BytesMut::from(&part.data[..]);
                vacant.insert(Held::Parts { first: part, data });
                Ok(None)
            }
            Entry::Vacant(_) => self.drop_message(key, ends, JoinError::NoBeginning { stream }),
            Entry::Occupied(mut held) => {
                if let Held::Parts { data, .. } = held.get_mut() {
                    self.bytes += len;
                    data.extend_from_slice(&part.data);
                }
                if !ends {
                    return Ok(None);
                }
                Ok(match held.remove() {
                    Held::Parts { first: mut message, data } => {
                        self.bytes -= data.len();
                        (message.data, message.ends) = (data.freeze(), true);
                        Some(message)
                    }
                    Held::Dropped => None,
                })
            }
        }
    }

    /// Returns the bytes held in incomplete messages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a message has begun and not ended. Such a message is lost if the association ends or
    /// [`recv`](crate::Association::recv) reports that the peer [restarted](crate::RecvError::Restarted) or
    /// [gave it up](crate::RecvError::Abandoned).
    #[must_use]
    pub fn has_incomplete(&self) -> bool {
        !self.held.is_empty()
    }

    /// Drops all incomplete messages.
    pub fn clear(&mut self) {
        self.held.clear();
        self.bytes = 0;
    }

    /// Returns the bytes held of one message.
    fn held_of(&self, key: (StreamId, bool)) -> usize {
        match self.held.get(&key) {
            Some(Held::Parts { data, .. }) => data.len(),
            Some(Held::Dropped) | None => 0,
        }
    }

    fn forget(&mut self, key: (StreamId, bool)) {
        if let Some(Held::Parts { data, .. }) = self.held.remove(&key) {
            self.bytes -= data.len();
        }
    }

    /// Drops a message and the parts held of it. Returns its error only the first time.
    fn drop_message(
        &mut self,
        key: (StreamId, bool),
        ends: bool,
        error: JoinError,
    ) -> Result<Option<Message>, JoinError> {
        let known = matches!(self.held.get(&key), Some(Held::Dropped));
        self.forget(key);
        if !ends {
            self.held.insert(key, Held::Dropped);
        }
        if known { Ok(None) } else { Err(error) }
    }
}

/// Joins the parts of messages of the associations of a one-to-many [`Endpoint`](crate::Endpoint), as
/// [`Joiner`] does for one association.
///
/// ```
/// use strandline::{Endpoint, EndpointJoiner, Notification, SendInfo, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// let server = Endpoint::bind(&there, 7)?;
/// # let client = Endpoint::bind(&here, 0)?;
/// # client.send_to_peer(strandline::Peer::new([10, 0, 0, 2], 7), "hello".into(), SendInfo::default()).await?;
/// let mut notifications = server.notifications();
/// let mut joiner = EndpointJoiner::new(1 << 20);
/// let message = loop {
///     tokio::select! {
///         received = server.recv_from() => {
///             let (from, part) = received?;
///             if let Some(message) = joiner.push(from, part)? {
///                 break message;
///             }
///         }
///         Some((Some(id), Notification::Closed { .. })) = notifications.next() => {
///             if joiner.forget(id) {
///                 eprintln!("a message of {id} was cut off");
///             }
///         }
///     }
/// };
/// assert_eq!(message.data, "hello");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct EndpointJoiner {
    limit: usize,
    joiners: HashMap<AssociationId, Joiner>,
}

impl EndpointJoiner {
    /// Creates a joiner that holds up to `bytes_max` bytes of incomplete messages for each association.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { limit: bytes_max, joiners: HashMap::new() }
    }

    /// Adds the next part that the endpoint delivered. Returns the whole message with its last part.
    ///
    /// # Errors
    /// See [`Joiner::push`].
    pub fn push(&mut self, from: AssociationId, part: Message) -> Result<Option<Message>, JoinError> {
        let joiner = self.joiners.entry(from).or_insert_with(|| Joiner::new(self.limit));
        let joined = joiner.push(part);
        if joiner.held.is_empty() {
            self.joiners.remove(&from);
        }
        joined
    }

    /// Drops the incomplete messages of an association, and returns whether there were any. Call it when the
    /// association has ended, since the rest will never arrive.
    pub fn forget(&mut self, association: AssociationId) -> bool {
        self.joiners.remove(&association).is_some_and(|joiner| joiner.has_incomplete())
    }

    /// Returns the bytes held in incomplete messages of all associations.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.joiners.values().map(Joiner::bytes).sum()
    }
}

#[cfg(test)]
mod tests;
