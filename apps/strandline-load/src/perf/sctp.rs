//! Flows over SCTP: a sending and a receiving task, on the thread of the association's shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use strandline::{Association, Ppid, SendInfo, StreamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::budget::{Budget, Turn};
use super::protocol::{Figures, Parameters};
use super::tally::{Count, Tally, now};

/// Payload protocol identifier of the message after the last one, which holds the numbers of bytes and
/// messages. Messages on other streams may still be in flight when it arrives.
const END: Ppid = Ppid(0x5345_4e44);
/// Length of that message in bytes: two big-endian numbers.
const END_BYTES: usize = 16;
/// Maximum number of messages that a receiver reads at once.
const BATCH: usize = 256;
/// Maximum number of bytes that a reader of a byte stream reads at once.
const READ_BYTES: usize = 128 << 10;
/// Interval at which a sender that waits for its next message checks whether to stop.
const NAP: Duration = Duration::from_millis(50);

/// Sends messages as the budget allows until told to stop, and finally the numbers of bytes and messages
/// sent.
pub(crate) async fn send(
    association: Association,
    parameters: Arc<Parameters>,
    data: Bytes,
    mut budget: Budget,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let status = association.status().context("the association ended")?;
    let streams = parameters.streams.min(status.outbound_streams).max(1);
    let mut info = SendInfo::default();
    info.unordered = parameters.unordered;
    let mut stream = match parameters.byte_stream {
        true => Some(association.open_send(info.stream)?),
        false => None,
    };
    let mut count = Count::default();
    while !stop.load(Ordering::Relaxed) {
        match budget.turn(now) {
            Turn::Send { messages, bytes } => {
                let message = data.get(..bytes).context("a message's length exceeds its data")?;
                for _ in 0..messages {
                    if let Some(stream) = &mut stream {
                        stream.write_all(message).await?;
                    } else if parameters.no_copy {
                        association.send_bytes(data.slice(..bytes), info).await?;
                    } else {
                        // The message is copied, as for an application that has its data in its own buffer.
                        association.send(message, info).await?;
                    }
                    info.stream = StreamId(if info.stream.0 + 1 < streams { info.stream.0 + 1 } else { 0 });
                }
                count.bytes += u64::from(messages) * bytes as u64;
                count.messages += u64::from(messages);
                tally.set(count.bytes, count.messages);
            }
            Turn::WaitUntil(at) => tokio::time::sleep_until(at.min(now() + NAP).into()).await,
            Turn::Done => break,
        }
    }
    let mut end = [0; END_BYTES];
    end[..8].copy_from_slice(&count.bytes.to_be_bytes());
    end[8..].copy_from_slice(&count.messages.to_be_bytes());
    // A byte stream has no message that could be told from others.
    let stream = StreamId(u16::from(parameters.byte_stream));
    association.send(&end, SendInfo::on(stream).ppid(END).immediate()).await?;
    Ok(())
}

/// Reads a byte stream until everything has arrived that the other side reports on another stream to have sent.
pub(crate) async fn read(association: Association, tally: Arc<Tally>) -> anyhow::Result<()> {
    let mut stream = association.open_recv(StreamId(0))?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut count, mut expected) = (Count::default(), None);
    while expected.is_none_or(|expected: Count| count.bytes < expected.bytes) {
        tokio::select! {
            biased;
            read = stream.read(&mut buffer) => match read? {
                0 => bail!("the peer ended the association before all bytes arrived"),
                read => {
                    count.bytes += read as u64;
                    count.messages += 1;
                    tally.set(count.bytes, count.messages);
                }
            },
            message = association.recv(), if expected.is_none() => {
                let message = message?.context("the peer ended the association before all bytes arrived")?;
                expected = Some(parse_end(&message.data).context("the last message is malformed")?);
            }
        }
    }
    let sent = expected.unwrap_or_default().bytes;
    ensure!(count.bytes == sent, "received {} bytes, but the peer sent {sent}", count.bytes);
    Ok(())
}

/// Receives until everything has arrived that the other side reports to have sent.
pub(crate) async fn receive(association: Association, tally: Arc<Tally>, pauses: bool) -> anyhow::Result<()> {
    let mut count = Count::default();
    let (mut latest, mut longest) = (None, Duration::ZERO);
    let mut expected = None;
    let mut messages = Vec::with_capacity(BATCH);
    while expected.is_none_or(|expected: Count| count.bytes < expected.bytes) {
        if association.recv_many(&mut messages, BATCH).await? == 0 {
            bail!("the peer ended the association before all messages arrived");
        }
        if pauses {
            let now = now();
            let pause = latest.replace(now).map_or(Duration::ZERO, |latest| now.duration_since(latest));
            longest = longest.max(pause);
            tally.set_longest_pause(longest);
        }
        for message in messages.drain(..) {
            if message.ppid == END {
                expected = Some(parse_end(&message.data).context("the last message is malformed")?);
            } else {
                count.bytes += message.data.len() as u64;
                count.messages += u64::from(message.ends);
            }
        }
        tally.set(count.bytes, count.messages);
    }
    if expected != Some(count) {
        bail!("received {count:?}, but the peer sent {expected:?}");
    }
    Ok(())
}

fn parse_end(data: &[u8]) -> Option<Count> {
    let (bytes, messages) = (data.first_chunk()?, data.get(8..END_BYTES)?.first_chunk()?);
    let complete = data.len() == END_BYTES;
    complete.then(|| Count { bytes: u64::from_be_bytes(*bytes), messages: u64::from_be_bytes(*messages) })
}

/// Returns the figures that an association reports; `None` once it is gone.
pub(crate) fn figures(association: &Association) -> Option<Figures> {
    let status = association.status()?;
    // The path that carries data: not the primary path while that is inactive.
    let path = association.paths().into_iter().max_by_key(|path| (path.in_use, path.primary))?;
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let stats = status.stats;
    Some(Figures {
        retransmissions: Some(stats.retransmissions.into()),
        fast_recoveries: Some(stats.fast_recoveries.into()),
        timeouts: Some(stats.timeouts.into()),
        packets_sent: Some(stats.packets_sent),
        packets_received: Some(stats.packets_received),
        chunks_sent: Some(stats.data_sent),
        sacks_sent: Some(stats.sacks_sent.into()),
        ecn: Some(status.extensions.ecn),
        marks_received: status.extensions.ecn.then(|| stats.marks_received.into()),
        marks_answered: status.extensions.ecn.then(|| status.marks_answered.into()),
        rtt_us: path.srtt.map(micros),
        rttvar_us: path.rttvar.map(micros),
        cwnd_bytes: Some(path.cwnd.into()),
        in_flight_bytes: Some(status.in_flight.into()),
        send_queue_bytes: Some(status.send_buffered as u64),
        receive_queue_bytes: Some(status.receive_buffered.into()),
        peer_window_bytes: Some(status.peer_rwnd.into()),
        path_mtu_bytes: Some(path.mtu.into()),
    })
}
