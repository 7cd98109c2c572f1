//! Passes data between a TCP connection and a stream of an association, in one task.
//!
//! Bytes read from TCP become a message, and are copied only if they are few. Messages received from the
//! stream are gathered and written by one system call. A direction that waits holds no buffer. Stream credit
//! limits what the receiver holds for a slow reader; the sender queues at most 128 KiB beyond it (decision
//! 153).
//!
//! The end of the data is a message of its own ([`END`]), so that it arrives together with the data before
//! it: the end of the stream follows a round trip later. Any other end is a reset on both sides. The TCP
//! connection has SO_LINGER 0, so that it is reset even if this process is killed, and a stream whose writer
//! is dropped unfinished is reset.

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
use crate::peer_rate::Direction;
use crate::protocol::Reason;
use crate::registry::{CloseReason, ConnectionGuard, Entry};

/// Maximum number of bytes of one read, and so of a message.
const READ_MAX: usize = 64 << 10;
/// A read buffer with less free room, in bytes, is replaced.
const READ_MIN: usize = 8 << 10;
/// Shorter messages, in bytes, are copied, so that they do not keep the read buffer alive.
const COPIED_BELOW: usize = 16 << 10;
/// Maximum number of bytes of client data in an opening.
pub(crate) const FIRST_MAX: usize = 16 << 10;
/// Maximum number of messages, and of bytes, that one system call writes.
const BATCH: usize = 16;
const BATCH_BYTES: usize = 256 << 10;
/// Payload protocol identifier of the message that ends the data; all others have 0.
const END: Ppid = Ppid(1);
/// Maximum wait for the acknowledgement of written data before a reset, and the shortest and longest time
/// between two checks.
const SENT_MAX: Duration = Duration::from_secs(30);
const SENT_LOOK_MIN: Duration = Duration::from_millis(1);
const SENT_LOOK_MAX: Duration = Duration::from_millis(250);
/// Number of keepalive probes. Together they take as long as the silence that precedes the first.
const PROBES: u32 = 6;

/// Prepares a TCP connection: no delay, a reset unless both directions have ended, and probes while nothing
/// arrives. There is no TCP_USER_TIMEOUT: it also ends connections whose reader answers, but has stopped.
/// Urgent data is read with the rest.
pub(crate) fn prepare(tcp: &TcpStream, limits: &Limits) -> io::Result<()> {
    SockRef::from(tcp).set_out_of_band_inline(true)?;
    prepare_program(tcp, limits)
}

/// As [`prepare`], for a connection of `strandline run`, whose library sends a byte of urgent data that is
/// not the program's.
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

/// Resets a connection. A FIN would tell the application that the data is complete.
pub(crate) fn reset(tcp: TcpStream) {
    // The socket may have failed already; then it needs no reset.
    let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
}

/// Reads what has already arrived, for the opening message. Returns an empty buffer if nothing has arrived.
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

