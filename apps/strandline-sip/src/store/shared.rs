//! Bindings in a database that several nodes may share. As with SQLite, changes go to a journal first and
//! into the table of bindings later. Each node writes the bindings created there, and reads those of all
//! nodes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bindings::Journal;

use super::database::{Database, Positions, Run, taken, trimmed};
use super::feed::{Feed, Follower, News};
use super::folding::Folding;
use super::stats::now;
use super::{Damage, Each, Kind, MySql, PostgreSql, Redis, Shared, Store, StoreError, StoreStats};

/// Approximate maximum size of a journal entry, in bytes. Larger changes are split.
const ENTRY_BYTES: usize = 1 << 20;
/// How long a folded entry is kept for nodes that have not read it yet.
const KEEP: Duration = Duration::from_secs(10);
/// The time within which another live run of this node shows a sign of life.
const FRESH: Duration = Duration::from_millis(1500);
/// How often loading may restart because the journal was trimmed meanwhile.
const LOADS: usize = 5;

/// A store whose kind is chosen at run time.
pub struct SharedStore(Box<dyn Opened>);

trait Opened: Store {
    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError>;
    fn follow(&self, stats: Arc<StoreStats>, tell: Box<dyn FnMut(News) + Send>) -> std::io::Result<Feed>;
}

impl SharedStore {
    /// Connects to the database. `incarnation` must differ between the runs of a node.
    ///
    /// # Errors
    /// Returns an error if the database can't be reached or has unexpected contents.
    pub fn open(settings: &Arc<Shared>, incarnation: i64) -> Result<Self, StoreError> {
        Ok(Self(match settings.kind {
            Kind::MySql => Box::new(Journaled::<MySql>::open(settings, incarnation)?),
            Kind::PostgreSql => Box::new(Journaled::<PostgreSql>::open(settings, incarnation)?),
            Kind::Redis => Box::new(Journaled::<Redis>::open(settings, incarnation)?),
        }))
    }

    /// A persistent secret. `fresh` becomes its value the first time.
    ///
    /// # Errors
    /// Returns an error if it can't be read or written.
    pub fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        self.0.secret(name, fresh)
    }

    /// Starts the thread that follows the changes of other nodes, and signals to them that this node is
    /// alive. Call it after [`load`](Store::load). The thread calls `tell`.
    ///
    /// # Errors
    /// Returns an error if the thread can't be started.
    pub fn follow(
        &self,
        stats: Arc<StoreStats>,
        report: impl FnMut(News) + Send + 'static,
    ) -> std::io::Result<Feed> {
        self.0.follow(stats, Box::new(report))
    }
}

impl Store for SharedStore {
    fn load(&mut self, each: &mut Each<'_>) -> Result<Damage, StoreError> {
        self.0.load(each)
    }

    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError> {
        self.0.commit(changes)
    }

    fn idle(&mut self) -> Result<bool, StoreError> {
        self.0.idle()
    }
}

/// A store in a database, with a journal.
struct Journaled<D> {
    settings: Arc<Shared>,
    run: Run,
    database: Option<D>,
    /// The number of the last entry in this node's journal.
    last: i64,
    folding: Folding,
    /// When the journal was folded, and up to which entry; these entries are removed after a while.
    folded: VecDeque<(Instant, i64)>,
    positions: Positions,
}

impl<D: Database> Journaled<D> {
    fn open(settings: &Arc<Shared>, incarnation: i64) -> Result<Self, StoreError> {
        Ok(Self {
            database: Some(D::connect(settings)?),
            run: Run { name: settings.node.name.clone(), incarnation },
            settings: Arc::clone(settings),
            last: 0,
            folding: Folding::default(),
            folded: VecDeque::new(),
            positions: Positions::new(),
        })
    }

