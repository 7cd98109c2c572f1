//! WebSocket (RFC 6455), as far as it carries SIP (RFC 7118). Frames are cut out of the stream here; the
//! library handles their contents: masks, fragments, texts and responses to pings.

use std::io::{self, Cursor, ErrorKind, Read, Write};

use bytes::Bytes;
use tungstenite::Message;
use tungstenite::error::Error;
use tungstenite::protocol::frame::coding::{CloseCode, OpCode};
use tungstenite::protocol::frame::{CloseFrame, FrameHeader};
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};

/// Size of the buffer that the library keeps for each connection, in bytes.
const READ: usize = 1024;

/// A frame at the front of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Frame {
    /// The length in bytes, including the header.
    pub(in crate::server) len: usize,
    /// `Some(true)` for a fragment of a message that is not the last one; `None` if the frame is not part of
    /// a message.
    pub(in crate::server) unfinished: Option<bool>,
}

/// The content of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) enum Opened {
    /// A whole message, which this frame completes.
    Message(Bytes),
    /// Nothing to handle.
    Nothing,
    /// The peer closes the connection, or has sent an invalid frame. The response has been written.
    End,
}

/// Finds the frame at the front of a stream. Returns `None` if it is incomplete.
///
/// # Errors
/// Returns an error if its header is invalid, or if it is longer than `max`.
pub(in crate::server) fn frame(bytes: &[u8], max: usize) -> Result<Option<Frame>, CloseCode> {
    let mut cursor = Cursor::new(bytes);
    let parsed = FrameHeader::parse(&mut cursor).map_err(|_| CloseCode::Protocol)?;
    let Some((header, len)) = parsed else { return Ok(None) };
    let len = usize::try_from(len).ok().filter(|len| *len <= max).ok_or(CloseCode::Size)?;
    let len = len + usize::try_from(cursor.position()).unwrap_or(usize::MAX);
    let unfinished = matches!(header.opcode, OpCode::Data(_)).then_some(!header.is_final);
    Ok((len <= bytes.len()).then_some(Frame { len, unfinished }))
}

/// The server side of a WebSocket connection after the handshake.
#[derive(Debug)]
pub(in crate::server) struct WebSocket(WebSocketContext);

impl WebSocket {
    /// Creates the frame layer. `message_bytes_max` limits the size of a message.
    pub(in crate::server) fn new(message_bytes_max: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(0)
            .max_message_size(Some(message_bytes_max))
            .max_frame_size(Some(message_bytes_max));
        Self(WebSocketContext::new(Role::Server, Some(config)))
    }

    /// Handles a whole frame. Responses to it are appended to `out`.
    pub(in crate::server) fn open(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Opened {
        let mut pipe = Pipe { input: frame, out };
        let opened = match self.0.read(&mut pipe) {
            Ok(Message::Text(text)) => Opened::Message(text.into()),
            Ok(Message::Binary(bytes)) => Opened::Message(bytes),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => Opened::Nothing,
            Ok(Message::Close(_)) => Opened::End,
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => Opened::Nothing,
            Err(error) => {
                let code = match error {
                    Error::Capacity(_) => CloseCode::Size,
                    Error::Utf8(_) => CloseCode::Invalid,
                    _ => CloseCode::Protocol,
                };
                self.close(code, pipe.out);
                return Opened::End;
            }
        };
        // Writes the response to a ping or a close, if there is one. At the end of the connection, errors
        // don't matter.
        let _ = self.0.flush(&mut pipe);
        opened
    }

    /// Appends a message to `out`, as text if it is UTF-8. Returns false if the connection has ended.
    pub(in crate::server) fn seal(&mut self, message: &[u8], out: &mut Vec<u8>) -> bool {
        let message = match core::str::from_utf8(message) {
            Ok(text) => Message::text(text),
            Err(_) => Message::binary(Bytes::copy_from_slice(message)),
        };
        self.write(message, out)
    }

    /// Sends a ping.
    pub(in crate::server) fn ping(&mut self, out: &mut Vec<u8>) -> bool {
        self.write(Message::Ping(Bytes::new()), out)
    }

    /// Sends a close frame with this code.
    pub(in crate::server) fn close(&mut self, code: CloseCode, out: &mut Vec<u8>) {
        let mut pipe = Pipe { input: &[], out };
        let frame = CloseFrame { code, reason: "".into() };
        // An error means that a close frame was sent before.
        let _ = self.0.close(&mut pipe, Some(frame)).and_then(|()| self.0.flush(&mut pipe));
    }

    fn write(&mut self, message: Message, out: &mut Vec<u8>) -> bool {
        let mut pipe = Pipe { input: &[], out };
        self.0.write(&mut pipe, message).and_then(|()| self.0.flush(&mut pipe)).is_ok()
    }
}

/// The input and output of the library; neither blocks.
struct Pipe<'a> {
    input: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Read for Pipe<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { self.input.read(room) }
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
