//! Bindings in a database that several nodes may share. As with SQLite, changes go to a journal first and
//! into the table of bindings later. Each node writes the bindings created there, and reads those of all
//! nodes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bindings::Journal;

use super::database::{Database, KEEP, Position, Positions, Run, taken, trimmed};
use super::feed::{Feed, Follower, News};
use super::folding::{FOLD, Folding};
use super::stats::now;
use super::{Damage, Each, Kind, MySql, PostgreSql, Redis, Shared, Store, StoreError, StoreStats};

/// Approximate maximum size of a journal entry, in bytes. Larger changes are split.
const ENTRY_BYTES: usize = 1 << 20;
/// The time within which another live run of this node shows a sign of life.
const FRESH: Duration = Duration::from_millis(1500);
/// Maximum size of the committed entries that are kept to be written again, in bytes.
const RECENT_BYTES: usize = 8 << 20;
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
    recent: Recent,
    /// Damage found while writing, which the thread that follows other nodes reports.
    lost: Arc<Mutex<Damage>>,
}

/// The last entries that were committed, in case a database loses them: a replica that takes over may lag.
#[derive(Debug, Default)]
struct Recent {
    entries: VecDeque<(i64, Vec<u8>)>,
    bytes: usize,
}

impl Recent {
    fn push(&mut self, number: i64, entry: Vec<u8>) {
        self.bytes += entry.len();
        self.entries.push_back((number, entry));
        while self.bytes > RECENT_BYTES
            && let Some((_, oldest)) = self.entries.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
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
            recent: Recent::default(),
            lost: Arc::default(),
        })
    }

    /// The database connection, opened if there is none.
    fn database(&mut self) -> Result<&mut D, StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => {
                let mut database = D::connect(&self.settings)?;
                let last = database.last(&self.run.name)?;
                if last < self.last {
                    self.restore(&mut database, last)?;
                } else {
                    // A write in progress when the connection was lost may have succeeded.
                    self.last = last;
                }
                database
            }
        };
        Ok(self.database.insert(database))
    }

    /// Handles the loss of the journal's end: the database has only the entries up to `last`, as when a
    /// replica that lags has taken over. Writes the entries after it again, as far as they are kept. Their
    /// numbers are not used for others, which nodes that have read them would not see.
    fn restore(&mut self, database: &mut D, last: i64) -> Result<(), StoreError> {
        let run = self.run.clone();
        let row = database.nodes()?.into_iter().find(|row| row.name == run.name);
        // What was folded may be lost too.
        self.folded.clear();
        let (mut users, mut after) = (HashMap::new(), row.map_or(0, |row| row.trimmed));
        let mut note = |changes: &[u8]| {
            users.extend(Journal::read(changes).map(|(aor, state)| (Box::from(aor), state.to_vec())));
        };
        loop {
            let entries = database.journal(&run.name, after)?;
            let Some((end, _)) = entries.last() else { break };
            after = *end;
            entries.iter().for_each(|(_, changes)| note(changes));
        }
        let lost: Vec<_> = self.recent.entries.iter().filter(|(number, _)| *number > last).collect();
        for (number, entry) in &lost {
            if !database.append(&run, *number, entry)? {
                return Err(taken(&run.name));
            }
            note(entry);
        }
        tracing::error!(
            node = run.name,
            lost = self.last - last,
            restored = lost.len(),
            "the database has lost the end of the journal"
        );
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).on_missing(
            "journal",
            &run.name,
            last + 1,
            self.last,
        );
        self.folding.put_back(Vec::new());
        self.folding.put_back(users.into_iter().collect());
        Ok(())
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
            let mut read = Position::before(&row);
            loop {
                let position = read.number;
                let entries = self.database()?.journal(&row.name, position)?;
                if entries.is_empty() {
                    break;
                }
                for (number, changes) in &entries {
                    let position = read.number;
                    if *number > position + 1 {
                        if trimmed(self.database()?, &row.name)? > position {
                            return Err(StoreError::new(
                                "reading the journal",
                                "the journal was trimmed meanwhile",
                            ));
                        }
                        damage.on_missing("journal", &row.name, position + 1, number - 1);
                    }
                    read.read(*number, changes);
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
                self.positions.insert(row.name, read);
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
            let entry = Journal::sealed(entry);
            if !self.database()?.append(&run, number, &entry)? {
                return Err(taken(&run.name));
            }
            self.last = number;
            self.recent.push(number, entry);
        }
        Ok(())
    }

    fn fold_some(&mut self) -> Result<(), StoreError> {
        let (some, folded) = self.folding.take(self.last, FOLD);
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
        let lost = Arc::clone(&self.lost);
        let (settings, run) = (Arc::clone(&self.settings), self.run.clone());
        let follower = Follower::<D>::new(settings, run, self.positions.clone(), lost);
        Feed::start(follower, stats, tell)
    }
}

#[cfg(test)]
mod tests;
