//! Associations whose peer falls silent. SCTP itself gives up only after ten time-outs in a row, which takes minutes.

use std::time::Duration;

use strandline::{Address, Association};
use tokio::time::{MissedTickBehavior, interval};

/// Time between two looks at an association.
const TICK: Duration = Duration::from_secs(1);
/// Looks without a packet of the peer after which each further one sends a HEARTBEAT.
const QUIET_TICKS: u32 = 2;
/// Looks without a packet of the peer after which the association is aborted.
const SILENT_TICKS: u32 = 10;

/// Aborts an established association once its peer has sent no packet for ten seconds, although it was asked by
/// HEARTBEATs.
pub(super) async fn abort_if_silent(association: Association) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut received, mut silent) = (0, 0);
    loop {
        ticks.tick().await;
        let Some(status) = association.status() else { return };
        // The set-up has a limit of its own.
        if status.stats.packets_received != received || status.state.in_setup() {
            (received, silent) = (status.stats.packets_received, 0);
            continue;
        }
        silent += 1;
        if silent >= SILENT_TICKS {
            association.abort("the peer sends nothing any more");
            return;
        }
        if silent >= QUIET_TICKS {
            for path in association.paths() {
                // An error says that the association is being set up or has ended.
                let _ = association.control().request_heartbeat(Address::of(path.address));
            }
        }
    }
}
