//! The control exchange over a separate association or TCP connection: messages over SCTP; over TCP each
//! message follows its length (4 bytes, big-endian).

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use strandline::{Association, SendInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::protocol::{CONTROL_BYTES_MAX, Message, decode, encode};

/// Time limit for writing a control message.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const LENGTH_BYTES: usize = 4;
/// Maximum number of bytes that a refused peer may still send.
const REST_BYTES_MAX: u64 = 4 << 20;
const REST_TIMEOUT: Duration = Duration::from_secs(2);

/// The association or connection of control messages.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) carrier: Carrier,
    /// The received part of the next message.
    received: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Carrier {
    Sctp(Association),
    Tcp(TcpStream),
}

/// The reason why no control message arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlError {
    /// The other side is gone.
    Gone(String),
    /// The received data is invalid.
    Bad(String),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(why) | Self::Bad(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ControlError {}

impl Channel {
    pub(crate) fn new(carrier: Carrier) -> Self {
        Self { carrier, received: Vec::new() }
    }

    pub(crate) async fn send(&mut self, message: &Message) -> anyhow::Result<()> {
        let bytes = encode(message)?;
        let sent = tokio::time::timeout(SEND_TIMEOUT, async {
            match &mut self.carrier {
                Carrier::Sctp(association) => association.send(&bytes, SendInfo::default()).await?,
                Carrier::Tcp(stream) => {
                    let mut framed = u32::try_from(bytes.len())?.to_be_bytes().to_vec();
                    framed.extend(&bytes);
                    stream.write_all(&framed).await?;
                }
            }
            anyhow::Ok(())
        });
        sent.await.context("the peer has closed the control channel")?.context("sending a control message")
    }

    /// Reports the reason of a refusal and ends the exchange. First discards what the other side still sends,
    /// up to a limit: a TCP connection that is closed with unread data is reset, and the reason would be
    /// lost.
    pub(crate) async fn refuse(mut self, reason: String) {
        // If the reason can't be sent, the peer is gone.
        if self.send(&Message::Refused { reason }).await.is_err() {
            return;
        }
        if let Carrier::Tcp(mut stream) = self.carrier {
            let rest = async {
                stream.shutdown().await?;
                tokio::io::copy(&mut stream.take(REST_BYTES_MAX), &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(REST_TIMEOUT, rest).await;
        }
    }

    /// Returns the next message. No part of it is lost if the future is dropped.
    pub(crate) async fn recv(&mut self) -> Result<Message, ControlError> {
        let bytes = match &mut self.carrier {
            Carrier::Sctp(association) => recv_sctp(association, &mut self.received).await?,
            Carrier::Tcp(stream) => recv_tcp(stream, &mut self.received).await?,
        };
        decode(&bytes).map_err(ControlError::Bad)
    }
}

async fn recv_sctp(association: &Association, received: &mut Vec<u8>) -> Result<Vec<u8>, ControlError> {
    loop {
        let message = association.recv().await.map_err(|error| ControlError::Gone(error.to_string()))?;
        let Some(message) = message else {
            return Err(ControlError::Gone("the peer ended the test".to_owned()));
        };
        if received.len() + message.data.len() > CONTROL_BYTES_MAX {
            return Err(too_long());
        }
        received.extend_from_slice(&message.data);
        if message.ends {
            return Ok(std::mem::take(received));
        }
    }
}

async fn recv_tcp(stream: &mut TcpStream, received: &mut Vec<u8>) -> Result<Vec<u8>, ControlError> {
    loop {
        let mut wanted = LENGTH_BYTES;
        if let Some(length) = received.first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > CONTROL_BYTES_MAX {
                return Err(too_long());
            }
            wanted += length;
            if received.len() == wanted {
                return Ok(std::mem::take(received).split_off(LENGTH_BYTES));
            }
        }
        // Never reads beyond the message: on the connection of a flow, the bytes after it belong to the test.
        let missing = wanted.saturating_sub(received.len()) as u64;
        let read = stream.take(missing).read_buf(received).await;
        if read.map_err(|error| ControlError::Gone(error.to_string()))? == 0 {
            return Err(ControlError::Gone("the peer ended the test".to_owned()));
        }
    }
}

fn too_long() -> ControlError {
    ControlError::Bad(format!("a control message has at most {CONTROL_BYTES_MAX} bytes"))
}
