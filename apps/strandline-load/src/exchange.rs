//! The messages that a client sends and the answers that it expects: a message and its echo, a line and an
//! empty one, or an INVITE and the 200 of a SIP front end.

use std::io::Write as _;

use anyhow::{Result, bail};
use bytes::Bytes;

use crate::job::{Content, Job, Transport};
use crate::sip::{Answer, whole_message};

/// Maximum length in bytes of a message that is part of a line.
const LINE_PIECE: usize = 16_384;

/// A message to send.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) message: Bytes,
    content: Content,
}

impl Exchange {
    pub(crate) fn new(job: &Job) -> Result<Self> {
        if job.message_bytes == 0 {
            bail!("a message needs at least one byte");
        }
        if job.transport == Transport::Udp && job.message_bytes > 65_507 {
            bail!(
                "a UDP datagram can carry at most 65,507 bytes: choose a smaller --size or another transport"
            );
        }
        let message = match job.content {
            Content::Letters => letters(job.message_bytes).into(),
            Content::Line => line(job.message_bytes).into(),
            Content::Invite => invite(job.transport, job.message_bytes)?,
        };
        Ok(Self { message, content: job.content })
    }

    /// Returns the bytes to send, in pieces that fit a send buffer of any size: a line may be long.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Bytes> + '_ {
        let most = if self.content == Content::Line { LINE_PIECE } else { self.message.len() };
        let begins = (0..self.message.len()).step_by(most.max(1));
        begins.map(move |begin| self.message.slice(begin..self.message.len().min(begin + most)))
    }

    /// Returns whether received bytes must be kept until the rest of the answer arrives: false for an echo,
    /// whose bytes are only counted.
    pub(crate) fn is_kept(&self) -> bool {
        self.content == Content::Invite
    }

    /// Returns whether `received` bytes are the whole answer. `text` is the part of it that was kept.
    ///
    /// # Errors
    /// If the answer isn't the expected one.
    pub(crate) fn is_whole(&self, received: usize, text: &[u8]) -> Result<bool> {
        match self.content {
            Content::Letters => Ok(received >= self.message.len()),
            Content::Line => Ok(received > 0),
            Content::Invite => match whole_message(text) {
                None => Ok(false),
                Some(Answer { status: Some(200..=299), .. }) => Ok(true),
                Some(Answer { status: Some(code), .. }) => bail!("the server answered with {code}"),
                Some(Answer { status: None, .. }) => bail!("the server sent an invalid response"),
            },
        }
    }
}

/// Returns letters, so that a capture is readable.
fn letters(len: usize) -> Vec<u8> {
    (0..len).map(|i| b'a' + (i % 26) as u8).collect()
}

fn line(len: usize) -> Vec<u8> {
    let mut line = letters(len - 1);
    line.push(b'\n');
    line
}

/// Returns an INVITE as a proxy would see it, padded to its length by its body.
fn invite(transport: Transport, len: usize) -> Result<Bytes> {
    let via = match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Sctp | Transport::SctpMany => "SCTP",
    };
    let mut head = format!(
        "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/{via} client.invalid;branch=z9hG4bKfrontend;rport\r\n\
         Max-Forwards: 70\r\nFrom: Alice <sip:alice@example.com>;tag=9fxced76sl\r\nTo: Bob <sip:bob@example.com>\r\n\
         Call-ID: 3848276298220188511@client.invalid\r\nCSeq: 1 INVITE\r\n\
         Contact: <sip:alice@client.invalid>\r\nContent-Type: application/sdp\r\nContent-Length: "
    )
    .into_bytes();
    // The length has five digits: the length of the body doesn't change that of the head.
    let Some(body) = len.checked_sub(head.len() + 9) else {
        bail!("an INVITE needs at least {} bytes: choose a larger --size", head.len() + 9)
    };
    write!(head, "{body:05}\r\n\r\n")?;
    head.extend(letters(body));
    Ok(head.into())
}

#[cfg(test)]
mod tests;
