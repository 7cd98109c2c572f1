//! The first message of each direction of a stream: a header, and data behind it.
//!
//! It may be in parts. Only its header is gathered, which is small: a peer that has not said what it wants,
//! or may have no connection, holds no more than that here. Data behind the header is counted while it waits
//! for a connection, for each association and for all of them.

use bytes::{Bytes, BytesMut};
use strandline::{Ended, Message, RecvError, RecvStream, TakenBytes, TakenBytesGuard};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::protocol::{HEADER_MAX, Reason, Reply, header_len};
use crate::registry::CloseReason;

/// Largest message that is gathered from its parts: the largest datagram.
const WHOLE_MAX: usize = 64 << 10;

/// The first message of a stream up to the end of its header, and of the part in which that is.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The header, at most [`HEADER_MAX`] bytes of it.
    pub(crate) header: Bytes,
    pub(crate) data: FirstData,
}

/// What has come of the data behind a header.
#[derive(Debug)]
pub(crate) struct FirstData {
    bytes: Bytes,
    /// Whether the message ends there.
    is_whole: bool,
}

/// Receives the beginning of the first message of a stream.
///
/// # Errors
/// If the stream ends before.
pub(crate) async fn beginning(recv: &mut RecvStream) -> Result<Beginning, CloseReason> {
    gather(recv, |begun| header_len(begun).min(HEADER_MAX)).await
}

/// Receives a message, and returns its first bytes: at most this number.
///
/// # Errors
/// If the stream ends before.
pub(crate) async fn first_bytes(recv: &mut RecvStream, len_max: usize) -> Result<Bytes, CloseReason> {
    let Beginning { header, data } = gather(recv, |_| len_max).await?;
    let mut is_whole = data.is_whole;
    drop(data);
    while !is_whole {
        is_whole = part(recv).await?.ends;
    }
    Ok(header)
}

async fn part(recv: &mut RecvStream) -> Result<Message, CloseReason> {
    recv.recv().await.map_err(of_recv)?.ok_or(CloseReason::ResetThere)
}

/// Gathers the first bytes of a message, as many as `len_of` says of those that are there.
async fn gather(recv: &mut RecvStream, len_of: impl Fn(&[u8]) -> usize) -> Result<Beginning, CloseReason> {
    let mut header = BytesMut::new();
    loop {
        let Message { data: mut bytes, ends: is_whole, .. } = part(recv).await?;
        loop {
            let len = len_of(&header).saturating_sub(header.len()).min(bytes.len());
            if len == 0 {
                break;
            }
            header.extend_from_slice(&bytes.split_to(len));
        }
        if is_whole || header.len() >= len_of(&header) {
            return Ok(Beginning { header: header.freeze(), data: FirstData { bytes, is_whole } });
        }
    }
}

/// Waits for the answer to an opening. Returns it with the data behind it.
///
/// # Errors
/// How the connection ended, if the far side has none.
pub(crate) async fn reply(recv: &mut RecvStream) -> Result<(Reply, Bytes), CloseReason> {
    let Beginning { header, data } = beginning(recv).await?;
    let (reply, _) = Reply::decode(&header).map_err(|_| CloseReason::Malformed)?;
    match reply {
        Reply::Failed { reason, text } => {
            tracing::debug!(%reason, %text, "the far gateway has no connection");
            Err(CloseReason::Failed(reason))
        }
        done => Ok((done, data.bytes)),
    }
}

/// Returns how a connection ends whose stream has this error.
pub(crate) fn of_recv(error: RecvError) -> CloseReason {
    match error {
        RecvError::Unfinished | RecvError::Abandoned => CloseReason::ResetThere,
        RecvError::Ended(Ended::ShutDown) => CloseReason::ResetThere,
        _ => CloseReason::Lost,
    }
}

/// Room for what the peer of an association has sent behind headers, and what can't be passed on yet.
#[derive(Debug)]
pub(crate) struct WaitingData(Semaphore);

/// First data in the sums of its association and of all, until this value is dropped.
#[derive(Debug)]
pub(crate) struct CountedData<'a> {
    data: FirstData,
    room: &'a WaitingData,
    held: SemaphorePermit<'a>,
    unread: &'a TakenBytes,
    counted: Vec<TakenBytesGuard<'a>>,
}

impl WaitingData {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Semaphore::new(bytes_max))
    }

    /// Counts data; `None` if there is no room for it.
    pub(crate) fn hold<'a>(&'a self, data: FirstData, unread: &'a TakenBytes) -> Option<CountedData<'a>> {
        let len = data.bytes.len();
        let held = self.take(len)?;
        Some(CountedData { data, room: self, held, unread, counted: vec![unread.hold(len)] })
    }

    fn take(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        self.0.try_acquire_many(u32::try_from(bytes).ok()?).ok()
    }
}

impl CountedData<'_> {
    /// The data.
    pub(crate) const fn bytes(&self) -> &Bytes {
        &self.data.bytes
    }

    /// Receives the rest of the message.
    ///
    /// # Errors
    /// If the stream ends before, the message is too large, or there is no room for it.
    pub(crate) async fn complete(&mut self, recv: &mut RecvStream) -> Result<(), CloseReason> {
        if self.data.is_whole {
            return Ok(());
        }
        let mut parts = BytesMut::from(std::mem::take(&mut self.data.bytes));
        while !self.data.is_whole {
            let Message { data, ends, .. } = part(recv).await?;
            if parts.len() + data.len() > WHOLE_MAX {
                return Err(CloseReason::Malformed);
            }
            self.held.merge(self.room.take(data.len()).ok_or(CloseReason::Failed(Reason::Limit))?);
            self.counted.push(self.unread.hold(data.len()));
            parts.extend_from_slice(&data);
            self.data.is_whole = ends;
        }
        self.data.bytes = parts.freeze();
        Ok(())
    }
}
