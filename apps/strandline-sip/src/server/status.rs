//! The figures of a shard.

use crate::service::Peer;

use super::hub::Hub;
use super::live::{Live, OtherNode, Totals};

/// The counters since the start.
pub(super) fn totals(hub: &Hub) -> Totals {
    let counters = *hub.service.borrow().counters();
    let refused = hub.intake.inbox(|inbox| inbox.counters.late.iter().sum::<u64>() + inbox.counters.no_room);
    Totals { registered: counters.registered, calls: counters.calls, requests: counters.requests, refused }
}

fn live(hub: &Hub) -> Live {
    let (waiting, overloaded) = hub.intake.inbox(|inbox| (inbox.len(), inbox.admission.is_overloaded()));
    let totals = totals(hub);
    let service = hub.service.borrow();
    let (servers, clients) = service.transactions().counts();
    Live {
        domains: service.setup().domains().to_vec(),
        uptime_secs: hub.clock.elapsed().as_secs(),
        users: service.registrations().locations().len(),
        bindings: service.registrations().locations().bindings_len(),
        connections: hub.transports.connections.len(),
        associations: hub.transports.associations(),
        transactions: servers + clients,
        waiting,
        overloaded,
        draining: service.setup().is_draining(),
        store_failing: hub.store.figures().is_some_and(|figures| figures.is_failing),
        allowed_share: service.overload().allowed_share(),
        let_through_share: hub.intake.let_through.get(),
        totals,
        seconds: hub.watch.borrow().seconds(),
        processes: 1,
        restarts: 0,
        workers: Vec::new(),
        nodes: service.setup().other_nodes().map(other_node).collect(),
    }
}

fn other_node(peer: &Peer) -> OtherNode {
    let address = peer.address.map(|address| address.to_string());
    OtherNode { name: peer.name.clone(), address, is_alive: peer.is_alive }
}

/// The figures since the last call, for a supervisor that merges those of several processes.
pub(super) fn second(hub: &Hub) -> serde_json::Value {
    let (now, totals) = (hub.clock.elapsed(), totals(hub));
    // Numbers and strings, so this can't fail.
    serde_json::to_value(hub.watch.borrow_mut().take_second(now, totals)).unwrap_or_default()
}

/// The figures as JSON text.
pub(super) fn json(hub: &Hub) -> String {
    value(hub).to_string()
}

/// The figures as a JSON value, which the caller may extend.
pub(super) fn value(hub: &Hub) -> serde_json::Value {
    // Numbers and strings, so this can't fail.
    serde_json::to_value(live(hub)).unwrap_or_default()
}
