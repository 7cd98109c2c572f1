//! Follows the addresses of this host: the engine of a shard knows those of now, and associations that are to follow
//! them add those that interfaces gain, and delete those that are lost.

use std::sync::Arc;
use std::time::Duration;

use strandline_io::{AddressChanges, LocalAddress};
use strandline_proto::endpoint::LocalAddresses;
use strandline_proto::event::AssociationId;
use strandline_proto::time::Time;
use tokio::io::unix::AsyncFd;

use super::core::Shard;
use super::follow::{Following, RETRY_PAUSE};
use super::state::State;
use crate::host::Addresses;

/// How long changes are gathered before the addresses are listed: an interface that comes up gains several.
const SETTLE: Duration = Duration::from_millis(200);
/// Number of slots visited in one step, and the pause between two steps.
const STEP: u32 = 256;
const STEP_PAUSE: Duration = Duration::from_millis(10);

/// Follows the host's addresses for a shard. Runs beside the driver and ends with it.
pub(super) async fn follow(shard: Arc<Shard>, changes: AsyncFd<AddressChanges>) {
    let mut pause = None;
    loop {
        let changed = match pause {
            Some(pause) => tokio::time::timeout(pause, changes.readable()).await,
            None => Ok(changes.readable().await),
        };
        match changed {
            Ok(Ok(mut ready)) => {
                tokio::time::sleep(SETTLE).await;
                while changes.get_ref().take() {}
                ready.clear_ready();
                match strandline_io::local_addresses() {
                    Ok(list) => {
                        let known = Addresses::of(&list, shard.carrier.local_address());
                        shard.with(|state, now| {
                            LocalAddresses::set_of_host(&mut state.engine, &known.own, &known.others);
                            take_over(state, now, list);
                        });
                    }
                    Err(error) => tracing::warn!(%error, "listing this host's addresses failed"),
                }
            }
            Ok(Err(error)) => return tracing::error!(%error, "waiting for changes of addresses failed"),
            Err(_) => {}
        }
        pause = shard.with(step);
    }
}

/// Lets new and existing associations follow the list of the host's addresses, if they are to.
fn take_over(state: &mut State, now: Time, list: Vec<LocalAddress>) {
    let Some(following) = &mut state.following else { return };
    let changes = following.host.update(list);
    if changes.is_empty() {
        return;
    }
    tracing::info!(host = ?following.host, "the addresses of this host have changed");
    following.begin();
    let mut addresses = LocalAddresses::of(&mut state.engine);
    let listed = changes.apply_to(addresses.list());
    if let Err(error) = addresses.set(now, listed) {
        tracing::warn!(%error, "new associations list the addresses of before");
    }
}

/// Visits some associations. Returns when there may be more to do; `None` until the next change.
fn step(state: &mut State, now: Time) -> Option<Duration> {
    let mut following = state.following.take()?;
    if let Some(slot) = following.next_slot.take() {
        let end = slot.saturating_add(STEP).min(state.table.slots());
        for slot in slot..end {
            if let Some((id, _)) = state.table.in_slot(slot) {
                adapt(state, now, &mut following, id, 0);
            }
        }
        following.next_slot = (end < state.table.slots()).then_some(end);
    }
    let is_due = |following: &Following| following.waiting.front().is_some_and(|(at, ..)| *at <= now);
    for _ in 0..STEP {
        let due = is_due(&following).then(|| following.waiting.pop_front()).flatten();
        let Some((_, id, attempts)) = due else { break };
        adapt(state, now, &mut following, id, attempts);
    }
    let busy = following.next_slot.is_some() || is_due(&following);
    // New associations and repeated attempts wait for the next step.
    let idle = (!following.host.is_unchanged()).then_some(RETRY_PAUSE);
    state.following = Some(following);
    if busy { Some(STEP_PAUSE) } else { idle }
}

/// Lets an association ask for what differs between its addresses and the host's.
fn adapt(state: &mut State, now: Time, following: &mut Following, id: AssociationId, attempts: u8) {
    let Some(paths) = state.engine.paths(id) else { return following.forget(id) };
    let peers: Vec<_> = paths.iter().map(|path| path.address).collect();
    let mut addresses = state.engine.addresses(id);
    let requests = following.host.requests(&addresses.lasting(), &peers);
    if !requests.is_empty()
        && let Err(error) = addresses.request(now, &requests)
    {
        tracing::debug!(?id, %error, ?requests, "following the host's addresses failed");
        following.wait_for(now + RETRY_PAUSE, id, attempts + 1);
    }
}
