//! The thread that follows the changes of other nodes and signals that this node is alive.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bindings::Journal;

use super::database::{Database, KEEP, NodeRow, Position, Positions, Run, checksum, taken, trimmed};
use super::stats::now;
use super::{Damage, Shared, StoreError, StoreStats};

/// How often a node signals that it is alive and checks the other nodes.
const BEAT: Duration = Duration::from_millis(500);
/// Maximum time counted between two checks. While this node can't read the database, the silence of others
/// proves nothing.
const COUNTS: Duration = Duration::from_secs(1);
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// Maximum size of the changes passed on in one step, in bytes, when all bindings of a node are read.
const TOLD_BYTES: usize = 1 << 20;

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerNode {
    /// The name of the node.
    pub name: String,
    /// The node's address, as `protocol:address:port`; empty if it can't be reached.
    pub address: String,
    /// True while the node is alive.
    pub is_alive: bool,
}

/// News about other nodes.
#[derive(Debug)]
pub enum News {
    /// All other nodes; sent whenever something about them changes.
    Nodes(Vec<PeerNode>),
    /// Changes made by a node, in the form of a journal.
    Changes {
        /// The name of the node.
        node: String,
        /// The changes, to be read with [`Journal::read`].
        changes: Vec<u8>,
    },
    /// The complete state of a node follows; its previous state is to be dropped.
    Again {
        /// The name of the node.
        node: String,
    },
    /// All earlier news must be applied before this is answered.
    Known(std::sync::mpsc::Sender<()>),
    /// Another server uses this node's name, so this server must end.
    Lost(StoreError),
}

type Stop = Arc<(Mutex<bool>, Condvar)>;

/// The handle of the thread. Dropping it signals to the other nodes that this one has left.
#[derive(Debug)]
pub struct Feed {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    pub(super) fn start<D: Database>(
        mut follower: Follower<D>,
        stats: Arc<StoreStats>,
        mut report: Box<dyn FnMut(News) + Send>,
    ) -> std::io::Result<Self> {
        let stop = Stop::default();
        let theirs = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("nodes".to_owned())
            .spawn(move || follower.follow(&theirs, &stats, &mut *report))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that follows other nodes panicked");
        }
    }
}

/// The signs of life of a node.
#[derive(Debug)]
struct Activity {
    beat: i64,
    /// How long no change was seen, counting only the time in which this node could look.
    silent: Duration,
}

/// Follows the other nodes.
pub(super) struct Follower<D> {
    settings: Arc<Shared>,
    run: Run,
    database: Option<D>,
    positions: Positions,
    lives: HashMap<String, Activity>,
    nodes: Vec<PeerNode>,
    /// The time of the last check of the nodes.
    looked: Option<Instant>,
    start: Instant,
    /// Damage found in the current step.
    damage: Damage,
    /// Damage found while this node writes.
    lost: Arc<Mutex<Damage>>,
}

impl<D: Database> Follower<D> {
    pub(super) fn new(
        settings: Arc<Shared>,
        run: Run,
        positions: Positions,
        lost: Arc<Mutex<Damage>>,
    ) -> Self {
        Self {
            settings,
            run,
            database: None,
            positions,
            lives: HashMap::new(),
            nodes: Vec::new(),
            looked: None,
            start: now(),
            damage: Damage::default(),
            lost,
        }
    }

