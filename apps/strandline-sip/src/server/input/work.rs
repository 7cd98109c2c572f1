//! Handles what has come, the most urgent first, and tells whom there is no time for.

use std::rc::Rc;
use std::time::Duration;

use crate::server::hub::Hub;
use crate::server::urgency::Urgency;

use super::udp;

/// Messages handled before what comes of them is sent.
const BATCH: usize = 128;
/// So many wait when they are handled before more is read from connections: some answers are on their way then, and whoever waits
/// for them works, while other requests are read.
const SOME: usize = 16;
/// How long it may take until all connections are read: longer, and messages would wait where nobody sees how long, behind others
/// that are less urgent.
const READING_MAX: Duration = Duration::from_millis(5);
/// How long to work at least before others have their turn.
const QUANTUM_MIN: Duration = Duration::from_millis(1);
/// How long at most: so long may a message lie in a connection before it is seen.
const QUANTUM_MAX: Duration = Duration::from_millis(20);
/// The longest quantum in overload.
const QUANTUM_MAX_OVERLOADED: Duration = Duration::from_millis(40);
/// While there is work, so many times what others took: so that reading from connections, each of which costs a system
/// call, doesn't take the time from what was read. The longer they lie, the more is read at a time.
const SHARE: u32 = 6;
/// [`SHARE`] in overload.
const SHARE_OVERLOADED: u32 = 12;
/// [`SHARE`] when most phones use SCTP: nothing is saved by receiving less often, and what has begun waits behind the rest.
const SHARE_SCTP: u32 = 4;
const QUANTUM_MAX_SCTP: Duration = Duration::from_millis(8);
/// How long datagrams may lie in the system, which keeps few of them.
const UDP_EVERY: Duration = Duration::from_micros(500);
/// The share of the processor time that telling refusals may take.
const TELLING: f64 = 0.02;
/// So many times what it takes to tell one: there is an ACK for each to be read, or acknowledgements.
const WITH_ACK: f64 = 3.0;
/// Time that may be saved up for telling, seconds.
const SAVED_MAX: f64 = 0.01;
/// What one costs, until that is known, seconds.
const COST: f64 = 10e-6;
/// Refusals told at a time.
const TOLD_AT_ONCE: usize = 16;

/// How many are told that they are refused. The others hear nothing, which RFC 3261 section 21.5.4 allows: to answer all
/// would leave no time for those that can be served.
struct Telling {
    per_sec: f64,
    /// So many may be told, for `per_sec`.
    left: f64,
    /// Seconds that may be spent.
    saved: f64,
    /// Seconds that one takes.
    cost: f64,
    at: Duration,
    /// Processor time of this thread until then: what others have meanwhile isn't time of ours.
    worked: Duration,
}

impl Telling {
    fn new(per_sec: u32) -> Self {
        let (at, worked) = Default::default();
        Self { per_sec: f64::from(per_sec), left: 0.0, saved: SAVED_MAX, cost: COST, at, worked }
    }

    /// Returns how many may be told.
    fn refill(&mut self, now: Duration, worked: Duration) -> usize {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        let own = worked.saturating_sub(self.worked).as_secs_f64();
        (self.at, self.worked) = (now, worked);
        self.saved = (self.saved + own * TELLING).min(SAVED_MAX);
        self.left = (self.left + elapsed * self.per_sec).min(1.0 + self.per_sec / 50.0);
        (self.saved / self.cost).min(self.left).max(0.0) as usize
    }

