//! Passes data between a TCP connection and a stream of an association, in one task.
//!
//! Each direction is a straight line. What is read of TCP becomes a message, without a copy unless it is short, and messages
//! are written together by one system call. A direction that waits holds no buffer. What a connection can hold at most is said by stream
//! credit, for what the reader has not taken, and by the send buffer, of which one stream may fill a quarter.
//!
//! An end is a message, so that it arrives with the data before it: the end of the stream itself follows a round trip later.
//! It passes only after all data before it. Anything else is a reset on both sides: the TCP connection is closed with
//! SO_LINGER 0, also if this process is killed, and a stream whose writer is dropped unfinished is reset.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use strandline::{FinishError, Message, Ppid, RecvStream, SendError, SendStream, TakenBytes};
use strandline_ops::tcp_figures;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::clock::now;
use crate::config::Limits;
use crate::fair_sharing::ClientShare;
use crate::first_message::{of_recv, reply};
use crate::protocol::Reason;
use crate::registry::{CloseReason, ConnectionGuard, Entry};

/// Bytes that one read takes, and so the largest message.
const READ_MAX: usize = 64 << 10;
/// A buffer with less room is replaced.
const READ_MIN: usize = 8 << 10;
/// A message of less has memory of its own.
const COPIED_BELOW: usize = 16 << 10;
/// Bytes that an opening takes along.
pub(crate) const FIRST_MAX: usize = 16 << 10;
/// Messages that are written together.
const BATCH: usize = 16;
const BATCH_BYTES: usize = 256 << 10;
/// Payload protocol identifier of the message that says that nothing follows. All others have 0.
const END: Ppid = Ppid(1);
/// Time for what was written before a reset, and between two looks.
const SENT_MAX: Duration = Duration::from_secs(30);
const SENT_LOOK_MIN: Duration = Duration::from_millis(1);
const SENT_LOOK_MAX: Duration = Duration::from_millis(250);
/// Probes of a silent TCP connection, in as much time again as it was silent before.
const PROBES: u32 = 6;

/// Prepares a TCP connection: no delay, a reset unless it ends completely, and probes while nothing arrives. There is no
/// TCP_USER_TIMEOUT: it also ends connections whose reader answers, but has stopped. Urgent data is read with the rest.
pub(crate) fn prepare(tcp: &TcpStream, limits: &Limits) -> io::Result<()> {
    SockRef::from(tcp).set_out_of_band_inline(true)?;
    prepare_program(tcp, limits)
}

/// As [`prepare`], for a connection of `strandline run`, whose library sends a byte of urgent data that is not the program's.
pub(crate) fn prepare_program(tcp: &TcpStream, limits: &Limits) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(tcp);
    if let Some(time) = limits.keepalive {
        let interval = (time / PROBES).max(Duration::from_secs(1));
        let probes = TcpKeepalive::new().with_time(time).with_interval(interval).with_retries(PROBES);
        socket.set_tcp_keepalive(&probes)?;
    }
    socket.set_linger(Some(Duration::ZERO))
}

/// Ends a connection by a reset: a clean end would say that there was no more to come.
pub(crate) fn reset(tcp: TcpStream) {
    // It may be over already.
    let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
}

/// Reads what has already arrived, for the opening message. Returns nothing if that is so of data, too.
pub(crate) fn arrived(tcp: &TcpStream) -> Bytes {
    let mut buffer = Vec::with_capacity(FIRST_MAX);
    let room = rustix::buffer::spare_capacity(&mut buffer);
    match rustix::net::recv(tcp, room, rustix::net::RecvFlags::DONTWAIT) {
        Ok(_) => Bytes::copy_from_slice(&buffer),
        // The next read finds the error again.
        Err(_) => Bytes::new(),
    }
}

/// What precedes the data that comes from the stream.
pub(crate) enum Preamble {
    /// The answer to the opening.
    Reply,
    /// Data that was already received.
    Data(Bytes),
}

/// Starts to move data in both directions, until both are complete or one fails. The TCP connection was [prepared](prepare).
/// The task is one of its own, so that nothing else is held while a connection lasts. What waits for a reader is counted in
/// `unread`. `held` is dropped at its end.
pub(crate) fn start<H: Send + 'static>(
    tcp: TcpStream,
    (recv, send, lane): (RecvStream, SendStream, ClientShare),
    before: Preamble,
    unread: Arc<TakenBytes>,
    mut tracked: ConnectionGuard,
    held: H,
) {
    tokio::spawn(async move {
        let end = relay(tcp, (recv, &unread), (send, lane), before, &tracked.entry).await;
        tracked.set_end(end);
        drop(held);
    });
}

