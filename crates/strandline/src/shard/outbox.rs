//! Sends the bursts that the engine builds through the carrier.

use std::io;
use std::task::{Context, Poll};

use strandline_proto::time::Time;

use crate::bursts::Bursts;
use crate::carrier::Carrier;
use crate::engine::Engine;
use crate::observe::{self, Direction, PacketObserver};

use super::foreign::Foreign;
use super::secure::Secure;

/// Limit of bursts sent in one round while a lock is held; then other tasks get a turn.
pub(super) const BURSTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Outbox {
    /// Bursts that the carrier had no room for, kept between two rounds.
    bursts: Bursts,
    /// Answers to peers that encrypt, if this stack does not.
    pub(crate) foreign: Foreign,
    /// Bytes queued in the engine since it was last asked for packets.
    pub(crate) queued_bytes: usize,
}

/// How a round of sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The engine has nothing more to send now.
    All,
    /// There is more to send after other tasks had their turn.
    Some,
    /// The carrier is full.
    Blocked,
}

impl Outbox {
    pub(crate) fn new(mixed_trains: bool) -> Self {
        Self { bursts: Bursts::new(mixed_trains), foreign: Foreign::default(), queued_bytes: 0 }
    }

    pub(crate) fn is_blocked(&self) -> bool {
        !self.bursts.is_empty()
    }

    /// Sends what the engine has ready, at most `bursts_max` bursts.
    pub(crate) fn run(
        &mut self,
        engine: &mut Engine,
        mut secure: Option<&mut Secure>,
        carrier: &Carrier,
        observer: Option<&dyn PacketObserver>,
        now: Time,
        bursts_max: usize,
    ) -> Sent {
        self.queued_bytes = 0;
        let mut bursts_left = bursts_max;
        loop {
            let more = self.is_blocked()
                || match &mut secure {
                    None => self.gather(engine, carrier, observer, now, &mut bursts_left),
                    Some(secure) => {
                        let segments_max = carrier.segments_max();
                        secure.gather(engine, &mut self.bursts, segments_max, observer, now, &mut bursts_left)
                    }
                };
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

    /// Gathers bursts from the engine until there are enough to send together. Returns false if the engine has
    /// no more.
    fn gather(
        &mut self,
        engine: &mut Engine,
        carrier: &Carrier,
        observer: Option<&dyn PacketObserver>,
        now: Time,
        bursts_left: &mut usize,
    ) -> bool {
        self.foreign.gather(&mut self.bursts);
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

    /// Waits until the carrier has room again, and sends the bursts that it had no room for. Ready if some of
    /// them were sent.
    pub(crate) fn poll_unblock(&mut self, cx: &mut Context<'_>, carrier: &Carrier) -> Poll<()> {
        if !self.is_blocked() {
            return Poll::Ready(());
        }
        let Poll::Ready(result) = carrier.poll_send(cx, &mut self.bursts) else { return Poll::Pending };
        self.settle(result);
        if self.is_blocked() {
            // Only a part was sent: there may be room for more.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(())
    }

    /// Handles the result of a send. Packets that the carrier refuses with an error are dropped; they are
    /// retransmitted like packets lost on the way.
    fn settle(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::debug!(%error, "sending packets failed");
            self.bursts.clear();
        }
    }
}
