//! UDP: takes in what comes.

use std::rc::Rc;

use crate::codec::Datagram;
use crate::server::hub::Hub;
use crate::server::socket::Udp;

use super::gathering::Gathering;

/// Datagrams, about, before others may do something.
const TAKEN_MAX: usize = 2048;

/// Receives until the task is ended.
pub(in crate::server) async fn serve(udp: Rc<Udp>, hub: Rc<Hub>) {
    let mut gathering = Gathering::default();
    loop {
        if let Some(every) = hub.gather.get().filter(|_| gathering.is_on()) {
            udp.look_away();
            tokio::time::sleep(every).await;
        } else if let Err(error) = udp.readable().await {
            tracing::error!(%error, "waiting for datagrams");
            return;
        }
        let (count, more) = take(&udp, &hub);
        gathering.on_taken(hub.clock.elapsed(), hub.clock.idle(), count);
        if more {
            // Others want their turn. Otherwise this waits anyway: to yield would cost a system call.
            tokio::task::yield_now().await;
        }
    }
}

/// Takes in all datagrams that are there, up to a limit. Returns how many those were, and whether there may be more.
pub(super) fn take(udp: &Udp, hub: &Hub) -> (usize, bool) {
    let mut taken = 0;
    while taken < TAKEN_MAX {
        let (mut count, mut more) = (0, false);
        hub.take_in(|taking| {
            (count, more) = udp.take(|kind, flow, bytes| match kind {
                Datagram::Sip => {
                    taking.push_copy(flow, bytes);
                    true
                }
                Datagram::Stun => taking.admits(flow.peer.ip()),
                Datagram::KeepAlive => true,
            });
        });
        taken += count;
        hub.steer();
        if !more {
            return (taken, false);
        }
    }
    (taken, true)
}

#[cfg(test)]
mod tests;