async fn relay(
    tcp: TcpStream,
    recv: (RecvStream, &TakenBytes),
    send: (SendStream, ClientShare),
    before: Preamble,
    entry: &Entry,
) -> CloseReason {
    let read_end = AtomicBool::new(false);
    let result = {
        let up = upstream(&tcp, send, entry, &read_end);
        let down = downstream(&tcp, recv, before, entry, &read_end);
        tokio::try_join!(up, down)
    };
    match result {
        Ok((Sent::Whole, ())) => {
            // What is left in the kernel is delivered.
            let _ = SockRef::from(&tcp).set_linger(None);
            CloseReason::Complete
        }
        Ok((Sent::Stopped, ())) => {
            wait_sent(&tcp).await;
            CloseReason::ResetThere
        }
        Err(end) => end,
    }
}

/// Waits until the other end has acknowledged what was written, since a reset throws the rest away: the sender was told that it has
/// arrived. One that takes nothing is not waited for much longer than this.
async fn wait_sent(tcp: &TcpStream) {
    let end = now() + SENT_MAX;
    let mut pause = SENT_LOOK_MIN;
    while now() < end && tcp_figures(tcp).is_ok_and(|figures| figures.is_sending) {
        // The kernel tells nobody.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SENT_LOOK_MAX);
    }
}

/// How a direction ended that did not fail.
enum Sent {
    /// The other side has everything.
    Whole,
    /// The other side takes nothing more. What it sends is still delivered.
    Stopped,
}

