//! The body of a response: text, or a part of a file.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

/// Bytes read from a file at once. Twice as many cost a quarter of the throughput.
const PIECE: u64 = 64 << 10;

/// The body of a response. A file is read while it is sent, a piece at a time, on the thread that sends it: what
/// is served often is in the page cache.
#[derive(Debug)]
pub(crate) struct FileBody {
    /// What comes next.
    part: Part,
    /// What follows it, in reverse order.
    later: Vec<Part>,
    file: Option<File>,
    left: u64,
}

/// A part of a body.
#[derive(Debug)]
pub(super) enum Part {
    Text(Bytes),
    /// Bytes of the file.
    File {
        at: u64,
        len: u64,
    },
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

impl FileBody {
    /// A body of text.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        let part = Part::Text(text.into());
        Self { left: part.len(), part, later: Vec::new(), file: None }
    }

    /// A part of a file.
    pub(super) fn file(file: File, at: u64, len: u64) -> Self {
        Self { part: Part::File { at, len }, later: Vec::new(), file: Some(file), left: len }
    }

    /// Several parts of a file, and texts.
    pub(super) fn parts(file: File, mut parts: Vec<Part>) -> Self {
        let left = parts.iter().map(Part::len).sum();
        parts.reverse();
        let part = parts.pop().unwrap_or(Part::Text(Bytes::new()));
        Self { part, later: parts, file: Some(file), left }
    }

    /// The next piece. A file that has become shorter is an error, since its length was announced.
    fn piece(&mut self) -> io::Result<Bytes> {
        while self.part.len() == 0 {
            match self.later.pop() {
                Some(part) => self.part = part,
                None => break,
            }
        }
        let piece = match (&mut self.part, &self.file) {
            (Part::Text(text), _) => std::mem::take(text),
            (Part::File { at, len }, Some(file)) => {
                let piece = read(file, *at, usize::try_from((*len).min(PIECE)).unwrap_or(0))?;
                *at += piece.len() as u64;
                *len -= piece.len() as u64;
                piece
            }
            (Part::File { .. }, None) => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        self.left -= piece.len() as u64;
        Ok(piece)
    }
}

/// Reads bytes of a file, into memory that isn't filled with zeros first.
fn read(file: &File, at: u64, len: usize) -> io::Result<Bytes> {
    let mut piece = Vec::with_capacity(len);
    while piece.len() < len {
        let next = at + piece.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut piece), next) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocation may be larger than asked for.
    piece.truncate(len);
    Ok(piece.into())
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let piece = this.piece();
        if piece.is_err() {
            this.left = 0;
        }
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
