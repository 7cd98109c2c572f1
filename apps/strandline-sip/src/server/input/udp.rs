//! UDP: turns of datagrams, the most urgent first.

use std::rc::Rc;
use std::time::Duration;

use crate::server::hub::Hub;
use crate::server::socket::{BATCH, Turn, Udp};

use super::urgency::Urgency;

/// How long a turn may take for what isn't urgent.
const BUDGET: Duration = Duration::from_millis(50);
/// How many are told in a turn that there are too many: the others hear nothing, and try again later by themselves.
const REFUSALS: usize = 64;

/// Receives until the task is ended.
///
/// Each turn takes all that has come, up to a limit, and handles the most urgent first. What begins something new is
/// refused once the turn has taken [`BUDGET`]: so nothing waits for longer than about that, and the socket's buffer doesn't
/// overflow with what is urgent while there is time for what is not.
pub(in crate::server) async fn serve(udp: Rc<Udp>, hub: Rc<Hub>) {
    let mut turn = Turn::new();
    loop {
        if let Err(error) = udp.readable().await {
            tracing::error!(%error, "waiting for datagrams");
            return;
        }
        udp.take(&mut turn);
        handle(&hub, &turn);
        tokio::task::yield_now().await;
    }
}

/// Handles what has come in a turn.
fn handle(hub: &Rc<Hub>, turn: &Turn) {
    if turn.len() <= BATCH {
        return hub.with(|service, now| {
            turn.messages().for_each(|(flow, bytes)| service.handle_message(now, flow, bytes));
        });
    }
    let end = hub.now() + BUDGET;
    let mut refusals = REFUSALS;
    for urgency in Urgency::ALL {
        let mut these = turn.messages().filter(|(_, bytes)| Urgency::of(bytes) == urgency).peekable();
        while these.peek().is_some() {
            hub.with(|service, now| {
                for (flow, bytes) in these.by_ref().take(BATCH) {
                    if urgency == Urgency::Begun || now < end {
                        service.handle_message(now, flow, bytes);
                    } else {
                        let told = refusals > 0;
                        refusals -= usize::from(told);
                        service.refuse(flow, bytes, told);
                    }
                }
            });
        }
    }
}
