//! Handles received messages, the most urgent first, and rejects those that there is no time for.

use std::rc::Rc;
use std::time::Duration;

use crate::server::arrivals::Times;
use crate::server::clock::processor_time;
use crate::server::hub::Hub;
use crate::server::urgency::Urgency;

use super::udp;

/// Number of messages handled before the results are sent.
const BATCH: usize = 128;
/// Number of waiting messages from which they are handled before more is read from connections
/// (decision 67). Some responses are then on their way, and their receivers can work while further requests
/// are read.
const WAITING_MIN: usize = 16;
/// Maximum time for reading all connections (decision 67). If it took longer, messages would wait unseen in
/// sockets, behind less urgent ones.
const READING_MAX: Duration = Duration::from_millis(5);
/// Minimum time for handling messages before other tasks have their turn.
const QUANTUM_MIN: Duration = Duration::from_millis(1);
/// Maximum time, which is also how long a message may wait in a socket unseen.
const QUANTUM_MAX: Duration = Duration::from_millis(20);
/// As [`QUANTUM_MAX`], in overload.
const QUANTUM_MAX_OVERLOADED: Duration = Duration::from_millis(40);
/// As [`QUANTUM_MAX`], if most traffic is SCTP.
const QUANTUM_MAX_SCTP: Duration = Duration::from_millis(8);
/// While messages wait, they get this many times the time that other tasks took. Reading from connections
/// costs a system call each, and would otherwise take the time from messages already read. The longer
/// connections wait, the more is read from each at a time.
const HANDLING_PER_READING: u32 = 6;
/// As [`HANDLING_PER_READING`], in overload.
const HANDLING_PER_READING_OVERLOADED: u32 = 12;
/// As [`HANDLING_PER_READING`], if most traffic is SCTP. Receiving less often then saves nothing, and requests of
/// existing transactions would wait behind the others.
const HANDLING_PER_READING_SCTP: u32 = 4;
/// How long datagrams may wait in the socket buffer, which is small.
const UDP_READ_INTERVAL: Duration = Duration::from_micros(500);
/// Maximum number of rejections sent at a time.
const REJECTIONS_AT_ONCE: usize = 16;

/// Handles messages until the task is ended.
pub(in crate::server) async fn work(hub: Rc<Hub>) {
    let mut ended = hub.clock.elapsed();
    loop {
        if hub.intake.inbox(|inbox| inbox.is_empty()) {
            hub.intake.came.notified().await;
            ended = hub.clock.elapsed();
        }
        let begin = hub.clock.elapsed();
        let (share, max) = match hub.intake.inbox(|inbox| inbox.admission.is_overloaded()) {
            _ if hub.transports.is_mostly_sctp() => (HANDLING_PER_READING_SCTP, QUANTUM_MAX_SCTP),
            true => (HANDLING_PER_READING_OVERLOADED, QUANTUM_MAX_OVERLOADED),
            false => (HANDLING_PER_READING, QUANTUM_MAX),
        };
        let quantum = begin.saturating_sub(ended) * share;
        work_until(&hub, begin + quantum.clamp(QUANTUM_MIN, max));
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
    let enough = hub.intake.inbox(|inbox| inbox.len() >= WAITING_MIN && !inbox.admission.is_overloaded());
    if enough && hub.clock.elapsed().saturating_sub(hub.intake.worked.get()) < READING_MAX {
        // Any remaining messages are handled soon.
        let _ = handle_batch(hub);
        hub.intake.inbox(|inbox| inbox.notify_handled());
    }
}

fn work_until(hub: &Rc<Hub>, end: Duration) {
    let mut udp_at = hub.clock.elapsed() + UDP_READ_INTERVAL;
    loop {
        let more = handle_batch(hub);
        hub.intake.inbox(|inbox| inbox.notify_handled());
        let rejected = reject_batch(hub);
        let now = hub.clock.elapsed();
        if !(more || rejected) || now >= end {
            return;
        }
        if now >= udp_at {
            udp_at = now + UDP_READ_INTERVAL;
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
    let measured = hub.intake.measures_costs().then(processor_time);
    let (mut came, mut count, mut handled) = ([Duration::ZERO; BATCH], 0, 0);
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
                handled += 1;
            }
        });
    });
    if let Some(measured) = measured {
        hub.intake.costs.borrow_mut().on_handled(handled, processor_time().saturating_sub(measured));
    }
    if count > 0 {
        let (now, mut watch) = (hub.clock.elapsed(), hub.watch.borrow_mut());
        came.iter().take(count).for_each(|came| watch.on_handled(now.saturating_sub(*came)));
    }
    more
}

/// Sends some rejections. Returns whether more may be due.
fn reject_batch(hub: &Rc<Hub>) -> bool {
    if !hub.intake.inbox(|inbox| inbox.admission.is_overloaded() || inbox.has_rejections()) {
        return false;
    }
    let begin = processor_time();
    hub.intake.refill_rejections(hub.clock.elapsed(), Times { idle: hub.clock.idle(), worked: begin });
    if !hub.intake.inbox(|inbox| inbox.has_rejections()) {
        return false;
    }
    let mut rejected = 0;
    hub.with(|service, now| {
        hub.intake.inbox(|inbox| {
            while rejected < REJECTIONS_AT_ONCE
                && let Some(waiting) = inbox.next_rejection()
            {
                service.reject(now, waiting.flow, &waiting.bytes);
                rejected += 1;
            }
        });
    });
    hub.intake.rejected(rejected, processor_time().saturating_sub(begin));
    rejected == REJECTIONS_AT_ONCE
}
