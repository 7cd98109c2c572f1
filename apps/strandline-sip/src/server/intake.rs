//! Received messages that wait to be handled, and their overload control.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::service::Service;
use crate::transaction::Flow;

use super::arrivals::Times;
use super::clock::{Clock, processor_time};
use super::costs::Costs;
use super::hep::Hep;
use super::inbox::{Arrived, Inbox, Phone};
use super::message_pool::MessagePool;
use super::rejection_budget::RejectionBudget;
use super::socket::Udp;
use super::steering::Steering;

/// Queues received messages.
pub(super) struct Taking<'a> {
    inbox: &'a mut Inbox,
    pool: &'a mut MessagePool,
    service: &'a Service,
    now: Duration,
    hep: Option<Rc<Hep>>,
}

impl Taking<'_> {
    /// Queues a message. `keep` makes a copy that outlives `bytes`.
    pub(super) fn push(&mut self, flow: Flow, bytes: &[u8], keep: impl FnOnce() -> Bytes) {
        self.copy(&flow, bytes);
        let knows = |flow: &Flow| {
            if self.service.registrations().is_registered(flow) { Phone::Known } else { Phone::Unknown }
        };
        self.inbox.push(Arrived::at(self.now), flow, bytes, keep, knows);
    }

    /// Queues a message whose buffer is reused afterwards.
    pub(super) fn push_copy(&mut self, flow: Flow, bytes: &[u8]) {
        self.push_waited(flow, bytes, Duration::ZERO);
    }

    /// Queues a message that has waited in the socket, and whose buffer is reused afterwards.
    pub(super) fn push_waited(&mut self, flow: Flow, bytes: &[u8], waited: Duration) {
        self.copy(&flow, bytes);
        let knows = |flow: &Flow| {
            if self.service.registrations().is_registered(flow) { Phone::Known } else { Phone::Unknown }
        };
        let arrived = Arrived { now: self.now, waited };
        self.inbox.push(arrived, flow, bytes, || self.pool.keep(bytes), knows);
    }

    /// Queues one of the first messages of a connection. It may wait for long, so it gets memory of its own
    /// and doesn't keep a shared block alive.
    pub(super) fn push_first(&mut self, flow: Flow, bytes: &[u8]) {
        self.copy(&flow, bytes);
        let keep = || Bytes::copy_from_slice(bytes);
        self.inbox.push(Arrived::at(self.now), flow, bytes, keep, |_| Phone::Arriving);
    }

    /// Returns true if access control allows the peer to send something that isn't queued: a request that is
    /// answered at once, such as a STUN request or a ping, or the first message of an association. A refused
    /// peer is counted and logged.
    pub(super) fn admits(&mut self, peer: IpAddr) -> bool {
        self.inbox.admits(self.now, peer)
    }

    /// Copies a message of an allowed peer to the HEP collector, if there is one.
    fn copy(&self, flow: &Flow, bytes: &[u8]) {
        if let Some(hep) = self.hep.as_ref().filter(|_| self.inbox.allows(flow.peer.ip())) {
            hep.copy(flow, bytes, true, Clock::unix());
        }
    }
}

/// The queued messages of a shard, and the state of its overload control.
pub(super) struct Intake {
    inbox: RefCell<Inbox>,
    /// The bytes of queued messages.
    pool: RefCell<MessagePool>,
    /// Notified when messages were queued.
    pub(super) came: Notify,
    /// When the queue was last handled until it was empty, or until other tasks needed their turn.
    pub(super) worked: Cell<Duration>,
    /// Maximum number of 503 responses per second.
    pub(super) refusals_per_sec: Cell<u32>,
    /// Interval at which to poll for datagrams while that pays; `None` for never.
    pub(super) gather: Cell<Option<Duration>>,
    /// The fraction of requests over UDP that the kernel filter passes.
    pub(super) let_through: Cell<f64>,
    /// True if datagrams may wait unread in the UDP socket.
    pub(super) unread: Cell<bool>,
    /// The costs of datagrams and requests.
    pub(super) costs: RefCell<Costs>,
    rejections: RefCell<RejectionBudget>,
    steering: RefCell<Steering>,
}

impl Intake {
    pub(super) fn new(inbox: Inbox) -> Self {
        Self {
            inbox: RefCell::new(inbox),
            pool: RefCell::default(),
            came: Notify::new(),
            worked: Cell::default(),
            refusals_per_sec: Cell::default(),
            gather: Cell::default(),
            let_through: Cell::new(1.0),
            unread: Cell::default(),
            costs: RefCell::default(),
            rejections: RefCell::default(),
            steering: RefCell::new(Steering::new()),
        }
    }

    /// Queues received messages; `hep` copies them to a collector.
    pub(super) fn take_in(
        &self,
        service: &Service,
        now: Duration,
        hep: Option<Rc<Hep>>,
        take: impl FnOnce(&mut Taking<'_>),
    ) {
        let (inbox, pool) = (&mut *self.inbox.borrow_mut(), &mut *self.pool.borrow_mut());
        pool.begin();
        take(&mut Taking { inbox, pool, service, now, hep });
        if !inbox.is_empty() {
            self.came.notify_one();
        }
    }

    /// Gives access to the queue.
    pub(super) fn inbox<T>(&self, look: impl FnOnce(&mut Inbox) -> T) -> T {
        look(&mut self.inbox.borrow_mut())
    }

    /// Returns true if the processor time of receiving and handling is measured. That takes two system calls
    /// each time, and only an overload needs it.
    pub(super) fn measures_costs(&self) -> bool {
        self.inbox(|inbox| inbox.admission.is_overloaded())
    }

    /// Updates how many rejections may wait to be sent. `times` are those of this thread.
    pub(super) fn refill_rejections(&self, now: Duration, times: Times) {
        let may = self.rejections.borrow_mut().refill(now, times, self.refusals_per_sec.get());
        self.inbox(|inbox| inbox.set_rejections_max(may));
    }

    /// Records that `count` rejections were sent, and the processor time that this took.
    pub(super) fn rejected(&self, count: usize, time: Duration) {
        self.rejections.borrow_mut().spent(count, time);
    }

    /// Measures the rate of datagrams, and has the kernel drop some in an overload.
    pub(super) fn steer(&self, clock: &Clock, udp: Option<&Udp>) {
        let now = clock.elapsed();
        let mut steering = self.steering.borrow_mut();
        if !steering.is_due(now) {
            return;
        }
        let times = Times { idle: clock.idle(), worked: processor_time() };
        self.refill_rejections(now, times);
        let stopped = udp.map_or(0, Udp::stopped);
        let (counts, overloaded) = self.inbox(|inbox| {
            inbox.look(now);
            (inbox.counters.counts(stopped, times, self.unread.get()), inbox.admission.is_overloaded())
        });
        if let Some(udp) = udp {
            udp.look_at_trains(now);
            udp.note_times(overloaded);
        }
        let receiving_share = self.costs.borrow().receiving_share();
        let Some(steered) = steering.look(now, counts, receiving_share, overloaded) else { return };
        self.inbox(|inbox| inbox.admit(steered.admitted));
        let (Some(share), Some(udp)) = (steered.share, udp) else { return };
        self.let_through.set(share);
        if let Err(error) = udp.let_through(share) {
            tracing::warn!(%error, share, "attaching the overload filter failed");
        }
    }

    /// Waits until all messages received so far are handled.
    pub(super) async fn wait_until_handled(&self) {
        let after = self.inbox(|inbox| inbox.after_all());
        if let Some(after) = after {
            // The sender is dropped only when the shard ends.
            let _ = after.await;
        }
    }
}