/// Spawns a task that moves data in both directions until both have ended or one fails. The TCP connection
/// must be [prepared](prepare). The task owns only what the connection needs. `unread` counts bytes that the
/// TCP reader has not taken. `held` is dropped when the task ends.
pub(crate) fn start<H: Send + 'static>(
    tcp: TcpStream,
    (recv, send, share): (RecvStream, SendStream, ClientShare),
    before: Preamble,
    unread: Arc<TakenBytes>,
    mut tracked: ConnectionGuard,
    held: H,
) {
    tokio::spawn(async move {
        let end = relay(tcp, (recv, &unread), (send, share), before, &tracked.entry).await;
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
            // Let the kernel deliver what it still holds.
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

/// Waits until the TCP peer has acknowledged everything that was written, for at most [`SENT_MAX`]: a reset
/// discards the rest, although the sender was told that it arrived.
async fn wait_sent(tcp: &TcpStream) {
    let end = now() + SENT_MAX;
    let mut pause = SENT_LOOK_MIN;
    while now() < end && tcp_figures(tcp).is_ok_and(|figures| figures.is_sending) {
        // The kernel has no notification for this.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SENT_LOOK_MAX);
    }
}

/// How a direction ended, other than by failing.
enum Sent {
    /// The peer has everything.
    Whole,
    /// The peer accepts no more data. Data that it sends is still delivered.
    Stopped,
}

/// From TCP to the stream.
async fn upstream(
    tcp: &TcpStream,
    (mut send, mut share): (SendStream, ClientShare),
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
                entry.keep_rate(Direction::Sent, len).await;
                match share.send(&mut send, take(&mut buffer)).await {
                    Ok(()) => entry.add_sent(len),
                    Err(SendError::Stopped) => return Ok(Sent::Stopped),
                    Err(error) => return Err(CloseReason::of_send(&error)),
                }
                tokio::task::consume_budget().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                buffer = BytesMut::new();
                tokio::select! {
                    biased;
                    ready = tcp.readable() => ready.map_err(|error| CloseReason::of_socket(&error))?,
                    finished = send.finished() => return of_finished(finished),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CloseReason::of_socket(&error)),
        }
    }
    drop(buffer);
    read_end.store(true, Ordering::Relaxed);
    send.set_ppid(END);
    // A message has at least one byte.
    match share.send(&mut send, Bytes::from_static(&[0])).await.and_then(|()| send.finish()) {
        Ok(()) => of_finished(send.finished().await),
        Err(SendError::Stopped) => Ok(Sent::Stopped),
        Err(error) => Err(CloseReason::of_send(&error)),
    }
}

/// Takes the bytes that were read. Few bytes are copied out, since a message would keep the whole buffer
/// alive.
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
            // Free the queue while nothing arrives.
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
        // At the limit for unread data of all associations, and if messages must wait, take one at a time.
        let is_limited = entry.is_limited();
        if !has_ended && !is_limited && !unread.is_full() {
            has_ended = gather(&mut recv, &mut queue).await?;
        }
        let len = bytes_of(&queue);
        if is_limited {
            let _waits = unread.hold(len);
            entry.keep_rate(Direction::Received, len).await;
        }
        write(tcp, &mut queue, unread).await?;
        entry.add_received(len);
        if has_ended {
            break;
        }
        tokio::task::consume_budget().await;
    }
    SockRef::from(tcp).shutdown(std::net::Shutdown::Write).map_err(|error| CloseReason::of_socket(&error))?;
    // All data has arrived. Wait for the end of the stream: to drop the reader earlier would ask the peer to
    // stop.
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
                tcp.writable().await.map_err(|error| CloseReason::of_socket(&error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CloseReason::of_socket(&error)),
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

/// Waits for the reset of a TCP connection whose end was already read, which no read would report.
async fn broken(tcp: &TcpStream, read_end: &AtomicBool) -> CloseReason {
    // Needs no waker: the other direction runs in the same task.
    poll_fn(|_| if read_end.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }).await;
    // An error means that the runtime ends.
    let _ = tcp.ready(Interest::ERROR).await;
    let error: Option<io::Error> = tcp.take_error().ok().flatten();
    error.map_or(CloseReason::ResetHere, |error| CloseReason::of_socket(&error))
}

fn of_finished(finished: Result<(), FinishError>) -> Result<Sent, CloseReason> {
    match finished {
        Ok(()) | Err(FinishError::Refused) => Ok(Sent::Whole),
        Err(FinishError::Stopped) => Ok(Sent::Stopped),
        Err(_) => Err(CloseReason::Lost),
    }
}

/// Converts the failure of a stream before its reply to the reason for the client.
pub(crate) fn reason(end: CloseReason) -> Reason {
    match end {
        CloseReason::Failed(reason) => reason,
        CloseReason::Lost | CloseReason::Cut => Reason::NoAssociation,
        // The far gateway has reset the stream instead of an answer, or the answer can't be understood.
        _ => Reason::Other,
    }
}

#[cfg(test)]
mod tests;
