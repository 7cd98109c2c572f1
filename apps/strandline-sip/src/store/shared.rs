//! Bindings in a database that several nodes may share: a journal first, as in SQLite, and the table of bindings when there
//! is time. Each node writes what was made there, and reads what all have.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bindings::Journal;

use super::database::{Database, Positions, Run, taken, trimmed};
use super::feed::{Feed, Follower, News};
use super::folding::Folding;
use super::mysql::MySql;
use super::postgresql::PostgreSql;
use super::redis::Redis;
use super::stats::now;
use super::{Damage, Each, Kind, Shared, Store, StoreError, StoreStats};

/// Bytes of an entry of the journal, about: more changes are split.
const ENTRY_BYTES: usize = 1 << 20;
/// How long an entry stays after it was folded, for those who haven't read it yet.
const KEEP: Duration = Duration::from_secs(10);
/// Another run of this node that lives says so within this time.
const FRESH: Duration = Duration::from_millis(1500);
/// How often a load may begin again because the journal was trimmed meanwhile.
const LOADS: usize = 5;

/// A store of a kind that is known when the server runs.
pub struct SharedStore(Box<dyn Opened>);

trait Opened: Store {
    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError>;
    fn follow(&self, stats: Arc<StoreStats>, tell: Box<dyn FnMut(News) + Send>) -> std::io::Result<Feed>;
}

impl SharedStore {
    /// Connects. `incarnation` is another number for each run of a node.
    ///
    /// # Errors
    /// If it can't be reached, or isn't what it should be.
    pub fn open(settings: &Arc<Shared>, incarnation: i64) -> Result<Self, StoreError> {
        Ok(Self(match settings.kind {
            Kind::MySql => Box::new(Journaled::<MySql>::open(settings, incarnation)?),
            Kind::PostgreSql => Box::new(Journaled::<PostgreSql>::open(settings, incarnation)?),
            Kind::Redis => Box::new(Journaled::<Redis>::open(settings, incarnation)?),
        }))
    }

    /// A secret that stays the same: `fresh` the first time.
    ///
    /// # Errors
    /// If it can't be read or written.
    pub fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        self.0.secret(name, fresh)
    }

    /// Starts the thread that follows what other nodes change, and tells them that this one lives. To be called after
    /// [`load`](Store::load). `tell` is called on that thread.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn follow(
        &self,
        stats: Arc<StoreStats>,
        tell: impl FnMut(News) + Send + 'static,
    ) -> std::io::Result<Feed> {
        self.0.follow(stats, Box::new(tell))
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

/// A store in a database with a journal.
struct Journaled<D> {
    settings: Arc<Shared>,
    run: Run,
    database: Option<D>,
    /// The number of the last entry of this node's journal.
    last: i64,
    folding: Folding,
    /// Up to where the journal was folded, and when: that much can go after a while.
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

    /// The database, to which a connection is made if there is none.
    fn database(&mut self) -> Result<&mut D, StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => {
                let mut database = D::connect(&self.settings)?;
                // What was on its way when the connection was lost may have arrived.
                self.last = database.last(&self.run.name)?;
                database
            }
        };
        Ok(self.database.insert(database))
    }

    /// Lets go of the connection after an error.
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
                            return Err(StoreError::new("reading the journal", "it was trimmed meanwhile"));
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

    /// Becomes the node, unless another server is. `before` is its beat and how old that was at `begun`.
    fn claim(&mut self, before: Option<(i64, Duration)>, begun: Instant) -> Result<(), StoreError> {
        let (run, address) = (self.run.clone(), self.settings.node.address.clone());
        if let Some((beat, age)) = before.filter(|(beat, _)| *beat >= 0) {
            // A server that has ended without a word may be started again at once: then nothing has changed.
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

    /// Removes entries of the journal that nobody needs any more.
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

/// The length of the first changes, an entry's worth; one at least.
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
        // What was committed stays committed whatever becomes of this.
        if self.folding.is_due()
            && let Err(error) = self.fold_some()
        {
            tracing::warn!(%error, "the journal grows");
        }
        if let Err(error) = self.trim() {
            tracing::warn!(%error, "the journal grows");
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
