//! Handles what has come, the most urgent first, and refuses what can't be done in time.

use std::rc::Rc;
use std::time::Duration;

use crate::server::hub::Hub;
use crate::server::inbox::Next;

/// Messages handled before what comes of them is sent.
const BATCH: usize = 64;
/// How long to work before the sockets are looked at again: what is urgent must not wait in them, or be lost there.
const QUANTUM: Duration = Duration::from_millis(2);
/// Of that, how many may be told that they are refused. The others hear nothing: to answer all would leave no time for
/// those that can be served.
const REFUSALS: usize = 32;

/// Works until the task is ended.
pub(in crate::server) async fn work(hub: Rc<Hub>) {
    loop {
        if hub.inbox(|inbox| inbox.is_empty()) {
            hub.came.notified().await;
        }
        work_off(&hub);
        tokio::task::yield_now().await;
    }
}

fn work_off(hub: &Rc<Hub>) {
    let end = hub.now() + QUANTUM;
    let mut refusals = REFUSALS;
    loop {
        let mut more = true;
        hub.with(|service, now| {
            hub.inbox(|inbox| {
                for _ in 0..BATCH {
                    match inbox.next(now) {
                        Some(Next::Handle(waiting)) => {
                            service.handle_message(now, waiting.flow, &waiting.bytes)
                        }
                        Some(Next::Refuse(waiting)) => {
                            service.refuse(waiting.flow, &waiting.bytes, refusals > 0);
                            refusals = refusals.saturating_sub(1);
                        }
                        None => {
                            more = false;
                            break;
                        }
                    }
                }
            });
        });
        if !more || hub.now() >= end {
            return;
        }
    }
}
