//! Splits a byte stream into messages and keep-alives (RFC 3261 sections 7.5 and 18.3, RFC 5626 section
//! 4.4.1).

use super::cursor::{Cursor, Result};
use super::error::{Error, ErrorKind};
use super::index::value_end;
use super::limits::Limits;
use super::name::HeaderName;
use super::scan;

/// The side that opened the connection. Only that side sends pings, and only the other one answers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The peer opened the connection: two CRLFs are its ping, and a single one has no meaning.
    Accepted,
    /// This side opened the connection: each CRLF is a pong.
    Opened,
}

/// The item at the front of the received bytes. The caller removes `len` bytes before the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// More bytes are needed; nothing is to be removed.
    Incomplete,
    /// A whole message: pass its bytes to [`Message::parse`](super::Message::parse).
    Message {
        /// The length in bytes.
        len: usize,
    },
    /// A ping, to be answered with a CRLF.
    Ping {
        /// The length in bytes.
        len: usize,
    },
    /// A pong.
    Pong {
        /// The length in bytes.
        len: usize,
    },
    /// A line end before a message, which has no meaning.
    Blank {
        /// The length in bytes.
        len: usize,
    },
}

/// Splits a stream (TCP, TLS) into messages. It owns no bytes: the caller keeps what was received, passes all
/// of it each time, and removes each item. Each byte is examined once, however the stream was segmented.
///
/// ```
/// use strandline_sip::codec::{Cut, Limits, Side, StreamFramer};
///
/// let mut framer = StreamFramer::new(Side::Accepted, Limits::default());
/// let mut buffer = b"\r\n\r\nBYE sip:a.example SIP/2.0\r\nl: 2\r\n\r\nh".to_vec();
/// assert_eq!(framer.cut(&buffer)?, Cut::Ping { len: 4 });
/// buffer.drain(..4);
/// assert_eq!(framer.cut(&buffer)?, Cut::Incomplete);
/// buffer.extend(b"i");
/// assert_eq!(framer.cut(&buffer)?, Cut::Message { len: buffer.len() });
/// # Ok::<(), strandline_sip::codec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StreamFramer {
    side: Side,
    limits: Limits,
    state: State,
}

