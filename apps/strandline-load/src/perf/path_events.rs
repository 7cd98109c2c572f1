//! Failures and recoveries of the paths of a test's associations, with their times.

use std::net::SocketAddr;
use std::time::Instant;

use serde::Serialize;
use strandline::{Association, Notification, PathChange};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::flow::Link;
use super::tally::now;

/// A change of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PathEvent {
    /// Seconds since the program began.
    pub(crate) t: f64,
    /// Number of the association, from 1.
    pub(crate) socket: usize,
    pub(crate) peer: SocketAddr,
    pub(crate) change: &'static str,
}

/// Records path changes until it is finished.
#[derive(Debug)]
pub(crate) struct Watch {
    events: mpsc::UnboundedReceiver<PathEvent>,
    _tasks: JoinSet<()>,
}

impl Watch {
    /// Watches the associations among these links, each on its runtime. `began` is the time when the program
    /// began.
    pub(crate) fn start(links: &[Link], began: Instant) -> Self {
        let (changes, events) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for (number, link) in links.iter().enumerate() {
            if let Link::Sctp(association, shard) = link {
                tasks.spawn_on(follow(association.clone(), number + 1, began, changes.clone()), shard);
            }
        }
        Self { events, _tasks: tasks }
    }

    /// Returns the recorded changes in order of time.
    pub(crate) fn finish(mut self) -> Vec<PathEvent> {
        let mut noted = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            noted.push(event);
        }
        noted
    }
}

async fn follow(
    association: Association,
    socket: usize,
    began: Instant,
    changes: mpsc::UnboundedSender<PathEvent>,
) {
    let mut events = association.events();
    while let Some(event) = events.next().await {
        if let Notification::PathChanged { address: peer, change, .. } = event {
            let t = now().duration_since(began).as_secs_f64();
            // If this fails, the receiver has ended.
            let _ = changes.send(PathEvent { t, socket, peer, change: name(change) });
        }
    }
}

fn name(change: PathChange) -> &'static str {
    match change {
        PathChange::Confirmed => "confirmed",
        PathChange::Active => "active",
        PathChange::PotentiallyFailed => "potentially failed",
        PathChange::Inactive => "inactive",
        PathChange::Primary => "primary",
        PathChange::Removed => "removed",
        PathChange::Added => "added",
        _ => "unknown",
    }
}

/// Returns when the path with the longest outage failed, and when it recovered. A path that lost a time-out
/// to a noisy moment, before the one that was really cut, recovers soon; a path that doesn't recover has the
/// longest outage.
pub(crate) fn failure(events: &[PathEvent]) -> (Option<f64>, Option<f64>) {
    let fails = |event: &&PathEvent| matches!(event.change, "potentially failed" | "inactive");
    let outages = events.iter().filter(fails).map(|failed| {
        let back = events.iter().find(|event| {
            event.t >= failed.t
                && (event.socket, event.peer, event.change) == (failed.socket, failed.peer, "active")
        });
        (failed.t, back.map(|event| event.t))
    });
    let length = |(failed, back): &(f64, Option<f64>)| back.map_or(f64::INFINITY, |back| back - failed);
    // Of equal outages, the first one counts.
    let longest = outages.reduce(|one, next| if length(&next) > length(&one) { next } else { one });
    longest.map_or((None, None), |(failed, back)| (Some(failed), back))
}

#[cfg(test)]
mod tests;
