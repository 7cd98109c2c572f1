//! UDP: takes in what comes.

use std::rc::Rc;

use bytes::BytesMut;

use crate::server::hub::Hub;
use crate::server::socket::{Turn, Udp};

/// Turns before others may do something: what they hold is all that is lost if the system keeps no more.
const TURNS: usize = 64;

/// Receives until the task is ended.
pub(in crate::server) async fn serve(udp: Rc<Udp>, hub: Rc<Hub>) {
    let mut turn = Turn::new();
    let mut room = BytesMut::new();
    loop {
        if let Err(error) = udp.readable().await {
            tracing::error!(%error, "waiting for datagrams");
            return;
        }
        for _ in 0..TURNS {
            let more = udp.take(&mut turn);
            hub.take_in(|inbox, now| {
                for (flow, bytes) in turn.messages() {
                    room.extend_from_slice(bytes);
                    inbox.push(now, flow, room.split().freeze());
                }
            });
            if !more {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
}
