//! The thread that looks up subscribers in a table.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use crate::auth::{Algorithm, Secret, Subscriber};

use super::database::SubscriberRow as Row;
use super::sqlite_file::other_kind;
use super::sqlite_file_identity::Place;
use super::stats::now;
use super::{Kind, MySql, PostgreSql, Shared, StoreError};

/// Maximum number of subscribers looked up with one query.
const AT_ONCE: usize = 250;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum length of a name, in bytes.
const NAME_MAX: usize = 255;
/// The user looked up to test the table.
const NOBODY: &[u8] = b"nobody";

/// The table of subscribers.
#[derive(Debug, Clone)]
pub enum SubscriberTable {
    /// The table `subscribers` of an SQLite file.
    Sqlite(PathBuf),
    /// The table `sip_subscribers` of a database.
    Shared(Arc<Shared>),
}

/// The result of a lookup: `None` if it failed, `Some(None)` if the subscriber doesn't exist.
pub type Found = (Subscriber, Option<Option<Secret>>);

/// A connection to a table.
trait Table: Send {
    /// All rows of these users, in any domain.
    fn rows(&mut self, users: &[&[u8]]) -> Result<Vec<Row>, StoreError>;
}

impl Table for MySql {
    fn rows(&mut self, users: &[&[u8]]) -> Result<Vec<Row>, StoreError> {
        self.subscribers(users)
    }
}

#[cfg(feature = "databases")]
impl Table for PostgreSql {
    fn rows(&mut self, users: &[&[u8]]) -> Result<Vec<Row>, StoreError> {
        self.subscribers(users)
    }
}

struct Sqlite {
    connection: Connection,
    place: Place,
    path: PathBuf,
}

impl Sqlite {
    fn open(path: &Path) -> Result<Self, StoreError> {
        // Opening a FIFO would wait for its writer.
        if let Some(kind) = other_kind(path) {
            let what = format!("opening {}", path.display());
            return Err(StoreError::new(what, format!("it is {kind}, no regular file")));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)
            .map_err(|error| StoreError::new(format!("opening {}", path.display()), error))?;
        Ok(Self { connection, place: Place::new(path), path: path.to_owned() })
    }

    fn row(&self, user: &[u8]) -> rusqlite::Result<Vec<Row>> {
        let select = "SELECT CAST(username AS BLOB), CAST(domain AS BLOB), CAST(password AS BLOB), CAST(md5 AS BLOB), \
                      CAST(sha256 AS BLOB), CAST(sha512_256 AS BLOB) FROM subscribers \
                      WHERE username = CAST(?1 AS TEXT)";
        let mut select = self.connection.prepare_cached(select)?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, row.get(1)?, [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?]))
        };
        select.query_map([user], row)?.collect()
    }
}

impl Table for Sqlite {
    fn rows(&mut self, users: &[&[u8]]) -> Result<Vec<Row>, StoreError> {
        if self.place.check().is_err() {
            // Another file has taken its place and is used instead.
            *self = Self::open(&self.path)?;
        }
        let mut rows = Vec::new();
        for user in users {
            rows.extend(self.row(user).map_err(|error| StoreError::new("reading subscribers", error))?);
        }
        Ok(rows)
    }
}

impl SubscriberTable {
    fn open(&self) -> Result<Box<dyn Table>, StoreError> {
        Ok(match self {
            Self::Sqlite(path) => Box::new(Sqlite::open(path)?),
            Self::Shared(settings) => match settings.kind {
                Kind::MySql => Box::new(MySql::open(settings)?),
                Kind::PostgreSql => Box::new(PostgreSql::open(settings)?),
                Kind::Redis => {
                    let cause = "Redis has no tables: use an SQLite file or a file of users instead";
                    return Err(StoreError::new("subscribers", cause));
                }
            },
        })
    }

    /// Checks that the table exists. A missing SQLite file is created.
    ///
    /// # Errors
    /// Returns an error if the table doesn't exist.
    pub fn check(&self) -> Result<(), StoreError> {
        if let Self::Sqlite(path) = self
            && !path.exists()
        {
            create(path)?;
        }
        self.open()?.rows(&[NOBODY]).map(|_| ())
    }
}

fn create(path: &Path) -> Result<(), StoreError> {
    let table = "CREATE TABLE IF NOT EXISTS subscribers (username TEXT NOT NULL, domain TEXT NOT NULL, password TEXT, \
                 md5 TEXT, sha256 TEXT, sha512_256 TEXT, PRIMARY KEY (username, domain))";
    let result = Connection::open(path).and_then(|connection| connection.execute_batch(table));
    result.map_err(|error| StoreError::new(format!("opening {}", path.display()), error))
}

