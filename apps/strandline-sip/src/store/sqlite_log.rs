//! The log of an SQLite store: commits that are not yet in the database.
//!
//! A commit of SQLite writes several pages, each with a frame of its own, and computes their checksums. The
//! log takes one write of as many 4 KiB blocks as the changes fill. Its space is allocated in advance, so that
//! syncing it changes no metadata.
//!
//! There are two files beside the database, and commits are appended to one of them. When a round of folding
//! begins, commits go on in the other one; when the round has ended, everything in the first one is in the
//! database, and its space is used again. Numbers of commits rise, so what is left of earlier uses is
//! recognised by its lower numbers. Opening a store moves the contents into the table `journal`.
//!
//! An entry begins at a multiple of 4 KiB:
//!
//! ```text
//!  0 .. 8    "SIP-LOG1"
//!  8 .. 16   number of the commit, little-endian
//! 16 .. 24   length of what follows the header, in bytes
//! 24 .. 32   SipHash-1-3 of the 16 bytes before and of the last 8 bytes of the entry, keyed
//! 32 ..      the sealed changes; their last 8 bytes are their checksum
//! ```
//!
//! The key is kept in the database, so the log of another one is not taken for its own.

use core::hash::Hasher;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use siphasher::sip::SipHasher13;

use super::StoreError;
use super::sqlite_file_identity::Watched;
use crate::bindings::Journal;

/// The unit of writing: the page size of the system and the largest common sector size.
const BLOCK: usize = 4096;
const MAGIC: &[u8; 8] = b"SIP-LOG1";
const HEADER: usize = 32;
/// Length of the checksum at the end of sealed changes.
const SUM: usize = 8;
/// Minimum and maximum space allocated at a time. Allocating takes a few milliseconds for each megabyte.
const GROWTH_MIN: usize = 256 << 10;
const GROWTH_MAX: usize = 4 << 20;
/// Capacity of the write buffer that is kept between commits.
const BUFFER_KEPT: usize = 1 << 20;

/// The paths of the two files of a database's log.
pub(super) fn paths(database: &Path) -> [PathBuf; 2] {
    ["-log0", "-log1"].map(|end| {
        let mut path = database.as_os_str().to_owned();
        path.push(end);
        PathBuf::from(path)
    })
}

/// Returns the length with which the next entry begins at a multiple of a block.
const fn padded(len: usize) -> usize {
    len.next_multiple_of(BLOCK)
}

/// The checksum of a header.
fn header_sum(key: [u8; 16], number: i64, len: usize, sum: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher13::new_with_key(&key);
    hasher.write(&number.to_le_bytes());
    hasher.write(&(len as u64).to_le_bytes());
    hasher.write(sum);
    hasher.finish().to_le_bytes()
}

/// A buffer whose contents begin at a multiple of a block in memory, as direct I/O requires.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    begin: usize,
}

impl Buffer {
    /// Empties the buffer, and makes room for `len` bytes.
    fn clear(&mut self, len: usize) {
        if self.bytes.capacity() > BUFFER_KEPT && len < BUFFER_KEPT / 2 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.bytes.reserve(len + BLOCK);
        // The capacity suffices from here on, so the memory stays where it is.
        self.begin = self.bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        self.bytes.resize(self.begin, 0);
    }

    fn contents(&self) -> &[u8] {
        self.bytes.get(self.begin..).unwrap_or(&[])
    }

    /// Replaces the contents by an entry.
    fn write_entry(&mut self, key: [u8; 16], number: i64, changes: &[u8]) {
        let len = Journal::sealed_len(changes);
        self.clear(padded(HEADER + len));
        self.bytes.extend_from_slice(MAGIC);
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self.bytes.extend_from_slice(&(len as u64).to_le_bytes());
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; SUM]);
        Journal::seal(changes, &mut self.bytes);
        let sum = self.bytes.last_chunk::<SUM>().copied().unwrap_or_default();
        if let Some(place) = self.bytes.get_mut(at..at + SUM) {
            place.copy_from_slice(&header_sum(key, number, len, &sum));
        }
        self.bytes.resize(self.begin + padded(HEADER + len), 0);
    }

    /// Replaces the contents by zeros.
    fn write_zeros(&mut self, len: usize) {
        self.clear(len);
        self.bytes.resize(self.begin + len, 0);
    }
}

/// One of the files.
#[derive(Debug)]
struct Segment {
    file: File,
    watched: Watched,
    /// Where the next entry begins, and the end of the allocated space.
    at: usize,
    room: usize,
    /// The number of the last entry.
    last: i64,
}