    fn follow(&mut self, stop: &Stop, stats: &StoreStats, report: &mut dyn FnMut(News)) {
        let mut pause = BACK_OFF_MIN;
        loop {
            let stepped = self.step(report);
            self.damage.add(std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner)));
            stats.on_damage(&std::mem::take(&mut self.damage));
            let wait = match stepped {
                Ok(changes) => {
                    stats.on_followed(self.start.elapsed(), changes);
                    pause = BACK_OFF_MIN;
                    self.settings.node.poll
                }
                Err(error) if error.is_final => {
                    report(News::Lost(error));
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "following other nodes failed");
                    stats.on_not_followed();
                    self.database = None;
                    let wait = pause;
                    pause = (pause * 2).min(BACK_OFF_MAX);
                    wait
                }
            };
            let stopped = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (stopped, _) = stop
                .1
                .wait_timeout_while(stopped, wait, |stopped| !*stopped)
                .unwrap_or_else(PoisonError::into_inner);
            if *stopped {
                return self.leave();
            }
        }
    }

    fn leave(&mut self) {
        let run = self.run.clone();
        if let Some(database) = &mut self.database
            && let Err(error) = database.beat(&run, true)
        {
            tracing::debug!(%error, "marking this node as stopped failed");
        }
    }

    fn database(&mut self) -> Result<&mut D, StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => D::connect(&self.settings)?,
        };
        Ok(self.database.insert(database))
    }

    /// Returns the number of changes.
    fn step(&mut self, report: &mut dyn FnMut(News)) -> Result<usize, StoreError> {
        let (mut changes, mut looked) = (0, false);
        if self.looked.is_none_or(|looked| looked.elapsed() >= BEAT) {
            let run = self.run.clone();
            if !self.database()?.beat(&run, false)? {
                return Err(taken(&run.name));
            }
            let rows = self.database()?.nodes()?;
            let unseen = self.looked.map_or(Duration::ZERO, |looked| looked.elapsed());
            self.look(&rows, report);
            looked = true;
            for row in rows.iter().filter(|row| row.name != run.name) {
                // A node whose journal was trimmed beyond the position read, or that was never read, is read
                // completely.
                let is_behind =
                    self.positions.get(&row.name).is_none_or(|position| position.number < row.trimmed);
                if is_behind || self.has_lost_end(row, unseen)? {
                    self.read_all(row, report)?;
                }
            }
        }
        // A node considered dead may still have written something.
        let read = self.nodes.iter().filter(|node| node.is_alive || looked);
        let read: Vec<String> = read.map(|node| node.name.clone()).collect();
        for name in read {
            changes += self.read_new(&name, report)?;
        }
        Ok(changes)
    }

    /// Updates which nodes are alive.
    fn look(&mut self, rows: &[NodeRow], report: &mut dyn FnMut(News)) {
        let elapsed = self.looked.map_or(Duration::ZERO, |looked| looked.elapsed()).min(COUNTS);
        self.looked = Some(now());
        let lease = self.settings.node.lease;
        let mut nodes = Vec::new();
        for row in rows.iter().filter(|row| row.name != self.run.name) {
            let age = Duration::from_millis(row.age_ms.max(0) as u64);
            let life = self
                .lives
                .entry(row.name.clone())
                .or_insert_with(|| Activity { beat: row.beat, silent: age.saturating_sub(elapsed) });
            if life.beat == row.beat {
                life.silent += elapsed;
            } else {
                *life = Activity { beat: row.beat, silent: Duration::ZERO };
            }
            let is_alive = row.beat >= 0 && life.silent < lease;
            nodes.push(PeerNode { name: row.name.clone(), address: row.address.clone(), is_alive });
        }
        if nodes != self.nodes {
            self.nodes.clone_from(&nodes);
            report(News::Nodes(nodes));
        }
    }

    /// Whether a new run of a node has found a shorter journal than was read here, as when a replica that lags
    /// has taken over. The run then uses numbers again that were read with other contents. `unseen` is the time
    /// since the last look at the nodes.
    fn has_lost_end(&mut self, row: &NodeRow, unseen: Duration) -> Result<bool, StoreError> {
        let Some(position) = self.positions.get(&row.name) else { return Ok(false) };
        if position.incarnation == row.incarnation {
            return Ok(false);
        }
        let Position { number, entry, .. } = *position;
        let found = self.database()?.journal(&row.name, number - 1)?.into_iter().next();
        let is_same = match found.filter(|(found, _)| *found == number) {
            Some((_, changes)) => entry == Some(checksum(&changes)),
            // An entry is trimmed some time after it was written, so it is the one that was read.
            None => row.trimmed == number && unseen < KEEP,
        };
        if is_same {
            if let Some(position) = self.positions.get_mut(&row.name) {
                position.incarnation = row.incarnation;
            }
        } else {
            let last = self.database()?.last(&row.name)?.min(number - 1);
            self.damage.on_missing("journal", &row.name, last + 1, number);
        }
        Ok(!is_same)
    }

    fn read_new(&mut self, name: &str, report: &mut dyn FnMut(News)) -> Result<usize, StoreError> {
        let mut count = 0;
        while let Some(position) = self.positions.get(name).copied() {
            let entries = self.database()?.journal(name, position.number)?;
            if entries.is_empty() {
                break;
            }
            for (number, changes) in entries {
                let expected = self.positions.get(name).map_or(number, |position| position.number + 1);
                if number > expected {
                    if trimmed(self.database()?, name)? >= expected {
                        // The next check reads the node completely.
                        self.positions.remove(name);
                        self.looked = None;
                        return Ok(count);
                    }
                    self.damage.on_missing("journal", name, expected, number - 1);
                }
                if let Some(position) = self.positions.get_mut(name) {
                    position.read(number, &changes);
                }
                let whole = self.damage.checked("journal", name, number, &changes).len();
                if whole > 0 {
                    count += Journal::read(&changes).count();
                    report(News::Changes { node: name.to_owned(), changes });
                }
            }
        }
        Ok(count)
    }

    fn read_all(&mut self, row: &NodeRow, report: &mut dyn FnMut(News)) -> Result<(), StoreError> {
        report(News::Again { node: row.name.clone() });
        let mut some = Journal::default();
        let name = &row.name;
        let flush = |some: &mut Journal, report: &mut dyn FnMut(News)| {
            report(News::Changes { node: name.clone(), changes: some.as_bytes().to_vec() });
            some.clear();
        };
        self.database()?.bindings(name, &mut |aor, state| {
            some.record_with(aor, |out| out.extend_from_slice(state));
            if some.as_bytes().len() >= TOLD_BYTES {
                flush(&mut some, report);
            }
        })?;
        flush(&mut some, report);
        self.positions.insert(row.name.clone(), Position::before(row));
        self.read_new(&row.name, report).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
