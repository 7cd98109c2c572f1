//! Changes made by workers: passed to the other workers, persisted, and then acknowledged. This is done by a
//! thread of the supervisor.
//!
//! All changes that arrive while a commit is running go into the next one. The other workers receive them
//! before it begins. A worker is told that its changes are durable once they are, and the other workers know
//! them, so a user whose REGISTER got a 200 can be called at any worker. A worker that doesn't confirm in
//! time is not waited for.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use strandline_ipc::Outlet;

use crate::server::clock;
use crate::server::metrics::Commits;

use super::frame::{Hello, ToWorker};
use super::persistent_state::{Keep, Table};

/// How long to wait for a worker to confirm a change.
const KNOWN: Duration = Duration::from_millis(250);
/// Interval for checking the workers that have not confirmed.
const LOOK: Duration = Duration::from_millis(5);
/// How long the store must be idle before maintenance starts.
const QUIET: Duration = Duration::from_millis(200);
/// Approximate size of the messages with the initial state for a worker, in bytes.
const SHOWN: usize = 1 << 20;
/// Requests to the thread that persists changes.
pub(super) enum ToStore {
    Commit {
        worker: u8,
        number: u64,
        changes: Vec<u8>,
    },
    /// Everything that the worker had sent has been handled.
    Gone {
        worker: u8,
        handled: Box<dyn FnOnce() + Send>,
    },
}

struct Link {
    outlet: Outlet,
    /// True if the worker serves, so that others wait for its confirmations.
    serves: bool,
    /// The last change that it has confirmed.
    merged: u64,
    /// True if it failed to confirm in time; it is not waited for until it catches up.
    late: bool,
}

/// A worker whose commit waits for confirmations.
struct Waiting {
    number: u64,
    worker: u8,
    since: Instant,
    result: ToWorker,
}

#[derive(Default)]
struct State {
    table: Table,
    /// Number of changes so far.
    changes: u64,
    links: Vec<Option<Link>>,
    waiting: VecDeque<Waiting>,
    commits: Commits,
}

/// The state of all workers and the links to them.
pub(super) struct Exchange(Mutex<State>);