impl Segment {
    /// Creates the file, or empties it.
    fn create(path: &Path, buffer: &mut Buffer) -> std::io::Result<Self> {
        // Without direct I/O the page cache holds a copy that nobody reads. Not every file system has it.
        match Self::with(path, OFlags::DSYNC | OFlags::DIRECT, buffer) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => Self::with(path, OFlags::DSYNC, buffer),
            result => result,
        }
    }

    fn with(path: &Path, flags: OFlags, buffer: &mut Buffer) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        let watched = Watched::new(path.to_owned()).ok_or(ErrorKind::NotFound)?;
        let mut segment = Self { file, watched, at: 0, room: 0, last: 0 };
        segment.grow(GROWTH_MIN, buffer)?;
        // The name of the file must be durable as well.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(segment)
    }

    /// Allocates space up to `to`, and some more.
    fn grow(&mut self, to: usize, buffer: &mut Buffer) -> std::io::Result<()> {
        while self.room < to {
            let growth = padded(self.room).clamp(GROWTH_MIN, GROWTH_MAX);
            buffer.write_zeros(growth);
            self.file.write_all_at(buffer.contents(), self.room as u64)?;
            self.room += growth;
        }
        Ok(())
    }
}

/// The log of a store. Its files are created by the first commit.
#[derive(Debug)]
pub(super) struct Log {
    paths: [PathBuf; 2],
    key: [u8; 16],
    segments: [Option<Segment>; 2],
    /// The index of the file to which entries are appended.
    current: usize,
    buffer: Buffer,
}

impl Log {
    /// The log of a database whose earlier log was taken over. `key` belongs to the database.
    pub(super) fn new(database: &Path, key: [u8; 16]) -> Self {
        let buffer = Buffer::default();
        Self { paths: paths(database), key, segments: [None, None], current: 0, buffer }
    }

    /// Appends an entry. Once this returns, it survives a crash of the machine. After an error the next entry
    /// takes its place.
    ///
    /// # Errors
    /// Returns an error if it can't be written, or if the file is no longer where it was.
    pub(super) fn append(&mut self, number: i64, changes: &Journal) -> Result<(), StoreError> {
        let end = self
            .write(number, changes.as_bytes())
            .map_err(|error| StoreError::new("writing the log", error))?;
        self.segments.iter().flatten().try_for_each(|segment| segment.watched.check())?;
        if let Some(Some(segment)) = self.segments.get_mut(self.current) {
            (segment.at, segment.last) = (end, number);
        }
        Ok(())
    }

    /// Writes an entry, and returns where it ends.
    fn write(&mut self, number: i64, changes: &[u8]) -> std::io::Result<usize> {
        let Self { paths, key, segments, current, buffer } = self;
        let [path, other_path] = paths;
        let [place, other] = segments;
        let (path, place) = if *current == 0 { (path, place) } else { (other_path, other) };
        let segment = match place {
            Some(segment) => segment,
            None => place.insert(Segment::create(path, buffer)?),
        };
        let end = segment.at + padded(HEADER + Journal::sealed_len(changes));
        segment.grow(end, buffer)?;
        buffer.write_entry(*key, number, changes);
        segment.file.write_all_at(buffer.contents(), segment.at as u64)?;
        Ok(end)
    }

    /// Continues in the other file, if that one is empty. Call it when a round of folding begins.
    pub(super) fn turn(&mut self) {
        let is_empty = |segment: &Option<Segment>| segment.as_ref().is_none_or(|segment| segment.at == 0);
        if !self.segments.get(self.current).is_none_or(is_empty)
            && self.segments.get(1 - self.current).is_some_and(is_empty)
        {
            self.current = 1 - self.current;
        }
    }

    /// Empties each file whose entries have all been folded into the database, up to the entry `folded`.
    pub(super) fn release(&mut self, folded: i64) {
        for segment in self.segments.iter_mut().flatten().filter(|segment| segment.last <= folded) {
            segment.at = 0;
        }
    }

    /// Removes the files if they are empty. Returns whether there are none any more.
    ///
    /// # Errors
    /// Returns an error if they can't be removed.
    pub(super) fn remove(&mut self) -> std::io::Result<bool> {
        if self.segments.iter().flatten().any(|segment| segment.at > 0) {
            return Ok(false);
        }
        self.segments = [None, None];
        remove(&self.paths).map(|()| true)
    }
}

/// Removes files that may exist.
pub(super) fn remove(paths: &[PathBuf]) -> std::io::Result<()> {
    for path in paths {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// An entry: its number, and the sealed changes.
pub(super) type Entry<'a> = (i64, &'a [u8]);

/// The entries in the contents of a file that are later than `after`, in order.
pub(super) fn entries(contents: &[u8], key: [u8; 16], after: i64) -> Vec<Entry<'_>> {
    let (mut entries, mut after, mut rest) = (Vec::new(), after, contents);
    while !rest.is_empty() {
        let used = match entry(rest, key) {
            Some((number, sealed)) if number > after => {
                entries.push((number, sealed));
                after = number;
                padded(HEADER + sealed.len())
            }
            // Something else: the rest of an earlier use, or damage.
            _ => BLOCK,
        };
        rest = rest.get(used..).unwrap_or(&[]);
    }
    entries
}

/// The entry at the beginning of `bytes`.
fn entry(bytes: &[u8], key: [u8; 16]) -> Option<Entry<'_>> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<SUM>()?;
    let (number, len) = (i64::from_le_bytes(*number), usize::try_from(u64::from_le_bytes(*len)).ok()?);
    let sealed = rest.get(..len)?;
    (header_sum(key, number, len, sealed.last_chunk::<SUM>()?) == *sum).then_some((number, sealed))
}

#[cfg(test)]
mod tests;
