//! Merges the figures of workers.

use strandline_ops::metrics::{Page, merge};

use crate::server::live::{Live, OtherNode, Second, Share, Totals};
use crate::server::metrics::PREFIX;

/// Figures of the supervisor itself.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) uptime_secs: u64,
    /// The number of workers that should serve.
    pub(super) processes: u8,
    pub(super) restarts: u64,
    /// Counts of the workers that have died.
    pub(super) ended: Totals,
}

/// The figures of all workers: counts are added up, each user counts once, and the lowest share allowed to
/// neighbours is used.
pub(super) fn live(workers: &[(u8, Live)], seconds: Vec<Second>, own: &Own) -> Live {
    let all = || workers.iter().map(|(_, live)| live);
    let sum = |of: fn(&Live) -> usize| all().map(of).sum();
    let least = |of: fn(&Live) -> f64| all().map(of).fold(1.0, f64::min);
    let mut totals = own.ended;
    all().for_each(|live| totals.add(&live.totals));
    Live {
        domains: all().next().map(|live| live.domains.clone()).unwrap_or_default(),
        uptime_secs: own.uptime_secs,
        users: all().map(|live| live.users).max().unwrap_or_default(),
        bindings: all().map(|live| live.bindings).max().unwrap_or_default(),
        connections: sum(|live| live.connections),
        associations: sum(|live| live.associations),
        transactions: sum(|live| live.transactions),
        waiting: sum(|live| live.waiting),
        overloaded: all().any(|live| live.overloaded),
        draining: all().any(|live| live.draining),
        store_failing: all().any(|live| live.store_failing),
        allowed_share: least(|live| live.allowed_share),
        let_through_share: least(|live| live.let_through_share),
        totals,
        seconds,
        processes: own.processes.into(),
        restarts: own.restarts,
        workers: workers.iter().map(share).collect(),
        nodes: nodes(workers),
    }
}

/// All nodes. A node is alive if one worker says so; the others will notice too.
fn nodes(workers: &[(u8, Live)]) -> Vec<OtherNode> {
    let mut nodes: Vec<OtherNode> = Vec::new();
    for node in workers.iter().flat_map(|(_, live)| &live.nodes) {
        match nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) => known.is_alive |= node.is_alive,
            None => nodes.push(node.clone()),
        }
    }
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    nodes
}

/// The figures of one worker.
fn share((worker, live): &(u8, Live)) -> Share {
    Share {
        worker: u16::from(*worker) + 1,
        uptime_secs: live.uptime_secs,
        connections: live.connections,
        associations: live.associations,
        transactions: live.transactions,
        waiting: live.waiting,
        overloaded: live.overloaded,
        totals: live.totals,
    }
}

/// The metrics of all workers and of the supervisor. Each sample has a label with the number of the worker,
/// or `supervisor`.
pub(super) fn metrics(pages: &[(u8, &str)], supervisor: &str, own: &Own) -> String {
    let mut page = Page::new(PREFIX);
    let help = "Worker processes that serve and responded to the scrape.";
    page.gauge("workers", help, pages.len() as f64);
    page.gauge("workers_configured", "Configured worker processes.", own.processes.into());
    let help = "Worker processes that died and were restarted.";
    page.counter("worker_restarts_total", help, own.restarts);
    let label = |worker: &u8| (u16::from(*worker) + 1).to_string();
    let mut pages: Vec<(String, &str)> = pages.iter().map(|(worker, text)| (label(worker), *text)).collect();
    pages.push(("supervisor".to_owned(), supervisor));
    page.into_text() + &merge("worker", &pages)
}

#[cfg(test)]
mod tests;
