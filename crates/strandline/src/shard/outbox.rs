//! The way out: bursts that the engine builds go to the carrier.

use std::io;
use std::task::{Context, Poll};

use strandline_proto::time::Time;

use crate::bursts::Bursts;
use crate::carrier::Carrier;
use crate::engine::Engine;
use crate::observe::{self, Direction, PacketObserver};

/// Bursts sent in one go while a lock is held; then others get a turn.
pub(super) const BURSTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Outbox {
    /// Between two rounds: what the carrier had no room for.
    bursts: Bursts,
    /// Bytes given to the engine since it was last asked for packets.
    pub(crate) queued_bytes: usize,
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

impl Outbox {
    pub(crate) fn new(mixed_trains: bool) -> Self {
        Self { bursts: Bursts::new(mixed_trains), queued_bytes: 0 }
    }

    pub(crate) fn is_blocked(&self) -> bool {
        !self.bursts.is_empty()
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
        let mut bursts_left = bursts_max;
        loop {
            let more = self.is_blocked() || self.gather(engine, carrier, observer, now, &mut bursts_left);
            let result = carrier.try_send(&mut self.bursts);
            self.settle(result);
            if self.is_blocked() {
                return Sent::Blocked;
            }
            if !more {
                return Sent::All;
            }
            if bursts_left == 0 {
                return Sent::Some;
            }
        }
    }

    /// Asks the engine for bursts until enough are there to be sent together. False if it has no more.
    fn gather(
        &mut self,
        engine: &mut Engine,
        carrier: &Carrier,
        observer: Option<&dyn PacketObserver>,
        now: Time,
        bursts_left: &mut usize,
    ) -> bool {
        while *bursts_left > 0
            && let Some(room) = self.bursts.room()
        {
            let Some(transmit) = engine.poll_transmit(now, room, carrier.segments_max()) else {
                return false;
            };
            *bursts_left -= 1;
            let packets = self.bursts.add(transmit);
            if let Some(observer) = observer {
                let ends = (transmit.destination, transmit.source);
                observe::show(observer, engine, Direction::Sent, ends, packets, transmit.segment_size);
            }
        }
        true
    }

    /// Waits until the carrier has room again, and sends what it had none for. Ready if some of it was sent.
    pub(crate) fn poll_unblock(&mut self, cx: &mut Context<'_>, carrier: &Carrier) -> Poll<()> {
        if !self.is_blocked() {
            return Poll::Ready(());
        }
        let Poll::Ready(result) = carrier.poll_send(cx, &mut self.bursts) else { return Poll::Pending };
        self.settle(result);
        if self.is_blocked() {
            // Sent in part: there may be room for more.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(())
    }

    /// After an attempt to send: what the carrier refuses for good is as good as lost on the way, and retransmission takes
    /// care of it.
    fn settle(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::debug!(%error, "the carrier refused what was to be sent");
            self.bursts.clear();
        }
    }
}
