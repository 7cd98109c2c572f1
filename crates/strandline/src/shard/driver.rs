//! The task that drives a shard: it feeds arriving packets to the engine, advances time, and sends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use strandline_io::AddressChanges;
use strandline_proto::event::Datagram;
use strandline_proto::time::Time;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

use super::alarm::Alarm;
use super::busy_poll::{BusyPoll, set_up_steps};
use super::core::{Shard, wake};
use super::drops::Drops;
use super::follower::follow;
use super::outbox::Sent;
use super::secure::next_timeout;
use super::state::{State, next_look};
use super::steer::Sorter;
use crate::carrier::Batch;
use crate::observe::{self, Direction};

/// Rounds before other tasks of the runtime get a turn.
const ROUNDS_MAX: usize = 16;

/// Limit of bytes received together that may be a request worth answering before the SACK is sent: an initial
/// window, which is the most that arrives in one piece at first.
const ANSWER_BYTES: usize = 16 << 10;

/// Limit of bytes received before the tasks that they woke get their turn: what these read is then still in the
/// processor's cache, and the memory of what they have read is reused there.
const TURN_BYTES: usize = 256 << 10;

/// What the driver does after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Run another round at once.
    Again,
    /// Run another round after the tasks that were just woken have run.
    Yield,
    /// Look for packets again after other tasks and events of the runtime had their turn.
    Poll,
    /// Wait until something wakes the driver.
    Wait,
    /// End the task.
    End,
}

/// The future that a shard's task runs. It ends once no handle of the stack is left and the last association
/// has ended.
#[derive(Debug)]
pub(crate) struct Driver {
    shard: Arc<Shard>,
    batch: Batch,
    /// Sorts packets between shards, if there are several.
    sorter: Option<Sorter>,
    /// The task that watches for ICMP messages.
    errors: AbortHandle,
    /// The task that follows the addresses of this host, if the carrier is the kernel's.
    follower: Option<AbortHandle>,
    alarm: Alarm,
    busy_poll: BusyPoll,
    drops: Drops,
    /// Received data woke tasks, and nothing has been sent since.
    yielded: bool,
    /// Bytes received since other tasks had their turn.
    turn_bytes: usize,
}

impl Driver {
    /// Must be called from within the runtime.
    pub(crate) fn new(
        shard: Arc<Shard>,
        changes: Option<AsyncFd<AddressChanges>>,
        busy_poll: Duration,
    ) -> Self {
        let alarm = Alarm::new(&shard.carrier, &shard.clock);
        let batch = shard.carrier.batch();
        let errors = tokio::spawn(watch_errors(Arc::clone(&shard))).abort_handle();
        let follow = |changes| tokio::spawn(follow(Arc::clone(&shard), changes)).abort_handle();
        let follower = changes.map(follow);
        let sorter = shard.steer.clone().map(Sorter::new);
        // Time in an in-memory network may be virtual, and its packets wake the driver at once.
        let limit = if shard.carrier.is_of_the_kernel() { busy_poll } else { Duration::ZERO };
        let busy_poll = BusyPoll::new(limit);
        let drops = Drops::new(shard.carrier.receive_drops());
        Self {
            shard,
            batch,
            sorter,
            errors,
            follower,
            alarm,
            busy_poll,
            drops,
            yielded: false,
            turn_bytes: 0,
        }
    }

    fn round(&mut self, cx: &mut Context<'_>) -> Round {
        let answering = std::mem::take(&mut self.yielded);
        let received = match self.receive(cx, answering) {
            Ok(received) => received,
            Err(error) => {
                tracing::error!(%error, "receiving failed; the stack shuts down");
                return Round::End;
            }
        };
        let mail = self.sorter.as_mut().is_some_and(|sorter| sorter.fetch(cx.waker()));
        let shard = Arc::clone(&self.shard);
        let mut state = shard.lock();
        let now = shard.clock.now();
        state.now = now;
        if received {
            self.busy_poll.on_received(now);
            let drops = self.drops.look(now, || shard.carrier.receive_drops());
            state.engine.note_receive_drops(now, drops);
            self.feed(&mut state, now);
        }
        self.exchange(&mut state, now, mail);
        if received {
            state.dispatch(now);
            if std::mem::take(&mut state.readable)
                && !state.to_wake.is_empty()
                && self.batch.bytes() <= ANSWER_BYTES
            {
                // Woken tasks may have an answer, which then travels with the SACK. A peer that sends a lot is
                // better served by an immediate SACK.
                self.yielded = true;
                let woken = std::mem::take(&mut state.to_wake);
                drop(state);
                wake(woken);
                return Round::Yield;
            }
        }
        let more = Self::work(&shard, &mut state, now) || received || mail || answering;
        if !more {
            state.driver = Some(cx.waker().clone());
        }
        let next = next_timeout(&state.engine, state.secure.as_deref()).unwrap_or(Time::MAX);
        let next = next_look(&state, now).map_or(next, |look| look.min(next));
        let rearm = next < state.armed || state.armed <= now;
        if rearm {
            state.armed = next;
        }
        let unblocked = state.out.is_blocked() && state.out.poll_unblock(cx, &shard.carrier).is_ready();
        let finished = state.is_finished();
        if finished && let Some(secure) = &mut state.secure {
            secure.close(now);
            shard.transmit(&mut state, now);
        }
        let steps = set_up_steps(&state.engine, state.table.len());
        let polls = !more && self.busy_poll.goes_on(now, steps);
        let woken = std::mem::take(&mut state.to_wake);
        drop(state);
        wake(woken);
        if finished {
            return Round::End;
        }
        if rearm {
            self.alarm.set(next, now, &shard.clock);
        }
        // Polling the alarm registers the task to be woken.
        match more || unblocked || self.alarm.poll(cx).is_ready() {
            true => Round::Again,
            false if polls => Round::Poll,
            false => Round::Wait,
        }
    }

