//! Passes descriptors from one process to another (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors that the kernel passes at once (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;

/// The byte that is sent with the descriptors.
const MARK: u8 = b'S';

/// Sends descriptors, before anything else on this stream.
///
/// # Errors
/// Returns an error if there are more than [`DESCRIPTORS_MAX`], or the other process has ended.
pub fn send_descriptors(stream: &UnixStream, all: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !ancillary.push(SendAncillaryMessage::ScmRights(all)) {
        return Err(io::Error::other("too many sockets for one process"));
    }
    sendmsg(stream, &[IoSlice::new(&[MARK])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives descriptors that [`send_descriptors`] has sent. They are closed on exec.
///
/// # Errors
/// Returns an error if the other process has ended
/// ([`UnexpectedEof`](io::ErrorKind::UnexpectedEof)), or has sent something else
/// ([`InvalidData`](io::ErrorKind::InvalidData)).
pub fn receive_descriptors(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    match (got.bytes, byte) {
        (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
        (1, [MARK]) => {}
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    let taken = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(taken) => Some(taken),
        _ => None,
    });
    Ok(taken.flatten().collect())
}

#[cfg(test)]
mod tests;
