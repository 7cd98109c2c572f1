//! Frames: a head in JSON, and a body of bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the head, little-endian |
//! | 4 | length of the body, little-endian |
//! | | head |
//! | | body |

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum length of a head or a body: all bindings of a worker may be in one body.
const FRAME_MAX: usize = 1 << 30;

/// Encodes a frame.
///
/// # Errors
/// Returns an error if it is too long, or the head can't be serialized.
pub fn frame(head: &impl Serialize, body: &[u8]) -> io::Result<Vec<u8>> {
    let head = serde_json::to_vec(head)?;
    let mut whole = Vec::with_capacity(8 + head.len() + body.len());
    for len in [head.len(), body.len()] {
        let len = u32::try_from(len).ok().filter(|len| *len as usize <= FRAME_MAX);
        let len = len.ok_or_else(|| io::Error::other("the frame is too long"))?;
        whole.extend_from_slice(&len.to_le_bytes());
    }
    whole.extend_from_slice(&head);
    whole.extend_from_slice(body);
    Ok(whole)
}

/// Reads a frame: its head and its body.
///
/// # Errors
/// Returns an error if the stream has ended, or the frame is malformed.
pub fn read_frame<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut lens = [0; 8];
    from.read_exact(&mut lens)?;
    let [a, b, c, d, e, f, g, h] = lens;
    let head = part(from, u32::from_le_bytes([a, b, c, d]))?;
    let body = part(from, u32::from_le_bytes([e, f, g, h]))?;
    Ok((serde_json::from_slice(&head)?, body))
}

/// Reads a part; the buffer grows as bytes arrive.
fn part(from: &mut impl Read, len: u32) -> io::Result<Vec<u8>> {
    if len as usize > FRAME_MAX {
        return Err(io::Error::other("the frame is too long"));
    }
    let mut bytes = Vec::new();
    let read = from.take(u64::from(len)).read_to_end(&mut bytes)?;
    if read < len as usize { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests;
