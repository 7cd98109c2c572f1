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

/// The byte that is sent with descriptors that more follow, and with the last ones.
const MORE: u8 = b'M';
const LAST: u8 = b'S';
/// Maximum number of messages that are received.
const MESSAGES_MAX: usize = 1024;

/// Sends descriptors, in as many messages as they need. The stream must be blocking, and the other process
/// must receive.
///
/// # Errors
/// Returns an error if the other process has ended, or the kernel refuses: more descriptors are under way
/// than this process may have open.
pub fn send_descriptors(stream: &UnixStream, all: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut rest = all;
    loop {
        let (part, behind) = rest.split_at(rest.len().min(DESCRIPTORS_MAX));
        let mark = if behind.is_empty() { LAST } else { MORE };
        send_some(stream, part, mark)?;
        if behind.is_empty() {
            return Ok(());
        }
        rest = behind;
    }
}

fn send_some(stream: &UnixStream, some: &[BorrowedFd<'_>], mark: u8) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !ancillary.push(SendAncillaryMessage::ScmRights(some)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    sendmsg(stream, &[IoSlice::new(&[mark])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives descriptors that [`send_descriptors`] has sent. They are closed on exec.
///
/// # Errors
/// Returns an error if the other process has ended
/// ([`UnexpectedEof`](io::ErrorKind::UnexpectedEof)), or has sent something else
/// ([`InvalidData`](io::ErrorKind::InvalidData)).
pub fn receive_descriptors(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::new();
    for _ in 0..MESSAGES_MAX {
        if receive_some(stream, &mut all)? == LAST {
            return Ok(all);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Receives one message. Returns its mark.
fn receive_some(stream: &UnixStream, all: &mut Vec<OwnedFd>) -> io::Result<u8> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    match (got.bytes, byte) {
        (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
        (1, [MORE | LAST]) => {}
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    let taken = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(taken) => Some(taken),
        _ => None,
    });
    all.extend(taken.flatten());
    let [mark] = byte;
    Ok(mark)
}

/// Sends a byte, and a descriptor with it if there is one, on a stream that may be non-blocking.
///
/// # Errors
/// Returns an error if the other process has ended, or a non-blocking stream has no room
/// ([`WouldBlock`](io::ErrorKind::WouldBlock)).
pub fn send_note(stream: impl AsFd, note: u8, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    let passed = descriptor.map(|descriptor| [descriptor]);
    if let Some(passed) = &passed {
        // There is room for it.
        ancillary.push(SendAncillaryMessage::ScmRights(passed));
    }
    sendmsg(stream, &[IoSlice::new(&[note])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives what [`send_note`] has sent. The descriptor is closed on exec. `None` if the other process has ended.
///
/// # Errors
/// Returns an error if the stream is broken, or a non-blocking one has nothing
/// ([`WouldBlock`](io::ErrorKind::WouldBlock)).
pub fn receive_note(stream: impl AsFd) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let passed = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut taken) => taken.next(),
        _ => None,
    });
    let [note] = byte;
    Ok((got.bytes > 0).then_some((note, passed)))
}

#[cfg(test)]
mod tests;
