//! What workers change: told to the others, written down, and then acknowledged. A thread of the supervisor's own.
//!
//! All that came from all workers while the last commit was under way goes into one commit. The others hear of it before that begins,
//! so a worker is told that its changes are durable when they are, and the others know them: whoever got a 200 to a REGISTER can be
//! called at any worker. One that doesn't confirm in time is not waited for.

use std::collections::VecDeque;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::server::clock;
use crate::server::metrics::Commits;

use super::frame::{Hello, ToWorker, frame};
use super::keep::{Keep, Table};

/// How long a worker is waited for that doesn't say that it knows a change.
const KNOWN: Duration = Duration::from_millis(250);
/// How often those are looked at who wait for that.
const LOOK: Duration = Duration::from_millis(5);
/// How long nothing must happen before the store is put in order.
const QUIET: Duration = Duration::from_millis(200);
/// Bytes of what users have that go to a worker at once.
const SHOWN: usize = 1 << 20;
/// Bytes that may wait for a worker that reads nothing, beside what there is at its start.
const WAITING_MAX: usize = 1 << 30;

/// What is sent to a worker, by a thread that writes.
#[derive(Clone)]
pub(super) struct Outlet {
    sender: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    stream: Arc<UnixStream>,
}

impl Outlet {
    /// To the worker at the other end of this; the receiver is for [`write_all`].
    pub(super) fn new(stream: UnixStream) -> (Self, Inlet) {
        let (sender, frames) = channel();
        let (waiting, stream) = (Arc::<AtomicUsize>::default(), Arc::new(stream));
        let theirs = Inlet { frames, waiting: Arc::clone(&waiting), stream: Arc::clone(&stream) };
        (Self { sender, waiting, stream }, theirs)
    }

    /// False if it is gone, or reads nothing: then it is given up, for what it misses it would never know.
    pub(super) fn send(&self, head: &ToWorker, body: &[u8]) -> bool {
        if self.waiting.load(Ordering::Relaxed) > WAITING_MAX {
            tracing::error!("a process that reads nothing is given up");
            // It may be gone already.
            let _ = self.stream.shutdown(Shutdown::Both);
            return false;
        }
        self.send_all_the_same(head, body)
    }

    /// However much waits already.
    fn send_all_the_same(&self, head: &ToWorker, body: &[u8]) -> bool {
        let Ok(whole) = frame(head, body) else { return false };
        self.waiting.fetch_add(whole.len(), Ordering::Relaxed);
        self.sender.send(whole).is_ok()
    }
}

/// The other end.
pub(super) struct Inlet {
    frames: Receiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    stream: Arc<UnixStream>,
}

/// Writes until the worker is gone, or nobody sends any more.
pub(super) fn write_all(inlet: &Inlet) {
    let mut out = &*inlet.stream;
    while let Ok(whole) = inlet.frames.recv() {
        inlet.waiting.fetch_sub(whole.len(), Ordering::Relaxed);
        if let Err(error) = out.write_all(&whole) {
            tracing::debug!(%error, "a worker takes nothing more");
            return;
        }
    }
}

/// What comes from workers to be written down.
pub(super) enum ToStore {
    Commit {
        worker: u8,
        number: u64,
        changes: Vec<u8>,
    },
    /// All that a worker had to say was said.
    Gone {
        worker: u8,
        told: Box<dyn FnOnce() + Send>,
    },
}

struct Link {
    outlet: Outlet,
    /// It serves, so that others wait for it.
    serves: bool,
    /// Up to here it knows what others have changed.
    merged: u64,
    /// It was waited for in vain, and isn't any more until it knows all.
    late: bool,
}

/// A worker that waits to hear that others know what it has changed.
struct Waiting {
    number: u64,
    worker: u8,
    since: Instant,
    told: ToWorker,
}

#[derive(Default)]
struct State {
    table: Table,
    /// How many changes there were.
    changes: u64,
    links: Vec<Option<Link>>,
    waiting: VecDeque<Waiting>,
    commits: Commits,
}

