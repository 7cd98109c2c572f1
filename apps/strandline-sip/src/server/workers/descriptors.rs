//! Passes sockets from the supervisor to a worker.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use socket2::{SockRef, Type};

use crate::server::config::Listen;
use crate::transaction::Protocol;

use super::frame::Handed;

/// The maximum that the kernel passes at once (`SCM_MAX_FD`).
const ALL_MAX: usize = 253;
const MARK: u8 = b'S';

/// Sends the descriptors, before anything else.
pub(super) fn send(stream: &UnixStream, all: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ALL_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !ancillary.push(SendAncillaryMessage::ScmRights(all)) {
        return Err(io::Error::other("too many sockets for one process"));
    }
    sendmsg(stream, &[IoSlice::new(&[MARK])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives the descriptors.
pub(super) fn receive(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ALL_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    if got.bytes != 1 || byte != [MARK] {
        return Err(io::Error::other(
            "no supervisor on standard input: --worker is only for processes that the supervisor starts",
        ));
    }
    let taken = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(taken) => Some(taken),
        _ => None,
    });
    Ok(taken.flatten().collect())
}

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