    /// Handles what other shards handed over, and hands over what belongs to them.
    fn exchange(&mut self, state: &mut State, now: Time, mail: bool) {
        let Some(sorter) = &mut self.sorter else { return };
        let State { engine, to_wake, secure, .. } = state;
        match secure {
            None if mail => sorter.read(engine, now),
            Some(secure) if mail => {
                sorter.read_sealed(|datagram| secure.take(now, datagram));
                secure.deliver(engine, now, self.shard.observer.as_deref());
            }
            _ => {}
        }
        sorter.send(engine, to_wake);
    }

    /// Receives datagrams that have arrived, but not before those received last were answered.
    fn receive(&mut self, cx: &mut Context<'_>, answering: bool) -> std::io::Result<bool> {
        if answering {
            return Ok(false);
        }
        match self.shard.carrier.poll_recv(cx, &mut self.batch) {
            Poll::Ready(result) => {
                result?;
                self.turn_bytes += self.batch.bytes();
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    /// Advances time, dispatches events and sends packets. Returns whether there is more to do at once.
    fn work(shard: &Shard, state: &mut State, now: Time) -> bool {
        if state.engine.poll_timeout().is_some_and(|at| at <= now) {
            state.engine.handle_timeout(now);
        }
        let State { engine, secure, .. } = &mut *state;
        if let Some(secure) = secure
            && secure.poll_timeout().is_some_and(|at| at <= now)
        {
            secure.handle_timeout(engine, now, shard.observer.as_deref());
        }
        state.dispatch(now);
        let sweeping = state.sweep(now);
        if shard.carrier.errors_pending() {
            shard.take_errors(state, now);
        }
        let sent = shard.transmit(state, now);
        // Packets that the system refuses to send are reported at once, and nothing else wakes the driver for
        // them.
        let refused = shard.carrier.errors_pending();
        if refused {
            shard.take_errors(state, now);
        }
        // Sending the last packet of an association may end it.
        state.dispatch(now);
        sweeping || sent == Sent::Some || refused
    }

    /// Passes received packets to the engine, or to the shard that they belong to.
    fn feed(&mut self, state: &mut State, now: Time) {
        let State { engine, secure, out, .. } = state;
        let (observer, sorter) = (self.shard.observer.as_deref(), &mut self.sorter);
        if let Some(secure) = secure {
            self.batch.for_each_train(|train, segment_size| {
                for bytes in train.bytes.chunks(segment_size.max(1)) {
                    let datagram = Datagram { bytes, ..train };
                    if sorter.as_mut().is_none_or(|sorter| sorter.keeps_sealed(&datagram)) {
                        secure.take(now, &datagram);
                    }
                }
            });
            return secure.deliver(engine, now, observer);
        }
        self.batch.for_each_train(|train, segment_size| {
            out.foreign.look_at(now, &train, segment_size);
            if let Some(observer) = observer {
                let ends = (train.source, train.destination);
                observe::show(observer, engine, Direction::Received, ends, train.bytes, segment_size);
            }
            match sorter {
                None => engine.handle_datagrams(now, train, segment_size),
                Some(sorter) => sorter.take(engine, now, train, segment_size),
            }
        });
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.turn_bytes = 0;
        for _ in 0..ROUNDS_MAX {
            match self.round(cx) {
                Round::Again if self.turn_bytes >= TURN_BYTES => break,
                Round::Again => {}
                Round::Yield => break,
                Round::Poll => {
                    // Unlike a wake-up of its own, this lets the runtime ask the system for events first.
                    let _pending = std::pin::pin!(tokio::task::yield_now()).poll(cx);
                    return Poll::Pending;
                }
                Round::Wait => return Poll::Pending,
                Round::End => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.errors.abort();
        self.follower.iter().for_each(AbortHandle::abort);
        let mut state = self.shard.lock();
        state.set_gone();
        let woken = std::mem::take(&mut state.to_wake);
        drop(state);
        wake(woken);
    }
}

/// Passes ICMP messages to the engine as they arrive. Runs beside the driver and ends with it.
async fn watch_errors(shard: Arc<Shard>) {
    while shard.carrier.errors().await.is_ok() {
        shard.with(|state, now| shard.take_errors(state, now));
    }
}
