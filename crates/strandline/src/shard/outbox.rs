//! The way out: bursts that the engine builds go to the carrier.

use std::io;
use std::task::{Context, Poll};

use strandline_proto::event::Transmit;
use strandline_proto::time::Time;

use crate::carrier::Carrier;
use crate::engine::Engine;
use crate::observe::{self, Direction, PacketObserver};

/// The largest burst: what one GSO send takes.
const BUFFER_BYTES: usize = 65_535;

/// Bursts sent in one go while a lock is held; then others get a turn.
pub(super) const BURSTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Outbox {
    buffer: Box<[u8]>,
    /// A burst in `buffer` that the carrier had no room for.
    blocked: Option<Burst>,
    /// Bytes given to the engine since it was last asked for packets.
    pub(crate) queued_bytes: usize,
    /// Bursts that the carrier refused for good: as if lost on the way.
    pub(crate) refused: u64,
}

/// A burst in the buffer, and how many bytes of it the carrier has taken.
#[derive(Debug, Clone, Copy)]
struct Burst {
    transmit: Transmit,
    sent: usize,
}

impl Burst {
    fn rest(self, buffer: &[u8]) -> &[u8] {
        buffer.get(self.sent..self.transmit.len).unwrap_or_default()
    }
}

/// How a round of sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The engine has nothing more to send now.
    All,
    /// There is more; others' turn first.
    Some,
    /// The carrier is full.
    Blocked,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES].into(), blocked: None, queued_bytes: 0, refused: 0 }
    }
}

impl Outbox {
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Sends what the engine has to send, `bursts_max` bursts of it at most.
    pub(crate) fn run(
        &mut self,
        engine: &mut Engine,
        carrier: &Carrier,
        observer: Option<&dyn PacketObserver>,
        now: Time,
        bursts_max: usize,
    ) -> Sent {
        self.queued_bytes = 0;
        for _ in 0..bursts_max {
            let burst = match self.blocked.take() {
                Some(burst) => burst,
                None => match engine.poll_transmit(now, &mut self.buffer, carrier.segments_max()) {
                    Some(transmit) => {
                        if let Some(observer) = observer {
                            let ends = (transmit.destination, transmit.source);
                            let packets = self.buffer.get(..transmit.len).unwrap_or(&self.buffer);
                            observe::show(
                                observer,
                                engine,
                                Direction::Sent,
                                ends,
                                packets,
                                transmit.segment_size,
                            );
                        }
                        Burst { transmit, sent: 0 }
                    }
                    None => return Sent::All,
                },
            };
            let result = carrier.try_send(&burst.transmit, burst.rest(&self.buffer));
            if !self.settle(burst, result) {
                return Sent::Blocked;
            }
        }
        Sent::Some
    }

    /// Waits until the carrier has room again, and sends the burst that it had none for. Ready if it was sent.
    pub(crate) fn poll_unblock(&mut self, cx: &mut Context<'_>, carrier: &Carrier) -> Poll<()> {
        let Some(burst) = self.blocked.take() else { return Poll::Ready(()) };
        match carrier.poll_send(cx, &burst.transmit, burst.rest(&self.buffer)) {
            Poll::Ready(result) => {
                if !self.settle(burst, result) {
                    // Sent in part: there may be room for more.
                    cx.waker().wake_by_ref();
                }
                Poll::Ready(())
            }
            Poll::Pending => {
                self.blocked = Some(burst);
                Poll::Pending
            }
        }
    }

    /// After an attempt to send: false if the carrier is full.
    fn settle(&mut self, mut burst: Burst, result: io::Result<usize>) -> bool {
        match result {
            Ok(sent) => {
                burst.sent += sent;
                let done = burst.sent >= burst.transmit.len;
                if !done {
                    self.blocked = Some(burst);
                }
                done
            }
            // As good as lost on the way: retransmission takes care of it.
            Err(error) => {
                self.refused += 1;
                tracing::debug!(destination = %burst.transmit.destination, %error, "the carrier refused a burst");
                true
            }
        }
    }
}
