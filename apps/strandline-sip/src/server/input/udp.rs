//! Receives from the UDP socket.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use strandline_tls::{LogLimit, is_exhausted};

use crate::codec::Datagram;
use crate::server::clock::processor_time;
use crate::server::hub::Hub;
use crate::server::socket::Udp;

use super::gathering::Gathering;

/// Approximate maximum number of datagrams taken before other tasks have their turn.
const TAKEN_MAX: usize = 2048;
/// Time between two polls of a socket that can't be watched.
const POLL: Duration = Duration::from_millis(5);

/// Receives datagrams until the task is ended.
pub(in crate::server) async fn serve(udp: Rc<Udp>, hub: Rc<Hub>) {
    let (mut gathering, mut failures) = (Gathering::default(), LogLimit::default());
    loop {
        if let Some(every) = hub.intake.gather.get().filter(|_| gathering.is_on()) {
            udp.look_away();
            tokio::time::sleep(every).await;
        } else if let Err(error) = udp.readable().await {
            poll_instead(&error, &mut failures, &hub).await;
        }
        let (count, more) = take(&udp, &hub);
        gathering.on_taken(hub.clock.elapsed(), hub.clock.idle(), count);
        if more {
            // Other tasks have their turn. Without more datagrams this task waits anyway, and a yield would
            // cost a system call.
            tokio::task::yield_now().await;
        }
    }
}

/// Pauses until a socket that can't be watched is polled. If memory or the user's watches are exhausted, it first
/// closes connections of strangers, so that the socket can be watched again.
async fn poll_instead(error: &io::Error, failures: &mut LogLimit, hub: &Hub) {
    if let Some(unlogged) = failures.log() {
        tracing::warn!(%error, unlogged, "waiting for datagrams failed; the socket is polled");
    }
    if is_exhausted(error) {
        hub.shed_strangers();
    }
    tokio::time::sleep(POLL).await;
}

/// Takes all available datagrams, up to a limit. Returns their number, and whether more may be available.
pub(super) fn take(udp: &Udp, hub: &Hub) -> (usize, bool) {
    let mut taken = 0;
    while taken < TAKEN_MAX {
        let (mut count, mut more) = (0, false);
        let measured = hub.intake.measures_costs().then(processor_time);
        hub.take_in(|taking| {
            (count, more) = udp.take(|kind, flow, bytes, waited| match kind {
                Datagram::Sip => {
                    taking.push_waited(flow, bytes, waited);
                    true
                }
                Datagram::Stun => taking.admits(flow.peer.ip()),
                Datagram::KeepAlive => true,
            });
        });
        taken += count;
        hub.intake.unread.set(more);
        if let Some(measured) = measured {
            hub.intake.costs.borrow_mut().on_received(count, processor_time().saturating_sub(measured));
        }
        hub.steer();
        if !more {
            return (taken, false);
        }
    }
    (taken, true)
}

#[cfg(test)]
mod tests;
