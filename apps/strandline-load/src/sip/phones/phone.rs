//! A phone's connection or association, and requests on it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use strandline::{Address, Association, Peer, SendInfo, Stack};
use strandline_tls::Wire;

use super::order::Part;
use crate::sip::answer::{Came, whole_message};
use crate::sip::carrier::{sctp, tcp};

/// Number of bytes of an answer that are read at a time.
const READ: usize = 4096;

/// An address of phones.
#[derive(Debug)]
pub(super) enum Host {
    Tcp { local: IpAddr, to: tcp::To },
    Sctp { local: IpAddr, stack: Stack, peer: Peer },
}

/// A connected phone.
#[derive(Debug)]
pub(super) enum Phone {
    Tcp(Wire),
    Sctp { local: IpAddr, association: Association },
}

/// A final answer: its code, and the seconds after which the phone may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Final {
    pub(super) code: u16,
    pub(super) retry_after: Option<u64>,
}

impl Host {
    pub(super) fn new(part: &Part, local: IpAddr) -> Result<Self> {
        let Some(carrier) = part.carrier else {
            return Ok(Self::Tcp { local, to: tcp::To { server: part.server, tls: None } });
        };
        let stack = Stack::builder().mixed_trains(true).udp((local, 0).into());
        let stack = stack.with_context(|| format!("opening a UDP socket at {local}"))?;
        let peer = Peer::new(Address::of(part.server), part.server.port()).encapsulation_port(carrier);
        Ok(Self::Sctp { local, stack, peer })
    }

    pub(super) async fn connect(&self) -> Result<Phone> {
        Ok(match self {
            Self::Tcp { local, to } => Phone::Tcp(tcp::connect((*local).into(), to).await?),
            Self::Sctp { local, stack, peer } => {
                let association = sctp::connect(stack, peer).await?;
                Phone::Sctp { local: *local, association }
            }
        })
    }
}

impl Phone {
    /// Returns the phone's address.
    pub(super) fn address(&self) -> Result<SocketAddr> {
        match self {
            Self::Tcp(wire) => Ok(wire.tcp().local_addr()?),
            Self::Sctp { local, association } => {
                let status = association.status().context("the association has ended")?;
                Ok((*local, status.local_port).into())
            }
        }
    }

    /// Sends a request and waits for its final answer.
    pub(super) async fn request(&self, request: &[u8]) -> Result<Final> {
        match self {
            Self::Tcp(wire) => request_over_tcp(wire, request).await,
            Self::Sctp { association, .. } => {
                association.send_bytes(Bytes::copy_from_slice(request), SendInfo::default()).await?;
                loop {
                    let answer = association.recv().await?.context("the server ended the association")?;
                    if let Some(answer) = final_answer(&answer.data) {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// Ends the connection at once.
    pub(super) fn end(self) {
        match self {
            Self::Tcp(wire) => drop(wire),
            Self::Sctp { association, .. } => association.abort("gone"),
        }
    }
}

async fn request_over_tcp(wire: &Wire, request: &[u8]) -> Result<Final> {
    let mut rest = request;
    while !rest.is_empty() {
        match wire.try_write(rest) {
            Ok(len) => rest = rest.get(len..).unwrap_or(&[]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => wire.tcp().writable().await?,
            Err(error) => return Err(error.into()),
        }
    }
    let mut came = Vec::new();
    loop {
        std::future::poll_fn(|context| wire.poll_read_ready(context)).await?;
        let mut room = [0; READ];
        match wire.try_read(&mut room) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(len) => came.extend_from_slice(room.get(..len).unwrap_or(&[])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            // Messages of SIP have a length: the end needs no proof.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                bail!("the server closed the connection")
            }
            Err(error) => return Err(error.into()),
        }
        while let Some(answer) = whole_message(&came) {
            let message: Vec<u8> = came.drain(..answer.len).collect();
            if let Some(answer) = final_answer(&message) {
                return Ok(answer);
            }
        }
    }
}

fn final_answer(bytes: &[u8]) -> Option<Final> {
    let came = Came { bytes };
    let code = came.status().filter(|code| *code >= 200)?;
    let seconds = core::str::from_utf8(came.value("Retry-After")).ok().and_then(|text| text.parse().ok());
    Some(Final { code, retry_after: seconds })
}

#[cfg(test)]
mod tests;