    /// So many were told, in so much processor time.
    fn spent(&mut self, count: usize, time: Duration) {
        let (count, time) = (count as f64, time.as_secs_f64() * WITH_ACK);
        self.left -= count;
        self.saved -= time;
        self.cost = self.cost * 0.9 + time / count.max(1.0) * 0.1;
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Works until the task is ended.
pub(in crate::server) async fn work(hub: Rc<Hub>) {
    let mut telling = Telling::new(hub.refusals_per_sec.get());
    let mut ended = hub.clock.elapsed();
    loop {
        if hub.inbox(|inbox| inbox.is_empty()) {
            hub.came.notified().await;
            ended = hub.clock.elapsed();
        }
        let begin = hub.clock.elapsed();
        telling.per_sec = f64::from(hub.refusals_per_sec.get());
        let (share, max) = match hub.inbox(|inbox| inbox.admission.is_overloaded()) {
            _ if hub.is_mostly_sctp() => (SHARE_SCTP, QUANTUM_MAX_SCTP),
            true => (SHARE_OVERLOADED, QUANTUM_MAX_OVERLOADED),
            false => (SHARE, QUANTUM_MAX),
        };
        let quantum = begin.saturating_sub(ended) * share;
        work_until(&hub, begin + quantum.clamp(QUANTUM_MIN, max), &mut telling);
        ended = hub.clock.elapsed();
        hub.worked.set(ended);
        if !hub.inbox(|inbox| inbox.is_empty()) {
            // Without work this waits anyway: to yield would cost a system call.
            tokio::task::yield_now().await;
        }
    }
}

/// To be called between reads from connections: handles what waits if that is enough. In overload it is left to [`work`], which
/// sees to it that reading doesn't take the time from working; and so it is when reading takes long.
pub(super) fn work_between(hub: &Rc<Hub>) {
    let enough = hub.inbox(|inbox| inbox.len() >= SOME && !inbox.admission.is_overloaded());
    if enough && hub.clock.elapsed().saturating_sub(hub.worked.get()) < READING_MAX {
        // If there is more, it is handled soon.
        let _ = handle_batch(hub);
        hub.inbox(|inbox| inbox.tell_done());
    }
}

fn work_until(hub: &Rc<Hub>, end: Duration, telling: &mut Telling) {
    let mut udp_at = hub.clock.elapsed() + UDP_EVERY;
    loop {
        let more = handle_batch(hub);
        hub.inbox(|inbox| inbox.tell_done());
        let told = tell_batch(hub, telling);
        let now = hub.clock.elapsed();
        if !(more || told) || now >= end {
            return;
        }
        if now >= udp_at {
            udp_at = now + UDP_EVERY;
            if let Some(udp) = hub.udp.borrow().as_ref() {
                // What is left is taken when it is looked for again.
                let _ = udp::take(udp, hub);
            }
        }
    }
}

/// Returns whether there may be more.
fn handle_batch(hub: &Rc<Hub>) -> bool {
    let mut more = true;
    let begin = hub.clock.elapsed();
    let (mut came, mut count) = ([Duration::ZERO; BATCH], 0);
    hub.with(|service, now| {
        hub.inbox(|inbox| {
            for _ in 0..BATCH {
                let Some(waiting) = inbox.next(begin) else {
                    more = false;
                    break;
                };
                if let Some(place) = came.get_mut(count).filter(|_| waiting.urgency != Urgency::Begun) {
                    *place = waiting.came;
                    count += 1;
                }
                service.handle_message(now, waiting.flow, &waiting.bytes);
            }
        });
    });
    if count > 0 {
        let (now, mut watch) = (hub.clock.elapsed(), hub.watch.borrow_mut());
        came.iter().take(count).for_each(|came| watch.on_handled(now.saturating_sub(*came)));
    }
    more
}

/// Tells some that they are refused. Returns whether there may be more.
fn tell_batch(hub: &Rc<Hub>, telling: &mut Telling) -> bool {
    if !hub.inbox(|inbox| inbox.admission.is_overloaded() || inbox.has_to_tell()) {
        return false;
    }
    let begin = processor_time();
    let may = telling.refill(hub.clock.elapsed(), begin);
    let any = hub.inbox(|inbox| {
        inbox.set_tell_max(may);
        inbox.has_to_tell()
    });
    if !any {
        return false;
    }
    let mut told = 0;
    hub.with(|service, now| {
        hub.inbox(|inbox| {
            while told < TOLD_AT_ONCE
                && let Some(waiting) = inbox.next_to_tell()
            {
                service.refuse(now, waiting.flow, &waiting.bytes);
                told += 1;
            }
        });
    });
    telling.spent(told, processor_time().saturating_sub(begin));
    told == TOLD_AT_ONCE
}
