//! Whether the peer of a client's association is still there.
//!
//! SCTP notices a peer that has vanished by Association.Max.Retrans, which takes minutes, and an idle association looks
//! for it every HB.interval. A client of HTTP has another server or another transport to try, so it looks more often.

use std::sync::Arc;
use std::time::Duration;

use strandline::{Address, Ended};

use super::Shared;

/// Looks within [`Settings::silence_timeout`](super::Settings::silence_timeout). Each one without a packet
/// since the one before sends HEARTBEATs.
const LOOKS: u32 = 5;
/// Looks in a row without a packet after which nothing new is begun on the association.
const SUSPECT: u32 = 2;

/// Aborts an association whose peer is silent for too long, and marks it as suspect before that. Returns once it has
/// ended.
pub(super) async fn watch(shared: Arc<Shared>) {
    let limit = shared.settings.silence_timeout;
    if limit == Duration::MAX || shared.association.established().await.is_err() {
        return;
    }
    let pause = (limit / LOOKS).max(Duration::from_millis(1));
    let closed = shared.association.closed();
    tokio::pin!(closed);
    let (mut received, mut silent) = (0, 0);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = &mut closed => return,
        }
        let Some(status) = shared.association.status() else { return };
        let is_silent = std::mem::replace(&mut received, status.stats.packets_received) == received;
        silent = if is_silent { silent + 1 } else { 0 };
        shared.lock().is_suspect = silent >= SUSPECT;
        if !is_silent {
            continue;
        }
        // The first look only asks.
        if silent > LOOKS {
            tracing::debug!("aborting an association: its peer is silent");
            shared.with(|table| table.on_ended(Ended::TimedOut));
            shared.association.abort("the peer is silent");
            return;
        }
        for path in shared.association.paths() {
            // An association that isn't established any more has an end of its own.
            let _ = shared.association.control().request_heartbeat(Address::of(path.address));
        }
    }
}