/// From TCP to the stream.
async fn upstream(
    tcp: &TcpStream,
    (mut send, mut lane): (SendStream, ClientShare),
    entry: &Entry,
    read_end: &AtomicBool,
) -> Result<Sent, CloseReason> {
    let mut buffer = BytesMut::new();
    loop {
        if buffer.capacity() < READ_MIN {
            buffer = BytesMut::with_capacity(READ_MAX);
        }
        match tcp.try_read_buf(&mut buffer) {
            Ok(0) => break,
            Ok(len) => {
                match lane.send(&mut send, take(&mut buffer)).await {
                    Ok(()) => entry.add_sent(len),
                    Err(SendError::Stopped) => return Ok(Sent::Stopped),
                    Err(error) => return Err(of_send(&error)),
                }
                tokio::task::consume_budget().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                buffer = BytesMut::new();
                tokio::select! {
                    biased;
                    ready = tcp.readable() => ready.map_err(|_| CloseReason::ResetHere)?,
                    finished = send.finished() => return of_finished(finished),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(CloseReason::ResetHere),
        }
    }
    drop(buffer);
    read_end.store(true, Ordering::Relaxed);
    send.set_ppid(END);
    // A message has at least one byte.
    match lane.send(&mut send, Bytes::from_static(&[0])).await.and_then(|()| send.finish()) {
        Ok(()) => of_finished(send.finished().await),
        Err(SendError::Stopped) => Ok(Sent::Stopped),
        Err(error) => Err(of_send(&error)),
    }
}

/// Takes what was read. A little of it leaves the buffer, which would otherwise stay as long as the message.
fn take(buffer: &mut BytesMut) -> Bytes {
    if buffer.len() >= COPIED_BELOW {
        return buffer.split().freeze();
    }
    let data = Bytes::copy_from_slice(buffer);
    buffer.clear();
    data
}

/// From the stream to TCP.
async fn downstream(
    tcp: &TcpStream,
    (mut recv, unread): (RecvStream, &TakenBytes),
    before: Preamble,
    entry: &Entry,
    read_end: &AtomicBool,
) -> Result<(), CloseReason> {
    let first = match before {
        Preamble::Data(data) => data,
        Preamble::Reply => reply(&mut recv).await?.1,
    };
    entry.set_connected();
    let mut queue = VecDeque::new();
    if !first.is_empty() {
        queue.push_back(first);
    }
    let mut has_ended = false;
    loop {
        if queue.is_empty() {
            // Until there is something again.
            queue = VecDeque::new();
            let message = tokio::select! {
                biased;
                message = recv.recv() => message,
                end = broken(tcp, read_end) => return Err(end),
            };
            match message.map_err(of_recv)? {
                Some(message) if message.ppid != END => queue.push_back(message.data),
                _ => has_ended = true,
            }
        }
        // While all associations hold as much as they may, a message at a time waits here.
        if !has_ended && !unread.is_full() {
            has_ended = gather(&mut recv, &mut queue).await?;
        }
        let len = bytes_of(&queue);
        write(tcp, &mut queue, unread).await?;
        entry.add_received(len);
        if has_ended {
            break;
        }
        tokio::task::consume_budget().await;
    }
    SockRef::from(tcp).shutdown(std::net::Shutdown::Write).map_err(|_| CloseReason::ResetHere)?;
    // Everything has arrived; to drop the reader before the end of the stream would ask the peer to stop.
    tokio::select! {
        biased;
        _ = recv.recv() => Ok(()),
        end = broken(tcp, read_end) => Err(end),
    }
}

fn bytes_of(queue: &VecDeque<Bytes>) -> usize {
    queue.iter().map(Bytes::len).sum()
}

/// Adds the messages that have arrived. Returns whether the stream has ended.
async fn gather(recv: &mut RecvStream, queue: &mut VecDeque<Bytes>) -> Result<bool, CloseReason> {
    let mut bytes = bytes_of(queue);
    while queue.len() < BATCH && bytes < BATCH_BYTES {
        let Some(received) = at_once(recv.recv()).await else { break };
        match received {
            Ok(Some(Message { ppid: END, .. }) | None) => return Ok(true),
            Ok(Some(Message { data, .. })) => {
                bytes += data.len();
                queue.push_back(data);
            }
            Err(error) => return Err(of_recv(error)),
        }
    }
    Ok(false)
}

/// Returns the output of a future if it is there already.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Writes the queue until it is empty. What the reader does not take is counted as unread.
async fn write(tcp: &TcpStream, queue: &mut VecDeque<Bytes>, unread: &TakenBytes) -> Result<(), CloseReason> {
    while !queue.is_empty() {
        match try_write(tcp, queue) {
            Ok(written) => advance(queue, written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _waits = unread.hold(bytes_of(queue));
                tcp.writable().await.map_err(|_| CloseReason::ResetHere)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(CloseReason::ResetHere),
        }
    }
    Ok(())
}

fn try_write(tcp: &TcpStream, queue: &VecDeque<Bytes>) -> io::Result<usize> {
    if let ([only], []) = queue.as_slices() {
        return tcp.try_write(only);
    }
    let mut slices = [IoSlice::new(&[]); BATCH];
    let mut count = 0;
    for (slice, data) in slices.iter_mut().zip(queue) {
        *slice = IoSlice::new(data);
        count += 1;
    }
    tcp.try_write_vectored(slices.get(..count).unwrap_or_default())
}

fn advance(queue: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(first) = queue.front_mut() {
        if written < first.len() {
            first.advance(written);
            return;
        }
        written -= first.len();
        queue.pop_front();
    }
}

/// Waits until the TCP connection is reset whose end was read: no read would find that.
async fn broken(tcp: &TcpStream, read_end: &AtomicBool) -> CloseReason {
    // Polled again with the other direction, which is in the same task.
    poll_fn(|_| if read_end.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }).await;
    // An error means that the runtime ends.
    let _ = tcp.ready(Interest::ERROR).await;
    CloseReason::ResetHere
}

fn of_finished(finished: Result<(), FinishError>) -> Result<Sent, CloseReason> {
    match finished {
        Ok(()) | Err(FinishError::Refused) => Ok(Sent::Whole),
        Err(FinishError::Stopped) => Ok(Sent::Stopped),
        Err(_) => Err(CloseReason::Lost),
    }
}

fn of_send(error: &SendError) -> CloseReason {
    match error {
        SendError::Stopped => CloseReason::ResetThere,
        _ => CloseReason::Lost,
    }
}

/// Returns why there is no connection, for an error of the stream before the answer.
pub(crate) fn reason(end: CloseReason) -> Reason {
    match end {
        CloseReason::Failed(reason) => reason,
        _ => Reason::NoAssociation,
    }
}

#[cfg(test)]
mod tests;