/// The progress within the message at the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head(Head),
    /// The headers are complete, and the total length is known.
    Body {
        len: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Head {
    /// The number of bytes examined.
    scanned: usize,
    /// The start of the current line.
    line: usize,
    /// The start of Content-Length's value.
    length: Option<usize>,
}

impl StreamFramer {
    /// Creates a framer at the start of a stream.
    #[must_use]
    pub const fn new(side: Side, limits: Limits) -> Self {
        let head = Head { scanned: 0, line: 0, length: None };
        Self { side, limits, state: State::Head(head) }
    }

    /// Examines all bytes that were received and not yet removed.
    ///
    /// # Errors
    /// Returns an error if the end of the message at the front can't be found: Content-Length is missing,
    /// malformed or repeated, a line doesn't end with CRLF, or the message is too long. The stream is then
    /// useless (RFC 4475 sections 3.1.2.3 and 3.3.9). The request can still be answered before the connection
    /// is closed: parse what was received, and use either the message or
    /// [`Rejected::answerable`](super::Rejected::answerable).
    pub fn cut(&mut self, received: &[u8]) -> Result<Cut> {
        let head = match self.state {
            State::Body { len } => return Ok(self.body(received, len)),
            State::Head(head) => head,
        };
        if head.scanned == 0
            && let Some(cut) = self.before(received)
        {
            return Ok(cut);
        }
        self.head(received, head)
    }

    /// The minimum number of bytes missing from the message at the front, as a hint for the size of the next
    /// read.
    #[must_use]
    pub const fn missing(&self, received: usize) -> usize {
        match self.state {
            State::Head(_) => 1,
            State::Body { len } => len.saturating_sub(received),
        }
    }

    fn body(&mut self, received: &[u8], len: usize) -> Cut {
        if received.len() < len {
            return Cut::Incomplete;
        }
        self.state = State::Head(Head::default());
        Cut::Message { len }
    }

    /// Handles line ends before a message.
    fn before(&self, received: &[u8]) -> Option<Cut> {
        match (received, self.side) {
            ([] | [b'\r'], _) => Some(Cut::Incomplete),
            ([b'\r', b'\n', ..], Side::Opened) => Some(Cut::Pong { len: 2 }),
            ([b'\r', b'\n', b'\r', b'\n', ..], Side::Accepted) => Some(Cut::Ping { len: 4 }),
            ([b'\r', b'\n'] | [b'\r', b'\n', b'\r'], Side::Accepted) => Some(Cut::Incomplete),
            ([b'\r', b'\n', ..], Side::Accepted) => Some(Cut::Blank { len: 2 }),
            _ => None,
        }
    }

    fn head(&mut self, received: &[u8], mut head: Head) -> Result<Cut> {
        let max = self.limits.header_bytes_max;
        loop {
            head.scanned = scan::control(received, head.scanned);
            if head.scanned > max {
                return Err(Error::new(ErrorKind::HeadersTooLong, max));
            }
            // Nearly all lines end with CRLF.
            if let Some(b"\r\n") = received.get(head.scanned..head.scanned + 2) {
                if head.scanned == head.line {
                    return self.end_of_head(received, head);
                }
                head.see_line(received)?;
                head.scanned += 2;
                head.line = head.scanned;
                continue;
            }
            match received.get(head.scanned..).unwrap_or(&[]) {
                [] | [b'\r'] => {
                    self.state = State::Head(head);
                    return Ok(Cut::Incomplete);
                }
                [b'\r' | b'\n', ..] => return Err(Error::new(ErrorKind::LineEnd, head.scanned)),
                // Other errors don't hide the end of the message; parsing finds them later.
                _ => head.scanned += 1,
            }
        }
    }

    fn end_of_head(&mut self, received: &[u8], head: Head) -> Result<Cut> {
        let end = head.scanned + 2;
        let Some(start) = head.length else { return Err(Error::missing(HeaderName::ContentLength, end)) };
        let in_content_length = |error: Error| error.in_header(HeaderName::ContentLength);
        let (value_end, _) = value_end(received, start).map_err(|fault| in_content_length(fault.error))?;
        let mut cursor = Cursor::new(received.get(..value_end).unwrap_or(&[]), start);
        cursor.skip_space();
        let length = cursor.number(u32::MAX).map_err(in_content_length)? as usize;
        cursor.finish().map_err(in_content_length)?;
        if length > self.limits.body_bytes_max {
            return Err(in_content_length(Error::new(ErrorKind::BodyTooLong, start)));
        }
        let len = end + length;
        self.state = State::Body { len };
        Ok(self.body(received, len))
    }
}

/// The start of the value, if this line is Content-Length.
#[inline(always)]
fn content_length(line: &[u8]) -> Option<usize> {
    const LONG: &[u8; 14] = b"Content-Length";
    let len = match line {
        [b'l' | b'L', ..] => 1,
        [b'c' | b'C', b'o' | b'O', b'n' | b'N', ..] => {
            let name = line.first_chunk::<{ LONG.len() }>()?;
            (name == LONG || name.eq_ignore_ascii_case(LONG)).then_some(LONG.len())?
        }
        _ => return None,
    };
    let after = line.get(len..)?;
    let blanks = after.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    (after.get(blanks) == Some(&b':')).then_some(len + blanks + 1)
}

impl Head {
    /// Records Content-Length if the line that ends at `scanned` is one.
    fn see_line(&mut self, received: &[u8]) -> Result<()> {
        if self.line == 0 {
            return Ok(());
        }
        let line = received.get(self.line..self.scanned).unwrap_or(&[]);
        let Some(value) = content_length(line) else { return Ok(()) };
        if self.length.replace(self.line + value).is_some() {
            return Err(Error::new(ErrorKind::Repeated, self.line).in_header(HeaderName::ContentLength));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
