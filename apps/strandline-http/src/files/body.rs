//! The body of a response: text, or a part of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};

/// Bytes read from a file at once.
const PIECE: u64 = 64 << 10;

/// The body of a response. A file is read while it is sent, a piece at a time, on the thread that sends it: what
/// is served often is in the page cache.
#[derive(Debug)]
pub(crate) struct FileBody {
    text: Bytes,
    file: Option<File>,
    at: u64,
    left: u64,
}

impl FileBody {
    /// A body of text.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        Self { left: text.len() as u64, text, file: None, at: 0 }
    }

    /// A part of a file.
    pub(super) fn file(file: File, at: u64, left: u64) -> Self {
        Self { text: Bytes::new(), file: Some(file), at, left }
    }

    /// The next piece. A file that has become shorter is an error, since its length was announced.
    fn piece(&mut self) -> io::Result<Bytes> {
        let Some(file) = &self.file else {
            self.left = 0;
            return Ok(std::mem::take(&mut self.text));
        };
        let mut piece = BytesMut::zeroed(usize::try_from(self.left.min(PIECE)).unwrap_or(0));
        file.read_exact_at(&mut piece, self.at)?;
        self.at += piece.len() as u64;
        self.left -= piece.len() as u64;
        Ok(piece.freeze())
    }
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
