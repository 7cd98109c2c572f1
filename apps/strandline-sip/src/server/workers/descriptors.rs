//! Passes sockets from the supervisor to a worker.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use socket2::{SockRef, Type};

use crate::server::config::Listen;
use crate::transaction::Protocol;

use super::frame::Handed;

/// Inherited listening sockets that were not taken yet.
#[derive(Debug)]
pub(super) struct Inherited(Vec<(Handed, OwnedFd)>);

impl Inherited {
    /// # Errors
    /// Returns an error if the numbers of sockets and descriptions differ.
    pub(super) fn new(handed: Vec<Handed>, sockets: Vec<OwnedFd>) -> Result<Self> {
        if handed.len() != sockets.len() {
            bail!("the supervisor passed {} sockets but announced {}", sockets.len(), handed.len());
        }
        Ok(Self(handed.into_iter().zip(sockets).collect()))
    }

    /// Takes the socket for an address.
    ///
    /// # Errors
    /// Returns an error if there is none, or it is of another kind.
    pub(super) fn take(&mut self, listen: &Listen) -> Result<OwnedFd> {
        let name = listen.protocol.name();
        let is =
            |(handed, _): &(Handed, OwnedFd)| handed.protocol == name && handed.address == listen.address;
        let Some(place) = self.0.iter().position(is) else {
            let others: Vec<String> =
                self.0.iter().map(|(other, _)| format!("{} {}", other.protocol, other.address)).collect();
            bail!(
                "the supervisor passed no socket for this address; the ones left are for {}",
                others.join(", ")
            );
        };
        let (handed, socket) = self.0.swap_remove(place);
        let is_what = is_bound(&socket, listen.protocol, &handed)
            .context("checking a socket passed by the supervisor")?;
        if !is_what {
            bail!("the socket passed by the supervisor is not that of {name} at {}", handed.bound);
        }
        Ok(socket)
    }
}

fn is_bound(socket: &OwnedFd, protocol: Protocol, handed: &Handed) -> io::Result<bool> {
    let socket = SockRef::from(socket);
    let wanted = if protocol == Protocol::Udp { Type::DGRAM } else { Type::STREAM };
    Ok(socket.r#type()? == wanted && socket.local_addr()?.as_socket() == Some(handed.bound))
}

#[cfg(test)]
mod tests;