    /// The database connection, opened if there is none.
    fn database(&mut self) -> Result<&mut D, StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => {
                let mut database = D::connect(&self.settings)?;
                // A write in progress when the connection was lost may have succeeded.
                self.last = database.last(&self.run.name)?;
                database
            }
        };
        Ok(self.database.insert(database))
    }

    /// Drops the connection after an error.
    fn checked<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            self.database = None;
        }
        result
    }

    fn try_load(&mut self, each: &mut Each<'_>) -> Result<Damage, StoreError> {
        let own = self.run.name.clone();
        let begun = now();
        let (mut before, mut damage) = (None, Damage::default());
        for row in self.database()?.nodes()? {
            let is_own = row.name == own;
            let name = if is_own { "" } else { row.name.as_str() };
            let database = self.database()?;
            database.bindings(&row.name, &mut |aor, state| each(name, aor, state))?;
            let mut position = row.trimmed;
            loop {
                let entries = self.database()?.journal(&row.name, position)?;
                if entries.is_empty() {
                    break;
                }
                for (number, changes) in &entries {
                    if *number > position + 1 {
                        if trimmed(self.database()?, &row.name)? > position {
                            return Err(StoreError::new(
                                "reading the journal",
                                "the journal was trimmed meanwhile",
                            ));
                        }
                        damage.on_missing("journal", &row.name, position + 1, number - 1);
                    }
                    position = *number;
                    for (aor, state) in damage.whole("journal", &row.name, *number, changes) {
                        each(name, aor, state);
                        if is_own {
                            self.folding.note(aor, state);
                        }
                    }
                }
            }
            if is_own {
                before = Some(row);
            } else {
                self.positions.insert(row.name, position);
            }
        }
        let before = before.map(|row| (row.beat, Duration::from_millis(row.age_ms.max(0) as u64)));
        self.claim(before, begun)?;
        Ok(damage)
    }

    /// Registers this run as the node, unless another server is running as the node. `before` is the node's
    /// beat and the age of that beat at `begun`.
    fn claim(&mut self, before: Option<(i64, Duration)>, begun: Instant) -> Result<(), StoreError> {
        let (run, address) = (self.run.clone(), self.settings.node.address.clone());
        if let Some((beat, age)) = before.filter(|(beat, _)| *beat >= 0) {
            // After a crash, a server may be restarted at once; the beat is then unchanged.
            let known = age + begun.elapsed();
            #[allow(clippy::disallowed_methods, reason = "whether another server lives, only time tells")]
            std::thread::sleep(FRESH.saturating_sub(known));
            let nodes = self.database()?.nodes()?;
            if nodes.iter().any(|row| row.name == run.name && row.beat != beat) {
                return Err(taken(&run.name));
            }
        }
        let database = self.database()?;
        database.enter(&run, &address)?;
        self.last = database.last(&run.name)?;
        Ok(())
    }

    fn try_commit(&mut self, changes: &Journal) -> Result<(), StoreError> {
        let run = self.run.clone();
        let mut rest = changes.as_bytes();
        while !rest.is_empty() {
            let (entry, after) = rest.split_at(first_changes(rest));
            rest = after;
            let number = self.last + 1;
            self.database()?;
            let number = number.max(self.last + 1);
            if !self.database()?.append(&run, number, &Journal::sealed(entry))? {
                return Err(taken(&run.name));
            }
            self.last = number;
        }
        Ok(())
    }

    fn fold_some(&mut self) -> Result<(), StoreError> {
        let (some, folded) = self.folding.take(self.last);
        let run = self.run.clone();
        let done = self.database().and_then(|database| database.fold(&run, &some));
        let done = self.checked(done);
        if !matches!(done, Ok(true)) {
            self.folding.put_back(some);
        }
        if !done? {
            return Err(taken(&run.name));
        }
        self.folded.extend(folded.map(|folded| (now(), folded)));
        Ok(())
    }

    /// Removes journal entries that no node needs any more.
    fn trim(&mut self) -> Result<(), StoreError> {
        let mut to = None;
        while self.folded.front().is_some_and(|(at, _)| at.elapsed() >= KEEP) {
            to = self.folded.pop_front().map(|(_, number)| number);
        }
        let Some(to) = to else { return Ok(()) };
        let name = self.run.name.clone();
        let result = self.database().and_then(|database| database.trim(&name, to));
        self.checked(result)
    }
}

/// The length of the leading changes that fit into one entry; at least one change.
fn first_changes(bytes: &[u8]) -> usize {
    let mut end = 0;
    for (aor, state) in Journal::read(bytes) {
        let len = 8 + aor.len() + state.len();
        if end > 0 && end + len > ENTRY_BYTES {
            return end;
        }
        end += len;
    }
    if end == 0 { bytes.len() } else { end }
}

impl<D: Database> Store for Journaled<D> {
    fn load(&mut self, each: &mut Each<'_>) -> Result<Damage, StoreError> {
        let mut result = self.try_load(each);
        for _ in 1..LOADS {
            match result {
                Err(ref error) if !error.is_final => result = self.try_load(each),
                _ => break,
            }
        }
        self.checked(result)
    }

    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let result = self.try_commit(changes);
        self.checked(result)?;
        self.folding.note_all(changes);
        // An error here doesn't affect what was committed.
        if self.folding.is_due()
            && let Err(error) = self.fold_some()
        {
            tracing::warn!(%error, "compacting the journal failed");
        }
        if let Err(error) = self.trim() {
            tracing::warn!(%error, "trimming the journal failed");
        }
        Ok(())
    }

    fn idle(&mut self) -> Result<bool, StoreError> {
        if !self.folding.is_done() {
            self.fold_some()?;
        }
        self.trim()?;
        Ok(!self.folding.is_done() || !self.folded.is_empty())
    }
}

impl<D: Database> Opened for Journaled<D> {
    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        let result = self.database().and_then(|database| database.secret(name, fresh));
        self.checked(result)
    }

    fn follow(&self, stats: Arc<StoreStats>, tell: Box<dyn FnMut(News) + Send>) -> std::io::Result<Feed> {
        let follower =
            Follower::<D>::new(Arc::clone(&self.settings), self.run.clone(), self.positions.clone());
        Feed::start(follower, stats, tell)
    }
}

#[cfg(test)]
mod tests;