/// Looks up subscribers on its own thread, which ends when this is dropped and all lookups are done.
#[derive(Debug, Clone)]
pub struct Seeker {
    wanted: Sender<Subscriber>,
}

impl Seeker {
    /// Starts the thread, which calls `found`.
    ///
    /// # Errors
    /// Returns an error if the thread can't be started.
    pub fn start(table: SubscriberTable, found: impl FnMut(Found) + Send + 'static) -> std::io::Result<Self> {
        let (wanted, queue) = channel();
        std::thread::Builder::new()
            .name("subscribers".to_owned())
            .spawn(move || seek(&|| table.open(), &queue, found))?;
        Ok(Self { wanted })
    }

    /// Queues a lookup.
    pub fn seek(&self, who: Subscriber) {
        if self.wanted.send(who).is_err() {
            tracing::error!("the thread that looks up subscribers panicked");
        }
    }
}

/// A function that opens a table.
type Opener<'a> = &'a dyn Fn() -> Result<Box<dyn Table>, StoreError>;

fn seek(table: Opener<'_>, queue: &Receiver<Subscriber>, mut report: impl FnMut(Found)) {
    let mut open: Option<Box<dyn Table>> = None;
    let mut failed: Option<Instant> = None;
    while let Ok(first) = queue.recv() {
        let mut wanted = vec![first];
        wanted.extend(queue.try_iter().take(AT_ONCE - 1));
        if failed.is_some_and(|failed| now().saturating_duration_since(failed) < PAUSE) {
            wanted.into_iter().for_each(|who| report((who, None)));
            continue;
        }
        failed = None;
        if let Some(rows) = rows(table, &mut open, &wanted) {
            report_all(wanted, Some(&rows), &mut report);
        } else if rows_of(table, &mut open, &[NOBODY]).is_none() {
            failed = Some(now());
            report_all(wanted, None, &mut report);
        } else {
            // The table is available but can't handle one of these names, which must not fail the others.
            for who in wanted {
                let rows = rows(table, &mut open, core::slice::from_ref(&who));
                report_all(vec![who], rows.as_deref(), &mut report);
            }
        }
    }
}

fn report_all(wanted: Vec<Subscriber>, rows: Option<&[Row]>, report: &mut impl FnMut(Found)) {
    for who in wanted {
        let found = rows.map(|rows| secret_of(&who, rows));
        report((who, found));
    }
}

fn rows(table: Opener<'_>, open: &mut Option<Box<dyn Table>>, wanted: &[Subscriber]) -> Option<Vec<Row>> {
    let users: Vec<&[u8]> = wanted.iter().map(|who| &*who.user).filter(|user| is_name(user)).collect();
    rows_of(table, open, &users)
}

/// Returns true for a valid name. Names in tables are not longer and contain no NUL, which PostgreSQL
/// rejects.
fn is_name(user: &[u8]) -> bool {
    user.len() <= NAME_MAX && !user.contains(&0)
}

fn rows_of(table: Opener<'_>, open: &mut Option<Box<dyn Table>>, users: &[&[u8]]) -> Option<Vec<Row>> {
    if users.is_empty() {
        return Some(Vec::new());
    }
    let result = match open.take().map_or_else(table, Ok) {
        Ok(opened) => open.insert(opened).rows(users),
        Err(error) => Err(error),
    };
    match result {
        Ok(rows) => Some(rows),
        Err(error) => {
            tracing::error!(%error, "looking up subscribers failed");
            *open = None;
            None
        }
    }
}

/// The secret from the row of the user's domain, or else from the row without a domain.
fn secret_of(who: &Subscriber, rows: &[Row]) -> Option<Secret> {
    let of = |domain: &[u8]| {
        rows.iter().find(|(user, of, _)| *user == *who.user && of.eq_ignore_ascii_case(domain))
    };
    let (_, _, [password, md5, sha256, sha512]) = of(&who.domain).or_else(|| of(b""))?;
    let hashes = [(Algorithm::Md5, md5), (Algorithm::Sha256, sha256), (Algorithm::Sha512_256, sha512)];
    let hashes = hashes.into_iter().filter_map(|(algorithm, hash)| Some((algorithm, hash.clone()?)));
    Secret::of(password.clone(), hashes.collect())
}

#[cfg(test)]
mod tests;