/// What workers have, and who they are.
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

    /// A worker begins: it is told who it is, the configuration, as it was at the start and as it was read again, and what all have;
    /// and from then on what changes.
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
        // If it is gone already, its end is heard of.
        outlet.send_all_the_same(&ToWorker::Hello(hello), started);
        if let Some(last) = last {
            outlet.send_all_the_same(&ToWorker::Reload { id: 0 }, last);
        }
        if relays {
            state.table.show(SHOWN, |worker, some| {
                outlet.send_all_the_same(&ToWorker::State { worker }, some);
            });
        }
        outlet.send_all_the_same(&ToWorker::Loaded, &[]);
        let merged = state.changes;
        if let Some(place) = state.links.get_mut(usize::from(worker)) {
            *place = Some(Link { outlet, serves: false, merged, late: false });
        }
    }

    /// It serves.
    pub(super) fn serves(&self, worker: u8) {
        let mut state = self.state();
        if let Some(Some(link)) = state.links.get_mut(usize::from(worker)) {
            link.serves = true;
        }
        state.tell_alive();
    }

    /// It knows changes up to these.
    pub(super) fn merged(&self, worker: u8, number: u64) {
        let mut state = self.state();
        let changes = state.changes;
        if let Some(Some(link)) = state.links.get_mut(usize::from(worker)) {
            link.merged = number;
            link.late &= number < changes;
        }
        state.release();
    }

    /// It is gone: nobody waits for it.
    pub(super) fn gone(&self, worker: u8) {
        let mut state = self.state();
        if let Some(place) = state.links.get_mut(usize::from(worker)) {
            *place = None;
        }
        state.waiting.retain(|waiting| waiting.worker != worker);
        state.release();
        state.tell_alive();
    }

    /// Tells a worker something. False if it is gone.
    pub(super) fn tell(&self, worker: u8, head: &ToWorker, body: &[u8]) -> bool {
        let state = self.state();
        let link = state.links.get(usize::from(worker)).and_then(Option::as_ref);
        link.is_some_and(|link| link.outlet.send(head, body))
    }

    /// Those that hear what they are told, now or once they serve.
    pub(super) fn linked(&self) -> Vec<u8> {
        let state = self.state();
        let all = (0u8..).zip(&state.links);
        all.filter(|(_, link)| link.is_some()).map(|(worker, _)| worker).collect()
    }

    /// Those that serve.
    pub(super) fn serving(&self) -> Vec<u8> {
        let state = self.state();
        let all = (0u8..).zip(&state.links);
        all.filter(|(_, link)| link.as_ref().is_some_and(|link| link.serves))
            .map(|(worker, _)| worker)
            .collect()
    }

    /// Others hear of a change. Returns its number.
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

    /// A worker is to be told what became of its commit.
    fn committed(&self, number: u64, worker: u8, told: ToWorker) {
        self.state().waiting.push_back(Waiting { number, worker, since: clock::now(), told });
    }

    /// What was written down so far.
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

    /// Returns whether somebody still waits.
    fn release(&self) -> bool {
        let mut state = self.state();
        state.release();
        !state.waiting.is_empty()
    }
}

impl State {
    /// A bit for each worker that serves.
    fn alive(&self) -> u64 {
        let serves = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.serves);
        let serving = (0u8..).zip(&self.links).filter(|(_, link)| serves(link));
        serving.fold(0, |workers, (worker, _)| workers | 1 << worker)
    }

    fn tell_alive(&self) {
        let workers = self.alive();
        for link in self.links.iter().flatten() {
            link.outlet.send(&ToWorker::Alive { workers }, &[]);
        }
    }

    /// Tells those whose changes are known by all that serve, but for those that were waited for in vain.
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
                link.outlet.send(&one.told, &[]);
            }
            false
        });
    }
}

/// Writes down until no worker can send anything any more.
pub(super) fn serve(exchange: &Exchange, mut keep: Keep, work: &Receiver<ToStore>) {
    let (mut waits, mut more) = (false, true);
    let mut quiet_since = clock::now();
    loop {
        let patience = if waits { LOOK } else { QUIET };
        match work.recv_timeout(patience) {
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
            ToStore::Gone { worker, told } => gone.push((worker, told)),
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
    for (worker, told) in gone {
        exchange.gone(worker);
        told();
    }
}

#[cfg(test)]
mod tests;
