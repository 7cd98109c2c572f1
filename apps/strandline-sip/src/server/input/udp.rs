//! UDP: takes in what comes.

use std::rc::Rc;

use crate::server::hub::Hub;
use crate::server::socket::Udp;

/// Turns before others may do something: what they hold is all that is lost if the system keeps no more.
const TURNS: usize = 32;

/// Receives until the task is ended.
pub(in crate::server) async fn serve(udp: Rc<Udp>, hub: Rc<Hub>) {
    loop {
        if let Err(error) = udp.readable().await {
            tracing::error!(%error, "waiting for datagrams");
            return;
        }
        take(&udp, &hub);
        tokio::task::yield_now().await;
    }
}

/// Takes in all datagrams that are there, up to a limit.
pub(super) fn take(udp: &Udp, hub: &Hub) {
    for _ in 0..TURNS {
        let mut more = false;
        hub.take_in(|taking| {
            more = udp.take(|flow, bytes, kept| taking.push(flow, bytes, || kept.keep(bytes)))
        });
        if !more {
            break;
        }
    }
}
