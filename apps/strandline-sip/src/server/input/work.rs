//! Handles what has come, the most urgent first, and refuses what can't be done in time.

use std::rc::Rc;
use std::time::Duration;

use crate::server::hub::Hub;
use crate::server::inbox::Next;
use crate::transaction::Flow;

use super::udp;

/// Messages handled before what comes of them is sent.
const BATCH: usize = 32;
/// How long to work at least before others have their turn.
const QUANTUM_MIN: Duration = Duration::from_millis(1);
/// How long at most: so long may a message lie in a connection before it is seen.
const QUANTUM_MAX: Duration = Duration::from_millis(20);
/// While there is work, so many times what others took: so that reading from connections, each of which costs a system
/// call, doesn't take the time from what was read. The longer they lie, the more is read at a time.
const SHARE: u32 = 6;
/// How long datagrams may lie in the system, which keeps few of them.
const UDP_EVERY: Duration = Duration::from_micros(500);
/// Refusals that may be told at once.
const REFUSALS_AT_ONCE: f64 = 1000.0;

/// How many may be told that they are refused. The others hear nothing, which RFC 3261 section 21.5.4 allows: to answer
/// all would leave no time for those that can be served.
struct Refusals {
    per_sec: f64,
    left: f64,
    at: Duration,
}

impl Refusals {
    fn new(per_sec: u32) -> Self {
        Self { per_sec: f64::from(per_sec), left: REFUSALS_AT_ONCE, at: Duration::ZERO }
    }

    fn refill(&mut self, now: Duration) {
        let more = now.saturating_sub(self.at).as_secs_f64() * self.per_sec;
        (self.left, self.at) = ((self.left + more).min(REFUSALS_AT_ONCE), now);
    }

    /// Is this one told? Those over UDP ask again by themselves if they hear nothing: others come first.
    fn take(&mut self, flow: &Flow) -> bool {
        let reserve = if flow.protocol.is_reliable() { 0.0 } else { REFUSALS_AT_ONCE / 8.0 };
        let told = self.left >= reserve + 1.0;
        self.left -= if told { 1.0 } else { 0.0 };
        told
    }
}

/// Works until the task is ended.
pub(in crate::server) async fn work(hub: Rc<Hub>, refusals_per_sec: u32) {
    let mut refusals = Refusals::new(refusals_per_sec);
    let mut ended = hub.clock.elapsed();
    loop {
        if hub.inbox(|inbox| inbox.is_empty()) {
            hub.came.notified().await;
            ended = hub.clock.elapsed();
        }
        let begin = hub.clock.elapsed();
        let quantum = begin.saturating_sub(ended) * SHARE;
        refusals.refill(begin);
        work_until(&hub, begin + quantum.clamp(QUANTUM_MIN, QUANTUM_MAX), &mut refusals);
        ended = hub.clock.elapsed();
        tokio::task::yield_now().await;
    }
}

fn work_until(hub: &Rc<Hub>, end: Duration, refusals: &mut Refusals) {
    let mut udp_at = hub.clock.elapsed() + UDP_EVERY;
    loop {
        let more = handle_batch(hub, refusals);
        hub.inbox(|inbox| inbox.tell_done());
        let now = hub.clock.elapsed();
        if !more || now >= end {
            return;
        }
        if now >= udp_at {
            udp_at = now + UDP_EVERY;
            if let Some(udp) = hub.udp.borrow().as_ref() {
                udp::take(udp, hub);
            }
        }
    }
}

/// Returns whether there may be more.
fn handle_batch(hub: &Rc<Hub>, refusals: &mut Refusals) -> bool {
    let mut more = true;
    hub.with(|service, now| {
        hub.inbox(|inbox| {
            for _ in 0..BATCH {
                match inbox.next(now) {
                    Some(Next::Handle(waiting)) => service.handle_message(now, waiting.flow, &waiting.bytes),
                    Some(Next::Refuse(waiting)) => {
                        let told = refusals.take(&waiting.flow);
                        service.refuse(now, waiting.flow, &waiting.bytes, told);
                    }
                    None => {
                        more = false;
                        break;
                    }
                }
            }
        });
    });
    more
}