impl Exchange {
    pub(super) fn new(table: Table, count: u8) -> Arc<Self> {
        let links = (0..count).map(|_| None).collect();
        let (damaged, missing) = (table.damage.rows, table.damage.missing);
        let commits = Commits { damaged, missing, ..Commits::default() };
        Arc::new(Self(Mutex::new(State { table, links, commits, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a worker. It is sent its identity, the initial and the reloaded configuration, the state of all
    /// workers, and from then on all changes.
    pub(super) fn begin(
        &self,
        worker: u8,
        mut hello: Hello,
        (started, last): (&[u8], Option<&[u8]>),
        outlet: Outlet,
    ) {
        let mut state = self.state();
        hello.alive = state.alive();
        hello.reloaded = last.is_some();
        let relays = hello.relays;
        // If it has ended already, that will be noticed.
        outlet.send_unlimited(&ToWorker::Hello(hello), started);
        if let Some(last) = last {
            outlet.send_unlimited(&ToWorker::Reload { id: 0 }, last);
        }
        if relays {
            state.table.show(SHOWN, |worker, some| {
                outlet.send_unlimited(&ToWorker::State { worker }, some);
            });
        }
        outlet.send_unlimited(&ToWorker::Loaded, &[]);
        let merged = state.changes;
        if let Some(place) = state.links.get_mut(usize::from(worker)) {
            *place = Some(Link { outlet, serves: false, merged, late: false });
        }
    }

    /// Records that a worker serves.
    pub(super) fn serves(&self, worker: u8) {
        let mut state = self.state();
        if let Some(Some(link)) = state.links.get_mut(usize::from(worker)) {
            link.serves = true;
        }
        state.send_alive();
    }

    /// Records that a worker has confirmed all changes up to `number`.
    pub(super) fn merged(&self, worker: u8, number: u64) {
        let mut state = self.state();
        let changes = state.changes;
        if let Some(Some(link)) = state.links.get_mut(usize::from(worker)) {
            link.merged = number;
            link.late &= number < changes;
        }
        state.release();
    }

    /// Removes a worker that has ended.
    pub(super) fn gone(&self, worker: u8) {
        let mut state = self.state();
        if let Some(place) = state.links.get_mut(usize::from(worker)) {
            *place = None;
        }
        state.waiting.retain(|waiting| waiting.worker != worker);
        state.release();
        state.send_alive();
    }

    /// Sends a message to a worker. Returns false if it has ended.
    pub(super) fn send(&self, worker: u8, head: &ToWorker, body: &[u8]) -> bool {
        let state = self.state();
        let link = state.links.get(usize::from(worker)).and_then(Option::as_ref);
        link.is_some_and(|link| link.outlet.send(head, body))
    }

    /// The workers that can be sent messages, even if they don't serve yet.
    pub(super) fn linked(&self) -> Vec<u8> {
        let state = self.state();
        let all = (0u8..).zip(&state.links);
        all.filter(|(_, link)| link.is_some()).map(|(worker, _)| worker).collect()
    }

    /// The workers that serve.
    pub(super) fn serving(&self) -> Vec<u8> {
        let state = self.state();
        let all = (0u8..).zip(&state.links);
        all.filter(|(_, link)| link.as_ref().is_some_and(|link| link.serves))
            .map(|(worker, _)| worker)
            .collect()
    }

    /// Passes a change to the other workers. Returns its number.
    fn spread(&self, worker: u8, changes: &[u8]) -> u64 {
        let mut state = self.state();
        state.table.apply(worker, changes);
        state.changes += 1;
        let number = state.changes;
        for (other, link) in (0u8..).zip(&mut state.links) {
            let Some(link) = link.as_mut().filter(|_| other != worker) else { continue };
            link.outlet.send(&ToWorker::Changes { number, worker }, changes);
        }
        number
    }

    /// Queues the result of a commit for a worker.
    fn committed(&self, number: u64, worker: u8, result: ToWorker) {
        self.state().waiting.push_back(Waiting { number, worker, since: clock::now(), result });
    }

    /// The counters of commits.
    pub(super) fn commits(&self) -> Commits {
        self.state().commits
    }

    fn on_commit(&self, took: Duration, is_durable: bool) {
        let mut state = self.state();
        let commits = &mut state.commits;
        if is_durable {
            commits.durable += 1;
            commits.time += took;
        } else {
            commits.failed += 1;
        }
    }

    /// Sends results that are due. Returns whether more are waiting.
    fn release(&self) -> bool {
        let mut state = self.state();
        state.release();
        !state.waiting.is_empty()
    }
}

impl State {
    /// The serving workers as a bit set.
    fn alive(&self) -> u64 {
        let serves = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.serves);
        let serving = (0u8..).zip(&self.links).filter(|(_, link)| serves(link));
        serving.fold(0, |workers, (worker, _)| workers | 1 << worker)
    }

    fn send_alive(&self) {
        let workers = self.alive();
        for link in self.links.iter().flatten() {
            link.outlet.send(&ToWorker::Alive { workers }, &[]);
        }
    }

    /// Sends the results of changes that all serving workers have confirmed, except those that are late.
    fn release(&mut self) {
        let Self { links, waiting, .. } = self;
        let now = clock::now();
        let overdue = waiting.iter().filter(|one| now.duration_since(one.since) >= KNOWN);
        if let Some(number) = overdue.map(|one| one.number).max() {
            links.iter_mut().flatten().filter(|link| link.merged < number).for_each(|link| link.late = true);
        }
        waiting.retain(|one| {
            let waits_for = |(other, link): (u8, &Option<Link>)| {
                let behind = |link: &Link| link.serves && !link.late && link.merged < one.number;
                other != one.worker && link.as_ref().is_some_and(behind)
            };
            if (0u8..).zip(links.iter()).any(waits_for) {
                return true;
            }
            if let Some(Some(link)) = links.get(usize::from(one.worker)) {
                link.outlet.send(&one.result, &[]);
            }
            false
        });
    }
}

/// Persists changes until no worker can send any more.
pub(super) fn serve(exchange: &Exchange, mut keep: Keep, work: &Receiver<ToStore>) {
    let (mut waits, mut more) = (false, true);
    let mut quiet_since = clock::now();
    loop {
        let timeout = if waits { LOOK } else { QUIET };
        match work.recv_timeout(timeout) {
            Ok(first) => {
                let all = std::iter::once(first).chain(work.try_iter()).collect();
                commit(exchange, &mut keep, all);
                (more, quiet_since) = (true, clock::now());
            }
            Err(RecvTimeoutError::Timeout) if more && quiet_since.elapsed() >= QUIET => more = keep.idle(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waits = exchange.release();
    }
}

fn commit(exchange: &Exchange, keep: &mut Keep, all: Vec<ToStore>) {
    let (mut commits, mut gone) = (Vec::new(), Vec::new());
    for one in all {
        match one {
            ToStore::Commit { worker, number, changes } => {
                let known = exchange.spread(worker, &changes);
                commits.push((worker, number, known, changes));
            }
            ToStore::Gone { worker, handled } => gone.push((worker, handled)),
        }
    }
    let changes: Vec<(u8, &[u8])> =
        commits.iter().map(|(worker, .., changes)| (*worker, changes.as_slice())).collect();
    let result = if changes.is_empty() {
        Ok(())
    } else {
        let begin = clock::now();
        let result = keep.commit(&changes);
        exchange.on_commit(begin.elapsed(), result.is_ok());
        result
    };
    let error = result.err().map(|error| error.to_string());
    for (worker, number, known, _) in commits {
        exchange.committed(known, worker, ToWorker::Committed { number, error: error.clone() });
    }
    for (worker, handled) in gone {
        exchange.gone(worker);
        handled();
    }
}

#[cfg(test)]
mod tests;
