//! Handles received messages, the most urgent first, and rejects those that there is no time for.

use std::rc::Rc;
use std::time::Duration;

use crate::server::hub::Hub;
use crate::server::urgency::Urgency;

use super::udp;

/// Number of messages handled before the results are sent.
const BATCH: usize = 128;
/// Number of waiting messages from which they are handled before more is read from connections. Some
/// responses are then on their way, and their receivers can work while further requests are read.
const SOME: usize = 16;
/// Maximum time for reading all connections. If it took longer, messages would wait unseen in sockets, behind
/// less urgent ones.
const READING_MAX: Duration = Duration::from_millis(5);
/// Minimum time for handling messages before other tasks have their turn.
const QUANTUM_MIN: Duration = Duration::from_millis(1);
/// Maximum time, which is also how long a message may wait in a socket unseen.
const QUANTUM_MAX: Duration = Duration::from_millis(20);
/// As [`QUANTUM_MAX`], in overload.
const QUANTUM_MAX_OVERLOADED: Duration = Duration::from_millis(40);
/// While messages wait, they get this many times the time that other tasks took. Reading from connections
/// costs a system call each, and would otherwise take the time from messages already read. The longer
/// connections wait, the more is read from each at a time.
const SHARE: u32 = 6;
/// As [`SHARE`], in overload.
const SHARE_OVERLOADED: u32 = 12;
/// As [`SHARE`], if most traffic is SCTP. Receiving less often then saves nothing, and requests of existing
/// transactions would wait behind the others.
const SHARE_SCTP: u32 = 4;
const QUANTUM_MAX_SCTP: Duration = Duration::from_millis(8);
/// How long datagrams may wait in the socket buffer, which is small.
const UDP_EVERY: Duration = Duration::from_micros(500);
/// Share of the processor time that may be spent on sending rejections.
const TELLING: f64 = 0.02;
/// Factor for the full cost of a rejection, with the ACK or the acknowledgements to be read.
const WITH_ACK: f64 = 3.0;
/// Maximum processor time saved up for rejections, in seconds.
const SAVED_MAX: f64 = 0.01;
/// Initial estimate of the cost of a rejection, in seconds.
const COST: f64 = 10e-6;
/// Maximum number of rejections sent at a time.
const TOLD_AT_ONCE: usize = 16;

/// Maximum burst of rejections, in seconds of their allowed rate.
const BURST_SECS: f64 = 0.02;
/// Weight of the latest measurement in the estimated cost of a rejection.
const LATEST: f64 = 0.1;

/// Limits the number of rejections sent. Further requests are dropped silently, which RFC 3261 section 21.5.4
/// allows, because answering all of them would leave no time for those that can be served.
struct Telling {
    per_sec: f64,
    /// Number of rejections that `per_sec` currently allows.
    left: f64,
    /// Processor time available for rejections, in seconds.
    saved: f64,
    /// Estimated cost of a rejection, in seconds.
    cost: f64,
    at: Duration,
    /// Processor time of this thread at `at`; time used by other processes doesn't count.
    worked: Duration,
}

impl Telling {
    fn new(per_sec: u32) -> Self {
        let (at, worked) = Default::default();
        Self { per_sec: f64::from(per_sec), left: 0.0, saved: SAVED_MAX, cost: COST, at, worked }
    }

    /// Returns the number of rejections allowed now.
    fn refill(&mut self, now: Duration, worked: Duration) -> usize {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        let own = worked.saturating_sub(self.worked).as_secs_f64();
        (self.at, self.worked) = (now, worked);
        self.saved = (self.saved + own * TELLING).min(SAVED_MAX);
        self.left = (self.left + elapsed * self.per_sec).min(1.0 + self.per_sec * BURST_SECS);
        (self.saved / self.cost).min(self.left).max(0.0) as usize
    }

