//! Sockets handed from the supervisor to a worker.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// As many as the kernel takes at once.
const ALL_MAX: usize = 253;
const MARK: u8 = b'S';

/// Sends descriptors ahead of everything else.
pub(super) fn send(stream: &UnixStream, all: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ALL_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !ancillary.push(SendAncillaryMessage::ScmRights(all)) {
        return Err(io::Error::other("too many sockets for one process"));
    }
    sendmsg(stream, &[IoSlice::new(&[MARK])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Takes them.
pub(super) fn receive(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ALL_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    if got.bytes != 1 || byte != [MARK] {
        return Err(io::Error::other("no supervisor is there: --worker is for processes that it starts"));
    }
    let taken = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(taken) => Some(taken),
        _ => None,
    });
    Ok(taken.flatten().collect())
}