    /// Records that `count` rejections were sent, and the processor time that this took.
    fn spent(&mut self, count: usize, time: Duration) {
        let (count, time) = (count as f64, time.as_secs_f64() * WITH_ACK);
        self.left -= count;
        self.saved -= time;
        self.cost = self.cost * (1.0 - LATEST) + time / count.max(1.0) * LATEST;
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Handles messages until the task is ended.
pub(in crate::server) async fn work(hub: Rc<Hub>) {
    let mut telling = Telling::new(hub.intake.refusals_per_sec.get());
    let mut ended = hub.clock.elapsed();
    loop {
        if hub.intake.inbox(|inbox| inbox.is_empty()) {
            hub.intake.came.notified().await;
            ended = hub.clock.elapsed();
        }
        let begin = hub.clock.elapsed();
        telling.per_sec = f64::from(hub.intake.refusals_per_sec.get());
        let (share, max) = match hub.intake.inbox(|inbox| inbox.admission.is_overloaded()) {
            _ if hub.transports.is_mostly_sctp() => (SHARE_SCTP, QUANTUM_MAX_SCTP),
            true => (SHARE_OVERLOADED, QUANTUM_MAX_OVERLOADED),
            false => (SHARE, QUANTUM_MAX),
        };
        let quantum = begin.saturating_sub(ended) * share;
        work_until(&hub, begin + quantum.clamp(QUANTUM_MIN, max), &mut telling);
        ended = hub.clock.elapsed();
        hub.intake.worked.set(ended);
        if !hub.intake.inbox(|inbox| inbox.is_empty()) {
            // Without messages this task waits anyway, and a yield would cost a system call.
            tokio::task::yield_now().await;
        }
    }
}

/// Called between reads from connections: handles the waiting messages if there are enough. In overload, or
/// if reading takes long, this is left to [`work`], which balances reading and handling.
pub(super) fn work_between(hub: &Rc<Hub>) {
    let enough = hub.intake.inbox(|inbox| inbox.len() >= SOME && !inbox.admission.is_overloaded());
    if enough && hub.clock.elapsed().saturating_sub(hub.intake.worked.get()) < READING_MAX {
        // Any remaining messages are handled soon.
        let _ = handle_batch(hub);
        hub.intake.inbox(|inbox| inbox.tell_done());
    }
}

fn work_until(hub: &Rc<Hub>, end: Duration, telling: &mut Telling) {
    let mut udp_at = hub.clock.elapsed() + UDP_EVERY;
    loop {
        let more = handle_batch(hub);
        hub.intake.inbox(|inbox| inbox.tell_done());
        let told = tell_batch(hub, telling);
        let now = hub.clock.elapsed();
        if !(more || told) || now >= end {
            return;
        }
        if now >= udp_at {
            udp_at = now + UDP_EVERY;
            if let Some(udp) = hub.transports.udp.borrow().as_ref() {
                // Any remaining datagrams are taken the next time.
                let _ = udp::take(udp, hub);
            }
        }
    }
}

/// Handles a batch of messages. Returns whether more may be waiting.
fn handle_batch(hub: &Rc<Hub>) -> bool {
    let mut more = true;
    let begin = hub.clock.elapsed();
    let (mut came, mut count) = ([Duration::ZERO; BATCH], 0);
    hub.with(|service, now| {
        hub.intake.inbox(|inbox| {
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

/// Sends some rejections. Returns whether more may be due.
fn tell_batch(hub: &Rc<Hub>, telling: &mut Telling) -> bool {
    if !hub.intake.inbox(|inbox| inbox.admission.is_overloaded() || inbox.has_to_tell()) {
        return false;
    }
    let begin = processor_time();
    let may = telling.refill(hub.clock.elapsed(), begin);
    let any = hub.intake.inbox(|inbox| {
        inbox.set_tell_max(may);
        inbox.has_to_tell()
    });
    if !any {
        return false;
    }
    let mut told = 0;
    hub.with(|service, now| {
        hub.intake.inbox(|inbox| {
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
